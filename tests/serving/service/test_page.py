"""The page in a real browser: by mouse, by keyboard, wide and narrow, light and dark.

Screenshots are kept in .cache/screenshots for a person to look at.
"""

import shutil
from pathlib import Path

import pytest
from PIL import Image, ImageOps
from tests.waiting import PATIENCE, wait_until

from nsh.serving.index import Index

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402


def find(*names):
    """The first of these commands that is installed."""
    return next(filter(None, map(shutil.which, names)), None)


CHROMIUM = find("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
DRIVER = find("chromedriver", "chromium.chromedriver", "chromium-chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no Chromium with its driver: apt-get install chromium chromium-driver"
)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --no-proxy-server"
)
SCREENSHOTS = Path(__file__).parents[3] / ".cache" / "screenshots"
SIZES = {"wide": (1280, 900, False), "narrow": (375, 812, True)}
REAL = ".hit:not(.ghost)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield browser
    browser.quit()


@pytest.fixture
def page(browser, client):
    """The page, opened; at the end nothing may have been blocked or thrown but what a test provoked."""
    resize(browser, "wide", "light")
    open_page(browser, client)
    browser.get_log("browser")
    return Page(browser, client)


class Page:
    def __init__(self, browser, client):
        self.browser, self.client = browser, client

    def one(self, id):
        return self.browser.find_element(By.ID, id)

    def hits(self):
        return self.browser.find_elements(By.CSS_SELECTOR, REAL)

    def until(self, condition):
        WebDriverWait(self.browser, PATIENCE, poll_frequency=0.05).until(lambda _: condition())

    def search(self, path):
        self.one("file").send_keys(str(path))
        self.settled()

    def settled(self):
        ready = """return document.getElementById('hits').getAttribute('aria-busy') === 'false'
            && !document.querySelector('.ghost')
            && [...document.images].every(image => image.complete || image.getBoundingClientRect().top > innerHeight)"""
        self.until(lambda: self.browser.execute_script(ready))

    def ids(self):
        labels = "return [...document.querySelectorAll(arguments[0])].map(hit => hit.querySelector('.id').textContent)"
        return self.browser.execute_script(labels, REAL)

    def first(self):
        return self.hits()[0].get_attribute("aria-label")


def open_page(browser, client):
    browser.get(f"http://127.0.0.1:{client.port}/")
    WebDriverWait(browser, PATIENCE).until(
        lambda driver: driver.execute_script("return 'ready' in document.documentElement.dataset")
    )


def resize(browser, size, scheme):
    width, height, mobile = SIZES[size]
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    metrics = {"width": width, "height": height, "deviceScaleFactor": 2 if mobile else 1, "mobile": mobile}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def keep(browser, name):
    """Take a picture, once no colour is on its way from one scheme to the other."""
    browser.execute_async_script("Promise.all(document.getAnimations().map(one => one.finished)).then(arguments[0])")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    browser.save_screenshot(str(SCREENSHOTS / f"{name}.png"))


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
    page.one("radius")
    page.search(gallery / "left" / "00.png")
    card = next(one for one in page.browser.find_elements(By.CSS_SELECTOR, ".card") if name in one.text)
    shown = "const id = arguments[0].querySelector('.id'); return id.scrollWidth <= id.clientWidth"
    assert not page.browser.execute_script(shown, card)
    ActionChains(page.browser).move_to_element(card).perform()
    assert page.browser.execute_script(shown, card)


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
