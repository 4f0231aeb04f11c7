"""The web page in a real browser, watched: whatever goes wrong in it fails the test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, ViewportSize, expect, sync_playwright

from tests.broker_process import BrokerProcess

WAIT_MS_MAX = 60_000
WAIT_S_MAX = 60
FLAGS = [
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
expect.set_options(timeout=WAIT_MS_MAX)
PHONE: ViewportSize = {"width": 360, "height": 740}
DESK: ViewportSize = {"width": 1280, "height": 860}


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Chromium of the system, without a window."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    assert program is not None, "chromium is not installed"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


class Watch:
    """What went wrong in a page, and whom it asked.

    expected  statuses that a test brings about
    """

    def __init__(self, page: Page, home: str) -> None:
        self.home = home
        self.problems: list[str] = []
        self.expected: set[int] = set()
        page.on("console", self.on_console)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("request", self.on_request)
        page.on("response", self.on_response)

    def on_console(self, message: ConsoleMessage) -> None:
        # What was answered with an error is said by `on_response`.
        if message.type in {"error", "warning"} and not message.text.startswith("Failed to load resource"):
            self.problems.append(f"console: {message.text}")

    def on_request(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.home).netloc and not request.url.startswith("blob:"):
            self.problems.append(f"asked elsewhere: {request.url}")

    def on_response(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.expected:
            self.problems.append(f"{response.status} {response.request.method} {response.url}")


@contextmanager
def open_page(browser: Browser, broker: BrokerProcess, **options: Any) -> Iterator[tuple[Page, Watch]]:
    """A page at the broker's front door; at the end nothing may have gone wrong in it.

    options  of the browser's context
    """
    context = browser.new_context(**{"viewport": DESK, **options})
    context.set_default_timeout(WAIT_MS_MAX)
    page = context.new_page()
    watch = Watch(page, broker.http_url)
    page.goto(broker.http_url)
    try:
        yield page, watch
        assert watch.problems == []
    finally:
        context.close()


def log_in(page: Page, user: str = "guest", password: str = "guest") -> None:
    """Through the form, until the views are there."""
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    page.locator("main.content").wait_for()


def show(page: Page, address: str, title: str) -> None:
    """Go to a view by its address, and wait until what it shows is there."""
    page.evaluate("address => { location.hash = address }", address)
    page.get_by_role("heading", level=1, name=title, exact=True).wait_for()
    page.locator("main[aria-busy=false]").wait_for()
