"""A real browser and the page in it. Importing this skips the tests where there is none."""

import shutil
from pathlib import Path

import pytest
from tests.waiting import PATIENCE

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402


def find(*names):
    """The first of these commands that is installed."""
    return next(filter(None, map(shutil.which, names)), None)


CHROMIUM = find("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
DRIVER = find("chromedriver", "chromium.chromedriver", "chromium-chromedriver")
if not (CHROMIUM and DRIVER):
    pytest.skip("no Chromium with its driver: apt-get install chromium chromium-driver", allow_module_level=True)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --no-proxy-server"
)
SCREENSHOTS = Path(__file__).parents[3] / ".cache" / "screenshots"
SIZES = {"wide": (1280, 900, False), "narrow": (375, 812, True)}
REAL = ".hit:not(.ghost)"


def start(folder):
    """A browser that keeps what it needs in `folder`."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS.split(), f"--user-data-dir={folder}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))


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
    WebDriverWait(browser, PATIENCE, poll_frequency=0.05).until(
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
