"""What people see on the page, with real clients at work behind it."""

from __future__ import annotations

import gzip
import json
import re

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import Browser, Page, expect

from tests.broker_process import BrokerProcess
from tests.ui.axe import violations
from tests.ui.browser import PHONE, log_in, open_page, show
from tests.waiting import until

CONTRAST_MIN = 4.5
NASTY = "<img src=x onerror=\"document.title='broken out'\">'&quot;"
# The contrast of each text with what is behind it, as WCAG 2.2 computes it; those below the least are answered.
CONTRASTS = """
least => {
  const channels = color => color.match(/[\\d.]+/g).map(Number);
  const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const color = channels(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    const box = element.getBoundingClientRect();
    if (!own || !box.width || element.closest('svg, :disabled, .visually-hidden')) continue;
    const [a, b] = [light(channels(getComputedStyle(element).color)), light(behind(element))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < least) found.push(`${element.tagName} ${element.textContent.slice(0, 30)}: ${contrast.toFixed(2)}`);
  }
  return found;
}
"""
# Whatever can be used has a name that is said aloud.
NAMELESS = """
() => [...document.querySelectorAll('a, button, input, select, textarea')].filter(element => element.offsetParent)
  .filter(element => !(element.textContent.trim() || element.getAttribute('aria-label') || element.labels?.length))
  .map(element => element.outerHTML.slice(0, 120))
"""


def operate(api: httpx.Client, name: str, **values: object) -> None:
    api.post(f"/api/forebay/operations/{name}", json=values).raise_for_status()


@pytest.fixture(scope="module")
def shop(api: httpx.Client, broker: BrokerProcess) -> None:
    """Something in each view."""
    operate(api, "exchange.declare", exchange="shop", type="topic")
    for queue, kind in (("orders", "classic"), ("invoices", "quorum"), ("audit", "stream"), ("dead", "classic")):
        operate(api, "queue.declare", queue=queue, type=kind)
        operate(api, "binding.add", exchange="shop", destination=queue, routing_key=f"{queue}.#")
    definition = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
    operate(api, "policy.set", policy="letters", pattern="^orders$", definition=definition, apply_to="queues")
    operate(api, "user.add", user="ann", password="a long password", tags=["monitoring"])
    operate(api, "permission.set", user="ann", vhost="/", configure="^$", write="^$", read=".*")
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    channel = connection.channel()
    channel.confirm_delivery()
    for number in range(20):
        body = json.dumps({"number": number}).encode()
        channel.basic_publish("shop", "orders.new", body, pika.BasicProperties(headers={"region": "eu"}))
        channel.basic_publish("shop", "audit.new", bytes([number, 255]))
    method, _, _ = channel.basic_get("orders")
    assert method is not None
    channel.basic_reject(method.delivery_tag, requeue=False)
    connection.close()


VIEWS = {
    "#/overview": "Overview",
    "#/queues": "Queues and streams",
    "#/queues/%2F/orders": "orders",
    "#/queues/%2F/audit": "audit",
    "#/dead-letters": "Dead letters",
    "#/dead-letters/%2F/dead": "dead",
    "#/exchanges": "Exchanges",
    "#/exchanges/%2F/shop": "shop",
    "#/exchanges/%2F/%00": "(default exchange)",
    "#/topology": "Topology",
    "#/delayed": "Delayed",
    "#/retained": "Retained",
    "#/traces": "Traces",
    "#/connections": "Connections",
    "#/channels": "Channels",
    "#/sessions": "MQTT sessions",
    "#/consumers": "Consumers",
    "#/pipelines": "Pipelines",
    "#/policies": "Policies",
    "#/users": "Users",
    "#/users/ann": "ann",
    "#/vhosts": "Virtual hosts",
    "#/definitions": "Definitions",
    "#/nodes": "Nodes",
    "#/node": "Node",
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.usefixtures("shop")
def test_every_view_can_be_read(browser: Browser, broker: BrokerProcess, theme: str) -> None:
    with open_page(browser, broker, color_scheme=theme, bypass_csp=True) as (page, _):  # of axe
        rules = [] if theme == "light" else ["color-contrast"]  # the others know no theme
        assert violations(page, *rules) == []
        log_in(page)
        for address, title in VIEWS.items():
            show(page, address, title)
            assert page.evaluate(CONTRASTS, CONTRAST_MIN) == [], address
            assert page.evaluate(NAMELESS) == [], address
            assert violations(page, *rules) == [], address
            assert page.title().startswith(title) or "%00" in address


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.usefixtures("shop")
def test_every_dialog_can_be_read(browser: Browser, broker: BrokerProcess, theme: str) -> None:
    with open_page(browser, broker, color_scheme=theme, bypass_csp=True) as (page, _):
        log_in(page)

        def check(dialog: str) -> None:
            opened = page.get_by_role("dialog", name=dialog)
            opened.wait_for()
            for part in opened.locator("summary").all():
                part.click()
            assert violations(page) == [], dialog
            page.keyboard.press("Escape")

        show(page, "#/queues", "Queues and streams")
        page.get_by_role("button", name="New queue").click()
        check("New queue")
        for key, dialog in (("/", "Search"), ("?", "Keys")):
            page.keyboard.press(key)
            check(dialog)
        show(page, "#/policies", "Policies")
        page.get_by_role("button", name="New").first.click()
        check("New policy")
        show(page, "#/queues/%2F/orders", "orders")
        page.locator("details.message").first.click()
        page.get_by_role("table", name="History").wait_for()
        assert violations(page) == []
        page.get_by_role("button", name="Publish").click()
        check("Publish to queue orders")


@pytest.mark.usefixtures("shop")
def test_no_view_is_wider_than_a_phone(browser: Browser, broker: BrokerProcess) -> None:
    with open_page(browser, broker, viewport=PHONE) as (page, _):
        log_in(page)
        for address, title in VIEWS.items():
            show(page, address, title)
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], address
        show(page, "#/queues", "Queues and streams")
        rows = page.get_by_role("table", name="Queues and streams").locator("tbody tr")
        page.get_by_label("Sort Queues and streams").select_option(label="by ready")
        expect(rows.first).to_contain_text("audit")  # the most first
        page.get_by_role("button", name="Descending: sort ascending").click()
        expect(rows.first).not_to_contain_text("audit")
        page.get_by_role("button", name="Ascending: sort descending").click()
        expect(rows.first).to_contain_text("audit")
        line = rows.first.locator("td.lead").bounding_box()
        whole = rows.first.bounding_box()
        assert line is not None and whole is not None and whole["height"] < 3 * line["height"]  # two lines
        side = page.get_by_role("navigation", name="Views")
        expect(side).not_to_be_visible()
        page.get_by_role("button", name="Views").click()
        side.get_by_role("link", name="Exchanges").click()
        page.get_by_role("heading", level=1, name="Exchanges").wait_for()
        expect(side).not_to_be_visible()


def test_rates_move(page: Page, channel: BlockingChannel) -> None:
    channel.queue_declare("moving", durable=True)
    tile = page.locator(".tiles div", has_text="Published")
    chart = page.get_by_role("img", name=re.compile("Messages a second"))

    def moves() -> bool:
        for _ in range(50):
            channel.basic_publish("", "moving", b"x")
        # A quick machine publishes thousands a second, which are written with groups of digits: 1,234/s.
        published = re.search(r"published: now ([\d.,]+k?)/s", chart.get_attribute("aria-label") or "")
        return tile.inner_text() != "Published\n0\n/s" and published is not None and published[1] != "0"

    until(moves, lambda: f"no rate in {tile.inner_text()!r} and {chart.get_attribute('aria-label')!r}")
    expect(page.get_by_role("img", name=re.compile("^Latency.*confirm p50: now .*confirm p99: now "))).to_be_visible()
    box = chart.bounding_box()
    assert box is not None
    ends = chart.locator("text[y='145']")
    whole = ends.all_text_contents()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 60)
    page.mouse.up()
    show_all = page.get_by_role("button", name="Show all")
    assert len(set(ends.all_text_contents())) > 1 and ends.all_text_contents() != whole
    show_all.click()
    chart.focus()
    page.keyboard.press("+")
    expect(show_all).to_be_visible()
    page.keyboard.press("Escape")
    expect(show_all).not_to_be_visible()
    page.get_by_text("Values").first.click()
    expect(page.get_by_role("columnheader", name="published")).to_be_visible()


def test_a_thousand_queues_come_in_pages_and_are_found_by_name(api: httpx.Client, page: Page) -> None:
    for number in range(130):
        operate(api, "queue.declare", queue=f"tenant.{number:03}")
    show(page, "#/queues", "Queues and streams")
    table = page.get_by_role("table", name="Queues and streams")
    expect(table.locator("tbody tr")).to_have_count(100)
    page.get_by_role("button", name="Next").click()
    expect(table.get_by_role("link", name="tenant.129")).to_be_visible()
    page.get_by_role("button", name="Name").click()
    expect(page.get_by_role("columnheader", name="Name")).to_have_attribute("aria-sort", "descending")
    expect(table.locator("tbody tr").first).to_contain_text("tenant.129")
    page.keyboard.press("f")
    page.keyboard.type("tenant.07")
    expect(table.locator("tbody tr")).to_have_count(10)
    page.get_by_role("searchbox").fill("no such queue")
    expect(page.get_by_text("Nothing matches “no such queue”.")).to_be_visible()


@pytest.mark.usefixtures("shop")
def test_the_keyboard_is_enough(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.get_by_role("link", name="audit").wait_for()
    while page.evaluate("document.activeElement.tagName") != "TR":
        page.keyboard.press("Tab")
    assert "audit" in page.evaluate("document.activeElement.innerText")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    assert page.evaluate("document.activeElement.getAttribute('aria-selected')") == "true"
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name="dead").wait_for()
    page.go_back()
    page.get_by_role("heading", level=1, name="Queues and streams").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("invoic")
    expect(page.get_by_role("option", name="invoices")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name="invoices").wait_for()
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys.get_by_role("heading")).to_have_text("Keys")
    expect(keys).to_contain_text("search views")
    page.keyboard.press("Escape")
    expect(keys).to_have_count(0)


def test_names_and_bodies_with_markup_are_only_text(api: httpx.Client, page: Page, channel: BlockingChannel) -> None:
    operate(api, "exchange.declare", exchange=NASTY, type="topic")
    operate(api, "queue.declare", queue=NASTY)
    operate(api, "binding.add", exchange=NASTY, destination=NASTY, routing_key=NASTY)
    headers = pika.BasicProperties(headers={NASTY: NASTY}, message_id=NASTY)
    channel.basic_publish(NASTY, NASTY, NASTY.encode(), headers)
    page.evaluate("name => { location.hash = '#/queues/%2F/' + encodeURIComponent(name) }", NASTY)
    page.get_by_role("heading", level=1, name=NASTY).wait_for()
    page.locator("details.message").first.click()
    expect(page.locator("pre").first).to_have_text(NASTY)
    for address, title in (
        ("#/queues", "Queues and streams"),
        ("#/topology", "Topology"),
        ("#/exchanges", "Exchanges"),
    ):
        show(page, address, title)
        page.get_by_role("table").get_by_text(NASTY[:20]).first.wait_for()
        assert page.locator("img").count() == 0
    page.keyboard.press("/")
    page.keyboard.type("onerror")
    expect(page.get_by_role("listbox").get_by_role("option").first).to_contain_text(NASTY)
    assert "broken out" not in page.title()


def test_bodies_of_every_kind_and_many_headers_are_shown(page: Page, channel: BlockingChannel) -> None:
    channel.queue_declare("kinds", durable=True)
    for body in (b"", b"\x00", gzip.compress(b"x"), b"two\tcolumns\n"):
        channel.basic_publish("", "kinds", body)
    headers = {f"header-{number:03}": "x" for number in range(200)}
    channel.basic_publish("", "kinds", b"many", pika.BasicProperties(headers=headers))
    show(page, "#/queues/%2F/kinds", "kinds")
    messages = page.locator("details.message")
    previews = messages.locator(".preview")
    expect(previews).to_have_text(["empty", "1 octet", re.compile("^[0-9]+ octets$"), re.compile("columns"), "many"])
    for at, (shown, forms) in enumerate([("", []), ("000000  00", ["Hex", "Text"]), ("1f 8b", ["Hex"])]):
        messages.nth(at).locator("summary").first.click()
        inside = messages.nth(at).locator(".inside")
        expect(inside.locator("pre")).to_have_count(1 if forms else 0)
        expect(inside).to_contain_text(shown or "empty")
        assert inside.locator(".row button[aria-pressed]").all_inner_texts() == forms
    messages.nth(4).locator("summary").first.click()
    expect(messages.nth(4).locator("pre")).to_be_visible()
    found = messages.nth(4).get_by_role("region", name="Headers")
    expect(found).to_contain_text("header-199")
    size = found.bounding_box()
    assert size is not None and size["height"] <= 340


def test_a_chart_of_long_times_has_whole_minutes(page: Page) -> None:
    labels = page.evaluate(
        """async () => {
          const own = document.querySelector("script[type=module]").src;
          const { topOf } = await import(new URL("axis.js", own));
          const { duration } = await import(new URL("format.js", own));
          const ends = [40, 70_000, 100_000, 200_000, 5_000_000, 90_000_000, 900_000_000];
          return ends.map((each) => [1, 2, 3].map((third) => duration((topOf(each, true, false) * third) / 3)));
        }"""
    )
    assert labels == [
        ["20 ms", "40 ms", "60 ms"],
        ["30 s", "1 min", "1 min 30 s"],
        ["1 min", "2 min", "3 min"],
        ["2 min", "4 min", "6 min"],
        ["30 min", "1 h", "1 h 30 min"],
        ["10 h", "20 h", "1 d 6 h"],
        ["5 d", "10 d", "15 d"],
    ]


def test_an_axis_of_latencies_is_logarithmic(page: Page) -> None:
    """One message of an hour leaves the milliseconds of the others room."""
    axes = page.evaluate(
        """async () => {
          const own = document.querySelector("script[type=module]").src;
          const { logarithmicAxis } = await import(new URL("axis.js", own));
          const { duration } = await import(new URL("format.js", own));
          const all = [[], [0], [0.4, 1.5], [0.003, 20], [0.6, 3_600_000], [1, 5e9], [0.02, 90_000_000]];
          return all.map((values) => {
            const { ticks, place } = logarithmicAxis(values, 0.1);
            return [ticks.map(duration), values.map((each) => Math.round(place(each) * 100)), ticks.map(place)];
          });
        }"""
    )
    ticks = [each[0] for each in axes]
    assert ticks == [
        ["100 µs", "1 ms"],
        ["100 µs", "1 ms"],
        ["100 µs", "1 ms", "10 ms"],
        ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms"],
        ["100 µs", "10 ms", "1 s", "1 min", "1 h"],
        ["100 µs", "100 ms", "1 min", "10 h", "400 d"],
        ["10 µs", "1 ms", "100 ms", "10 s", "10 min", "10 h", "40 d"],
    ]
    for named, places, ends in axes:
        assert (ends[0], ends[-1]) == (0, 1), named
        assert ends == sorted(ends) and all(0 <= each <= 100 for each in places)
    assert axes[4][1] == [10, 100], "milliseconds are a tenth of the height above the axis"


def test_latencies_of_the_overview_leave_room_for_the_usual_ones(page: Page) -> None:
    page.get_by_role("link", name="Overview").first.click()
    chart = page.get_by_role("img", name=re.compile("^Latency, logarithmic"))
    labels = chart.locator("text[text-anchor=end]")
    expect(labels.first).to_have_text(re.compile("µs|ms"))


def test_a_zoomed_chart_reads_out_only_what_it_shows(page: Page) -> None:
    read = page.evaluate(
        """async () => {
          const { Chart } = await import(new URL("chart.js", document.querySelector("script[type=module]").src));
          const chart = new Chart("Zoomed");
          document.querySelector("main").append(chart.element);
          chart.show([{ name: "line", points: [...Array(100).keys()].map(at => [at * 5000, at]) }]);
          return [400_000, 495_000].map(at => {
            chart.zoom.show(null);
            chart.look(at);
            chart.zoom.show({ start: 300_000, end: 450_000 });
            return chart.at;
          });
        }"""
    )
    assert read == [400_000, None]


def test_the_theme_is_kept(browser: Browser, broker: BrokerProcess) -> None:
    with open_page(browser, broker, color_scheme="light") as (page, _):
        log_in(page)
        page.get_by_role("button", name="Light or dark").click()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.reload()
        page.get_by_role("heading", level=1, name="Overview").wait_for()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_hidden_tab_asks_nothing(page: Page) -> None:
    page.wait_for_load_state("networkidle")
    # Chromium without a window never hides a tab by itself.
    page.evaluate("Object.defineProperty(document, 'hidden', { get: () => true, configurable: true })")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(4000)  # longer than from one poll to the next
    assert asked == []
    with page.expect_request("**/api/overview*"):
        page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
