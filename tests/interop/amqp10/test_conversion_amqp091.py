"""Messages of pika for proton, and of proton for pika: what becomes of each property, as RabbitMQ 4 converts them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from proton import Message, byte, char, int32, short, symbol, timestamp, ubyte, uint, ulong, ushort
from proton.utils import BlockingConnection

from tests.broker_process import BrokerProcess, running
from tests.interop.amqp10.proton_client import connected, take
from tests.interop.test_pika import WAIT_S
from tests.interop.test_pika import connect as pika_connect

ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that the tests of this module share."""
    folder: Path = tmp_path_factory.mktemp("conversion")
    with running(folder) as made:
        yield made


@pytest.fixture(scope="module")
def channel(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    connection = pika_connect(broker)
    opened = connection.channel()
    opened.confirm_delivery()
    opened.queue_declare("q", durable=True)
    yield opened
    connection.close()


@pytest.fixture(scope="module")
def connection(broker: BrokerProcess) -> Iterator[BlockingConnection]:
    with connected(broker) as made:
        yield made


def to_proton(
    channel: BlockingChannel, connection: BlockingConnection, body: bytes = b"body", **properties: Any
) -> Message:
    """What proton gets of a message that pika has published."""
    channel.basic_publish("", "q", body, pika.BasicProperties(**properties))
    receiver = connection.create_receiver("/queues/q", credit=1)
    (found,) = take(receiver, 1)
    receiver.close()
    return found


def to_pika(channel: BlockingChannel, connection: BlockingConnection, message: Message) -> tuple[Any, bytes]:
    """What pika gets of a message that proton has sent: properties and body."""
    sender = connection.create_sender("/queues/q")
    sender.send(message)
    sender.close()
    for _, properties, body in channel.consume("q", auto_ack=True, inactivity_timeout=WAIT_S):
        channel.cancel()
        return properties, body
    raise AssertionError("nothing came")


# ---- from AMQP 0.9.1


def test_every_property_of_pika(channel: BlockingChannel, connection: BlockingConnection) -> None:
    found = to_proton(
        channel,
        connection,
        content_type="text/plain",
        content_encoding="gzip",
        delivery_mode=2,
        priority=5,
        correlation_id="c1",
        reply_to="my queue",
        expiration="60000",
        message_id="m1",
        timestamp=1700000000,
        type="kind",
        user_id="guest",
        app_id="app",
    )
    assert (bytes(found.body), found.inferred) == (b"body", True)
    assert (found.durable, found.priority) == (True, 5)
    assert 50 < found.ttl <= 60
    assert (found.id, found.correlation_id) == ("m1", "c1")
    assert (found.content_type, found.content_encoding) == ("text/plain", "gzip")
    assert found.reply_to == "/queues/my%20queue"
    assert found.creation_time == 1700000000.0
    assert bytes(found.user_id) == b"guest"
    assert found.group_id == "app"
    assert found.annotations[symbol("x-basic-type")] == "kind"
    assert (found.annotations[symbol("x-exchange")], found.annotations[symbol("x-routing-key")]) == ("", "q")


def test_no_property_of_pika(channel: BlockingChannel, connection: BlockingConnection) -> None:
    found = to_proton(channel, connection, b"")
    assert (bytes(found.body), found.inferred, found.durable) == (b"", True, False)
    assert (found.id, found.correlation_id, found.reply_to, found.subject) == (None, None, None, None)
    assert not found.properties


def test_ids_of_pika_that_are_uuids(channel: BlockingChannel, connection: BlockingConnection) -> None:
    found = to_proton(channel, connection, message_id=f"urn:uuid:{ID}", correlation_id="42")
    assert (found.id, found.correlation_id) == (ID, "42")


def test_headers_of_pika(channel: BlockingChannel, connection: BlockingConnection) -> None:
    headers = {
        "text": "a text",
        "bool": True,
        "small": 5,
        "large": 2**40,
        "negative": -7,
        "time": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        "none": None,
        "x-own": "annotation",
    }
    found = to_proton(channel, connection, headers=headers)
    properties = dict(found.properties)
    assert properties.pop("time") in {timestamp(1700000000000), 1700000000}
    assert properties == {
        "text": "a text",
        "bool": True,
        "small": 5,
        "large": 2**40,
        "negative": -7,
        "none": None,
    }
    assert isinstance(found.properties["bool"], bool)
    assert found.annotations[symbol("x-own")] == "annotation"


def test_headers_of_pika_that_have_no_simple_form(channel: BlockingChannel, connection: BlockingConnection) -> None:
    """Application properties are simple (3.2.5): the rest of the message comes all the same."""
    headers = {"table": {"a": 1}, "array": [1, 2], "decimal": Decimal("1.5"), "kept": "yes"}
    found = to_proton(channel, connection, headers=headers)
    assert found.properties["kept"] == "yes"
    assert not {"table", "array"} & set(found.properties)


def test_what_deaths_leave(channel: BlockingChannel, connection: BlockingConnection) -> None:
    """A message that pika has rejected arrives with x-opt-deaths, newest first."""
    channel.queue_declare("dead", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("alive", durable=True, arguments=arguments)
    channel.basic_publish("", "alive", b"letter")
    for method, _, _ in channel.consume("alive", inactivity_timeout=WAIT_S):
        channel.basic_reject(method.delivery_tag, requeue=False)
        break
    channel.cancel()
    (found,) = take(connection.create_receiver("/queues/dead", credit=1), 1)
    (death,) = found.annotations[symbol("x-opt-deaths")]
    assert (death["queue"], death["reason"], death["count"]) == ("alive", symbol("rejected"), ulong(1))
    keys = death["routing-keys"]
    assert (death["exchange"], list(getattr(keys, "elements", keys))) == ("", ["alive"])
    assert death["first-time"] <= death["last-time"]
    assert isinstance(death["first-time"], timestamp)
    assert found.annotations[symbol("x-first-death-queue")] == "alive"
    assert found.annotations[symbol("x-last-death-reason")] == "rejected"


# ---- to AMQP 0.9.1


def test_every_field_of_proton(channel: BlockingChannel, connection: BlockingConnection) -> None:
    message = Message(
        b"body",
        inferred=True,
        durable=True,
        priority=5,
        ttl=60.0,
        id="m1",
        correlation_id="c1",
        user_id=b"guest",
        address="/queues/q",
        subject="lost",
        reply_to="/queues/my%20queue",
        content_type=symbol("text/plain"),
        content_encoding=symbol("gzip"),
        creation_time=1700000000.0,
        group_id="app",
        annotations={symbol("x-basic-type"): "kind", symbol("x-own"): "header", symbol("other"): "lost"},
        properties={"p": "v"},
    )
    properties, body = to_pika(channel, connection, message)
    assert body == b"body"
    assert (properties.delivery_mode, properties.priority) == (2, 5)
    assert 50_000 < int(properties.expiration) <= 60_000
    assert (properties.message_id, properties.correlation_id, properties.user_id) == ("m1", "c1", "guest")
    assert (properties.reply_to, properties.type, properties.app_id) == ("my queue", "kind", "app")
    assert (properties.content_type, properties.content_encoding) == ("text/plain", "gzip")
    assert properties.timestamp == 1700000000
    assert (properties.headers["x-own"], properties.headers["p"]) == ("header", "v")
    assert not {"other", "x-exchange", "x-routing-key"} & set(properties.headers)


def test_a_bare_message_of_proton(channel: BlockingChannel, connection: BlockingConnection) -> None:
    properties, body = to_pika(channel, connection, Message(b"x", inferred=True))
    assert (body, properties.message_id, properties.correlation_id) == (b"x", None, None)
    assert properties.delivery_mode in {None, 1}


@pytest.mark.parametrize(
    ("given", "field", "header"),
    [
        (ID, f"urn:uuid:{ID}", None),
        (ulong(2**64 - 1), str(2**64 - 1), None),
        (b"\x00\xff", None, b"\x00\xff"),
        ("i" * 255, "i" * 255, None),
        ("i" * 256, None, "i" * 256),
    ],
)
def test_ids_of_proton(
    channel: BlockingChannel, connection: BlockingConnection, given: Any, field: str | None, header: Any
) -> None:
    message = Message(b"x", inferred=True, id=given, correlation_id=given)
    properties, _ = to_pika(channel, connection, message)
    assert (properties.message_id, properties.correlation_id) == (field, field)
    headers = properties.headers or {}
    assert (headers.get("x-message-id"), headers.get("x-correlation-id")) == (header, header)


def test_application_properties_of_proton(channel: BlockingChannel, connection: BlockingConnection) -> None:
    """All but float and double, which pika reads as whole numbers."""
    sent = {
        "bool": True,
        "ubyte": ubyte(255),
        "ushort": ushort(65535),
        "uint": uint(2**32 - 1),
        "ulong": ulong(2**63 - 1),
        "byte": byte(-128),
        "short": short(-5),
        "int": int32(-6),
        "long": -(2**63),
        "string": "text",
        "symbol": symbol("a.symbol"),
        "binary": b"octets",
        "uuid": ID,
        "null": None,
        "char": char("c"),
        "time": timestamp(1700000000999),
    }
    properties, _ = to_pika(channel, connection, Message(b"x", inferred=True, properties=sent))
    found = dict(properties.headers)
    assert found.pop("uuid") in {str(ID), f"urn:uuid:{ID}"}
    binary = found.pop("binary")
    assert binary in {"octets", b"octets"}
    assert found == {
        "bool": True,
        "ubyte": 255,
        "ushort": 65535,
        "uint": 2**32 - 1,
        "ulong": 2**63 - 1,
        "byte": -128,
        "short": -5,
        "int": -6,
        "long": -(2**63),
        "string": "text",
        "symbol": "a.symbol",
        "null": None,
        "char": "c",
        "time": 1700000000,
    }


def test_a_body_of_proton_that_is_no_data(channel: BlockingChannel, connection: BlockingConnection) -> None:
    """Text is text; other values become their own octets, marked `amqp-1.0`."""
    properties, body = to_pika(channel, connection, Message("text"))
    assert (properties.type, body) == (None, b"text")
    properties, body = to_pika(channel, connection, Message({"a": uint(5)}))
    assert (properties.type, body[:3]) == ("amqp-1.0", b"\x00\x53\x77")
    properties, body = to_pika(channel, connection, Message([int32(1)], inferred=True))
    assert (properties.type, body[:3]) == ("amqp-1.0", b"\x00\x53\x76")


def test_sections_of_a_body_come_back(channel: BlockingChannel, connection: BlockingConnection) -> None:
    again = to_proton(channel, connection, b"\x00\x53\x77\x52\x05", type="amqp-1.0")
    assert (again.body, again.inferred) == (uint(5), False)


def test_ten_megabytes_both_ways(channel: BlockingChannel, connection: BlockingConnection) -> None:
    body = bytes(range(250)) * 40_000
    assert bytes(to_proton(channel, connection, body).body) == body
    assert to_pika(channel, connection, Message(body, inferred=True))[1] == body
