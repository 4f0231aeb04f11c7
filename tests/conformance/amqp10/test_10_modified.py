"""The outcome `modified`: annotations for the message, and messages that a link cannot take (3.4.5)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.amqp10.raw import (
    ACCEPTED,
    ANNOTATIONS,
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

QUEUE = "/queues/jobs"
UNDELIVERABLE = Described(MODIFIED, [None, True])


@pytest.fixture(params=["classic", "quorum", "priorities"])
def client(broker: AnyBroker, request: pytest.FixtureRequest) -> Raw:
    """A session, and a queue `jobs` of each kind that redelivers."""
    kinds: dict[str, dict[str, object]] = {"quorum": {"x-queue-type": "quorum"}, "priorities": {"x-max-priority": 3}}
    declare(broker, "jobs", kinds.get(request.param, {}))
    return begun(broker)


def modified(failed: bool | None = None, undeliverable: bool | None = None, **annotations: Any) -> Described:
    names = {Symbol(name.replace("_", "-")): value for name, value in annotations.items()}
    return Described(MODIFIED, [failed, undeliverable, names])


def annotations_of(sections: list[Described]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in sections:
        if each.code == ANNOTATIONS:
            found = each.value
    return found


def failures_of(sections: list[Described]) -> int:
    return (sections[0].value + [None] * 5)[4] or 0 if sections[0].code == HEADER else 0


def test_annotations_are_merged_into_the_message(client: Raw) -> None:
    fill(client, 2, QUEUE)
    client.consumer(QUEUE, credit=10)
    taken(client, 2)
    client.send(disposition(0, state=modified(True, x_opt_reason="first", x_opt_number=Uint(7), plain=[1, "two"])))
    sections = client.delivery()[1]
    found = annotations_of(sections)
    assert (found["x-opt-reason"], found["x-opt-number"], found["plain"]) == ("first", 7, [1, "two"])
    assert (found["x-routing-key"], failures_of(sections), body_of(sections)) == ("jobs", 1, b"0")
    client.send(disposition(2, state=modified(x_opt_reason="second")))
    found = annotations_of(client.delivery()[1])
    assert (found["x-opt-reason"], found["x-opt-number"]) == ("second", 7), "others replace those of their names alone"
    client.send(disposition(1, state=Described(RELEASED, [])))
    assert "x-opt-reason" not in annotations_of(client.delivery()[1]), "the other message has none"


def test_what_the_broker_says_itself_is_not_to_be_modified(client: Raw) -> None:
    fill(client, 1, QUEUE)
    client.consumer(QUEUE, credit=10)
    taken(client, 1)
    client.send(disposition(0, state=modified(x_exchange="e", x_routing_key="k", x_opt_deaths="never", x_cc=["other"])))
    found = annotations_of(client.delivery()[1])
    assert (found["x-exchange"], found["x-routing-key"]) == ("", "jobs")
    assert not {"x-opt-deaths", "x-cc"} & set(found)


def test_annotations_that_are_too_long_are_left_out(client: Raw) -> None:
    fill(client, 1, QUEUE)
    client.consumer(QUEUE, credit=10)
    taken(client, 1)
    client.send(disposition(0, state=modified(x_opt_note="n" * 7000)))
    assert annotations_of(client.delivery()[1])["x-opt-note"] == "n" * 7000
    client.send(disposition(1, state=modified(x_opt_more="m" * 7000)))
    found = annotations_of(client.delivery()[1])
    assert (found["x-opt-note"], "x-opt-more" in found) == ("n" * 7000, False)


def test_a_settled_message_leaves_no_annotations_to_others(broker: AnyBroker, client: Raw) -> None:
    fill(client, 1, QUEUE)
    client.consumer(QUEUE, credit=10)
    taken(client, 1)
    client.send(disposition(0, state=modified(x_opt_reason="first")))
    taken(client, 1)
    client.send(disposition(1))
    fill(begun(broker), 1, QUEUE)
    assert "x-opt-reason" not in annotations_of(client.delivery()[1])


def test_dead_letters_have_the_annotations(broker: AnyBroker) -> None:
    declare(broker, "dead", {})
    dead: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    declare(broker, "jobs", {"x-queue-type": "quorum", "x-delivery-limit": 1, **dead})
    raw = begun(broker)
    fill(raw, 2, QUEUE)
    raw.consumer(QUEUE, credit=10)
    taken(raw, 2)
    raw.send(disposition(0, state=modified(True, x_opt_reason="tried")))
    taken(raw, 1)
    raw.send(disposition(2, state=modified(True, x_opt_more="again")))
    raw.send(disposition(1, state=modified(None, True, x_opt_reason="alone")))
    raw.consumer("/queues/dead", 2, credit=5)
    first, second = annotations_of(raw.delivery()[1]), annotations_of(raw.delivery()[1])
    assert (first["x-opt-reason"], first["x-opt-more"]) == ("tried", "again")
    assert second["x-opt-reason"] == "alone", "nobody else consumes the queue: it goes to its dead letters"
    raw.send(disposition(4, state=modified(x_opt_reason="dead")))
    again = annotations_of(raw.delivery()[1])
    assert (again["x-opt-reason"], "x-opt-more" in again) == ("dead", False)


# ---- undeliverable here


def test_what_is_undeliverable_goes_to_others(client: Raw) -> None:
    fill(client, 3, QUEUE)
    client.consumer(QUEUE, credit=10)
    taken(client, 3)
    client.send(disposition(0, 1, state=UNDELIVERABLE), disposition(2, state=Described(RELEASED, [])))
    assert taken(client, 1) == [b"2"], "the link gets what it released, and not what it cannot take"
    client.quiet_session()
    client.consumer(QUEUE, 2, credit=10)
    found = [client.delivery() for _ in range(2)]
    assert [each[0][0] for each in found] == [2, 2]
    assert [body_of(each[1]) for each in found] == [b"0", b"1"]
    assert [failures_of(each[1]) for each in found] == [0, 0]
    client.send(disposition(4, state=UNDELIVERABLE))
    client.quiet_session()
    client.consumer(QUEUE, 3, credit=10)
    fields, sections = client.delivery()
    assert (fields[0], body_of(sections)) == (3, b"0")
    client.send(disposition(6, state=Described(RELEASED, [])))
    assert client.delivery()[0][0] == 3, "who has not refused it gets it again"


def test_what_nobody_can_take_waits_for_a_new_link(client: Raw) -> None:
    fill(client, 2, QUEUE)
    client.consumer(QUEUE, credit=10)
    taken(client, 2)
    client.send(disposition(0, state=modified(True, True)))
    client.send(flow(1, 10, count=2, drain=True))
    fields = client.flow(1)
    assert (fields[5:7], fields[7]) == ([12, 0], 1), "drained, though a message is ready"
    client.send(performative(0, DETACH, Uint(1), True))
    client.expect(DETACH)
    client.consumer(QUEUE, 2, credit=10)
    found = [client.delivery()[1] for _ in range(2)]
    assert [(body_of(each), failures_of(each)) for each in found] == [(b"0", 1), (b"1", 0)]


def test_a_link_that_refuses_too_many_messages_ends(broker: AnyBroker) -> None:
    for _ in range(3):
        fill(begun(broker), 333)
    raw = begun(broker)
    fill(raw, 2)
    raw.send(attach("greedy", 1, RECEIVER, source("$queue/q"), target(None), 0))
    raw.frame()
    raw.send(flow(1, 1001, window=100_000))
    assert len(taken(raw, 1001)) == 1001
    raw.send(disposition(0, 999, state=UNDELIVERABLE))
    raw.quiet_session()
    raw.send(disposition(1000, state=UNDELIVERABLE))
    condition, text = raw.error(DETACH)
    assert (condition, "1000 messages" in text) == ("amqp:link:detach-forced", True)
    raw.send(performative(0, DETACH, Uint(1), True))
    raw.send(attach("new", 2, RECEIVER, source("$queue/q"), target(None), 0))
    raw.frame()
    raw.send(flow(2, 2, window=100_000))
    assert taken(raw, 2) == [b"0", b"1"], "a new link gets all of them"


def test_a_refused_message_that_expires_dies(broker: AnyBroker) -> None:
    declare(broker, "dead", {})
    declare(broker, "jobs", {"x-message-ttl": 200, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    raw = begun(broker)
    fill(raw, 1, QUEUE)
    raw.consumer("/queues/dead", 3, credit=5)
    raw.consumer(QUEUE, credit=10)
    raw.delivery()
    raw.send(attach("other", 2, RECEIVER, source(QUEUE), target(None), 0))
    raw.frame()
    raw.send(disposition(0, state=UNDELIVERABLE))
    assert raw.delivery()[0][0] == 3


def test_the_order_of_message_groups_holds(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher("$queue/q", 9)
    for number in range(2):
        octets = grouped(b"%d" % number)
        raw.send(*octets)
        raw.outcome()
    raw.consumer("$queue/q", credit=10)
    assert taken(raw, 1) == [b"0"]
    raw.send(disposition(0, state=UNDELIVERABLE))
    raw.quiet_session()
    raw.consumer("$queue/q", 2, credit=10)
    fields, sections = raw.delivery()
    assert (fields[0], body_of(sections)) == (2, b"0")
    raw.send(disposition(1))
    assert taken(raw, 1) == [b"1"]


def grouped(body: bytes) -> list[bytes]:
    from tests.conformance.amqp10.raw import DATA, PROPERTIES, encode, transfer

    fields = [None] * 10 + ["group"]
    payload = encode(Described(PROPERTIES, fields)) + encode(Described(DATA, body))
    return [transfer(int(body), payload, 9)]


def test_a_filter_chooses_among_what_others_refused(broker: AnyBroker) -> None:
    raw = begun(broker)
    fill(raw, 1)
    raw.consumer("$queue/q", credit=10)
    taken(raw, 1)
    raw.send(
        attach(
            "other", 2, RECEIVER, source("$queue/q"), target(None), 0, properties={Symbol("x-filter"): "priority > 5"}
        )
    )
    raw.frame()
    raw.send(flow(2, 10))
    raw.send(disposition(0, state=UNDELIVERABLE))
    raw.quiet_session()


def test_undeliverable_under_a_transaction(broker: AnyBroker) -> None:
    from tests.conformance.amqp10.test_05_transactions import TRANSACTIONAL, Client

    client = Client(broker)
    raw = client.raw
    fill(raw, 1)
    raw.consumer("$queue/q", 3, credit=10)
    taken(raw, 1)
    name = client.declare()
    raw.send(disposition(0, state=Described(TRANSACTIONAL, [name, modified(None, True, x_opt_reason="t")])))
    raw.quiet_session()
    assert client.discharge(name) == ACCEPTED
    raw.consumer("$queue/q", 4, credit=10)
    fields, sections = raw.delivery()
    assert (fields[0], annotations_of(sections)["x-opt-reason"]) == (4, "t")


@pytest.mark.parametrize("outcome", [REJECTED, ACCEPTED])
def test_nothing_is_remembered_of_what_others_settle(client: Raw, outcome: int) -> None:
    fill(client, 1, QUEUE)
    client.consumer(QUEUE, credit=10)
    taken(client, 1)
    client.send(disposition(0, state=modified(None, True, x_opt_reason="r")))
    client.consumer(QUEUE, 2, credit=10)
    taken(client, 1)
    client.send(disposition(1, state=Described(outcome, [])))
    client.send(flow(1, 10, count=1, echo=True))
    assert client.flow(1)[7] == 0
    client.quiet_session()
