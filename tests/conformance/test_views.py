"""Views over every protocol: declared, consumed, settled, published to by name, bound, and refused."""

from __future__ import annotations

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.amqp091 import raw as amqp
from tests.conformance.amqp10 import raw as amqp10
from tests.conformance.amqp10.test_03_publish import declare
from tests.conformance.mqtt.raw import connected, user

STREAM: dict[str, object] = {"x-queue-type": "stream"}
VIEW: dict[str, object] = {"x-source": "orders"}
TAKING: dict[str, object] = {**VIEW, "x-publish-target": "orders"}
NOT_AUTHORIZED = 0x87
PRECONDITION, REFUSED, ABSENT = 406, 403, 404
INVALID, VIEWS = "invalid arg", "views of views are not in force"
POINTS = "now, creation, an offset, timestamp=<milliseconds>"
CODES = {PRECONDITION: "PRECONDITION_FAILED", REFUSED: "ACCESS_REFUSED", ABSENT: "NOT_FOUND"}
BIND, PURGE, PURGED, DELETE, DELETED = (50, 20), (50, 30), (50, 31), (50, 40), (50, 41)


@pytest.fixture
def orders(broker: AnyBroker) -> AnyBroker:
    """A broker with a stream of three messages, and two views of it."""
    declare(broker, "orders", STREAM)
    declare(broker, "risk", VIEW)
    declare(broker, "billing", TAKING)
    with amqp.connect(broker) as client:
        client.confirm()
        for number in range(3):
            client.send(amqp.publish(1, "orders", b"%d" % number))
        client.confirmed(3)
    return broker


def ready(broker: AnyBroker, queue: str) -> int:
    with amqp.connect(broker) as client:
        return client.count(queue)[0]


def test_amqp_0_9_1_consumes_and_settles_in_one_view_only(orders: AnyBroker) -> None:
    with amqp.connect(orders) as client:
        client.consume("risk")
        found = [client.delivery() for _ in range(3)]
        assert [body for _, _, body in found] == [b"0", b"1", b"2"]
        client.settle(amqp.ACK, found[2][0], 1)
        client.sync()
    assert (ready(orders, "risk"), ready(orders, "billing"), ready(orders, "orders")) == (0, 3, 3)


def test_amqp_1_0_consumes_and_settles_in_one_view_only(orders: AnyBroker) -> None:
    raw = amqp10.begun(orders)
    raw.consumer("/queues/risk", credit=3, settled=1)
    assert [amqp10.body_of(raw.delivery()[1]) for _ in range(3)] == [b"0", b"1", b"2"]
    raw.quiet_session()
    assert (ready(orders, "risk"), ready(orders, "billing")) == (0, 3)


def test_mqtt_consumes_and_settles_in_one_view_only(orders: AnyBroker) -> None:
    raw = connected(orders, "worker")
    raw.subscribe("$queue/risk/#", properties=user("consumer-group", "g"))
    for number in range(3):
        found = raw.delivery()
        facts = found.facts()
        assert (found.body, facts["queue"], facts["offset"]) == (b"%d" % number, "risk", str(number))
        fields = user("message-id", facts["message-id"]) + user("group-id", facts["group-id"])
        assert raw.publish("$queue/risk/$ack", properties=fields, id=9) == 0
    assert (ready(orders, "risk"), ready(orders, "billing")) == (0, 3)


def test_every_protocol_gets_what_the_filter_of_a_view_takes(orders: AnyBroker) -> None:
    declare(orders, "two", {**VIEW, "x-filter": "/n > 9"})
    with amqp.connect(orders) as client:
        client.confirm()
        for body in (b'{"n":10}', b'{"n":9}', b"none", b'{"n":11}'):
            client.send(amqp.publish(1, "orders", body))
        client.confirmed(4)
    with amqp.connect(orders) as client:
        client.consume("two")
        found = [client.delivery() for _ in range(2)]
        assert [body for _, _, body in found] == [b'{"n":10}', b'{"n":11}']
        client.settle(amqp.ACK, found[0][0], 0)
        client.sync()
    raw = amqp10.begun(orders)
    raw.consumer("/queues/two", credit=1, settled=1)
    assert amqp10.body_of(raw.delivery()[1]) == b'{"n":11}'
    mqtt = connected(orders, "worker")
    mqtt.subscribe("$queue/two/#", properties=user("consumer-group", "g"))
    with amqp.connect(orders) as client:
        client.confirm()
        for body in (b'{"n":1}', b'{"n":12}'):
            client.send(amqp.publish(1, "orders", body))
        client.confirmed(2)
    assert mqtt.delivery().body == b'{"n":12}'


def test_amqp_0_9_1_refuses_a_publish_to_a_view_by_name(orders: AnyBroker) -> None:
    for key in ("risk", "$queue/risk"):
        with amqp.connect(orders) as client:
            client.send(amqp.publish(1, key, b"x"))
            words = "publish there, or declare it with x-publish-target"
            client.channel_closed(
                REFUSED,
                f"ACCESS_REFUSED - queue 'risk' in vhost '/' is a view of stream 'orders': {words}",
                cause=amqp.PUBLISH,
            )


def test_amqp_1_0_refuses_a_publish_to_a_view_by_name(orders: AnyBroker) -> None:
    raw = amqp10.begun(orders)
    raw.send(amqp10.publisher("/queues/risk", 9))
    condition, words = raw.refused(amqp10.SENDER)
    assert "is a view of stream 'orders'" in words, (condition, words)


def test_mqtt_refuses_a_publish_to_a_view(orders: AnyBroker) -> None:
    assert connected(orders, "publisher").publish("$queue/risk", b"x") == NOT_AUTHORIZED
    assert ready(orders, "risk") == 3


def test_every_protocol_publishes_to_the_target_of_a_view(orders: AnyBroker) -> None:
    with amqp.connect(orders) as client:
        client.confirm()
        client.send(amqp.publish(1, "billing", b"3"))
        client.confirmed(1)
    raw = amqp10.begun(orders)
    raw.publisher("/queues/billing", 9)
    raw.send(amqp10.transfer(0, amqp10.message(b"4"), 9))
    raw.outcome()
    assert connected(orders, "publisher").publish("$queue/billing", b"5") == 0
    for queue in ("orders", "risk", "billing"):
        assert ready(orders, queue) == 6


def test_nothing_is_bound_to_a_view(orders: AnyBroker) -> None:
    fields = b"\0\0" + amqp.short("risk") + amqp.short("amq.topic") + amqp.short("#") + b"\0" + amqp.table()
    words = "PRECONDITION_FAILED - cannot bind: queue 'risk' in vhost '/' is a view of stream 'orders': name the stream"
    with amqp.connect(orders) as client:
        client.send(amqp.method(1, BIND, fields))
        client.channel_closed(PRECONDITION, words, cause=BIND)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ({"x-source": "none"}, ABSENT, "x-source of queue 'v' in vhost '/': no stream 'none' in vhost '/'"),
        (
            {"x-source": "risk"},
            PRECONDITION,
            f"{INVALID} 'x-source' for queue 'v' in vhost '/': 'risk' is a view itself, of 'orders': {VIEWS}",
        ),
        (
            {"x-source": "orders", "x-recovery-point": "later"},
            PRECONDITION,
            f"{INVALID} 'x-recovery-point' for queue 'v' in vhost '/': 'later' is none of epoch, {POINTS}",
        ),
    ],
)
def test_a_view_that_cannot_be_is_refused_by_name(
    orders: AnyBroker, arguments: dict[str, object], code: int, words: str
) -> None:
    fields = b"\0\0" + amqp.short("v") + b"\x02" + amqp.table(arguments)
    with amqp.connect(orders) as client:
        client.send(amqp.method(1, amqp.QUEUE_DECLARE, fields))
        client.channel_closed(code, f"{CODES[code]} - {words}", cause=amqp.QUEUE_DECLARE)


def test_a_purge_and_a_deletion_are_of_one_queue(orders: AnyBroker) -> None:
    with amqp.connect(orders) as client:
        client.send(amqp.method(1, PURGE, b"\0\0" + amqp.short("risk") + b"\0"))
        assert client.expect(1, PURGED) == (3).to_bytes(4, "big")
        client.send(amqp.method(1, DELETE, b"\0\0" + amqp.short("orders") + b"\0"))
        client.expect(1, DELETED)
    assert (ready(orders, "risk"), ready(orders, "billing")) == (0, 3)
    with amqp.connect(orders) as client:
        client.consume("billing")
        assert [client.delivery()[2] for _ in range(3)] == [b"0", b"1", b"2"]
