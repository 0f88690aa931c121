"""Self-contained HTML pages: a shell, figures with thumbnails, and bars. Knows nothing of what they show."""

import base64
import html
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nsh.core.preprocess import load_image
from nsh.errors import UnreadableImage

COLOURS = ("#999", "#c2410c")
"""Of the two series of `draw_bars`."""

Load = Callable[[int], Image.Image]
"""Gives an image, decoded for a use at so many pixels a side; raises UnreadableImage if it cannot."""

_SIDE = 160  # pixels of a thumbnail
_WIDTH, _HEIGHT = 900, 160  # of a chart, in units of SVG


def load_file(path: Path, *, max_pixels: int) -> Load:
    """What loads the image at `path`, if its width x height is `max_pixels` at most."""
    return lambda size: load_image(path, size=size, max_pixels=max_pixels)


def draw_figure(load: Load, caption: str) -> str:
    """A figure with the thumbnail of an image, or the reason why there is none; `caption` is HTML."""
    try:
        picture = f'<img src="{_thumbnail(load)}" alt="">'
    except UnreadableImage as error:
        picture = f"<p>{html.escape(str(error))}</p>"
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def draw_bars(series: Mapping[str, NDArray[np.float64]], *, places: Sequence[str] = ()) -> str:
    """Two bars for each place, in SVG; a title names the values under the pointer.

    Args:
        series: two by name, float64 [n] each, n >= 1 and no value negative.
        places: n names; by default the numbers from 0.
    """
    count = len(next(iter(series.values())))
    slot, top = _WIDTH / count, max(float(values.max()) for values in series.values()) or 1.0
    bars = []
    for place, name in enumerate(places or map(str, range(count))):
        said = ", ".join(f"{part} {values[place]:.3f}" for part, values in series.items())
        bars.append(f"<g><title>{html.escape(name)}: {html.escape(said)}</title>")
        for row, (values, colour) in enumerate(zip(series.values(), COLOURS, strict=True)):
            left, height = slot * (place + 0.1 + 0.4 * row), _HEIGHT * values[place] / top
            bars.append(
                f'<rect x="{left:.1f}" y="{_HEIGHT - height:.1f}" width="{0.4 * slot:.1f}" height="{height:.1f}" '
                f'fill="{colour}"/>'
            )
        bars.append("</g>")
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(bars)}</svg>'


def render_page(title: str, body: str) -> str:
    """A whole page that loads nothing: `title` as text, `body` as HTML. A `div` lays its figures out in rows."""
    return _PAGE.format(title=html.escape(title), body=body)


def _thumbnail(load: Load) -> str:
    image = load(_SIDE)
    image.thumbnail((_SIDE, _SIDE), Image.Resampling.BILINEAR)
    content = io.BytesIO()
    image.save(content, "JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}"


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 75rem; padding: 1rem; }}
h2 {{ font-size: 1.1rem; margin: 2rem 0 .5rem; }}
div {{ display: flex; flex-wrap: wrap; gap: 1rem; }}
figure {{ margin: 0; width: 10rem; }}
img {{ display: block; max-width: 100%; border-radius: .25rem; }}
figcaption {{ font-size: .8rem; overflow-wrap: anywhere; }}
td, th {{ padding-right: 1.5rem; text-align: left; }}
svg {{ display: block; max-width: 100%; height: auto; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""
