"""Why a message has not been delivered: each reason, brought about by real clients."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import httpx
import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.admin.clients import mqtt, open_channel, publish_mqtt
from tests.broker_process import BrokerProcess, running
from tests.waiting import until

WAIT_S_MAX = 60
Facts = dict[str, object]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    options = {"send_buffer_octets_max": 65_536, "mqtt_max_inflight": 2}
    with running(tmp_path_factory.mktemp("explain"), http="127.0.0.1:0", **options) as broker:
        yield broker


def publish(channel: BlockingChannel, queue: str, *numbers: int, **properties: object) -> None:
    for number in numbers:
        own = pika.BasicProperties(message_id=f"{queue}-{number}", **properties)
        channel.basic_publish("", queue, json.dumps({"n": number}).encode(), own)


def declare(channel: BlockingChannel, queue: str, **arguments: object) -> None:
    channel.queue_declare(
        queue, durable=True, arguments={name.replace("_", "-"): arguments[name] for name in arguments}
    )


def explain(http: httpx.Client, queue: str, offset: int) -> Facts:
    answer = http.get("/explain", params={"queue": queue, "offset": offset})
    assert answer.status_code == 200, answer.text
    (found,) = answer.json()["found"]
    assert isinstance(found, dict)
    return found


def reasons(http: httpx.Client, queue: str, offset: int) -> dict[str, Facts]:
    """The reasons by code; of several of one code the first."""
    found: dict[str, Facts] = {}
    listed = explain(http, queue, offset)["reasons"]
    assert isinstance(listed, list)
    for each in listed:
        found.setdefault(each["code"], each)
    return found


def consume(channel: BlockingChannel, queue: str, prefetch: int, **arguments: object) -> list[int]:
    """Consume without acknowledging; the offsets of what comes, as the messages were numbered."""
    got: list[int] = []
    channel.basic_qos(prefetch_count=prefetch)
    asked = {name.replace("_", "-"): value for name, value in arguments.items()}
    channel.basic_consume(
        queue, lambda _, __, ___, body: got.append(json.loads(body)["n"]), consumer_tag=f"tag-{queue}", arguments=asked
    )
    return got


def pump(channel: BlockingChannel, got: list[int], count: int) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while len(got) < count:
        assert time.monotonic() < deadline, got
        channel.connection.process_data_events(0.05)


def test_nobody_consumes(http: httpx.Client, channel: BlockingChannel) -> None:
    declare(channel, "idle")
    publish(channel, "idle", 0, 1)
    found = explain(http, "idle", 1)
    assert found["state"] == "ready"
    assert found["summary"] == "queue 'idle', offset 1: queue 'idle' has no consumers"
    by_code = reasons(http, "idle", 1)
    assert list(by_code) == ["no_consumers", "waits_behind"]
    assert by_code["waits_behind"]["ahead"] == 1
    assert found["message"]["properties"]["message_id"] == "idle-1"  # type: ignore[index]


def test_a_consumer_holds_it_and_its_prefetch_is_full(http: httpx.Client, channel: BlockingChannel) -> None:
    declare(channel, "held")
    publish(channel, "held", 0, 1)
    pump(channel, consume(channel, "held", 1), 1)
    leased = reasons(http, "held", 0)["leased"]
    assert (leased["consumer"], leased["deliveries"], leased["user"]) == ("tag-held", 1, "guest")
    assert leased["protocol"] == "AMQP 0.9.1"
    assert 0 <= int(str(leased["since_ms"])) <= int(str(leased["until_ms"]))
    assert "held by consumer 'tag-held'" in str(leased["text"])
    waits = reasons(http, "held", 1)
    assert list(waits) == ["no_credit"]
    assert (waits["no_credit"]["held"], waits["no_credit"]["prefetch"]) == (1, 1)


def test_a_consumers_filter_does_not_want_it(http: httpx.Client, channel: BlockingChannel) -> None:
    declare(channel, "sifted")
    consume(channel, "sifted", 10, **{"x-filter": "/n > 5 AND (priority > 3 OR routing_key = 'sifted')"})
    publish(channel, "sifted", 3)
    reason = reasons(http, "sifted", 0)["filter"]
    assert (reason["part"], reason["values"]) == ("/n > 5", {"/n": 3})
    assert "/n > 5 does not hold: /n is 3" in str(reason["text"])


def test_a_message_group_is_out(http: httpx.Client, channel: BlockingChannel) -> None:
    declare(channel, "grouped")
    publish(channel, "grouped", 0, 1, 2, headers={"x-group-id": "k"})
    pump(channel, consume(channel, "grouped", 10), 1)
    reason = reasons(http, "grouped", 2)["message_group"]
    assert (reason["key"], reason["first"], reason["behind"], reason["state"]) == ("k", 0, 2, "leased")
    assert "offset 0 stands before it: consumer 'tag-grouped'" in str(reason["text"])
    assert reason["holder"]["user"] == "guest"  # type: ignore[index]


@pytest.mark.parametrize(("argument", "value"), [("x-max-priority", 9), ("x-priority-expression", "priority")])
def test_higher_priorities_go_first(http: httpx.Client, channel: BlockingChannel, argument: str, value: object) -> None:
    declare(channel, argument, **{argument: value})
    pump(channel, consume(channel, argument, 1), 0)
    publish(channel, argument, 0, priority=5)
    until(lambda: explain(http, argument, 0)["state"] == "leased")
    publish(channel, argument, 1, priority=1)
    publish(channel, argument, 2, 3, priority=7)
    until(lambda: reasons(http, argument, 1)["waits_behind"]["ahead"] == 2)
    assert "waits_behind" not in reasons(http, argument, 2)
    assert reasons(http, argument, 3)["waits_behind"]["ahead"] == 1


def test_it_rests_until_it_is_tried_again(http: httpx.Client, channel: BlockingChannel) -> None:
    retry = {"x-delayed-retry-type": "all", "x-delayed-retry-min": 500_000, "x-delayed-retry-max": 600_000}
    declare(channel, "retried", **{"x-queue-type": "quorum", "x-delivery-limit": 2, **retry})
    publish(channel, "retried", 0)
    method, _, _ = channel.basic_get("retried")
    assert method is not None
    channel.basic_nack(method.delivery_tag, requeue=True)
    until(lambda: explain(http, "retried", 0)["state"] == "delayed")
    reason = reasons(http, "retried", 0)["retry_delay"]
    assert int(str(reason["not_before_ms"])) > time.time() * 1000 + 60_000


def test_it_dies_at_the_next_failure(http: httpx.Client, channel: BlockingChannel) -> None:
    declare(channel, "failing", **{"x-queue-type": "quorum", "x-delivery-limit": 1})
    publish(channel, "failing", 0)
    method, _, _ = channel.basic_get("failing")
    assert method is not None
    channel.basic_reject(method.delivery_tag, requeue=True)
    until(lambda: "near_delivery_limit" in reasons(http, "failing", 0))
    reason = reasons(http, "failing", 0)["near_delivery_limit"]
    assert (reason["failures"], reason["delivery_limit"]) == (1, 1)


def test_it_died_and_is_a_dead_letter(http: httpx.Client, channel: BlockingChannel) -> None:
    declare(channel, "graves")
    declare(channel, "dying", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graves"})
    publish(channel, "dying", 0, 1)
    method, _, _ = channel.basic_get("dying")
    assert method is not None
    channel.basic_reject(method.delivery_tag, requeue=False)
    until(lambda: "dead_lettered" in reasons(http, "dying", 0))
    reason = reasons(http, "dying", 0)["dead_lettered"]
    assert (reason["queue"], reason["offset"], reason["cause"]) == ("graves", 0, "rejected")
    found = http.get("/explain", params={"message_id": "dying-0"}).json()
    states = {each["queue"]: each["state"] for each in found["found"]}
    assert states["graves"] == "ready"
    assert states.get("dying", "settled") == "settled"


def test_it_died_and_cannot_go_where_dead_letters_go(http: httpx.Client, channel: BlockingChannel) -> None:
    strict = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-queue-type": "quorum"}
    declare(channel, "stuck", **{"x-dead-letter-exchange": "nowhere", **strict})
    publish(channel, "stuck", 0)
    method, _, _ = channel.basic_get("stuck")
    assert method is not None
    channel.basic_reject(method.delivery_tag, requeue=False)
    until(lambda: explain(http, "stuck", 0)["state"] == "dead_letter_waiting")
    reason = reasons(http, "stuck", 0)["dead_letter_waiting"]
    assert (reason["cause"], reason["dead_letter_exchange"]) == ("rejected", "nowhere")
    assert "there is no exchange 'nowhere'" in str(reason["text"])


def test_it_died_and_is_too_long_for_where_dead_letters_go(http: httpx.Client, channel: BlockingChannel) -> None:
    strict = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-queue-type": "quorum"}
    declare(channel, "narrow", **{"x-max-message-size": 1})
    declare(channel, "long", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "narrow", **strict})
    publish(channel, "long", 0)
    method, _, body = channel.basic_get("long")
    assert method is not None and body is not None
    channel.basic_reject(method.delivery_tag, requeue=False)
    until(lambda: explain(http, "long", 0)["state"] == "dead_letter_waiting")
    said = str(reasons(http, "long", 0)["dead_letter_waiting"]["text"])
    assert f"'narrow', where dead letters go, takes no message above 1 octets, and this one has {len(body)}" in said


def test_it_was_settled_or_never_came(http: httpx.Client, channel: BlockingChannel) -> None:
    declare(channel, "done", **{"x-max-length": 2, "x-overflow": "reject-publish"})
    publish(channel, "done", 0, 1)
    method, _, _ = channel.basic_get("done", auto_ack=True)
    assert method is not None
    until(lambda: explain(http, "done", 0)["state"] in ("settled", "gone"))
    assert set(reasons(http, "done", 0)) & {"settled", "gone"}
    publish(channel, "done", 2)
    absent = reasons(http, "done", 3)["not_there"]
    assert (absent["next_offset"], absent["full"]) == (3, True)


def test_expired_behind_others(http: httpx.Client, channel: BlockingChannel) -> None:
    declare(channel, "stale")
    publish(channel, "stale", 0)
    publish(channel, "stale", 1, expiration="1")
    until(lambda: "expired" in reasons(http, "stale", 1))
    assert explain(http, "stale", 1)["summary"].startswith("queue 'stale', offset 1: it expired")  # type: ignore[attr-defined]


def test_only_one_consumer_is_active(http: httpx.Client, broker: BrokerProcess, channel: BlockingChannel) -> None:
    declare(channel, "single", **{"x-single-active-consumer": True})
    publish(channel, "single", 0, 1)
    pump(channel, consume(channel, "single", 1), 1)
    with open_channel(broker) as other:
        consume(other, "single", 10)
        codes = reasons(http, "single", 1)
        assert {"no_credit", "not_active"} <= set(codes)
        assert codes["not_active"]["connection"] != codes["no_credit"]["connection"]


def test_the_queue_is_exclusive(http: httpx.Client, channel: BlockingChannel) -> None:
    channel.queue_declare("mine", exclusive=True)
    publish(channel, "mine", 0)
    found = reasons(http, "mine", 0)
    assert found["exclusive"]["connection"]
    assert list(found) == ["no_consumers", "exclusive"]


def test_a_groups_filter_passes_it_over(http: httpx.Client, broker: BrokerProcess, channel: BlockingChannel) -> None:
    declare(channel, "parts", **{"x-queue-type": "stream"})
    publish_mqtt(broker, "$queue/parts/eu/x", "{}")
    with open_channel(broker) as reader:
        reader.basic_qos(prefetch_count=5)
        reader.basic_consume("$queue/parts/us/#", lambda *_: None, arguments={"x-stream-offset": "first"})
        until(lambda: "group_filter" in reasons(http, "parts", 0))
        assert reasons(http, "parts", 0)["group_filter"]["filter"] == "us/#"


def test_stream_readers_pass_over_lag_and_have_read(
    http: httpx.Client, broker: BrokerProcess, channel: BlockingChannel
) -> None:
    declare(channel, "stream", **{"x-queue-type": "stream"})
    publish(channel, "stream", 0, 1, 2, 3)
    assert list(reasons(http, "stream", 1)) == ["no_readers"]
    with open_channel(broker) as reader:
        got = consume(reader, "stream", 2, **{"x-stream-offset": "first", "x-consumer-group": "g"})
        pump(reader, got, 2)
        assert reasons(http, "stream", 0)["delivered"]["cursor"] == 2
        waits = reasons(http, "stream", 3)
        assert list(waits) == ["no_credit", "waits_behind"]
        assert (waits["waits_behind"]["ahead"], waits["no_credit"]["group"]) == (1, "g")
    with open_channel(broker) as reader:
        got = consume(reader, "stream", 9, **{"x-stream-offset": "first", "x-filter": "/n > 1"})
        pump(reader, got, 2)
        passed = reasons(http, "stream", 0)["stream_filter"]
        assert (passed["part"], passed["values"]) == ("/n > 1", {"/n": 0})
    run = http.post("/operations/queue.truncate", json={"queue": "stream", "below": 2})
    assert run.status_code == 200
    assert reasons(http, "stream", 0)["gone"]["start"] == 2


def test_a_connection_that_does_not_read(http: httpx.Client, broker: BrokerProcess, channel: BlockingChannel) -> None:
    declare(channel, "unread")
    deaf = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    deaf.channel().basic_consume("unread", lambda *_: None)
    for number in range(2000):
        channel.basic_publish("", "unread", b"x" * 100_000)
        if number % 50 == 49 and "connection_paused" in reasons(http, "unread", number):
            break
    paused = reasons(http, "unread", number)["connection_paused"]
    assert "does not read what it was sent" in str(paused["text"])
    http.post("/operations/connection.close", json={"id": paused["connection"]})
    with pytest.raises(pika.exceptions.AMQPError):
        # The goodbye comes behind what was sent before; one call reads a part of that.
        until(lambda: deaf.process_data_events(1), "the end of the connection")


def test_it_waits_for_its_time(http: httpx.Client, channel: BlockingChannel) -> None:
    declare(channel, "soon")
    publish(channel, "soon", 0, headers={"x-delay": 500_000})
    found = http.get("/explain", params={"message_id": "soon-0"}).json()
    (one,) = found["found"]
    assert (one["state"], one["reasons"][0]["code"], found["complete"]) == ("delayed", "delayed", True)
    assert one["reasons"][0]["due_ms"] > time.time() * 1000 + 60_000


def test_a_message_id_is_found_in_every_queue(http: httpx.Client, channel: BlockingChannel) -> None:
    channel.exchange_declare("all", "fanout", durable=True)
    for queue in ("copy-a", "copy-b"):
        declare(channel, queue)
        channel.queue_bind(queue, "all")
    for number in range(300):
        channel.basic_publish("all", "", b"{}", pika.BasicProperties(message_id=f"order-{number}"))
    found = http.get("/explain", params={"message_id": "order-7"}).json()
    assert sorted((each["queue"], each["offset"]) for each in found["found"]) == [("copy-a", 7), ("copy-b", 7)]
    assert found["complete"]
    assert http.get("/explain", params={"message_id": "order-7", "queue": "copy-b"}).json()["found"][0]["offset"] == 7
    assert http.get("/explain", params={"message_id": "none"}).json() == {"found": [], "complete": True}


def test_an_mqtt_session_is_offline_or_its_window_full(http: httpx.Client, broker: BrokerProcess) -> None:
    with mqtt(broker, "slow", 1000, manual=True) as client:
        got: list[bytes] = []
        client.on_message = lambda _, __, message: got.append(bytes(message.payload))
        client.subscribe("slow/#", 1)
        until(lambda: http.get("/sessions/%2F/slow").json()["subscriptions"] == 1)
        for number in range(4):
            publish_mqtt(broker, "slow/x", str(number))
        until(lambda: len(got) == 2)
        found = http.get("/explain", params={"client_id": "slow"}).json()["found"][0]
        assert [each["code"] for each in found["reasons"]] == ["window_full"]
        assert (found["reasons"][0]["inflight"], found["reasons"][0]["inflight_max"]) == (2, 2)
        waiting = http.get("/sessions/%2F/slow/messages").json()["items"]
        assert [each["packet_id"] is None for each in waiting] == [False, False, True, True]
        offsets = [each["offset"] for each in waiting]
        sent = http.get("/explain", params={"client_id": "slow", "offset": offsets[0]}).json()["found"][0]["reasons"]
        assert {"in_flight", "window_full"} == {each["code"] for each in sent}
        last = http.get("/explain", params={"client_id": "slow", "offset": offsets[3]}).json()["found"][0]["reasons"]
        assert [each["ahead"] for each in last if each["code"] == "session_waits"] == [1]
    until(lambda: not http.get("/sessions/%2F/slow").json()["connected"])
    away = http.get("/explain", params={"client_id": "slow", "topic": "other"}).json()["found"][0]
    assert [each["code"] for each in away["reasons"]] == ["session_offline", "not_subscribed"]
    assert "has not been connected" in away["summary"]


def test_what_is_asked_must_name_one_message(http: httpx.Client) -> None:
    for query in ("", "offset=1", "queue=x&offset=1&message_id=m", "message_id="):
        assert http.get(f"/explain?{query}").status_code == 400, query
    assert http.get("/explain", params={"queue": "none", "offset": 1}).status_code == 404
    assert http.get("/explain", params={"client_id": "none"}).status_code == 404
    assert http.get("/explain", params={"vhost": "none", "message_id": "m"}).status_code == 404


def test_a_consumer_cannot_take_it(http: httpx.Client, broker: BrokerProcess, channel: BlockingChannel) -> None:
    from proton import Disposition
    from proton.utils import BlockingConnection

    declare(channel, "elsewhere")
    publish(channel, "elsewhere", 0)
    connection = BlockingConnection(f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}", allowed_mechs="PLAIN")
    receiver = connection.create_receiver("/queues/elsewhere", credit=5)
    receiver.receive(timeout=WAIT_S_MAX)
    delivery = receiver.fetcher.unsettled.popleft()
    delivery.local.undeliverable = True
    delivery.update(Disposition.MODIFIED)
    delivery.settle()
    connection.wait(lambda: "undeliverable_here" in reasons(http, "elsewhere", 0), WAIT_S_MAX)
    found = reasons(http, "elsewhere", 0)
    assert (explain(http, "elsewhere", 0)["state"], "next" in found) == ("ready", False)
    connection.close()
    until(lambda: "no_consumers" in reasons(http, "elsewhere", 0))
