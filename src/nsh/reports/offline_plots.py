"""The HTML page of `dvc plots show` and `dvc plots diff`, with the Vega libraries in it.

DVC's own page loads them from the internet and is blank without it. `python -m nsh.reports.offline_plots FILE` writes a
page that contains them; `plots.html_template` in .dvc/config names it. Knows nothing of the charts.
"""

import argparse
from pathlib import Path

from nsh.errors import ConfigError
from nsh.system.command import run_command
from nsh.system.files import write_text

VEGA_LITE = "5.20"  # of the schema that DVC's chart templates and ours name (v5)

# DVC fills {refresh_tag} and {plot_divs}. Its third placeholder, links to the internet, is left out.
PAGE = """<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
{refresh_tag}
<title>NSH: DVC plots</title>
<style>body { font-family: sans-serif; margin: 2em; } table { border-spacing: 15px; }</style>
<script>(() => { BUNDLE })();</script>
</head>
<body>
{plot_divs}
</body>
</html>
"""


def make_page() -> str:
    """The HTML template for DVC, about 0.9 MB, the same text for the same version of vl-convert.

    Raises:
        ConfigError: the Vega libraries are not installed.
    """
    try:
        import vl_convert
    except ImportError as error:
        raise ConfigError(
            "vl-convert-python, which carries the Vega libraries, is not installed: run make setup"
        ) from error
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    return PAGE.replace("BUNDLE", bundle.replace("</script", "<\\/script"))


def main() -> None:
    """Write the page to the file named on the command line."""
    parser = argparse.ArgumentParser(description="Write the HTML template that lets DVC show plots without a network.")
    parser.add_argument("file", type=Path, help="where plots.html_template in .dvc/config points")
    write_text(parser.parse_args().file, make_page())


if __name__ == "__main__":
    run_command(main)
