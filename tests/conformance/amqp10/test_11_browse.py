"""Sources with the distribution mode `copy`: a queue is read, and nothing is taken from it (3.5.3)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.amqp10.raw import (
    ATTACH,
    DETACH,
    HEADER,
    MODIFIED,
    RECEIVER,
    REJECTED,
    RELEASED,
    Described,
    Raw,
    Symbol,
    Uint,
    attach,
    begun,
    body_of,
    disposition,
    flow,
    performative,
    source,
    target,
)
from tests.conformance.amqp10.test_03_publish import declare
from tests.conformance.amqp10.test_04_consume import fill, taken

COPY = Symbol("copy")


@pytest.fixture(params=["classic", "quorum", "priorities", "ephemeral"])
def queue(broker: AnyBroker, request: pytest.FixtureRequest) -> str:
    """The address of a queue of each kind from which messages are taken."""
    kinds: dict[str, dict[str, object]] = {"quorum": {"x-queue-type": "quorum"}, "priorities": {"x-max-priority": 3}}
    if request.param == "ephemeral":
        return "$queue/jobs"
    declare(broker, "jobs", kinds.get(request.param, {}))
    return "/queues/jobs"


def browse(
    raw: Raw, address: str, handle: int = 2, settled: int = 0, credit: int = 0, filters: Any = None, **properties: Any
) -> list[Any]:
    """Attach a browser, and return the fields of the answer."""
    asked = {Symbol(name.replace("_", "-")): value for name, value in properties.items()}
    terminus = source(address, *[None] * 5, COPY, filters)
    raw.send(attach(f"browser {handle}", handle, RECEIVER, terminus, target(None), settled, properties=asked))
    fields = raw.expect(ATTACH)
    if credit:
        raw.send(flow(handle, credit))
    return fields


def test_a_browser_gets_all_in_order_and_takes_nothing(broker: AnyBroker, queue: str) -> None:
    raw = begun(broker)
    fill(raw, 3, queue)
    fields = browse(raw, queue)
    assert fields[5].value[6] == COPY
    raw.quiet_session()
    raw.send(flow(2, 10))
    assert taken(raw, 3) == [b"0", b"1", b"2"]
    raw.send(
        disposition(0), disposition(1, state=Described(REJECTED, [])), disposition(2, state=Described(RELEASED, []))
    )
    raw.quiet_session()
    raw.consumer(queue, credit=10)
    found = [raw.delivery()[1] for _ in range(3)]
    assert [body_of(each) for each in found] == [b"0", b"1", b"2"]
    heads = [each[0].value + [None] * 5 for each in found if each[0].code == HEADER]
    assert [(each[3], each[4] or 0) for each in heads] == [(True, 0)] * len(heads), "nobody has acquired them before"


def test_a_browser_waits_for_more_and_drain_tells_the_end(broker: AnyBroker, queue: str) -> None:
    raw = begun(broker)
    fill(raw, 2, queue)
    browse(raw, queue)
    raw.send(flow(2, 10, drain=True))
    assert taken(raw, 2) == [b"0", b"1"]
    fields = raw.flow(2)
    assert (fields[5], fields[6], fields[8]) == (10, 0, True)
    raw.send(flow(2, 10, count=10))
    fill(begun(broker), 1, queue)
    assert taken(raw, 1) == [b"0"]


def test_credit_holds_for_browsers(broker: AnyBroker, queue: str) -> None:
    raw = begun(broker)
    fill(raw, 5, queue)
    browse(raw, queue, credit=2)
    assert taken(raw, 2) == [b"0", b"1"]
    raw.quiet_session()
    raw.send(disposition(0, 1))
    raw.quiet_session()
    raw.send(flow(2, 2, count=2))
    assert taken(raw, 2) == [b"2", b"3"]


def test_what_others_hold_or_have_settled_is_not_shown(broker: AnyBroker, queue: str) -> None:
    raw = begun(broker)
    fill(raw, 4, queue)
    raw.consumer(queue, credit=2)
    assert taken(raw, 2) == [b"0", b"1"]
    raw.send(disposition(0))
    browse(raw, queue, 3, credit=10)
    assert taken(raw, 2) == [b"2", b"3"]
    raw.send(disposition(1, state=Described(MODIFIED, [True])))
    raw.quiet_session()
    browse(raw, queue, 4, credit=10)
    assert taken(raw, 3) == [b"1", b"2", b"3"]


def test_settled_copies(broker: AnyBroker, queue: str) -> None:
    raw = begun(broker)
    fill(raw, 2, queue)
    assert browse(raw, queue, settled=1, credit=5)[3] == 1
    assert [raw.delivery()[0][4] for _ in range(2)] == [True, True]
    raw.send(performative(0, DETACH, Uint(2), True))
    raw.expect(DETACH)
    raw.consumer(queue, credit=5)
    assert taken(raw, 2) == [b"0", b"1"]


def test_browsers_with_filters(broker: AnyBroker) -> None:
    raw = begun(broker)
    fill(raw, 3, "$queue/q/a/b")
    fill(raw, 1, "$queue/q/c")
    browse(raw, "$queue/q/a/#", credit=10)
    assert taken(raw, 3) == [b"0", b"1", b"2"]
    browse(raw, "$queue/q", 3, credit=10, x_filter="offset > 1")
    assert taken(raw, 2) == [b"2", b"0"]
    raw.quiet_session()


def test_the_messages_of_a_group(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.consumer("$queue/q", 7)
    fill(raw, 2)
    group = {Symbol("consumer-group"): "workers"}
    raw.send(attach("w", 1, RECEIVER, source("$queue/q"), target(None), 0, properties=group))
    raw.expect(ATTACH)
    raw.send(flow(1, 1))
    taken(raw, 1)
    raw.send(disposition(0))
    browse(raw, "$queue/q", 2, credit=10, consumer_group="workers")
    assert taken(raw, 1) == [b"1"]
    browse(raw, "$queue/q", 3, credit=10)
    assert taken(raw, 2) == [b"0", b"1"], "of the nameless group"


def test_what_has_expired_or_waits_for_a_time_is_not_shown(broker: AnyBroker) -> None:
    declare(broker, "jobs", {"x-delayed-retry-type": "all", "x-delayed-retry-min": 60_000})
    raw = begun(broker)
    fill(raw, 2, "/queues/jobs")
    raw.consumer("/queues/jobs", credit=1)
    taken(raw, 1)
    raw.send(disposition(0, state=Described(RELEASED, [])))
    browse(raw, "/queues/jobs", credit=10)
    assert taken(raw, 1) == [b"1"]
    raw.quiet_session()


def test_a_browser_ends_with_its_queue(broker: AnyBroker) -> None:
    from tests.conformance.amqp091 import raw as amqp091

    declare(broker, "jobs", {})
    raw = begun(broker)
    browse(raw, "/queues/jobs", credit=10)
    with amqp091.connect(broker) as other:
        other.send(amqp091.method(1, (50, 40), b"\0\0" + amqp091.short("jobs") + b"\0"))
        other.expect(1, (50, 41))
    assert raw.error(DETACH)[0] == "amqp:resource-deleted"


def test_a_queue_that_is_not_there_cannot_be_browsed(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.send(attach("b", 2, RECEIVER, source("/queues/absent", *[None] * 5, COPY), target(None)))
    assert raw.refused(RECEIVER)[0] == "amqp:not-found"


def test_many_browsers_that_come_and_go(broker: AnyBroker) -> None:
    raw = begun(broker)
    fill(raw, 3)
    for _ in range(30):
        for handle in range(10, 20):
            browse(raw, "$queue/q", handle, credit=2)
            taken(raw, 2)
        for handle in range(10, 20):
            raw.send(performative(0, DETACH, Uint(handle), True))
            raw.expect(DETACH)
    raw.consumer("$queue/q", credit=5)
    assert taken(raw, 3) == [b"0", b"1", b"2"]


def test_a_lost_connection_of_a_browser_gives_nothing_back(broker: AnyBroker) -> None:
    raw = begun(broker)
    fill(raw, 2)
    browse(raw, "$queue/q", credit=10)
    taken(raw, 2)
    raw.socket.close()
    other = begun(broker)
    other.consumer("$queue/q", credit=5)
    found = [other.delivery()[1] for _ in range(2)]
    assert [body_of(each) for each in found] == [b"0", b"1"]


def test_streams_are_read_as_before(broker: AnyBroker) -> None:
    declare(broker, "s", {"x-queue-type": "stream"})
    raw = begun(broker)
    fill(raw, 2, "/queues/s")
    browse(raw, "/queues/s", credit=10, cursor="earliest")
    assert taken(raw, 2) == [b"0", b"1"]
