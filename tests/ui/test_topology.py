"""The drawing of exchanges and queues, and the tree that a phone shows instead."""

from __future__ import annotations

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import Browser, Page, expect

from tests.broker_process import BrokerProcess
from tests.ui.axe import violations
from tests.ui.browser import PHONE, log_in, open_page, show

# For each line: the boxes in which one of its points is, its two ends aside.
CROSSED = """
() => [...document.querySelectorAll('.graph .edge')].map(line => {
  const steps = [...Array(200).keys()].map(step => line.getPointAtLength(line.getTotalLength() * step / 199));
  return [...document.querySelectorAll('.graph .node')].filter(node => {
    const [x, y] = node.getAttribute('transform').match(/-?[0-9.]+/g).map(Number);
    const box = node.querySelector('rect').getBBox();
    const inside = at => at.x > x + 1 && at.x < x + box.width - 1 && at.y > y + 1 && at.y < y + box.height - 1;
    return steps.some(inside);
  }).map(node => node.textContent);
}).flat()
"""


@pytest.fixture
def shop(channel: BlockingChannel) -> None:
    """A topic exchange that leads to queues past another exchange, two keys to one queue, and a circle."""
    for name, kind in (("shop", "topic"), ("audit", "fanout")):
        channel.exchange_declare(name, kind, durable=True)
    channel.exchange_bind("audit", "shop", "#")
    channel.exchange_bind("shop", "audit", "")
    for queue, keys in (("bills", ("bill.new", "bill.paid")), ("mail", ("mail.#",)), ("parcels", ("parcel.#",))):
        channel.queue_declare(queue, durable=True)
        for key in keys:
            channel.queue_bind(queue, "shop", key)
    channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_bind("log", "audit", "")


def test_no_line_is_hidden_by_a_box_and_each_can_be_followed(shop: None, page: Page) -> None:
    show(page, "#/topology", "Topology")
    page.get_by_role("link", name="queue bills, classic").wait_for()
    expect(page.locator(".graph .edge")).to_have_count(6)  # of seven bindings two are one line
    assert page.evaluate(CROSSED) == []
    expect(page.locator(".graph .key", has_text="bill.new, bill.paid")).to_have_count(1)
    page.get_by_role("link", name="queue mail, classic").focus()
    expect(page.locator(".graph .line.near")).to_have_count(3)  # mail's, and the circle that leads to its exchange
    page.get_by_role("link", name="queue log, stream").focus()
    expect(page.locator(".graph .key.near", has_text="mail.#")).to_have_count(0)


def test_a_phone_shows_a_tree(shop: None, browser: Browser, broker: BrokerProcess) -> None:
    with open_page(browser, broker, viewport=PHONE) as (page, _):
        log_in(page)
        show(page, "#/topology", "Topology")
        tree = page.get_by_role("list", name="Exchanges and their bindings")
        tree.wait_for()
        expect(page.locator(".graph")).to_be_hidden()
        expect(tree.get_by_role("listitem").filter(has_text="bill.paid").last).to_contain_text("bills")
        expect(tree).to_contain_text("Its bindings are shown above.")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert violations(page) == []
        tree.get_by_role("link", name="log").click()
        page.get_by_role("heading", level=1, name="log").wait_for()
