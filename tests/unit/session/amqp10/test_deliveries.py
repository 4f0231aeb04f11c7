"""Deliveries that the client's window does not take, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from forebay.session.amqp10.connection import Amqp10Session
from tests.conformance.amqp10.raw import (
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    MODIFIED,
    RECEIVER,
    REJECTED,
    TRANSFER,
    Described,
    Raw,
    Symbol,
    Uint,
    attach,
    begin,
    body_of,
    disposition,
    flow,
    message,
    performative,
    source,
    target,
    transfer,
)
from tests.node_rig import Line, NodeRig

QUEUE = "$queue/q"
UNLIMITED = 0xFFFFFFFF


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[NodeRig]:
    made = NodeRig(tmp_path)
    yield made
    made.close()


def begun(rig: NodeRig, window: int, frame_max: int | None = None) -> Raw:
    """A connection with a session whose client takes so many frames."""
    raw = Raw(rig)
    raw.open(*([] if frame_max is None else [None, Uint(frame_max)]))
    raw.send(begin(window=window))
    raw.expect(BEGIN)
    return raw


def session_of(raw: Raw) -> Amqp10Session:
    session = cast(Line, raw.socket).session
    assert isinstance(session, Amqp10Session)
    return session


def fill(rig: NodeRig, count: int, octets: int = 10) -> None:
    raw = begun(rig, 100)
    raw.publisher(QUEUE, 0)
    for each in range(count):
        raw.send(transfer(each, message(b"%d" % each + bytes(octets)), settled=True))
    raw.send(performative(0, CLOSE))
    raw.expect(CLOSE) if count < 400 else None
    rig.settle()


def ready(rig: NodeRig) -> int:
    return int(rig.vhost.catalog.queues[b"q"].ready())


def number(found: list[Described]) -> int:
    return int(body_of(found).rstrip(b"\0"))


def test_a_closed_window_takes_no_more_of_the_queue_than_one_turn_delivers(rig: NodeRig) -> None:
    fill(rig, 300)
    raw = begun(rig, 2)
    raw.consumer(QUEUE)
    raw.send(flow(1, UNLIMITED, window=2))
    assert [number(raw.delivery()[1]) for _ in range(2)] == [0, 1]
    left = ready(rig)
    more = begun(rig, 100)
    more.publisher(QUEUE, 0)
    for each in range(300, 350):
        more.send(transfer(each - 300, message(b"%d" % each), settled=True))
        rig.settle()
    assert ready(rig) == left + 50, "nothing more is taken from the queue while the window is closed"
    raw.send(flow(window=1000, next_incoming=2))
    assert [number(raw.delivery()[1]) for _ in range(348)] == list(range(2, 350))
    assert ready(rig) == 0


def test_credit_that_is_lowered_while_records_wait_is_kept_to(rig: NodeRig) -> None:
    fill(rig, 10)
    raw = begun(rig, 1)
    raw.consumer(QUEUE)
    raw.send(flow(1, 4, window=1))
    assert number(raw.delivery()[1]) == 0
    raw.send(flow(1, 4, 1, window=0, next_incoming=1))  # one more than before
    raw.send(flow(window=100, next_incoming=1))
    assert [number(raw.delivery()[1]) for _ in range(4)] == [1, 2, 3, 4]
    raw.quiet_session(window=0)


def test_a_drain_waits_for_the_window(rig: NodeRig) -> None:
    fill(rig, 4)
    raw = begun(rig, 1)
    raw.consumer(QUEUE)
    raw.send(flow(1, 100, 0, window=1, next_incoming=0, drain=True))
    assert number(raw.delivery()[1]) == 0
    raw.quiet_session(window=0)
    raw.send(flow(window=100, next_incoming=1))
    assert [number(raw.delivery()[1]) for _ in range(3)] == [1, 2, 3]
    answer = raw.flow(1)
    assert (answer[5], answer[6], answer[8]) == (100, 0, True)


def test_what_the_window_cuts_is_dropped_when_its_link_is_detached(rig: NodeRig) -> None:
    fill(rig, 2, 5_000)
    raw = begun(rig, 3, 512)
    raw.consumer(QUEUE)
    raw.send(flow(1, 10, window=3))
    for _ in range(3):
        assert raw.frame()[2] == TRANSFER
    raw.send(performative(0, DETACH, Uint(1), True))
    raw.expect(DETACH)
    raw.send(flow(window=100, next_incoming=3))
    raw.quiet_session()
    assert ready(rig) == 2
    raw.consumer(QUEUE, 2, credit=10)
    assert [number(raw.delivery()[1]) for _ in range(2)] == [0, 1]


def test_a_message_takes_exactly_the_frames_of_the_window(rig: NodeRig) -> None:
    fill(rig, 3, 2_000)
    raw = begun(rig, 1, 512)
    raw.consumer(QUEUE)
    raw.send(flow(1, 10, window=1))
    frames = 0
    payload = b""
    found: list[bytes] = []
    while len(found) < 3:
        _, _, code, fields, more = raw.frame()
        assert code == TRANSFER
        frames += 1
        payload += more
        if not (len(fields) > 5 and fields[5]):
            found.append(payload)
            payload = b""
        if len(found) < 3:
            raw.quiet_session(window=0)
            raw.send(flow(window=1, next_incoming=frames))
    assert all(len(each) > 2_000 for each in found)


def test_the_end_of_a_connection_counts_as_a_failure_and_that_of_a_session_does_not(rig: NodeRig) -> None:
    rig.vhost.catalog.declare_queue(b"q", True, False, False, {"x-queue-type": "quorum"}, 0, "guest")
    fill(rig, 1)
    raw = begun(rig, 100)
    raw.consumer(QUEUE, credit=1)
    raw.delivery()
    raw.send(performative(0, END))
    raw.expect(END)
    raw.send(begin())
    raw.expect(BEGIN)
    raw.consumer(QUEUE, credit=1)
    header = raw.delivery()[1][0].value
    assert ([*header, None, None, None, None, None])[4] in (None, 0)
    raw.socket.close()
    rig.settle()
    raw = begun(rig, 100)
    raw.consumer(QUEUE, credit=1)
    assert raw.delivery()[1][0].value[4] == 1


@pytest.mark.parametrize(
    "state",
    [
        Described(REJECTED, [Described(0x1D, [Symbol("x:y"), "z" * 10_000])]),
        Described(MODIFIED, [True, None, {Symbol("x-a"): "z" * 10_000}]),
    ],
)
def test_an_outcome_is_not_repeated_with_all_that_it_says(rig: NodeRig, state: Any) -> None:
    fill(rig, 40)
    raw = begun(rig, 100)
    raw.consumer(QUEUE, credit=40)
    for _ in range(40):
        raw.delivery()
    raw.send(*[disposition(each) for each in range(0, 40, 2)])
    raw.send(disposition(0, 39, state, settled=False))
    for each in range(1, 40, 2):
        fields = raw.expect(DISPOSITION)
        assert (fields[0], fields[1], fields[3]) == (False, each, True)
        assert fields[4].code == state.code
        assert len(str(fields[4].value)) < 100


def test_many_links_and_deliveries_end_at_once(rig: NodeRig) -> None:
    fill(rig, 300)
    raw = begun(rig, 1000)
    for handle in range(1, 101):
        raw.consumer(QUEUE, handle)
    raw.send(*[flow(handle, 3) for handle in range(1, 101)])
    for _ in range(300):
        assert raw.frame()[2] == TRANSFER
    session = session_of(raw)
    assert session.endpoints[0].runs.unsettled == 300
    raw.send(performative(0, END))
    raw.expect(END)
    assert ready(rig) == 300
    assert not session.state.receivers


def test_a_flow_of_a_publisher_leaves_nothing_to_answer(rig: NodeRig) -> None:
    raw = begun(rig, 100)
    raw.publisher(QUEUE, 0)
    raw.send(*[flow(0, 5) for _ in range(10)])
    raw.quiet_session()
    assert not session_of(raw).endpoints[0].asked
    raw.consumer(QUEUE, 1)
    raw.send(*[flow(1, 5, echo=True) for _ in range(10)])
    raw.expect(FLOW)
    raw.quiet_session()
    assert not session_of(raw).endpoints[0].asked


def test_a_consumer_that_holds_a_message_for_too_long_is_detached(rig: NodeRig) -> None:
    rig.vhost.catalog.declare_queue(b"q", True, False, False, {"x-queue-type": "quorum"}, 0, "guest")
    fill(rig, 1)
    raw = begun(rig, 100)
    raw.send(
        attach(
            "slow",
            1,
            RECEIVER,
            source(QUEUE),
            target(None),
            properties={Symbol("rabbitmq:consumer-timeout"): Uint(1000)},
        )
    )
    raw.expect(ATTACH)
    raw.send(flow(1, 1))
    raw.delivery()
    rig.wait(3)
    condition, text = raw.error(DETACH)
    assert condition == "amqp:precondition-failed"
    assert "1000 ms" in text
    raw.send(performative(0, DETACH, Uint(1), True), disposition(0))
    raw.consumer(QUEUE, 2, credit=1)
    assert raw.delivery()[1][0].value[4] == 1, "that counts as a failure"


def test_a_deleted_queue_detaches_its_links(rig: NodeRig) -> None:
    fill(rig, 1)
    raw = begun(rig, 100)
    raw.consumer(QUEUE, credit=1)
    raw.delivery()
    rig.vhost.upkeep.delete_queue(b"q", False, False)
    rig.settle()
    assert raw.error(DETACH) == ("amqp:resource-deleted", "queue 'q' was deleted")
    raw.send(disposition(0))
    raw.quiet_session()
    assert session_of(raw).endpoints[0].runs.unsettled == 0


def test_a_long_body_is_delivered_in_frames_without_copies(rig: NodeRig) -> None:
    raw = begun(rig, 1000)
    raw.publisher(QUEUE, 0)
    octets = message(bytes(3 << 20))
    at = 0
    while at < len(octets):
        piece = octets[at : at + 100_000]
        at += len(piece)
        raw.send(transfer(0, piece, more=at < len(octets)))
    while raw.frame()[2] != DISPOSITION:
        pass
    raw.consumer(QUEUE, 1, credit=1)
    assert len(body_of(raw.delivery()[1])) == 3 << 20
    raw.send(performative(0, DETACH, Uint(1), True))
    raw.expect(DETACH)
    raw.consumer(QUEUE, 2)
    sent = int(session_of(raw).endpoints[0].windows.next_outgoing)
    raw.send(flow(2, 1, window=2, next_incoming=sent))
    seen = 0
    for _ in range(2):
        seen += len(raw.frame()[4])
    raw.quiet_session(window=0)
    raw.send(flow(window=1000))
    more = True
    while more:
        _, _, code, fields, piece = raw.frame()
        assert code == TRANSFER
        seen += len(piece)
        more = len(fields) > 5 and bool(fields[5])
    assert seen > 3 << 20
