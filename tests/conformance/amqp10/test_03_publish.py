"""Links by which clients publish: targets, credit, transfers in pieces, and the outcomes that publishers hear."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.amqp10.raw import (
    ACCEPTED,
    ATTACH,
    DETACH,
    DISPOSITION,
    FLOW,
    REJECTED,
    RELEASED,
    SENDER,
    VALUE,
    Described,
    Raw,
    Uint,
    attach,
    begun,
    body_of,
    encode,
    flow,
    message,
    performative,
    publisher,
    source,
    transfer,
)

QUEUE = "$queue/q"
NOWHERE = "/exchanges/amq.direct/nobody"


def bodies(broker: AnyBroker, count: int) -> list[Any]:
    """The bodies of so many messages of the queue."""
    raw = begun(broker)
    raw.consumer(QUEUE, credit=count)
    return [body_of(raw.delivery()[1]) for _ in range(count)]


def test_an_attach_is_answered_with_both_ends_and_credit(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.send(publisher("/exchanges/amq.topic/a", 3))
    fields = raw.expect(ATTACH)
    assert fields[:3] == ["publisher", 3, True]
    assert fields[5] is not None
    assert fields[6].value[0] == "/exchanges/amq.topic/a"
    assert fields[10] > 0, "the longest message is announced"
    granted = raw.flow(3)
    assert (granted[5], granted[6] > 0) == (0, True)
    assert granted[0] == 0, "next-incoming-id is always set"


def test_messages_are_accepted_by_ranges_once_they_are_on_disk(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(*[transfer(each, message(b"%d" % each)) for each in range(5)])
    assert raw.outcome() == (0, 4, ACCEPTED)
    assert bodies(broker, 5) == [b"0", b"1", b"2", b"3", b"4"]


def test_the_credit_is_topped_up_before_it_ends(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.send(publisher("/exchanges/amq.topic/a"))
    raw.expect(ATTACH)
    credit = raw.flow(0)[6]
    raw.send(*[transfer(each, message(), settled=True) for each in range(credit)])
    again = raw.flow(0)
    assert again[5] + again[6] > credit


def test_no_more_messages_than_the_credit(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher("/exchanges/amq.topic/a")
    raw.send(publisher("/exchanges/amq.topic/b", 1, name="other"))
    raw.expect(ATTACH)
    raw.flow(1)
    raw.send(performative(0, DETACH, Uint(1), True))
    assert raw.expect(DETACH)[1] is True
    raw.send(transfer(0, message(), handle=0))
    assert raw.outcome()[2] == RELEASED


def test_what_nobody_gets_is_released(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher(NOWHERE)
    raw.send(transfer(0, message()), transfer(1, message(), settled=True), transfer(2, message()))
    assert raw.outcome() == (0, 0, RELEASED)
    assert raw.outcome() == (2, 2, RELEASED), "and of what was settled nothing is heard"


@pytest.mark.parametrize(
    ("to", "condition"),
    [
        (None, "amqp:precondition-failed"),
        ("", "amqp:precondition-failed"),
        ("/queues/", "amqp:invalid-field"),
        ("/queues/%zz", "amqp:invalid-field"),
        ("/exchanges/none/key", "amqp:not-found"),
        ("/exchanges/amq.default/q", "amqp:invalid-field"),
    ],
)
def test_messages_without_an_address_are_rejected_by_name(broker: AnyBroker, to: str | None, condition: str) -> None:
    raw = begun(broker)
    raw.publisher(None)
    raw.send(transfer(0, message(to=to) if to is not None else message()))
    fields = raw.expect(DISPOSITION)
    assert fields[4].code == REJECTED
    assert fields[4].value[0].value[0] == condition
    raw.send(transfer(1, message(b"found", to=QUEUE)))
    assert raw.outcome() == (1, 1, ACCEPTED)
    raw.send(transfer(2, message(to=to) if to is not None else message(), settled=True))
    assert raw.error(DETACH)[0] == condition, "who is sure that a message is gone hears it by the end of the link"


def test_a_message_in_pieces(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher(QUEUE)
    payload = message(b"x" * 1000)
    for octet in payload[:-1]:
        raw.send(transfer(0, bytes([octet]), more=True))
    raw.send(transfer(0, payload[-1:]))
    assert raw.outcome() == (0, 0, ACCEPTED)
    assert bodies(broker, 1) == [b"x" * 1000]


def test_pieces_of_two_links_may_be_mixed(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher(QUEUE, 0)
    raw.publisher(QUEUE, 1)
    first, second = message(b"first"), message(b"second")
    raw.send(transfer(0, first[:3], 0, more=True), transfer(1, second[:4], 1, more=True))
    raw.send(transfer(0, first[3:], 0), transfer(1, second[4:], 1))
    assert raw.outcome() == (0, 1, ACCEPTED)
    assert bodies(broker, 2) == [b"first", b"second"]


def test_an_aborted_message_is_not_published(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(transfer(0, message(b"never")[:5], more=True), transfer(0, b"", aborted=True))
    raw.send(transfer(1, message(b"published")))
    assert raw.outcome() == (1, 1, ACCEPTED)
    assert bodies(broker, 1) == [b"published"]


def test_another_id_in_the_middle_of_a_message_ends_the_link(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(transfer(0, message()[:5], more=True), transfer(1, message()[5:]))
    assert raw.error(DETACH)[0] == "amqp:invalid-field"
    raw.send(transfer(2, message()))  # on its way: not looked at
    raw.send(performative(0, DETACH, Uint(0), True))
    raw.publisher(QUEUE)


def test_a_message_that_is_too_long_ends_the_link_as_soon_as_that_is_clear(start_broker: Any) -> None:
    raw = begun(start_broker(message_octets_max=100_000))
    raw.send(publisher(QUEUE))
    assert raw.expect(ATTACH)[10] == 100_000
    raw.flow(0)
    for _ in range(2):
        raw.send(transfer(0, b"x" * 60_000, more=True))
    assert raw.error(DETACH)[0] == "amqp:link:message-size-exceeded"


@pytest.mark.parametrize(
    "payload",
    [
        b"no sections",
        encode(Described(VALUE, 1)) + encode(Described(VALUE, 2)),
        encode(Described(0x75, b"data")) + encode(Described(0x73, [])),
        encode(Described(0x73, ["too", b"late", 7])),
        encode(Described(0x74, {1: 2})),
        b"\x00\x53\x75\xb0\xff\xff\xff\xff",
    ],
)
def test_what_is_no_message_is_rejected_alone(broker: AnyBroker, payload: bytes) -> None:
    raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(transfer(0, payload), transfer(1, message(b"good")))
    fields = raw.expect(DISPOSITION)
    assert (fields[1], fields[4].code) == (0, REJECTED)
    assert fields[4].value[0].value[0] == "amqp:decode-error"
    assert raw.outcome() == (1, 1, ACCEPTED)
    assert bodies(broker, 1) == [b"good"]


def test_a_full_queue_says_which_it_is(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.consumer("$queue/other")
    declare(broker, "full", {"x-max-length": 1, "x-overflow": "reject-publish"})
    raw.publisher("/queues/full")
    raw.send(transfer(0, message()), transfer(1, message()))
    fields = raw.expect(DISPOSITION)
    assert (fields[1], fields[4].code) == (1, REJECTED)
    error = fields[4].value[0].value
    assert (error[0], error[2]) == ("amqp:resource-limit-exceeded", {"queue": "full", "reason": "maxlen"})
    assert raw.outcome() == (0, 0, ACCEPTED)


def declare(broker: AnyBroker, name: str, arguments: dict[str, object]) -> None:
    from tests.conformance.amqp091 import raw as amqp091

    with amqp091.connect(broker) as other:
        fields = b"\0\0" + amqp091.short(name) + b"\x02" + amqp091.table(arguments)
        other.send(amqp091.method(1, amqp091.QUEUE_DECLARE, fields))
        other.expect(1, amqp091.QUEUE_DECLARE_OK)


@pytest.mark.parametrize(
    ("address", "condition"),
    [
        ("/queues/none", "amqp:not-found"),
        ("/exchanges/none", "amqp:not-found"),
        ("/exchanges//key", "amqp:invalid-field"),
        ("/queue/q", "amqp:invalid-field"),
        ("$queue/", "amqp:invalid-field"),
    ],
)
def test_targets_that_are_refused(broker: AnyBroker, address: str, condition: str) -> None:
    raw = begun(broker)
    raw.send(publisher(address))
    found, text = raw.refused(SENDER)
    assert found == condition
    assert address.rsplit("/", maxsplit=1)[-1] in text or address in text


def test_a_link_without_a_target_is_refused(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.send(attach("l", 0, SENDER, source(None), None))
    assert raw.refused(SENDER)[0] == "amqp:invalid-field"


def test_a_publisher_that_asks_hears_of_its_credit(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(flow(0, echo=True))
    fields = raw.expect(FLOW)
    assert (fields[4], fields[5]) == (0, 0)
    assert fields[6] > 0


def test_confirms_of_a_link_that_is_gone_are_dropped(broker: AnyBroker) -> None:
    raw: Raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(transfer(0, message(b"kept")), performative(0, DETACH, Uint(0), True))
    assert raw.expect(DETACH)[0] == 0
    raw.quiet_session()
    assert bodies(broker, 1) == [b"kept"]
