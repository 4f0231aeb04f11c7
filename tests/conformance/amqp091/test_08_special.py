"""What a publish may ask for by its headers and its address: copies, a delay, to be taken once, an answer."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from tests.broker_process import AnyBroker, BrokerProcess
from tests.conformance.amqp091.raw import (
    CANCEL,
    CANCEL_OK,
    CONSUME,
    DELIVER,
    GET,
    GET_EMPTY,
    GET_OK,
    NACK,
    PUBLISH,
    QUEUE_DECLARE,
    QUEUE_DECLARE_OK,
    RETURN,
    Raw,
    connect,
    long,
    method,
    number,
    publish,
    short,
    table,
)
from tests.waiting import until

WAIT_S = 20
REPLY_QUEUE = "amq.rabbitmq.reply-to"
NO_ACK = 2


def headers(fields: bytes) -> bytes:
    """Properties of this header table only."""
    return b"\x20\0" + long(fields)


def array(*values: bytes) -> bytes:
    return b"A" + long(b"".join(values))


def text(value: str) -> bytes:
    return b"S" + long(value)


def get(raw: Raw, queue: str, channel: int = 1) -> tuple[bytes, bytes] | None:
    """Properties and body of the next message, taken; None where there is none."""
    raw.send(method(channel, GET, b"\0\0" + short(queue) + b"\1"))
    kind, where, payload = raw.frame()
    assert (kind, where) == (1, channel)
    found = payload[1], payload[3]
    if found == GET_EMPTY:
        return None
    assert found == GET_OK, payload
    properties, body, _ = raw.content(channel)
    return properties, body


def wait_for(broker: AnyBroker, raw: Raw, queue: str, channel: int = 1) -> tuple[bytes, bytes]:
    found = until(lambda: get(raw, queue, channel), f"a message in {queue}", meanwhile=broker.pass_moment)
    assert found is not None
    return found


# ---- CC and BCC


def test_copies_go_to_the_queues_of_all_keys_and_once_to_each(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        for queue in ("a", "b", "c", "d"):
            raw.declare(queue)
        raw.confirm()
        cc = short("CC") + array(text("b"), text("a"), b"I\0\0\0\5", text("none"))
        bcc = short("BCC") + array(text("c"))
        raw.send(publish(1, "a", b"x", properties=headers(cc + bcc)))
        raw.confirmed(1)
        assert [raw.count(queue)[0] for queue in ("a", "b", "c", "d")] == [1, 1, 1, 0]
        for queue in ("a", "b", "c"):
            assert get(raw, queue) == (headers(cc), b"x")  # BCC is nobody's business, CC stays octet by octet


def test_a_copy_may_be_what_gives_a_message_a_route(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("b")
        raw.confirm()
        properties = headers(short("BCC") + array(text("b")))
        raw.send(publish(1, "none", b"x", properties=properties, mandatory=True))
        raw.confirmed(1)
        assert get(raw, "b") == (headers(b""), b"x")
        raw.send(publish(1, "none", b"y", properties=headers(short("CC") + array(text("nor"))), mandatory=True))
        assert raw.expect(1, RETURN).startswith(number(312, 2))


def test_copies_through_topic_and_headers_exchanges(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        for queue, exchange, key, arguments in (
            ("ta", "amq.topic", "a.#", {}),
            ("tb", "amq.topic", "b.#", {}),
            ("h", "amq.headers", "", {"kind": "k", "x-match": "all"}),
        ):
            raw.declare(queue)
            raw.send(
                method(1, (50, 20), b"\0\0" + short(queue) + short(exchange) + short(key) + b"\0" + table(arguments))
            )
            raw.expect(1, (50, 21))
        raw.confirm()
        fields = short("CC") + array(text("b.2")) + short("kind") + text("k")
        raw.send(publish(1, "a.1", b"x", "amq.topic", headers(fields)))
        raw.send(publish(1, "a.1", b"y", "amq.headers", headers(fields)))
        raw.confirmed(2)
        assert [raw.count(queue)[0] for queue in ("ta", "tb", "h")] == [1, 1, 1]


@pytest.mark.parametrize("name", ["CC", "BCC"])
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (text("b"), "longstr"),
        (b"I\0\0\0\1", "signedint"),
        (b"V", "void"),
        (b"t\1", "bool"),
        (b"F" + long(b""), "table"),
    ],
)
def test_copies_that_are_no_list(broker: AnyBroker, name: str, value: bytes, kind: str) -> None:
    with connect(broker) as raw:
        raw.send(publish(1, "a", b"x", properties=headers(short(name) + value)))
        wrong = f'{{unacceptable_type_in_header,"{name}",{kind}}}'
        raw.channel_closed(406, f"PRECONDITION_FAILED - invalid message: {wrong}", cause=PUBLISH)


# ---- delays


def test_a_delayed_message_comes_when_its_time_has_come(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.confirm()
        began = broker.now()
        raw.send(publish(1, "q", b"late", properties=headers(short("x-delay") + b"I" + number(700, 4)), mandatory=True))
        raw.send(publish(1, "q", b"now", properties=headers(short("x-delay") + b"I\xff\xff\xff\xfb")))
        raw.confirmed(2)
        assert wait_for(broker, raw, "q") == (headers(short("x-delay") + b"I\xff\xff\xff\xfb"), b"now")
        properties, body = wait_for(broker, raw, "q")
        assert broker.now() - began >= 0.7
        assert (properties, body) == (
            headers(short("x-delay") + b"I" + (-700).to_bytes(4, "big", signed=True)),
            b"late",
        )


def test_a_delayed_message_survives_a_kill_and_keeps_exchange_key_and_copies(
    start_process: Callable[..., BrokerProcess],
) -> None:
    broker = start_process()
    fields = short("x-delay") + b"l" + number(1500, 8) + short("BCC") + array(text("copy"))
    with connect(broker) as raw:
        raw.declare("q")
        raw.declare("copy")
        for key in ("k", "copy"):
            queue = "q" if key == "k" else "copy"
            raw.send(method(1, (50, 20), b"\0\0" + short(queue) + short("amq.direct") + short(key) + b"\0" + table()))
            raw.expect(1, (50, 21))
        raw.confirm()
        raw.send(publish(1, "k", b"x", "amq.direct", headers(fields)))
        raw.confirmed(1)
    broker.kill9()
    broker.start()
    with connect(broker) as raw:
        for queue in ("q", "copy"):
            properties, body = wait_for(broker, raw, queue)
            assert body == b"x"
            assert b"BCC" not in properties
            assert b"x-delay" in properties
            assert raw.count(queue)[0] == 0


def test_a_delayed_message_can_be_cancelled_by_its_name(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.confirm()
        fields = short("x-delay") + b"I" + number(600, 4)
        raw.send(publish(1, "q", b"never", properties=headers(fields + short("x-delay-id") + text("one"))))
        raw.send(publish(1, "q", b"comes", properties=headers(fields + short("x-delay-id") + text("two"))))
        raw.confirmed(2)
        raw.send(publish(1, "$delayed/cancel/one", b"", mandatory=True))
        raw.confirmed(3)
        assert wait_for(broker, raw, "q")[1] == b"comes"
        raw.send(publish(1, "$delayed/cancel/one", b"", mandatory=True))  # nothing waits under that name
        assert raw.expect(1, RETURN).startswith(number(312, 2))
        raw.content(1)
        raw.confirmed(4)
        assert get(raw, "q") is None


@pytest.mark.parametrize("value", [text("soon"), b"t\1", b"V", array(), b"l" + number(1 << 60, 8)])
def test_delays_that_are_none(broker: AnyBroker, value: bytes) -> None:
    with connect(broker) as raw:
        raw.send(publish(1, "q", b"x", properties=headers(short("x-delay") + value)))
        args = raw.expect(1, (20, 40))
        assert args[:2] == number(406, 2)
        assert args[3:].startswith(b"PRECONDITION_FAILED - invalid x-delay header: ")


def test_more_delayed_messages_than_the_option_allows_are_refused(start_broker: Callable[..., AnyBroker]) -> None:
    broker = start_broker(mqtt_delayed_max=1)
    with connect(broker) as raw:
        raw.confirm()
        fields = short("x-delay") + b"I" + number(60_000, 4)
        raw.send(publish(1, "q", b"a", properties=headers(fields)))
        raw.confirmed(1)
        raw.send(publish(1, "q", b"b", properties=headers(fields)))
        assert raw.expect(1, NACK) == number(2, 8) + b"\0"


# ---- taken once


def once(producer: str, sequence: int) -> bytes:
    return headers(short("x-producer-id") + text(producer) + short("x-sequence") + b"l" + number(sequence, 8))


def key_of(value: str) -> bytes:
    return headers(short("x-deduplication-key") + text(value))


def test_duplicates_are_confirmed_and_not_taken(start_process: Callable[..., BrokerProcess]) -> None:
    broker = start_process()
    with connect(broker) as raw:
        raw.declare("q")
        raw.confirm()
        sent = [once("p", 5), once("p", 5), once("p", 3), once("p", 9), once("r", 5), key_of("k"), key_of("k")]
        raw.send(*[publish(1, "q", b"%d" % at, properties=each) for at, each in enumerate(sent)])
        raw.confirmed(len(sent))
    broker.kill9()
    broker.start()
    with connect(broker) as raw:
        raw.confirm()
        raw.send(*[publish(1, "q", b"again", properties=each) for each in sent])
        raw.send(publish(1, "q", b"new", properties=once("p", 10)))
        raw.confirmed(len(sent) + 1)
        bodies = []
        while (found := get(raw, "q")) is not None:
            bodies.append(found[1])
        assert bodies == [b"0", b"3", b"4", b"5", b"new"]


def test_what_was_not_taken_may_come_again_and_addresses_are_apart(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.confirm()
        raw.send(publish(1, "later", b"lost", properties=once("p", 1)))
        raw.confirmed(1)
        raw.declare("later")
        raw.send(publish(1, "later", b"found", properties=once("p", 1)))
        raw.send(publish(1, "q", b"elsewhere", properties=once("p", 1)))
        raw.confirmed(3)
        assert (raw.count("later")[0], raw.count("q")[0]) == (1, 1)


def test_a_window_ends(start_broker: Callable[..., AnyBroker]) -> None:
    broker = start_broker(deduplication_window_ms=300, deduplication_keys_max=2)
    with connect(broker) as raw:
        raw.declare("q")
        raw.confirm()
        raw.send(*[publish(1, "q", b"x", properties=key_of(name)) for name in "abc"])
        raw.confirmed(3)
        raw.send(publish(1, "q", b"x", properties=key_of("c")), publish(1, "q", b"x", properties=key_of("a")))
        raw.confirmed(5)
        assert raw.count("q")[0] == 4  # a gave way to c
        tags = count(6)

        def is_taken() -> bool:
            raw.send(publish(1, "q", b"x", properties=key_of("a")))
            raw.confirmed(next(tags))
            return raw.count("q")[0] == 5

        until(is_taken, "the end of the window", meanwhile=broker.pass_moment)


@pytest.mark.parametrize(
    "fields",
    [
        short("x-producer-id") + text("p"),
        short("x-sequence") + b"I\0\0\0\1",
        short("x-producer-id") + text("p") + short("x-sequence") + text("one"),
        short("x-producer-id") + text("p") + short("x-sequence") + b"I\xff\xff\xff\xff",
        short("x-producer-id") + text("") + short("x-sequence") + b"I\0\0\0\1",
        short("x-deduplication-key") + b"I\0\0\0\1",
        short("x-deduplication-key") + text("k" * 256),
    ],
)
def test_names_and_numbers_that_are_none(broker: AnyBroker, fields: bytes) -> None:
    with connect(broker) as raw:
        raw.send(publish(1, "q", b"x", properties=headers(fields)))
        args = raw.expect(1, (20, 40))
        assert args[:2] == number(406, 2)


# ---- answers


def consume_answers(raw: Raw, channel: int = 1, tag: str = "answers") -> None:
    raw.consume(REPLY_QUEUE, tag, NO_ACK, channel=channel)


def reply_name(broker: AnyBroker, raw: Raw, channel: int = 1) -> str:
    """The name that a request of this channel carries."""
    raw.declare("requests", channel=channel)
    raw.send(publish(channel, "requests", b"?", properties=b"\x02\0" + short(REPLY_QUEUE)))
    properties, body = wait_for(broker, raw, "requests", channel)
    assert body == b"?"
    assert properties[:2] == b"\x02\0"
    name = properties[3:].decode()
    assert name.startswith(REPLY_QUEUE + ".g1")
    assert short(name) == properties[2:]
    return name


def test_an_answer_comes_to_whoever_asked(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw, connect(broker) as server:
        consume_answers(raw)
        name = reply_name(broker, raw)
        server.confirm()
        server.send(publish(1, name, b"!", properties=b"\x04\0" + short("id"), mandatory=True))
        server.confirmed(1)
        args = raw.expect(1, DELIVER)
        assert args == short("answers") + args[8:16] + b"\0" + short("") + short(name)
        assert raw.content(1)[:2] == (b"\x04\0" + short("id"), b"!")
        server.send(method(1, QUEUE_DECLARE, b"\0\0" + short(name) + b"\x01" + table()))
        assert server.expect(1, QUEUE_DECLARE_OK) == short(name) + number(0, 4) + number(1, 4)


@pytest.mark.parametrize("end", ["cancel", "channel", "connection"])
def test_an_answer_for_nobody_has_no_route(broker: AnyBroker, end: str) -> None:
    with connect(broker) as raw, connect(broker) as server:
        consume_answers(raw)
        name = reply_name(broker, raw)
        if end == "cancel":
            raw.send(method(1, CANCEL, short("answers") + b"\0"))
            raw.expect(1, CANCEL_OK)
        elif end == "channel":
            raw.send(method(1, (20, 40), b"\0\0\0\0\0\0\0"))
            raw.expect(1, (20, 41))
        else:
            raw.socket.close()
        server.confirm()
        tags = count(1)

        def is_returned() -> bool:
            tag = next(tags)
            server.send(publish(1, name, b"!", mandatory=True))
            kind, where, payload = server.frame()
            assert (kind, where) == (1, 1)
            if (payload[1], payload[3]) != RETURN:
                return False
            server.content(1)
            server.confirmed(tag)
            return True

        until(is_returned, "the end of a name that is nobody's any more", meanwhile=broker.pass_moment)
        server.send(method(1, QUEUE_DECLARE, b"\0\0" + short(name) + b"\x01" + table()))
        server.channel_closed(404, f"NOT_FOUND - no queue '{name}' in vhost '/'")


def test_who_may_have_answers(broker: AnyBroker) -> None:
    with connect(broker, 3) as raw:
        raw.send(publish(1, "q", b"?", properties=b"\x02\0" + short(REPLY_QUEUE)))
        raw.channel_closed(406, "PRECONDITION_FAILED - fast reply consumer does not exist", cause=PUBLISH)
        raw.send(method(2, CONSUME, b"\0\0" + short(REPLY_QUEUE) + short("t") + b"\0" + table()))
        raw.channel_closed(406, "PRECONDITION_FAILED - reply consumer cannot acknowledge", 2, cause=CONSUME)
        consume_answers(raw, 3, "one")
        raw.send(method(3, CONSUME, b"\0\0" + short(REPLY_QUEUE) + short("two") + b"\2" + table()))
        raw.channel_closed(406, "PRECONDITION_FAILED - reply consumer already set", 3, cause=CONSUME)
        raw.open_channel()
        consume_answers(raw, 1)  # after the channel that had one has ended


def test_a_name_ends_with_its_consumer_for_the_same_request_too(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        consume_answers(raw)
        first = reply_name(broker, raw)
        raw.send(method(1, CANCEL, short("answers") + b"\0"))
        raw.expect(1, CANCEL_OK)
        consume_answers(raw)
        assert reply_name(broker, raw) != first
        raw.send(method(1, CANCEL, short("answers") + b"\0"))
        raw.expect(1, CANCEL_OK)
        raw.send(publish(1, "requests", b"?", properties=b"\x02\0" + short(REPLY_QUEUE)))
        raw.channel_closed(406, "PRECONDITION_FAILED - fast reply consumer does not exist", cause=PUBLISH)


@pytest.mark.parametrize("bits", [1, 2])
def test_a_name_that_is_nobodys_cannot_be_declared(broker: AnyBroker, bits: int) -> None:
    with connect(broker) as raw:
        name = REPLY_QUEUE + ".g1.garbage"
        raw.send(method(1, QUEUE_DECLARE, b"\0\0" + short(name) + number(bits, 1) + table()))
        raw.channel_closed(404, f"NOT_FOUND - no queue '{name}' in vhost '/'", cause=QUEUE_DECLARE)


def test_each_consumer_of_answers_has_a_name_of_its_own(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw, connect(broker) as server:
        consume_answers(raw, 1)
        consume_answers(raw, 2)
        names = [reply_name(broker, raw, channel) for channel in (1, 2)]
        assert names[0] != names[1]
        server.send(publish(1, names[1], b"second"))
        raw.expect(2, DELIVER)
        assert raw.content(2)[1] == b"second"
        raw.sync()
