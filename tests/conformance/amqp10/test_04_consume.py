"""Links by which clients consume: credit, drain, and what outcomes do to a message."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.amqp10.raw import (
    ACCEPTED,
    ANNOTATIONS,
    ATTACH,
    DETACH,
    DISPOSITION,
    HEADER,
    MODIFIED,
    PROPERTIES,
    RECEIVER,
    REJECTED,
    RELEASED,
    SENDER,
    Described,
    Raw,
    Symbol,
    Uint,
    Ulong,
    attach,
    begun,
    body_of,
    consumer,
    disposition,
    flow,
    message,
    performative,
    source,
    target,
    transfer,
)
from tests.conformance.amqp10.test_03_publish import declare

QUEUE = "$queue/q"


def fill(raw: Raw, count: int, address: str = QUEUE) -> None:
    """Put messages into a queue, by a link that is closed again."""
    raw.publisher(address, 9)
    raw.send(*[transfer(each, message(b"%d" % each), 9) for each in range(count)])
    last = -1
    while last < count - 1:
        last = raw.outcome()[1]
    raw.send(performative(0, DETACH, Uint(9), True))
    raw.expect(DETACH)


def taken(raw: Raw, count: int) -> list[Any]:
    return [body_of(raw.delivery()[1]) for _ in range(count)]


def test_an_attach_is_answered_with_what_is_in_force(broker: AnyBroker) -> None:
    raw = begun(broker)
    fields = raw.consumer(QUEUE)
    assert (fields[2], fields[3], fields[9]) == (False, 0, 0)
    found = fields[5].value + [None] * 11
    assert found[0] == QUEUE
    assert found[8].code == RELEASED
    assert set(found[9]) == {f"amqp:{each}:list" for each in ("accepted", "rejected", "released", "modified")}
    assert fields[6] is not None


def test_nothing_is_sent_without_credit_and_never_more(broker: AnyBroker) -> None:
    raw = begun(broker)
    fill(raw, 10)
    raw.consumer(QUEUE)
    raw.quiet_session()
    raw.send(flow(1, 3))
    assert taken(raw, 3) == [b"0", b"1", b"2"]
    raw.quiet_session()
    raw.send(disposition(0, 2))  # settling gives no credit
    raw.quiet_session()
    raw.send(flow(1, 2, count=3))
    assert taken(raw, 2) == [b"3", b"4"]
    raw.send(flow(1, 5, count=3))  # which the client has sent before it had seen them all
    assert taken(raw, 3) == [b"5", b"6", b"7"]
    raw.quiet_session()


def test_the_first_flow_may_come_before_anything_was_seen(broker: AnyBroker) -> None:
    raw = begun(broker)
    fill(raw, 1)
    raw.send(consumer(QUEUE), flow(1, 1, next_incoming=None))
    raw.expect(ATTACH)
    assert taken(raw, 1) == [b"0"]


def test_ids_and_tags(broker: AnyBroker) -> None:
    raw = begun(broker)
    fill(raw, 3)
    raw.consumer(QUEUE, 1, credit=1)
    raw.consumer(QUEUE, 2, credit=2)
    found = [raw.delivery()[0] for _ in range(3)]
    assert [each[1] for each in found] == [0, 1, 2], "consecutive over all links of the session"
    assert len({each[2] for each in found}) == 3
    assert [each[3] for each in found] == [0, 0, 0]
    assert sorted(each[0] for each in found) == [1, 2, 2]


def test_drain_gives_what_there_is_and_ends_the_credit(broker: AnyBroker) -> None:
    raw = begun(broker)
    fill(raw, 2)
    raw.consumer(QUEUE)
    raw.send(flow(1, 10, drain=True))
    assert taken(raw, 2) == [b"0", b"1"]
    fields = raw.flow(1)
    assert (fields[5], fields[6], fields[8]) == (10, 0, True)
    raw.send(flow(1, 0, count=10, drain=True))
    assert raw.flow(1)[5:7] == [10, 0], "also where there is no credit"
    fill_more = begun(broker)
    fill(fill_more, 1)
    raw.quiet_session()
    raw.send(flow(1, 1, count=10))
    assert taken(raw, 1) == [b"0"]


def test_an_echo_says_how_the_link_stands(broker: AnyBroker) -> None:
    raw = begun(broker)
    fill(raw, 5)
    raw.consumer(QUEUE)
    raw.send(flow(1, 2, echo=True))
    assert taken(raw, 2) == [b"0", b"1"]
    fields = raw.flow(1)
    assert (fields[5], fields[6], fields[7]) == (2, 0, 3)
    assert not fields[9], "an answer asks for none"


def test_a_lower_credit_holds(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.consumer(QUEUE, credit=10)
    raw.send(flow(1, 0))
    other = begun(broker)
    fill(other, 3)
    raw.quiet_session()
    raw.send(flow(1, 1))
    assert taken(raw, 1) == [b"0"]


@pytest.mark.parametrize("settled", [True, False])
def test_outcomes(broker: AnyBroker, settled: bool) -> None:
    declare(broker, "dead", {})
    dead: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    declare(broker, "jobs", {"x-queue-type": "quorum", **dead})
    raw = begun(broker)
    fill(raw, 5, "/queues/jobs")
    raw.consumer("/queues/jobs", credit=5)
    assert len(taken(raw, 5)) == 5
    states = [
        Described(ACCEPTED, []),
        Described(REJECTED, []),
        Described(RELEASED, []),
        Described(MODIFIED, [True]),
        Described(MODIFIED, [None, True]),
    ]
    for number, state in enumerate(states):
        raw.send(disposition(number, state=state, settled=settled))
        if not settled:
            fields = raw.expect(DISPOSITION)
            assert fields[:4] == [False, number, None, True]
            assert fields[4].code == state.code
    raw.send(flow(1, 5, count=5))
    again = [raw.delivery()[1] for _ in range(2)]
    assert [body_of(each) for each in again] == [b"2", b"3"]
    heads = [each[0].value + [None] * 5 for each in again if each[0].code == HEADER]
    assert [(each[3] or False, each[4] or 0) for each in heads[-1:]] == [(False, 1)], "the failed one counts"
    raw.consumer("/queues/dead", 2, credit=5)
    assert taken(raw, 2) == [b"1", b"4"]
    raw.quiet_session()


def test_what_is_undeliverable_is_not_lost_where_no_dead_letters_are_kept(broker: AnyBroker) -> None:
    declare(broker, "plain", {})
    raw = begun(broker)
    fill(raw, 1, "/queues/plain")
    raw.consumer("/queues/plain", credit=2)
    taken(raw, 1)
    raw.send(disposition(0, state=Described(MODIFIED, [None, True])))
    raw.quiet_session()
    raw.consumer("/queues/plain", 2, credit=2)
    assert taken(raw, 1) == [b"0"]


def test_ranges_cost_what_is_open_and_not_their_width(broker: AnyBroker) -> None:
    raw = begun(broker)
    fill(raw, 4)
    raw.consumer(QUEUE, credit=4)
    taken(raw, 4)
    raw.send(disposition(1))
    raw.send(disposition(0, 2**32 - 1, Described(RELEASED, [])))
    raw.send(flow(1, 4, count=4))
    assert taken(raw, 3) == [b"0", b"2", b"3"]


def test_settled_without_an_outcome_is_the_default_one(broker: AnyBroker) -> None:
    raw = begun(broker)
    fill(raw, 1)
    raw.consumer(QUEUE, credit=1)
    taken(raw, 1)
    raw.send(performative(0, DISPOSITION, True, Uint(0), None, True))
    raw.send(flow(1, 1, count=1))
    assert taken(raw, 1) == [b"0"]


def test_what_is_received_only_is_still_out(broker: AnyBroker) -> None:
    raw = begun(broker)
    fill(raw, 1)
    raw.consumer(QUEUE, credit=2)
    taken(raw, 1)
    raw.send(disposition(0, state=Described(0x23, [Uint(0), Ulong(0)]), settled=False))
    raw.quiet_session()


def test_deliveries_that_are_sent_settled(broker: AnyBroker) -> None:
    raw = begun(broker)
    fill(raw, 3)
    assert raw.consumer(QUEUE, credit=3, settled=1)[3] == 1
    found = [raw.delivery() for _ in range(3)]
    assert [each[0][4] for each in found] == [True] * 3
    raw.send(performative(0, DETACH, Uint(1), True))
    raw.expect(DETACH)
    raw.consumer(QUEUE, 2, credit=3)
    raw.quiet_session()


def test_detach_gives_back_and_is_answered_in_kind(broker: AnyBroker) -> None:
    raw = begun(broker)
    fill(raw, 3)
    for closed in (True, False):
        raw.consumer(QUEUE, credit=3)
        assert taken(raw, 3) == [b"0", b"1", b"2"]
        raw.send(performative(0, DETACH, Uint(1), closed))
        assert bool(raw.expect(DETACH)[1]) is closed
        raw.quiet_session()


def test_a_connection_that_is_lost_gives_back(broker: AnyBroker) -> None:
    raw = begun(broker)
    fill(raw, 3)
    raw.consumer(QUEUE, credit=3)
    taken(raw, 3)
    raw.socket.close()
    other = begun(broker)
    other.consumer(QUEUE, credit=3)
    assert taken(other, 3) == [b"0", b"1", b"2"]


def test_the_bare_message_is_what_was_sent(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher(QUEUE, 9)
    raw.send(transfer(0, message(b"body", message_id="id", to=QUEUE, subject="s", correlation_id=b"c"), 9))
    raw.outcome()
    raw.consumer(QUEUE, credit=1)
    found = {each.code: each.value for each in raw.delivery()[1]}
    assert found[PROPERTIES] == ["id", None, QUEUE, "s", None, b"c"]
    assert found[ANNOTATIONS]["x-exchange"] == ""
    assert found[ANNOTATIONS]["x-routing-key"] == QUEUE


def test_a_transfer_to_a_link_that_receives_ends_it(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.consumer(QUEUE)
    raw.send(transfer(0, message(), 1))
    assert raw.error(DETACH)[0] == "amqp:not-allowed"


@pytest.mark.parametrize(
    ("address", "condition"),
    [
        ("/queues/none", "amqp:not-found"),
        ("/exchanges/amq.topic", "amqp:invalid-field"),
        ("", "amqp:invalid-field"),
    ],
)
def test_sources_that_are_refused(broker: AnyBroker, address: str, condition: str) -> None:
    raw = begun(broker)
    raw.send(consumer(address))
    assert raw.refused(RECEIVER)[0] == condition


def test_a_source_that_is_made_for_the_link_ends_with_it(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.send(attach("reply", 1, RECEIVER, source(None, None, None, None, True), target(None)))
    answered = raw.expect(ATTACH)[5].value
    address = answered[0]
    assert address.startswith("/queues/")
    assert answered[4] is True
    other = begun(broker)
    other.publisher(address)
    raw.send(flow(1, 1))
    other.send(transfer(0, message(b"answer")))
    assert taken(raw, 1) == [b"answer"]
    assert other.outcome() == (0, 0, ACCEPTED)
    other.send(consumer(address, 2))
    assert other.refused(RECEIVER)[0] == "amqp:resource-locked", "nobody else may read the answers"
    raw.send(performative(0, DETACH, Uint(1), True))
    raw.expect(DETACH)
    other.send(attach("again", 3, SENDER, source(None), target(address)))
    assert other.refused(SENDER)[0] == "amqp:not-found"


def test_a_topic(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.consumer("news/+/#", credit=5)
    raw.publisher("news/sport", 9)
    raw.publisher("/exchanges/amq.topic/news.tennis.open", 8)
    raw.send(transfer(0, message(b"1"), 9), transfer(1, message(b"2"), 8))
    assert taken(raw, 2) == [b"1", b"2"]


def test_a_stream_is_read_from_where_the_filter_says(broker: AnyBroker) -> None:
    declare(broker, "log", {"x-queue-type": "stream"})
    raw = begun(broker)
    fill(raw, 5, "/queues/log")
    spec = {Symbol("rabbitmq:stream-offset-spec"): 3, Symbol("unknown"): "x"}
    raw.send(attach("reader", 1, RECEIVER, source("/queues/log", *[None] * 6, spec), target(None)), flow(1, 9))
    assert raw.expect(ATTACH)[5].value[7] == {"rabbitmq:stream-offset-spec": 3}, "what is not in force is left out"
    found = [raw.delivery()[1] for _ in range(2)]
    assert [body_of(each) for each in found] == [b"3", b"4"]
    marks = [each.value for sections in found for each in sections if each.code == ANNOTATIONS]
    assert [each["x-stream-offset"] for each in marks] == [3, 4]


# ---- more time


def timed_consumer(raw: Raw, handle: int, timeout_ms: int, credit: int) -> None:
    asked = {Symbol("rabbitmq:consumer-timeout"): Uint(timeout_ms)}
    raw.send(attach(f"timed {handle}", handle, RECEIVER, source(QUEUE), target(None), 0, properties=asked))
    raw.expect(ATTACH)
    raw.send(flow(handle, credit))


def test_received_gives_more_time(broker: AnyBroker) -> None:
    raw = begun(broker)
    fill(raw, 3)
    timed_consumer(raw, 1, 3000, 3)
    taken(raw, 3)
    for _ in range(3):
        broker.wait_out(2)
        raw.send(disposition(0, 2**32 - 1, Described(0x23, [Uint(0), Ulong(0)]), settled=False))
        raw.quiet_session()
    raw.send(disposition(0, 1))
    raw.quiet_session()
    broker.wait_out(4)
    condition, text = raw.error(DETACH)
    assert (condition, "3000 ms" in text) == ("amqp:precondition-failed", True)


def test_received_for_deliveries_that_are_not_there(broker: AnyBroker) -> None:
    raw = begun(broker)
    fill(raw, 1)
    raw.consumer(QUEUE, credit=2)
    taken(raw, 1)
    for first, last in ((7, 9), (2**32 - 5, 2), (1, 2**31)):
        raw.send(disposition(first, last, Described(0x23, [Uint(0), Ulong(0)]), settled=False))
    raw.send(disposition(0, state=Described(RELEASED, [])))
    assert taken(raw, 1) == [b"0"]
