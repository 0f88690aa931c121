"""The page in a real browser: by mouse, by keyboard, wide and narrow, light and dark.

Screenshots are kept in .cache/screenshots for a person to look at.
"""

import pytest
from tests.serving.service.browsing import REAL, Page, keep, open_page, resize

from nsh.serving.index import Index

By = pytest.importorskip("selenium.webdriver.common.by").By
ActionChains = pytest.importorskip("selenium.webdriver.common.action_chains").ActionChains
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_it_fits_every_screen(page, gallery, tmp_path, size, scheme):
    browser = page.browser
    resize(browser, size, scheme)
    keep(browser, f"{size}-{scheme}-empty")
    page.search(gallery / "left" / "00.png")
    keep(browser, f"{size}-{scheme}-results")
    bad = tmp_path / "no-image.png"
    bad.write_bytes(b"no image")
    page.one("file").send_keys(str(bad))
    page.until(lambda: page.one("error").is_displayed())
    keep(browser, f"{size}-{scheme}-error")
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    red = int(ground[4:].split(",")[0])
    assert red < 60 if scheme == "dark" else red > 200


def test_nothing_is_blocked_thrown_or_fetched_from_elsewhere(page, gallery):
    page.search(gallery / "left" / "00.png")
    assert page.browser.get_log("browser") == []
    names = page.browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert names
    assert all(name.startswith((f"http://127.0.0.1:{page.client.port}/", "blob:")) for name in names)


def test_it_works_by_keyboard_alone(page, gallery):
    page.search(gallery / "left" / "00.png")
    reached = []
    for _ in range(8):
        ActionChains(page.browser).send_keys(Keys.TAB).perform()
        active = page.browser.switch_to.active_element
        reached.append(active.get_attribute("id") or active.get_attribute("class"))
        if reached[-1] == "hit":
            break
    assert [name for name in reached if name in ("radius", "hit")] == ["radius", "hit"]
    outline = page.browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    name = page.browser.switch_to.active_element.get_attribute("aria-label").split(",")[0]
    ActionChains(page.browser).send_keys(Keys.ENTER).perform()
    page.until(lambda: page.one("name").text == name)
    page.settled()
    assert page.browser.switch_to.active_element.get_attribute("id") == "results"


def test_everything_has_a_name(page, gallery):
    page.search(gallery / "left" / "00.png")
    for selector in ("#file", "#radius", "#rerank", "#bits", REAL):
        for element in page.browser.find_elements(By.CSS_SELECTOR, selector):
            assert element.accessible_name, selector


def test_after_a_failure_nothing_of_the_query_before_is_left(page, gallery, tmp_path):
    page.search(gallery / "left" / "00.png")
    bad = tmp_path / "no-image.png"
    bad.write_bytes(b"no image")
    page.one("file").send_keys(str(bad))
    page.until(lambda: page.one("error").is_displayed())
    assert "not an image" in page.one("error").text
    assert not page.hits()
    assert not page.one("radius").is_displayed()
    assert not page.one("preview").is_displayed()
    page.search(gallery / "left" / "00.png")
    assert page.one("radius").is_displayed()
    assert not page.one("error").is_displayed()


def test_a_file_too_large_is_told_before_it_is_sent(browser, serve, tmp_path):
    large = tmp_path / "large.png"
    large.write_bytes(bytes(3 * 2**20))
    with serve(max_body=2**20) as client:
        open_page(browser, client)
        page = Page(browser, client)
        page.one("file").send_keys(str(large))
        page.until(lambda: page.one("error").is_displayed())
        assert "3.0 MiB; the service takes 1 MiB" in page.one("error").text


def test_a_service_that_is_gone_is_told(browser, serve, gallery):
    with serve() as client:
        open_page(browser, client)
    page = Page(browser, client)
    page.one("file").send_keys(str(gallery / "left" / "00.png"))
    page.until(lambda: "does not answer" in page.one("error").text)


def test_ids_are_text_and_not_markup(browser, serve, index_path, encoder, gallery, picture):
    name = "<img src=x onerror=alert(1)>"
    Index.open(index_path).add([name], encoder.encode([picture]), encoder_identity=encoder.identity)
    with serve() as client:
        open_page(browser, client)
        page = Page(browser, client)
        page.search(gallery / "left" / "00.png")
        assert any(name in hit.get_attribute("aria-label") for hit in page.hits())
        assert not browser.find_elements(By.CSS_SELECTOR, "img[src='x']")
