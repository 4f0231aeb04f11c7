"""One browser and one broker for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import Browser, Page, StorageState

from tests.admin.clients import open_channel
from tests.broker_process import BrokerProcess, running
from tests.ui.browser import WAIT_S_MAX, Watch, log_in, open_browser, open_page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("ui"), http="127.0.0.1:0") as broker:
        yield broker


@pytest.fixture(scope="module")
def api(broker: BrokerProcess) -> Iterator[httpx.Client]:
    """The API, for what a test needs to be there."""
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=WAIT_S_MAX) as api:
        yield api


@pytest.fixture(scope="module")
def cookies(browser: Browser, broker: BrokerProcess) -> StorageState:
    """What a browser keeps of the administrator's login."""
    with open_page(browser, broker) as (page, _):
        log_in(page)
        return page.context.storage_state()


@pytest.fixture
def watched(browser: Browser, broker: BrokerProcess, cookies: StorageState) -> Iterator[tuple[Page, Watch]]:
    """The page, in which the administrator is logged in, and what is seen of it."""
    with open_page(browser, broker, storage_state=cookies) as (page, watch):
        page.locator("main.content").wait_for()
        yield page, watch


@pytest.fixture
def page(watched: tuple[Page, Watch]) -> Page:
    return watched[0]


@pytest.fixture
def watch(watched: tuple[Page, Watch]) -> Watch:
    return watched[1]


@pytest.fixture
def channel(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    with open_channel(broker) as channel:
        yield channel
