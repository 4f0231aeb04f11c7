"""The pages of docs/ as a site, in a real browser: axe finds nothing in them, in light and in dark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.ui.axe import violations
from tests.ui.browser import DESK, PHONE, WAIT_MS_MAX, open_browser

ROOT = Path(__file__).parent.parent.parent
HOME = "http://docs.test/"
BUILD_S_MAX = 300
# The front page, a tutorial, a concept with its picture, and a reference with tables and code.
PAGES = ["index.html", "tutorials/getting-started.html", "concepts/log-and-groups.html", "reference/policies.html"]
# Links that only their colour tells from the text around them.
ONLY_COLOURED = """
() => [...document.querySelectorAll('.md-content :is(p, li, td, dd) a:not(.headerlink)')]
  .filter(link => !getComputedStyle(link).textDecorationLine.includes('underline'))
  .map(link => link.outerHTML.slice(0, 120))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=BUILD_S_MAX, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture
def pages(browser: Browser, site: Path, theme: str) -> Iterator[Page]:
    """A page that finds the site at `HOME`, and nothing else."""
    asked_elsewhere: list[str] = []

    def serve(route: Route) -> None:
        file = site / route.request.url.removeprefix(HOME).partition("?")[0]
        if file.is_file():
            route.fulfill(path=file)
        else:
            asked_elsewhere.append(route.request.url)
            route.abort()

    context = browser.new_context(viewport=DESK, color_scheme="dark" if theme == "dark" else "light")
    context.set_default_timeout(WAIT_MS_MAX)
    context.route("**/*", serve)
    try:
        yield context.new_page()
        assert asked_elsewhere == []
    finally:
        context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_can_be_read_by_all(pages: Page, theme: str) -> None:
    found = []
    for name in PAGES:
        pages.goto(HOME + name)
        scheme = "slate" if theme == "dark" else "default"
        pages.locator(f"body[data-md-color-scheme={scheme}]").wait_for()
        pages.locator(".md-search[role=dialog][aria-label]").wait_for(state="attached")
        found += [f"{name}: {each}" for each in violations(pages) + pages.evaluate(ONLY_COLOURED)]
    assert found == []


@pytest.mark.parametrize("theme", ["light"])
def test_a_phone_shows_pages_without_scrolling_sideways(pages: Page) -> None:
    pages.set_viewport_size(PHONE)
    for name in PAGES:
        pages.goto(HOME + name)
        pages.locator("h1").wait_for()
        assert pages.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], name
