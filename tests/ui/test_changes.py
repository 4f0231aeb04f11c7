"""What people do on the page, and what real clients then see."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import Dialog, Page, Route, expect
from proton import Message
from proton.utils import BlockingConnection

from tests.admin.clients import mqtt, publish_mqtt
from tests.broker_process import BrokerProcess
from tests.ui.browser import Watch, show
from tests.waiting import until


def fill(page: Page, title: str, fields: dict[str, str], button: str) -> None:
    """Fill in the form that is open, and send it."""
    dialog = page.get_by_role("dialog", name=title)
    for name, value in fields.items():
        field = dialog.get_by_label(name, exact=True)
        if field.evaluate("element => element.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    dialog.get_by_role("button", name=button, exact=True).click()


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    """All that is ready in a queue, taken."""
    found: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append(body)


def test_a_queue_from_its_declaration_to_its_end(page: Page, watch: Watch, channel: BlockingChannel) -> None:
    watch.expected = {400, 404}  # what is refused below; and who still asks for the queue while it is deleted
    show(page, "#/queues", "Queues and streams")
    page.get_by_role("button", name="New queue").click()
    fill(page, "New queue", {"Name": "jobs", "Other arguments": '{"x-max-length": "many"}'}, "Declare")
    expect(page.get_by_role("dialog")).to_contain_text("x-max-length")  # the broker's own words
    expect(page.get_by_role("dialog").get_by_label("Max length")).to_have_attribute("aria-invalid", "true")
    page.get_by_role("dialog").get_by_label("Type", exact=True).select_option("stream")
    expect(page.get_by_role("dialog").get_by_label("Overflow")).not_to_be_visible()
    page.get_by_role("dialog").get_by_label("Type", exact=True).select_option("classic")
    fill(page, "New queue", {"Other arguments": "", "Max length": "100", "Overflow": "reject-publish"}, "Declare")
    page.get_by_role("heading", level=1, name="jobs").wait_for()
    assert (
        channel.queue_declare(
            "jobs", durable=True, arguments={"x-max-length": 100, "x-overflow": "reject-publish"}
        ).method.message_count
        == 0
    )
    for number in (1, 2):
        page.get_by_role("button", name="Publish").click()
        given = {"Body": json.dumps({"total": number * 100}), "Headers": '{"region": "eu"}'}
        fill(page, "Publish to queue jobs", given, "Publish")
        expect(page.get_by_role("dialog")).to_have_count(0)
    messages = page.locator("details.message")
    expect(messages).to_have_count(2)  # without being asked for
    page.get_by_role("searchbox", name="Filter messages").fill("/total > 100")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(messages).to_have_count(1)
    messages.first.click()
    expect(messages.locator("pre")).to_have_text(json.dumps({"total": 200}, indent=2))
    page.get_by_role("button", name="Hex").click()
    expect(messages.locator("pre")).to_contain_text("7b 22 74 6f 74 61 6c 22")
    page.get_by_role("searchbox", name="Filter messages").fill("/total >")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("filter")
    page.get_by_role("button", name="Purge").click()
    fill(page, "Purge jobs?", {"Type jobs to confirm": "job"}, "Purge")
    expect(page.get_by_role("dialog")).to_contain_text("this is not jobs")
    where = "Only messages that match"
    fill(page, "Purge jobs?", {where: "/total < 150", "Type jobs to confirm": "jobs"}, "Purge")
    page.get_by_text("1 message discarded").wait_for()
    method, properties, body = channel.basic_get("jobs", auto_ack=True)
    assert method is not None and json.loads(body) == {"total": 200} and properties.headers == {"region": "eu"}
    page.get_by_role("button", name="Delete").click()
    fill(page, "Delete jobs?", {"Type jobs to confirm": "jobs"}, "Delete")
    page.get_by_role("heading", level=1, name="Queues and streams").wait_for()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        channel.queue_declare("jobs", passive=True)


def test_messages_are_moved_by_filter_and_explained(page: Page, channel: BlockingChannel) -> None:
    for queue in ("here", "there"):
        channel.queue_declare(queue, durable=True)
    for number in range(4):
        channel.basic_publish("", "here", str(number).encode(), pika.BasicProperties(priority=number))
    show(page, "#/queues/%2F/here", "here")
    page.locator("details.message").first.click()
    expect(page.locator("ol.reasons")).to_contain_text("has no consumers")
    expect(page.get_by_role("table", name="History")).to_contain_text("stored")
    page.get_by_role("button", name="Move messages").click()
    given = {"To queue": "there", "Only messages that match": "priority >= 2"}
    fill(page, "Move messages from here", given, "Move")
    page.get_by_text("2 messages moved to there").wait_for()
    assert (bodies(channel, "here"), bodies(channel, "there")) == ([b"0", b"1"], [b"2", b"3"])


def test_the_form_that_publishes_remembers_the_last_message(page: Page, channel: BlockingChannel) -> None:
    channel.queue_declare("drafts", durable=True)
    show(page, "#/queues/%2F/drafts", "drafts")
    page.get_by_role("button", name="Publish").click()
    page.get_by_role("dialog").get_by_text("Properties", exact=True).click()
    given = {"Content type": "text/plain", "Priority": "7", "Message id": "m-1", "Headers": '{"a": 1}', "Body": "first"}
    fill(page, "Publish to queue drafts", given, "Publish")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("dialog").get_by_label("Content type")).to_have_value("text/plain")
    fill(page, "Publish to queue drafts", {"Body": "second"}, "Publish")
    expect(page.locator("details.message")).to_have_count(2)
    for body in (b"first", b"second"):
        _, properties, found = channel.basic_get("drafts", auto_ack=True)
        assert properties is not None and found == body
        facts = (properties.content_type, properties.priority, properties.message_id, properties.headers)
        assert facts == ("text/plain", 7, "m-1", {"a": 1})


def test_a_live_tail_shows_what_comes_and_stops(
    page: Page, watch: Watch, channel: BlockingChannel, broker: BrokerProcess
) -> None:
    watch.expected = {400}
    channel.queue_declare("busy", durable=True)
    channel.basic_publish("", "busy", b"before")
    show(page, "#/queues/%2F/busy", "busy")
    messages = page.locator("details.message")
    expect(messages).to_have_count(1)
    with page.expect_response("**/tail?*"):
        page.get_by_role("button", name="Live tail").click()
    for number in range(50):
        channel.basic_publish("", "busy", b"%d" % number)
        assert channel.basic_get("busy", auto_ack=True)[0] is not None  # who takes them does not hide them
    expect(messages.first).to_contain_text("49")
    expect(page.get_by_role("status").filter(has_text="Live")).to_contain_text(re.compile("not shown|50 messages"))
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped.").wait_for()
    show(page, "#/live", "Live tail")
    page.get_by_label("Topic filter").fill("plant/#/x")
    page.get_by_role("button", name="Start").click()
    page.get_by_text("'#' must be the last level").wait_for()
    page.get_by_label("Topic filter").fill("plant/+/state")
    with page.expect_response("**/subscribe/plant/**"):
        page.get_by_role("button", name="Start").click()
    publish_mqtt(broker, "plant/7/state", '{"on": true}')
    messages.first.click()
    expect(messages.first).to_contain_text("plant/7/state")
    expect(messages.locator("pre")).to_have_text(json.dumps({"on": True}, indent=2))


@pytest.mark.parametrize(("address", "box"), [("#/queues", "messages"), ("#/dead-letters", "dead letters")])
def test_an_answer_that_is_late_replaces_no_newer_one(
    page: Page, channel: BlockingChannel, address: str, box: str
) -> None:
    channel.queue_declare("slow", durable=True)
    channel.queue_purge("slow")
    for number in range(5):
        channel.basic_publish("", "slow", json.dumps({"n": number}).encode())
    late: list[Route] = []

    def hold(route: Route) -> None:
        if late:
            route.continue_()
        else:
            late.append(route)

    page.route(re.compile(r"/slow(/messages)?\?.*limit="), hold)
    show(page, f"{address}/%2F/slow", "slow")
    page.get_by_role("searchbox", name=f"Filter {box}").fill("/n >= 3")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator("details.message")).to_have_count(2)
    with page.expect_response(lambda response: response.request == late[0].request):
        late[0].continue_()
    page.keyboard.press("r")
    page.locator("main[aria-busy=false]").wait_for()
    expect(page.locator("details.message")).to_have_count(2)


def test_the_offsets_of_a_queue_are_those_of_its_messages(page: Page, channel: BlockingChannel) -> None:
    channel.queue_declare("counted", durable=True)
    for number in range(3):
        channel.basic_publish("", "counted", b"%d" % number)
    show(page, "#/queues/%2F/counted", "counted")
    offsets = page.locator("dt", has_text=re.compile("^Offsets$")).locator("+ dd")
    expect(offsets).to_have_text("0 to 2")
    channel.queue_purge("counted")
    page.keyboard.press("r")
    expect(offsets).to_have_text("none; 3 is next")


def test_the_group_that_pins_a_queue_is_moved_and_deleted(page: Page, channel: BlockingChannel) -> None:
    channel.queue_declare("bills", durable=True)
    for number in range(4):
        channel.basic_publish("", "bills", str(number).encode())
    channel.basic_cancel(channel.basic_consume("bills", print, arguments={"x-consumer-group": "audit"}))
    assert bodies(channel, "bills") == [b"0", b"1", b"2", b"3"]
    show(page, "#/queues/%2F/bills", "bills")
    expect(page.locator("main")).to_contain_text("group audit, from #0 on: 4 messages")
    groups = page.get_by_role("table", name="Groups")
    row = groups.get_by_role("row", name="audit")
    row.get_by_role("button", name="Move").click()
    fill(page, "Move audit", {"To": "3"}, "Move")
    page.get_by_text("audit continues at 3").wait_for()
    expect(page.locator("main")).to_contain_text("group audit, from #3 on: 1 message")
    own = groups.get_by_role("row", name="(the queue's own)")
    own.get_by_role("button", name="Move").click()
    fill(page, "Move the queue's own group", {"To": "first"}, "Move")
    page.get_by_text("the queue's own group continues at 3").wait_for()
    assert bodies(channel, "bills") == [b"3"]
    expect(own.get_by_role("button", name="Delete")).to_have_count(0)
    row.get_by_role("button", name="Delete").click()
    fill(page, "Delete group audit?", {"Type audit to confirm": "audit"}, "Delete")
    page.get_by_text("Group audit is deleted").wait_for()
    expect(row).to_have_count(0)


def test_dead_letters_go_back_one_by_one_and_by_filter(page: Page, api: httpx.Client, channel: BlockingChannel) -> None:
    to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("dead", durable=True)
    channel.queue_declare("orders", durable=True, arguments=to_dead)
    for number in range(5):
        channel.basic_publish("", "orders", json.dumps({"n": number}).encode())
    for _ in range(5):
        method, _, _ = channel.basic_get("orders")
        assert method is not None
        channel.basic_reject(method.delivery_tag, requeue=False)
    until(lambda: api.get("/api/queues/%2F/dead").json()["messages"] == 5, "not all have died")
    show(page, "#/dead-letters", "Dead letters")
    row = page.get_by_role("row", name="dead")
    expect(row).to_contain_text("rejected 5")
    row.get_by_role("link").click()
    page.get_by_role("heading", level=1, name="dead").wait_for()
    page.get_by_role("checkbox", name="Choose #1", exact=True).check()
    page.get_by_role("button", name="Redrive chosen").click()
    fill(page, "Redrive 1 chosen message?", {}, "Redrive")
    page.get_by_text("1 message sent back").wait_for()
    assert bodies(channel, "orders") == [b'{"n": 1}']
    page.get_by_role("searchbox", name="Filter dead letters").fill("/n >= 3")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator("details.message")).to_have_count(2)
    page.get_by_role("button", name="Redrive all").click()
    fill(page, "Redrive the dead letters that match?", {}, "Redrive")
    page.get_by_text("2 messages sent back").wait_for()
    assert bodies(channel, "orders") == [b'{"n": 3}', b'{"n": 4}']


def test_a_connection_is_closed_and_its_client_told(page: Page, broker: BrokerProcess) -> None:
    named = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, client_properties={"connection_name": "to close"})
    connection = pika.BlockingConnection(named)
    show(page, "#/connections", "Connections")
    table = page.get_by_role("table", name="Connections")
    row = page.get_by_role("row", name="to close")
    expect(row).to_contain_text("Pika Python Client Library")
    expect(row).to_contain_text("AMQP 0.9.1")
    page.get_by_role("searchbox", name="Filter Connections").fill("no such thing")
    expect(table.locator("tbody tr")).to_have_count(0)
    page.get_by_role("searchbox", name="Filter Connections").fill("amqp 0.9.1")
    page.get_by_role("button", name="Client", exact=True).click()
    row.get_by_role("checkbox").check()
    page.get_by_role("button", name="Close").click()
    fill(page, "Close 1 connection?", {"Reason for the clients": "out of office"}, "Close")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="out of office"):
        until(lambda: connection.process_data_events(1) is not None, "the client is told nothing")
    page.keyboard.press("r")
    expect(row).to_have_count(0)


def test_links_of_amqp10_are_shown_with_their_addresses_and_credit(page: Page, broker: BrokerProcess) -> None:
    connection = BlockingConnection(f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}", allowed_mechs="PLAIN")
    sender = connection.create_sender("$queue/linked", name="to send by")
    receiver = connection.create_receiver("$queue/linked", name="to take by", credit=7)
    sender.send(Message(body=b"one"))
    show(page, "#/connections", "Connections")
    page.get_by_role("row", name="AMQP 1.0").get_by_role("link").first.click()
    links = page.get_by_role("table", name="Links")
    expect(links.get_by_role("row", name="to send by")).to_contain_text(re.compile(r"0client sends\$queue/linked9991"))
    expect(links.get_by_role("row", name="to take by")).to_contain_text(re.compile(r"0client receiveslinked\d+1no"))
    receiver.close()
    connection.close()


def test_a_client_that_does_not_read_is_named_with_what_waits(page: Page, broker: BrokerProcess) -> None:
    parameters = pika.ConnectionParameters(
        "127.0.0.1", broker.amqp_port, heartbeat=0, client_properties={"connection_name": "the sleeper"}
    )
    with pika.BlockingConnection(parameters) as filler:
        channel = filler.channel()
        channel.queue_declare("heavy", durable=True)
        for _ in range(300):
            channel.basic_publish("", "heavy", b"x" * 200_000)
        channel.queue_declare("heavy", passive=True)
        sleeper = pika.BlockingConnection(parameters)
        sleeper.channel().basic_consume("heavy", lambda *_: None, auto_ack=True)  # and from here on nothing is read
        show(page, "#/connections", "Connections")
        row = page.get_by_role("row", name="the client has not read for")
        expect(row).to_contain_text(re.compile(r"slow.*the client has not read for \d+ \w+: [0-9.]+ MiB wait for it"))
        channel.queue_delete("heavy")
        sleeper._impl._transport.abort()


def test_exchanges_are_bound_and_drawn(page: Page, channel: BlockingChannel) -> None:
    channel.queue_declare("drawn", durable=True)
    show(page, "#/exchanges", "Exchanges")
    page.get_by_role("button", name="New exchange").click()
    fill(page, "New exchange", {"Name": "sketch", "Type": "topic"}, "Declare")
    page.get_by_role("heading", level=1, name="sketch").wait_for()
    page.get_by_role("button", name="Publish").click()
    fill(page, "Publish to sketch", {"Routing key": "a.b", "Body": "lost"}, "Publish")
    expect(page.get_by_role("dialog")).to_contain_text("no queue takes a message with this key")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Bind").click()
    fill(page, "Bind to sketch", {"What": "q", "Its name": "drawn", "Routing key": "a.*"}, "Bind")
    page.get_by_role("table", name="Leads to").get_by_role("link", name="drawn").wait_for()
    channel.basic_publish("sketch", "a.b", b"taken", mandatory=True)
    show(page, "#/topology", "Topology")
    node = page.get_by_role("link", name="exchange sketch, topic")
    node.focus()
    assert page.locator(".line.near").count() == 1
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name="sketch").wait_for()
    page.get_by_role("button", name="Unbind").click()
    fill(page, "Unbind?", {}, "Unbind")
    page.get_by_text("No bindings: messages published here are dropped").wait_for()
    page.get_by_role("button", name="Delete").click()
    fill(page, "Delete sketch?", {"Type sketch to confirm": "sketch"}, "Delete")
    page.get_by_role("heading", level=1, name="Exchanges").wait_for()


def test_a_policy_limits_at_once(page: Page, watch: Watch, channel: BlockingChannel) -> None:
    watch.expected = {400}
    channel.queue_declare("short", durable=True)
    show(page, "#/policies", "Policies")
    page.get_by_role("button", name="New").first.click()
    page.get_by_role("dialog").get_by_text("Expiry and limits").click()
    given = {"Name": "few", "Pattern": "^short", "Max length": "2"}
    fill(page, "New policy", {**given, "Priority": "many"}, "Save")
    preview = page.get_by_role("dialog").get_by_role("status")
    expect(preview).to_contain_text(re.compile(r"1 queue of \d+ will change its policy"))
    expect(preview.get_by_role("listitem")).to_have_text("short: none → few")
    page.get_by_role("dialog").evaluate("dialog => dialog.scrollTo(0, 0)")
    expect(preview).to_be_in_viewport(ratio=1)  # however long the form is
    fill(page, "New policy", {"Pattern": "^short(", "Priority": "0"}, "Save")
    pattern = page.get_by_role("dialog").get_by_label("Pattern", exact=True)
    expect(pattern).to_have_attribute("aria-invalid", "true")
    fill(page, "New policy", {"Pattern": "^short$"}, "Save")
    row = page.get_by_role("row", name="few")
    expect(row).to_contain_text("short")
    for number in range(4):
        channel.basic_publish("", "short", str(number).encode())
    assert bodies(channel, "short") == [b"2", b"3"]
    row.get_by_role("button", name="few").click()
    preview = page.get_by_role("dialog").get_by_role("status")
    expect(preview).to_have_text("No queue changes its policy.")
    page.get_by_role("dialog").get_by_label("Max length").fill("3")
    expect(preview.get_by_role("listitem")).to_have_text("short: few with other settings")
    page.get_by_role("button", name="Cancel").click()
    row.get_by_role("button", name="Delete").click()
    fill(page, "Delete this policy?", {"Type few to confirm": "few"}, "Delete")
    expect(row).to_have_count(0)


def test_a_user_in_a_vhost_of_its_own(page: Page, broker: BrokerProcess) -> None:
    show(page, "#/vhosts", "Virtual hosts")
    page.get_by_role("button", name="New virtual host").click()
    fill(page, "New virtual host", {"Name": "plant", "Description": "the works"}, "Save")
    page.get_by_role("row", name="plant").wait_for()
    expect(page.get_by_label("Virtual host", exact=True).locator("option")).to_have_text(["all", "/", "plant"])
    show(page, "#/users", "Users")
    page.get_by_role("button", name="New user").click()
    fill(page, "New user", {"Name": "eve", "Password": "a long password"}, "Add")
    page.get_by_role("link", name="eve").click()
    page.get_by_role("button", name="Add").click()
    fill(page, "Permissions of eve", {"Virtual host": "plant", "configure": "^own"}, "Save")
    page.get_by_role("table", name="Permissions").get_by_text("plant").wait_for()
    credentials = pika.PlainCredentials("eve", "a long password")
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, "plant", credentials)
    connection = pika.BlockingConnection(parameters)
    connection.channel().queue_declare("own.queue", durable=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
        connection.channel().queue_declare("other", durable=True)
    page.get_by_role("button", name="Change limits").click()
    fill(page, "Limits of eve", {"Largest number of connections": "1"}, "Save")
    expect(page.get_by_role("dialog")).to_have_count(0)
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="user connection limit"):
        pika.BlockingConnection(parameters)
    page.get_by_role("button", name="Change limits").click()
    fill(page, "Limits of eve", {"Largest number of connections": ""}, "Save")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Change tags").click()
    fill(page, "Tags of eve", {}, "Save")  # without a word on the password it stays
    expect(page.get_by_role("dialog")).to_have_count(0)
    pika.BlockingConnection(parameters).close()
    show(page, "#/vhosts", "Virtual hosts")
    page.get_by_role("row", name="plant").get_by_role("button", name="Delete").click()
    fill(page, "Delete virtual host plant?", {"Type plant to confirm": "plant"}, "Delete")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        until(lambda: connection.process_data_events(1) is not None, "the client is told nothing")


def test_mqtt_sessions_retained_and_delayed_messages(page: Page, broker: BrokerProcess) -> None:
    with mqtt(broker, "boiler", 600) as client:
        client.subscribe("boiler/#", 1)
        publish_mqtt(broker, "plant/temperature", '{"c": 21}', retain=True)
    publish_mqtt(broker, "boiler/open", "now")
    publish_mqtt(broker, "$delayed/3600/boiler/later", "wait")
    show(page, "#/sessions", "MQTT sessions")
    row = page.get_by_role("row", name="boiler")
    expect(row).to_contain_text("gone")
    row.get_by_role("link").click()
    page.get_by_role("heading", level=1, name="boiler").wait_for()
    expect(page.get_by_role("table", name="Subscriptions")).to_contain_text("boiler/#")
    expect(page.locator("details.message")).to_contain_text("boiler/open")
    page.get_by_role("button", name="Delete").click()
    fill(page, "Delete 1 session?", {"Type boiler to confirm": "boiler"}, "Delete")
    page.get_by_text("No MQTT sessions.").wait_for()
    show(page, "#/retained", "Retained")
    page.get_by_role("button", name="plant/temperature").click()
    expect(page.get_by_role("dialog").locator("pre")).to_have_text(json.dumps({"c": 21}, indent=2))
    page.keyboard.press("Escape")
    page.get_by_role("checkbox", name="Choose / plant/temperature").check()
    page.get_by_role("button", name="Delete").click()
    fill(page, "Delete 1 retained message?", {}, "Delete")
    page.get_by_text("No retained messages.").wait_for()
    show(page, "#/delayed", "Delayed")
    expect(page.get_by_role("table")).to_contain_text("boiler/later")
    page.get_by_role("checkbox", name="Choose / #").check()
    page.get_by_role("button", name="Cancel").click()
    fill(page, "Cancel 1 message?", {}, "Cancel them")
    page.get_by_text("No delayed messages.").wait_for()


def test_a_trace_writes_down_what_happens(page: Page, channel: BlockingChannel) -> None:
    channel.queue_declare("traced", durable=True)
    show(page, "#/traces", "Traces")
    page.get_by_role("button", name="New trace").click()
    fill(page, "New trace", {"Name": "who", "Queues": "^traced$"}, "Start")
    page.get_by_role("heading", level=1, name="who").wait_for()
    channel.basic_publish("", "traced", b"x", pika.BasicProperties(message_id="m-1"))
    assert bodies(channel, "traced") == [b"x"]
    events = page.get_by_role("table", name="Events")
    expect(events.get_by_role("row", name="published")).to_contain_text("m-1")
    expect(events.get_by_role("row", name="delivered")).to_contain_text("connection")
    page.get_by_role("button", name="Stop").click()
    fill(page, "Stop who?", {}, "Stop")
    page.get_by_text("No traces.").wait_for()


def test_definitions_go_out_and_come_in(page: Page, channel: BlockingChannel, tmp_path: Path) -> None:
    channel.queue_declare("kept", durable=True)
    show(page, "#/definitions", "Definitions")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save as a file").click()
    file = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(file)
    definitions = json.loads(file.read_text(encoding="utf-8"))
    assert "kept" in {queue["name"] for queue in definitions["queues"]}
    channel.queue_delete("kept")
    page.get_by_label("File").set_input_files(file)
    page.get_by_role("button", name="Import").click()
    page.get_by_text("Imported and on disk.").wait_for()
    channel.queue_declare("kept", passive=True)
    odd = {"name": "odd", "vhost": "/", "arguments": {"x-odd": 1, "x-overflow": "drop-tail"}}
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"queues": [odd]}), encoding="utf-8")
    page.get_by_label("File").set_input_files(other)
    page.get_by_text("It has 1 queue.").wait_for()
    page.get_by_role("button", name="Import").click()
    page.get_by_text("without 2 parts that cannot be in force here").wait_for()
    lost = "Messages may be lost, or stay: queues[0] 'odd': arguments.x-overflow"
    expect(page.get_by_role("listitem").filter(has_text=lost)).to_have_count(1)
    channel.queue_declare("odd", passive=True)


def test_no_question_of_the_browser_is_ever_asked(page: Page, channel: BlockingChannel) -> None:
    """A dialog of the browser itself would hold up everything, and cannot be read by all."""
    asked: list[Dialog] = []
    page.on("dialog", lambda dialog: asked.append(dialog))
    channel.queue_declare("spared", durable=True)
    show(page, "#/queues/%2F/spared", "spared")
    page.get_by_role("button", name="Delete").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.evaluate("document.activeElement.textContent") == "Delete"
    assert asked == []
    channel.queue_declare("spared", passive=True)
