import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    pytest.importorskip("vl_convert", reason="vl-convert-python carries the Vega libraries")
    path = tmp_path_factory.mktemp("page") / "plots.html"
    subprocess.run([sys.executable, "-m", "nsh.reports.offline_plots", path], check=True)
    return path.read_text()


def test_the_page_needs_nothing_from_the_network(page):
    assert len(page) > 500_000
    assert "<script src" not in page
    assert "vegaEmbed" in page
    assert page.count("<script>") == page.count("</script>") == 1


def test_dvc_can_fill_the_page(page):
    from dvc_render.html import HTML

    filled = (
        HTML(page).with_scripts('<script src="https://cdn.example.org"></script>').with_element("<p>chart</p>").embed()
    )
    assert "<p>chart</p>" in filled
    assert "cdn.example.org" not in filled
    assert "{plot_divs}" not in filled
    assert "{refresh_tag}" not in filled


@pytest.mark.parametrize("name", ["curves", "training"])
def test_the_chart_templates_are_valid_and_draw(name):
    vl_convert = pytest.importorskip("vl_convert", reason="vl-convert-python carries the Vega libraries")
    template = (ROOT / ".dvc" / "plots" / f"{name}.json").read_text()
    x, y = ("k", "precision") if name == "curves" else ("epoch", "loss")
    rows = [
        {"method": method, "bits": bits, "rev": rev, x: str(step), y: str(1 / step)}
        for method in ("nsh", "itq")
        for bits in ("16", "128")
        for rev in ("HEAD", "workspace")
        for step in (1, 2, 10)
    ]
    for anchor, value in {"X": x, "Y": y, "X_LABEL": x, "Y_LABEL": y, "TITLE": "title"}.items():
        template = template.replace(f"<DVC_METRIC_{anchor}>", value)
    chart = json.loads(template.replace('"<DVC_METRIC_DATA>"', json.dumps(rows)))
    picture = vl_convert.vegalite_to_svg(chart, vl_version="5.20")
    assert picture.count("mark-line") >= 2
    for word in ("nsh", "itq", "HEAD", "workspace", "16", "128"):
        assert f">{word}<" in picture
