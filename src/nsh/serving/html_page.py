"""Self-contained HTML pages: a shell, and figures with thumbnails in them. Knows nothing of what they show."""

import base64
import html
import io
from pathlib import Path

from PIL import Image

from nsh.core.preprocess import load_image
from nsh.errors import UnreadableImage

_SIDE = 160  # pixels of a thumbnail


def draw_figure(path: Path, caption: str, *, max_pixels: int) -> str:
    """A figure with the thumbnail of the image at `path`, or the reason why there is none.

    Args:
        path: the image.
        caption: HTML.
        max_pixels: width x height of an image that is shown.
    """
    try:
        picture = f'<img src="{_thumbnail(path, max_pixels=max_pixels)}" alt="">'
    except UnreadableImage as error:
        picture = f"<p>{html.escape(str(error))}</p>"
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def render_page(title: str, body: str) -> str:
    """A whole page that loads nothing: `title` as text, `body` as HTML. A `div` lays its figures out in rows."""
    return _PAGE.format(title=html.escape(title), body=body)


def _thumbnail(path: Path, *, max_pixels: int) -> str:
    image = load_image(path, size=_SIDE, max_pixels=max_pixels)
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
