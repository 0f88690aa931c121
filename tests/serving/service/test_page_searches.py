"""Searches on the page in a real browser, and the addresses that show them again."""

import pytest
from PIL import Image, ImageOps
from tests.serving.service.browsing import resize
from tests.waiting import wait_until

from nsh.serving.index import Index

By = pytest.importorskip("selenium.webdriver.common.by").By
ActionChains = pytest.importorskip("selenium.webdriver.common.action_chains").ActionChains
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys


def test_an_image_finds_itself_first_and_a_click_searches_from_the_item(page, gallery):
    page.search(gallery / "left" / "00.png")
    assert page.first() == "left/00.png, 0 bits differ. Search from it"
    assert len(page.hits()) == 30
    second = page.hits()[1].get_attribute("aria-label").split(",")[0]
    page.hits()[1].click()
    page.until(lambda: page.one("name").text == second)
    page.settled()
    assert len(page.hits()) == 29  # the item itself is the query
    page.browser.back()
    page.until(lambda: page.one("name").text == "00.png")
    page.settled()
    assert page.first().startswith("left/00.png, 0 bits differ")


def test_the_radius_keeps_what_is_near(page, gallery):
    page.search(gallery / "left" / "00.png")
    page.one("radius").send_keys(Keys.HOME)  # 0 bits
    page.until(lambda: page.one("status").text.endswith("within 0 bits"))
    page.settled()
    near = [hit.find_element(By.CSS_SELECTOR, ".distance").text for hit in page.hits()]
    assert near
    assert set(near) == {"0 bits"}
    assert page.one("radius").get_attribute("aria-valuetext") == "at most 0 of 12 bits differ"
    page.one("radius").send_keys(Keys.END)
    page.until(lambda: len(page.hits()) == 30)


@pytest.fixture
def query(gallery, tmp_path):
    """An image that is in no index."""
    path = tmp_path / "query.png"
    ImageOps.mirror(Image.open(gallery / "left" / "04.png")).save(path)
    return path


def test_an_image_may_be_re_ranked_and_an_item_not(page, encoder, index_path, query):
    index = Index.open(index_path, readonly=True)
    (by_bits,) = index.search(encoder.encode([query]), k=30)
    (by_values,) = index.search_reranked(encoder.logits([query]), k=30)
    assert [hit.id for hit in by_bits] != [hit.id for hit in by_values]
    page.search(query)
    assert page.ids() == [hit.id for hit in by_bits]
    page.one("rerank").click()
    page.until(lambda: page.ids() == [hit.id for hit in by_values])
    assert "score: " in page.hits()[0].get_attribute("title")
    page.hits()[0].click()
    page.until(lambda: page.one("name").text == by_values[0].id)
    page.settled()
    assert not page.one("rerank").is_enabled()
    assert not page.one("error").is_displayed()
    page.browser.back()
    page.until(lambda: page.one("name").text == "query.png")
    page.until(lambda: page.ids() == [hit.id for hit in by_values])
    page.one("rerank").click()
    page.until(lambda: page.ids() == [hit.id for hit in by_bits])


def test_an_address_shows_the_same_after_a_reload_and_elsewhere(page, query):
    page.search(query)
    page.one("rerank").click()
    page.one("prefix").send_keys("left/")
    page.until(lambda: len(page.hits()) == 15)
    page.one("radius").send_keys(*[Keys.ARROW_LEFT] * 4)  # 12 bits to 8
    page.until(lambda: page.one("status").text.endswith("within 8 bits"))
    page.settled()
    before, address = page.ids(), page.browser.current_url
    assert all(name.startswith("left/") for name in before)
    for opened_before in (address, "about:blank"):
        page.browser.get(opened_before)
        page.browser.get(address)
        page.until(lambda: page.one("name").text == "query.png")
        page.settled()
        assert page.ids() == before
        assert page.one("rerank").is_selected()
        assert page.one("prefix").get_attribute("value") == "left/"
        assert page.one("radius").get_attribute("value") == "8"


def test_an_address_that_was_cut_is_answered_with_a_sentence(page):
    page.browser.get(f"http://127.0.0.1:{page.client.port}/?logits=AAAA&name=x")
    page.until(lambda: page.one("error").is_displayed())
    assert "needed is one for each of the 12 bits" in page.one("error").text
    page.browser.get_log("browser")  # the answer 422, which this test provoked


def test_items_are_filtered_by_their_metadata(page, gallery):
    page.search(gallery / "left" / "00.png")
    assert not page.one("value").is_enabled()
    page.one("column").send_keys("side")
    page.one("value").send_keys("right")
    page.until(lambda: len(page.hits()) == 15)
    page.settled()
    assert all(name.startswith("right/") for name in page.ids())
    page.one("value").send_keys("!")
    page.until(lambda: not page.hits())
    assert page.one("empty-text").text == "No item matches the filter."


def test_scrolling_brings_more(page, gallery, encoder, index_path):
    codes = encoder.encode([gallery / "left" / "00.png"] * 100)
    Index.open(index_path).add([f"more/{row:03d}" for row in range(100)], codes, encoder_identity=encoder.identity)
    wait_until(lambda: page.client.get("/v1/info").json["items"] == 130)
    page.search(gallery / "left" / "00.png")
    assert page.one("status").text == "48 or more"
    while len(page.hits()) < 130:
        before = len(page.hits())
        page.browser.execute_script("scrollTo(0, document.body.scrollHeight)")
        page.until(lambda: len(page.hits()) > before)  # noqa: B023
    page.until(lambda: page.one("status").text == "130")
    assert len(set(page.ids())) == 130


def test_hits_stay_if_no_more_can_be_fetched(page, gallery, encoder, index_path):
    codes = encoder.encode([gallery / "left" / "00.png"] * 100)
    Index.open(index_path).add([f"more/{row:03d}" for row in range(100)], codes, encoder_identity=encoder.identity)
    wait_until(lambda: page.client.get("/v1/info").json["items"] == 130)
    page.search(gallery / "left" / "00.png")
    page.browser.execute_script("window.kept = fetch; fetch = () => Promise.reject(new Error('gone'))")
    page.browser.execute_script("scrollTo(0, document.body.scrollHeight)")
    page.until(lambda: page.one("error").is_displayed())
    assert "does not answer" in page.one("error").text
    assert len(page.hits()) == 48
    page.browser.execute_script("fetch = window.kept; scrollTo(0, 0)")
    page.browser.execute_script("scrollTo(0, document.body.scrollHeight)")
    page.until(lambda: len(page.hits()) > 48)
    assert not page.one("error").is_displayed()


def test_a_hit_opens_and_downloads(page, gallery):
    page.search(gallery / "left" / "00.png")
    card = page.browser.find_element(By.CSS_SELECTOR, ".card")
    links = card.find_elements(By.CSS_SELECTOR, ".actions a")
    assert [link.accessible_name for link in links] == ["Open left/00.png", "Download left/00.png"]
    for link, place in zip(links, ("inline", "attachment"), strict=True):
        path = link.get_attribute("href").split(f":{page.client.port}", 1)[1]
        answer = page.client.get(path)
        assert answer.body == (gallery / "left" / "00.png").read_bytes()
        assert answer.headers["content-disposition"].startswith(place)


def test_an_id_is_whole_on_hover_and_on_phones(page, gallery, encoder, index_path):
    name = "a folder/" * 12 + "image.png"
    codes = encoder.encode([gallery / "left" / "00.png"])
    Index.open(index_path).add([name], codes, encoder_identity=encoder.identity)
    wait_until(lambda: page.client.get("/v1/info").json["items"] == 31)
    page.search(gallery / "left" / "00.png")
    card = next(one for one in page.browser.find_elements(By.CSS_SELECTOR, ".card") if name in one.text)
    shown = "const id = arguments[0].querySelector('.id'); return id.scrollWidth <= id.clientWidth"
    assert not page.browser.execute_script(shown, card)
    ActionChains(page.browser).move_to_element(card).perform()
    assert page.browser.execute_script(shown, card)
    resize(page.browser, "narrow", "light")
    assert not page.browser.execute_script(shown, card)
    page.browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    assert page.browser.execute_script(shown, card)
    page.browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
