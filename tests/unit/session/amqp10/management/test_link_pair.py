"""Requests to the broker and their answers, over a pair of links."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from forebay.directory.logins.authorizer import Principal
from forebay.directory.logins.login import LoginRefused
from forebay.session.shared.renewal import renew_rights
from tests.conformance.amqp10.raw import (
    ATTACH,
    CLOSE,
    DETACH,
    FLOW,
    PROPERTIES,
    RECEIVER,
    SENDER,
    TRANSFER,
    VALUE,
    Described,
    Raw,
    Symbol,
    Uint,
    Ulong,
    attach,
    begun,
    body_of,
    encode,
    flow,
    message,
    performative,
    sections,
    source,
    target,
    transfer,
)
from tests.node_rig import Line, NodeRig

PAIRED = {Symbol("paired"): True}
NODE = "/management"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[NodeRig]:
    made = NodeRig(tmp_path)
    yield made
    made.close()


def paired(rig: NodeRig, credit: int = 100, window: int = 1000, frame_max: int = 0) -> Raw:
    raw = Raw(rig)
    raw.open(*([None, Uint(frame_max)] if frame_max else []))
    raw.send(performative(0, 0x11, None, Uint(0), Uint(window), Uint(1000)))
    raw.expect(0x11)
    for handle, role in ((0, SENDER), (1, RECEIVER)):
        raw.send(attach("pair", handle, role, source(NODE), target(NODE), 1, properties=PAIRED))
        raw.expect(ATTACH)
        if role is SENDER:
            assert raw.flow(0)[6] == 8
    if credit:
        raw.send(flow(1, credit, window=window))
    return raw


def request(verb: str, path: str, body: Any = None, id: Any = "1", number: int = 0, **more: bool) -> bytes:
    octets = encode(Described(PROPERTIES, [id, None, path, verb, "$me"])) + encode(Described(VALUE, body))
    return transfer(number, octets, settled=True, **more)


def answer(raw: Raw) -> tuple[str, Any]:
    """Status and body of the answer that must come next, between flows of the requests."""
    while True:
        kind, channel, code, fields, payload = raw.frame()
        if code == TRANSFER:
            break
        assert code == FLOW
    while len(fields) > 5 and fields[5]:
        _, _, code, fields, more = raw.frame()
        if code == TRANSFER:
            payload += more
    found = sections(payload)
    assert (kind, channel) == (0, 0)
    return found[0].value[3], body_of(found)


def hushed(rig: NodeRig, raw: Raw) -> Line:
    """The connection, once all has come that was on its way."""
    line = cast(Line, raw.socket)
    rig.settle()
    line.sent.clear()
    raw.rest = b""
    return line


def asked(raw: Raw, verb: str, path: str, body: Any = None) -> tuple[str, Any]:
    raw.send(request(verb, path, body))
    return answer(raw)


def test_a_purge_is_answered_when_it_is_on_disk(rig: NodeRig) -> None:
    raw = paired(rig)
    assert asked(raw, "PUT", "/queues/q", {})[0] == "201"
    hushed(rig, raw)
    raw.publisher("/queues/q", 5)
    raw.send(transfer(1, message(), 5))
    raw.outcome()
    line = hushed(rig, raw)
    rig.holding = True
    raw.send(request("DELETE", "/queues/q/messages", number=2))
    rig.settle()
    assert not line.sent
    rig.holding = False
    assert answer(raw)[0] == "200"


def test_more_requests_than_a_turn_is_for_are_done_in_later_ones(rig: NodeRig) -> None:
    raw = paired(rig, credit=1000)
    raw.send(*[request("PUT", f"/queues/q{each}", {}, number=each) for each in range(150)])
    assert len(rig.vhost.catalog.queues) <= 101
    for _ in range(150):
        assert answer(raw)[0] == "201"
    assert len(rig.vhost.catalog.queues) == 150


def test_answers_wait_for_credit(rig: NodeRig) -> None:
    raw = paired(rig, credit=0)
    raw.send(request("PUT", "/exchanges/e", {"type": "direct"}))
    raw.flow(0)
    raw.quiet_session()
    raw.send(flow(1, 1))
    assert answer(raw)[0] == "204"


def test_a_long_answer_is_cut_by_the_window(rig: NodeRig) -> None:
    raw = paired(rig, credit=100, frame_max=512)
    assert asked(raw, "PUT", "/exchanges/e", {"type": "direct"})[0] == "204"
    assert asked(raw, "PUT", "/queues/q", {})[0] == "201"
    for key in range(30):
        binding = {"source": "e", "destination_queue": "q", "binding_key": f"key-{key}"}
        assert asked(raw, "POST", "/bindings", binding)[0] == "204"
    hushed(rig, raw)
    raw.quiet_session(window=0)
    raw.send(request("GET", "/bindings?src=e&dstq=q"))
    raw.flow(0)
    raw.quiet_session(window=0)
    seen = 0
    payload = b""
    more = True
    sent = cast(Any, raw.socket).session.endpoints[0].windows.next_outgoing
    while more:
        raw.send(flow(window=1, next_incoming=sent + seen))
        _, _, code, fields, octets = raw.frame()
        assert code == TRANSFER
        payload += octets
        seen += 1
        more = len(fields) > 5 and bool(fields[5])
        raw.quiet_session(window=0) if more else None
    assert seen > 5
    assert len(body_of(sections(payload))) == 30


def test_an_answer_that_is_too_long_says_so(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path, message_octets_max=1000)
    raw = paired(rig)
    assert asked(raw, "PUT", "/exchanges/e", {"type": "direct"})[0] == "204"
    assert asked(raw, "PUT", "/queues/q", {})[0] == "201"
    for key in range(30):
        binding = {"source": "e", "destination_queue": "q", "binding_key": f"key-{key}"}
        assert asked(raw, "POST", "/bindings", binding)[0] == "204"
    status, text = asked(raw, "GET", "/bindings?src=e&dstq=q")
    assert status == "400" and "message_octets_max" in text
    rig.close()


def test_a_client_that_gives_no_credit_ends_its_link(rig: NodeRig) -> None:
    raw = paired(rig, credit=0)
    raw.send(*[request("GET", "/queues/none", number=each) for each in range(9)])
    while True:
        fields = raw.frame()
        if fields[2] == DETACH:
            break
        assert fields[2] == FLOW
    assert fields[3][2].value[0] == "amqp:precondition-failed"


def test_an_aborted_request_is_not_done(rig: NodeRig) -> None:
    raw = paired(rig)
    raw.send(request("PUT", "/queues/q", {}, aborted=True))
    raw.flow(0)
    raw.quiet_session()
    assert not rig.vhost.catalog.queues


def test_a_number_that_no_argument_can_be_is_a_bad_request(rig: NodeRig) -> None:
    raw = paired(rig)
    status, text = asked(raw, "PUT", "/queues/q", {"arguments": {"x-max-length": Ulong(2**64 - 1)}})
    assert (status, text) == ("400", f"body: {2**64 - 1} is too large")


@pytest.mark.parametrize(
    ("verb", "body", "status"), [("PUT", b"any", "204"), ("PUT", "text", "400"), ("GET", None, "405")]
)
def test_a_token_of_a_client_whose_rights_do_not_follow_from_it(
    rig: NodeRig, verb: str, body: Any, status: str
) -> None:
    assert asked(paired(rig), verb, "/auth/tokens", body)[0] == status


def test_a_token_is_proven_before_anything_else_is_read(rig: NodeRig) -> None:
    raw = paired(rig)
    session = cast(Line, raw.socket).session
    assert session is not None
    session.principal = Principal("guest", until_us=rig.clock.us + 10**12)
    raw.send(request("PUT", "/auth/tokens", b"guest"), request("GET", "/queues/none", number=1))
    assert answer(raw)[0] == "204"
    assert answer(raw)[0] == "404"
    session.principal = Principal("guest", until_us=rig.clock.us + 10**12)
    raw.send(request("PUT", "/auth/tokens", b"another password", number=2))
    while (found := raw.frame())[2] == FLOW:
        pass
    assert found[2] == CLOSE
    assert found[3][0].value[0] == "amqp:unauthorized-access"


def test_a_token_of_somebody_else_is_refused(rig: NodeRig) -> None:
    session = cast(Line, begun(rig).socket).session
    assert session is not None
    with pytest.raises(LoginRefused):
        renew_rights(session, Principal("another"))
