"""What one client can make the broker keep, or say again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from forebay.session.amqp10.attach import LINK_OCTETS
from forebay.session.amqp10.connection import Amqp10Session
from forebay.session.amqp10.endpoint import HANDLES_MAX
from forebay.session.amqp10.incoming.receiving import CACHED_OCTETS_MAX, ReceivingLink
from tests.conformance.amqp10.raw import (
    APPLICATION_PROPERTIES,
    DETACH,
    END,
    RECEIVER,
    SENDER,
    Described,
    Raw,
    Uint,
    attach,
    begun,
    encode,
    message,
    performative,
    publisher,
    source,
    target,
    transfer,
)
from tests.node_rig import Line, NodeRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[NodeRig]:
    made = NodeRig(tmp_path, message_octets_max=100_000)
    yield made
    made.close()


def session_of(raw: Raw) -> Amqp10Session:
    session = cast(Line, raw.socket).session
    assert isinstance(session, Amqp10Session)
    return session


def test_messages_that_are_not_whole_share_a_limit(rig: NodeRig) -> None:
    raw = begun(rig)
    for handle in range(6):
        raw.publisher("$queue/q", handle)
    octets = message(bytes(90_000))
    for handle in range(4):
        raw.send(transfer(handle, octets, handle, more=True))
    state = session_of(raw).state
    assert 360_000 < state.partial_octets < 400_000
    raw.send(transfer(4, octets, 4, more=True))
    assert raw.error(DETACH)[0] == "amqp:resource-limit-exceeded"
    raw.send(transfer(0, b"", 0))
    assert raw.outcome()[0] == 0
    raw.send(transfer(5, octets, 5, more=True))
    raw.quiet_session()
    raw.send(*[transfer(handle, b"", handle, aborted=True) for handle in (1, 2, 3, 5)])
    raw.quiet_session()
    assert state.partial_octets == 0


def test_empty_frames_of_a_message_end(rig: NodeRig) -> None:
    raw = begun(rig)
    raw.publisher("$queue/q", 0)
    link = session_of(raw).endpoints[0].links[0]
    assert isinstance(link, ReceivingLink)
    for _ in range(3):
        raw.send(*[transfer(0, b"", more=True) for _ in range(500)])
    assert link.parts == [] and session_of(raw).state.partial_octets == 0


def test_long_properties_are_not_remembered_and_not_mistaken_for_none(rig: NodeRig) -> None:
    raw = begun(rig)
    raw.publisher("$queue/q", 0)
    long = encode(Described(APPLICATION_PROPERTIES, {"a": "b" * CACHED_OCTETS_MAX}))
    raw.send(transfer(0, long + message()), transfer(1, message()))
    assert raw.outcome()[1] == 1
    link = session_of(raw).endpoints[0].links[0]
    assert isinstance(link, ReceivingLink)
    assert len(link.properties) < 100


@pytest.mark.parametrize("address", ["t/" + "x" * 300, "$queue/q/" + "x" * 300, "é" * 200])
def test_an_address_that_is_too_long_is_refused_in_few_words(rig: NodeRig, address: str) -> None:
    raw = begun(rig)
    raw.send(publisher(address))
    condition, text = raw.refused(SENDER)
    assert condition == "amqp:invalid-field"
    assert len(text.encode()) <= 303
    raw.send(attach("in", 5, RECEIVER, source(address), target(None)))
    assert raw.refused(RECEIVER)[0] == "amqp:invalid-field"


def test_an_error_fits_into_the_smallest_frame(rig: NodeRig) -> None:
    raw = begun(rig)
    raw.send(publisher("/exchanges/" + "é" * 5_000))
    condition, text = raw.refused(SENDER)
    assert condition == "amqp:invalid-field"
    assert 200 < len(text.encode()) <= 303


def test_an_address_of_a_message_that_is_no_text_rejects_it(rig: NodeRig) -> None:
    raw = begun(rig)
    raw.publisher(None, 0)
    octets = message(to="xy/z").replace(b"xy/z", b"\xff\xfe/z")
    raw.send(transfer(0, octets))
    assert raw.outcome() == (0, 0, 0x25)


def test_links_count_for_the_memory_of_their_client(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path, client_topology_octets_max=20_000)
    raw = begun(rig)
    for handle in range(9):
        raw.publisher("$queue/q", handle)
    raw.send(publisher("$queue/q", 9))
    condition, text = raw.refused(SENDER)
    assert condition == "amqp:resource-limit-exceeded"
    assert "client_topology_octets_max" in text
    memory = rig.vhost.catalog.memory
    assert memory.clients[int(session_of(raw).id)] == 9 * LINK_OCTETS
    raw.send(performative(0, DETACH, Uint(3), True), performative(0, DETACH, Uint(9), True))
    raw.expect(DETACH)
    assert memory.clients[int(session_of(raw).id)] == 8 * LINK_OCTETS
    assert session_of(raw).state.handles == 8
    raw.send(performative(0, END))
    raw.expect(END)
    assert not memory.clients and session_of(raw).state.handles == 0
    rig.close()


def test_there_are_only_so_many_links_of_a_connection(rig: NodeRig) -> None:
    raw = begun(rig)
    session_of(raw).state.handles = HANDLES_MAX
    raw.send(publisher("$queue/q"))
    assert raw.error(END)[0] == "amqp:resource-limit-exceeded"
