"""A headless Chromium for the tests of the page, one for each module."""

import os
import shutil

import pytest

FLAGS = [
    "--no-sandbox", "--disable-background-networking", "--disable-gpu",
    "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip


def _missing(what):
    if os.environ.get("WEFT_REQUIRE_BROWSER"):
        pytest.fail(f"WEFT_REQUIRE_BROWSER is set, but there is no {what}")
    pytest.skip(f"no {what}")


@pytest.fixture(scope="module")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        _missing("playwright")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        _missing("chromium")
    # under a sanitizer, whose library is loaded before others, a browser does not come up
    around = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=FLAGS, env=around)
        yield running
        running.close()


class Opened:
    """A page, and what it should not have: messages in its console, requests to elsewhere."""

    def __init__(self, browser, dark=False, size=(1280, 800)):
        scheme = "dark" if dark else "light"
        width, height = size
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        self.page = self.context.new_page()
        self.errors, self.requests = [], []
        self.page.on("console", lambda m: m.type in ("error", "warning") and self.errors.append(m))
        self.page.on("pageerror", lambda e: self.errors.append(e))
        self.page.on("request", lambda r: self.requests.append(r.url))

    def go(self, url):
        self.page.goto(url)
        self.page.wait_for_selector("body[data-ready]", timeout=30_000)
        return self.page


@pytest.fixture
def opened(browser):
    """opened(url, dark=…, size=…): a page, which must have no errors when the test ends."""
    pages = []

    def go(url, **how):
        pages.append(Opened(browser, **how))
        return pages[-1].go(str(url))

    yield go
    for one in pages:
        one.context.close()
        assert [str(e) for e in one.errors] == []
        foreign = [
            r for r in one.requests if not r.startswith(("file:", "data:", "http://127.0.0.1:"))
        ]
        assert foreign == []


@pytest.fixture
def colours(tmp_path):
    """colours(page): how many different ones a screenshot has."""
    image = pytest.importorskip("matplotlib.image")

    def count(page):
        file = tmp_path / "screen.png"
        page.screenshot(path=str(file))
        pixels = (image.imread(file)[::2, ::2, :3] * 255).astype(int)
        return len({(r, g, b) for r, g, b in pixels.reshape(-1, 3).tolist()})

    return count
