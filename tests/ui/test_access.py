"""Who may see and do what on the page, and what it does when the broker goes."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pika
import pytest
from playwright.sync_api import Browser, expect

from tests.broker_process import BrokerProcess, running
from tests.ui.browser import log_in, open_page, show
from tests.waiting import until

CHANGES = ("New ", "Delete", "Purge", "Publish", "Move", "Bind", "Unbind", "Redrive", "Discard", "Close", "Reload")


@pytest.fixture(scope="module")
def ann(api: httpx.Client) -> str:
    """Somebody who may look, and change nothing."""
    for name, values in (
        ("user.add", {"user": "ann", "password": "ann", "tags": ["monitoring"]}),
        ("permission.set", {"user": "ann", "vhost": "/", "configure": "^$", "write": "^$", "read": "^$"}),
        ("queue.declare", {"queue": "orders"}),
        ("exchange.declare", {"exchange": "shop"}),
        ("binding.add", {"exchange": "shop", "destination": "orders"}),
    ):
        api.post(f"/api/forebay/operations/{name}", json=values).raise_for_status()
    return "ann"


def test_a_login_lasts_until_its_end(browser: Browser, broker: BrokerProcess) -> None:
    with open_page(browser, broker) as (page, watch):
        watch.expected = {401}
        page.get_by_label("User").fill("guest")
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).not_to_be_empty()
        log_in(page)
        show(page, "#/queues", "Queues and streams")
        page.reload()
        page.get_by_role("heading", level=1, name="Queues and streams").wait_for()
        assert "forebay_session" not in page.evaluate("document.cookie")
        page.get_by_role("button", name="Log out").click()
        page.get_by_role("button", name="Log in").wait_for()
        page.reload()
        page.get_by_role("button", name="Log in").wait_for()


def test_who_may_change_nothing_finds_no_button_for_it(browser: Browser, broker: BrokerProcess, ann: str) -> None:
    with open_page(browser, broker) as (page, _):
        log_in(page, ann, ann)
        side = page.get_by_role("navigation", name="Views")
        expect(side.get_by_role("link", name="Users")).to_have_count(0)
        views = side.get_by_role("link").evaluate_all("links => links.map(link => [link.hash, link.textContent])")
        assert len(views) > 10
        for address, title in [*views, ("#/queues/%2F/orders", "orders"), ("#/exchanges/%2F/shop", "shop")]:
            show(page, address, title)
            found = page.locator("main :not(th) > button").all_inner_texts()
            assert [name for name in found if name.startswith(CHANGES)] == [], address
            assert (
                page.locator("main input[type=checkbox][aria-label^=Choose]").count() == 0 or address == "#/connections"
            )


def test_a_broker_that_went_is_told_of_and_comes_back(browser: Browser, tmp_path: Path) -> None:
    with running(tmp_path, http="127.0.0.1:0") as broker, open_page(browser, broker) as (page, _):
        log_in(page)
        expect(page.locator(".live")).to_have_text("live")
        broker.kill9()
        away = page.get_by_text("The broker does not answer")
        away.wait_for()
        expect(page.get_by_role("alert").filter(has=away)).to_contain_text(re.compile(r"Last answer at \d\d:\d\d:\d\d"))
        expect(page.locator("main.content")).to_have_js_property("inert", True)
        page.evaluate("location.hash = '#/exchanges/%2F/amq.topic'")
        page.get_by_role("heading", level=1, name="Waiting for the broker", include_hidden=True).wait_for()
        broker.start()
        page.get_by_role("heading", level=1, name="amq.topic").wait_for()
        expect(away).not_to_be_visible()
        expect(page.locator(".live")).to_have_text("live")


def test_a_login_survives_a_restart_and_ends_with_its_password(browser: Browser, tmp_path: Path) -> None:
    with running(tmp_path, http="127.0.0.1:0") as broker, open_page(browser, broker) as (page, watch):

        def operate(name: str, **values: object) -> None:
            address = f"{broker.http_url}/api/forebay/operations/{name}"
            httpx.post(address, json=values, auth=("guest", "guest")).raise_for_status()

        operate("user.add", user="eve", password="a long password", tags=["administrator"])
        log_in(page, "eve", "a long password")
        broker.stop()
        token = page.context.cookies()[0]["value"]
        assert token and token not in (broker.data / "web-logins").read_text(encoding="utf-8")
        broker.start()
        page.reload()
        page.get_by_role("heading", level=1, name="Overview").wait_for()
        watch.expected = {401}
        operate("user.password", user="eve", password="another password")
        broker.kill9()
        broker.start()
        page.reload()
        page.get_by_role("button", name="Log in").wait_for()


def test_an_alarm_is_seen_from_every_view(browser: Browser, tmp_path: Path) -> None:
    options: dict[str, object] = {"http": "127.0.0.1:0", "disk_free_min_octets": 1 << 50}
    with running(tmp_path, **options) as broker, open_page(browser, broker) as (page, _):
        log_in(page)
        expect(page.locator("main .banner")).to_contain_text("Disk")
        show(page, "#/queues", "Queues and streams")
        page.get_by_text("alarm", exact=True).click()
        expect(page.locator("main .banner")).to_contain_text("are free, below the limit of")
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
        connection.channel().basic_publish("", "nowhere", b"x")
        show(page, "#/connections", "Connections")
        page.get_by_role("searchbox", name="Filter Connections").fill("blocked")
        row = page.get_by_role("table", name="Connections").locator("tbody tr")
        expect(row).to_contain_text("its publishes are held back: the broker is low on disk")
        row.get_by_role("link").click()
        page.get_by_text("its publishes are held back").wait_for()


def test_a_chart_shows_what_was_before_the_page_and_before_the_broker(browser: Browser, tmp_path: Path) -> None:
    with running(tmp_path, http="127.0.0.1:0") as broker:
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        for _ in range(3):
            channel.basic_publish("", "orders", b"x")
        connection.close()
        history = f"{broker.http_url}/api/forebay/queues/%2F/orders/samples"
        answer: dict[str, dict[str, list[dict[str, int]]]] = {"messages_ready_details": {"samples": []}}

        def has_two() -> bool:
            answer.update(httpx.get(history, auth=("guest", "guest")).json())
            return [each["sample"] for each in answer["messages_ready_details"]["samples"]].count(3) >= 2

        until(has_two, lambda: f"two samples in {answer}")
        broker.restart()
        with open_page(browser, broker) as (page, _):
            log_in(page)
            show(page, "#/queues/%2F/orders", "orders")
            held = page.locator("figure", has_text="Messages held")
            chart = held.get_by_role("img")
            expect(chart).to_have_attribute("aria-label", re.compile("ready: now 3, between"))
            held.get_by_text("Values").click()
            rows = held.locator("tbody tr")
            expect(rows.filter(has_text="3").nth(2)).to_be_visible()  # two of before, and one since
            path = held.locator("path.s1").nth(1)
            expect(path).to_have_attribute("d", re.compile("M.*L"))
            box = chart.bounding_box()
            assert box is not None
            page.mouse.move(box["x"] + box["width"] - 12, box["y"] + 60)
            expect(held.locator(".when")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
            expect(held.locator("circle")).to_have_count(2)
            page.get_by_label("Time that charts show").select_option("last 24 hours")
            expect(chart).to_have_attribute("aria-label", re.compile("ready: now 3, between"))
            show(page, "#/overview", "Overview")
            expect(page.get_by_role("img", name=re.compile("^Memory.*in use: now "))).to_be_visible()
