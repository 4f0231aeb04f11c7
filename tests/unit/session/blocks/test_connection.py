"""The block protocol's session over a real vhost and store: who may ask, what comes back, and how much at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.message import ACCEPTED
from forebay.log.block import HEAD_OCTETS, block_octets, parse_whole
from forebay.session.blocks.connection import BlocksSession
from forebay.session.handshake import Handshake
from forebay.wire.blocks.frames import (
    BLOCKS,
    BLOCKS_HEAD_OCTETS,
    ERROR,
    FETCHES_MAX,
    PREFACE,
    REPLY,
    REQUEST,
    BlocksFrame,
    decode_blocks_head,
    decode_frame,
    decode_json,
    encode_head,
    encode_json,
)
from tests.node_rig import Line
from tests.vhosts import OneVhost

LOGIN: dict[str, object] = {"op": "auth", "user": "guest", "password": "guest"}


class Rig(OneVhost):
    """One vhost, and one session of this protocol in it."""

    def __init__(self, folder: str) -> None:
        super().__init__(Path(folder), None, mqtt_sys_interval_s=0)
        self.line = self.connect("blocks")
        self.line.handshake = self.broker.begin_handshake(self.line, PREFACE)

    @property
    def session(self) -> BlocksSession:
        """The session of a client that has logged in."""
        session = self.line.session
        assert isinstance(session, BlocksSession)
        return session

    @property
    def handshake(self) -> Handshake:
        """The handshake of a client that has not logged in."""
        assert self.line.handshake is not None
        return self.line.handshake

    def is_closing(self) -> bool:
        found = self.line.session or self.line.handshake
        return found is not None and found.closing

    def frames(self) -> list[BlocksFrame]:
        """All that is due happens, and is on the disk; the frames that were sent."""
        self.flush()
        self.settle()
        return self.sent()

    def sent(self) -> list[BlocksFrame]:
        """The frames that came to the client since the last call."""
        octets = bytes(self.line.sent)
        self.line.sent.clear()
        return decoded(octets)

    def written(self) -> list[BlocksFrame]:
        """The frames that leave with the turn's end."""
        return decoded(octets_of(self.line))

    def send(self, octets: bytes) -> None:
        self.line.received(octets)
        self.check()

    def ask(self, *requests: dict[str, object]) -> list[BlocksFrame]:
        self.send(b"".join(encode_json(REQUEST, request) for request in requests))
        return self.frames()

    def fill(self, queue: bytes, *bodies: bytes) -> None:
        """One block with these bodies, on the disk."""
        self.turn()
        for body in bodies:
            assert self.vhost.publishing.publish(self.vhost.router.route(b"", queue), 1, b"", body).status == ACCEPTED
        self.flush()

    def close(self) -> None:
        self.line.close()
        super().close()


def octets_of(line: Line) -> bytes:
    """Octets that were written for a client, and nobody has taken."""
    parts = list(line.passed)
    if line.handshake is not None:
        parts.append(line.handshake.out.getvalue())
    if line.session is not None:
        parts += [*line.session.parts, line.session.out.getvalue()]
    return b"".join(parts)


def decoded(octets: bytes) -> list[BlocksFrame]:
    """Whole frames, behind the preface or without it."""
    octets = octets.removeprefix(PREFACE)
    frames = []
    at = 0
    while (frame := decode_frame(octets, at, 1 << 28)) is not None:
        frames.append(frame)
        at += frame.octets
    assert at == len(octets)
    return frames


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(str(tmp_path))
    made.vhost.catalog.declare_queue(b"s", True, False, False, {"x-queue-type": "stream"}, 0)
    made.turn()
    yield made
    made.close()


@pytest.fixture
def logged_in(rig: Rig) -> Rig:
    rig.send(PREFACE)
    (reply,) = rig.ask(LOGIN)
    assert decode_json(reply.payload) == {"user": "guest"}
    return rig


def fetch(queue: str, first: int, end: int, **more: object) -> dict[str, object]:
    return {"op": "fetch", "queue": queue, "first": first, "end": end, **more}


def blocks(frame: BlocksFrame) -> tuple[int, int, list[tuple[int, int]]]:
    """Where to go on, the start, and base and count of each block."""
    assert frame.kind == BLOCKS
    octets = frame.payload[BLOCKS_HEAD_OCTETS:]
    found = []
    while octets:
        length = block_octets(octets[:HEAD_OCTETS])
        block = parse_whole(octets[:length])
        found.append((int(block.base), int(block.count)))
        octets = octets[length:]
    return *decode_blocks_head(frame.payload), found


def error(frame: BlocksFrame) -> dict[str, object]:
    assert frame.kind == ERROR
    return decode_json(frame.payload)


def test_the_preface_comes_back_first(rig: Rig) -> None:
    rig.send(PREFACE)
    assert octets_of(rig.line) == PREFACE


def test_nothing_without_login(rig: Rig) -> None:
    rig.send(PREFACE)
    (answer,) = rig.ask({"op": "describe", "queue": "s"}, LOGIN)
    assert error(answer) == {"error": "request", "reason": "refused", "text": "describe: log in first"}
    assert rig.is_closing()


def test_a_refused_login_ends_the_connection(rig: Rig) -> None:
    rig.send(PREFACE)
    (answer,) = rig.ask({**LOGIN, "password": "wrong"}, LOGIN)
    assert error(answer)["reason"] == "refused"
    assert "wrong password" not in str(error(answer)["text"])
    assert "wrong password for user 'guest'" in rig.handshake.reason
    assert rig.is_closing()


def test_a_second_login_is_out_of_order(logged_in: Rig) -> None:
    (answer,) = logged_in.ask(LOGIN)
    assert (error(answer)["error"], logged_in.session.closing) == ("protocol", True)


def test_description(logged_in: Rig) -> None:
    logged_in.fill(b"s", b"a", b"b")
    (answer,) = logged_in.ask({"op": "describe", "queue": "s"})
    said = decode_json(answer.payload)
    assert {name: said[name] for name in ("queue", "kind", "start", "end")} == {
        "queue": "s",
        "kind": "stream",
        "start": 0,
        "end": 2,
    }


def test_what_is_not_on_the_disk_is_not_shown(logged_in: Rig) -> None:
    logged_in.fill(b"s", b"a")
    logged_in.vhost.publishing.publish(logged_in.vhost.router.route(b"", b"s"), 1, b"", b"b")
    logged_in.turn(sync=False)
    logged_in.send(encode_json(REQUEST, {"op": "describe", "queue": "s"}) + encode_json(REQUEST, fetch("s", 0, 9)))
    logged_in.turn(sync=False)
    described, fetched = logged_in.sent()
    assert decode_json(described.payload)["end"] == 1
    assert blocks(fetched) == (1, 0, [(0, 1)])
    logged_in.flush()
    (fetched,) = logged_in.ask(fetch("s", 1, 9))
    assert blocks(fetched) == (2, 0, [(1, 1)])


def test_whole_blocks_up_to_the_octets_asked_for(logged_in: Rig) -> None:
    for at in range(6):
        logged_in.fill(b"s", bytes([at]) * 1000, b"")
    assert blocks(logged_in.ask(fetch("s", 0, 12))[0]) == (12, 0, [(at, 2) for at in range(0, 12, 2)])
    assert blocks(logged_in.ask(fetch("s", 3, 12, octets_max=2500))[0]) == (6, 0, [(2, 2), (4, 2)])
    assert blocks(logged_in.ask(fetch("s", 3, 12, octets_max=1))[0]) == (4, 0, [(2, 2)])
    assert blocks(logged_in.ask(fetch("s", 3, 4))[0]) == (4, 0, [(2, 2)])
    assert blocks(logged_in.ask(fetch("s", 12, 20))[0]) == (12, 0, [])
    assert blocks(logged_in.ask(fetch("s", 4, 4))[0]) == (4, 0, [])


def test_a_fetch_below_the_start_says_where_the_log_starts(logged_in: Rig) -> None:
    logged_in.fill(b"s", b"a")
    logged_in.fill(b"s", b"b")
    logged_in.vhost.catalog.queue(b"s").log.truncate(1)
    assert blocks(logged_in.ask(fetch("s", 0, 2))[0]) == (2, 1, [(1, 1)])


def test_times(logged_in: Rig) -> None:
    logged_in.fill(b"s", b"a")
    logged_in.clock.us += 10
    logged_in.fill(b"s", b"b")
    asked = [logged_in.clock.us - 10, logged_in.clock.us, logged_in.clock.us + 1]
    answers = logged_in.ask(*[{"op": "offset_at", "queue": "s", "timestamp_us": us} for us in asked])
    assert [decode_json(answer.payload) for answer in answers] == [{"offset": 0}, {"offset": 1}, {"offset": 2}]


def test_an_ephemeral_queue_has_blocks_too(logged_in: Rig) -> None:
    logged_in.vhost.router.address_queues = "memory"
    logged_in.vhost.consumers.consume(b"$queue/e", 7, 1, b"t", False, False, 1, {})
    logged_in.fill(b"e", b"a", b"bc")
    (described, fetched) = logged_in.ask({"op": "describe", "queue": "e"}, fetch("e", 0, 5))
    assert decode_json(described.payload)["kind"] == "ephemeral"
    assert blocks(fetched)[2] == [(0, 2)]


def test_errors_of_a_request_leave_the_connection_open(logged_in: Rig) -> None:
    missing, bad, good = logged_in.ask(
        {"op": "describe", "queue": "x"}, fetch("s", -1, 2), {"op": "describe", "queue": "s"}
    )
    assert error(missing) == {"error": "request", "reason": "not-found", "text": "no queue 'x' in vhost '/'"}
    assert error(bad)["reason"] == "invalid"
    assert good.kind == REPLY
    assert not logged_in.session.closing


def test_a_queue_of_another_connection_alone_is_not_shown(logged_in: Rig) -> None:
    logged_in.vhost.catalog.declare_queue(b"mine", False, True, False, {}, 99)
    (answer,) = logged_in.ask({"op": "describe", "queue": "mine"})
    assert error(answer)["reason"] == "locked"


def test_answers_wait_while_the_connection_takes_no_more(logged_in: Rig) -> None:
    logged_in.fill(b"s", b"a")
    logged_in.broker.pause(logged_in.line, True)
    assert logged_in.ask(fetch("s", 0, 1), {"op": "describe", "queue": "s"}) == []
    logged_in.broker.pause(logged_in.line, False)
    fetched, described = logged_in.frames()
    assert (fetched.kind, described.kind) == (BLOCKS, REPLY)


def test_who_asks_and_does_not_read_is_sent_away(logged_in: Rig) -> None:
    logged_in.broker.pause(logged_in.line, True)
    (answer,) = logged_in.ask(*[fetch("s", 0, 1)] * (FETCHES_MAX + 1))
    assert error(answer)["error"] == "protocol"
    assert logged_in.session.closing


def test_who_fetches_too_much_at_once_is_sent_away(logged_in: Rig) -> None:
    answers = logged_in.ask(*[fetch("s", 0, 1)] * (FETCHES_MAX + 3))
    assert [answer.kind for answer in answers] == [BLOCKS] * FETCHES_MAX + [ERROR]
    assert logged_in.session.closing


def test_a_damaged_file_is_an_error_of_the_storage(logged_in: Rig, tmp_path: Path) -> None:
    logged_in.fill(b"s", b"needle" * 20)
    log = logged_in.vhost.catalog.queue(b"s").log
    log.cached.clear()
    wal = max((tmp_path / "wal").glob("*.wal"))
    octets = wal.read_bytes()
    wal.write_bytes(octets.replace(b"needle", b"noodle"))
    (answer,) = logged_in.ask(fetch("s", 0, 1))
    assert error(answer)["error"] == "storage"
    assert "offsets 0 to 0" in str(error(answer)["text"])
    assert not logged_in.session.closing


def test_no_login_in_time(rig: Rig) -> None:
    rig.send(PREFACE)
    rig.handshake.tick(rig.clock.us)
    rig.handshake.tick(rig.clock.us + 9_000_000)
    assert not rig.is_closing()
    rig.handshake.tick(rig.clock.us + 11_000_000)
    assert rig.is_closing()


REQUESTS = st.sampled_from(
    [
        encode_json(REQUEST, LOGIN),
        encode_json(REQUEST, fetch("s", 0, 5)),
        encode_json(REQUEST, {"op": "describe", "queue": "s"}),
        encode_json(REQUEST, {"op": "describe", "queue": "ü"}),
        encode_json(REPLY, {}),
        encode_head(REQUEST, 3) + b"{}x",
        PREFACE,
    ]
)


@given(
    st.sampled_from([PREFACE, PREFACE + encode_json(REQUEST, LOGIN), b""]),
    st.lists(REQUESTS | st.binary(max_size=12), max_size=5),
    st.lists(st.integers(0, 300), max_size=4),
)
def test_any_octets_at_any_split_get_the_same_answer(start: bytes, parts: list[bytes], cuts: list[int]) -> None:
    stream = start + b"".join(parts)
    answers = []
    for edges in ([0, len(stream)], sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})):
        with TemporaryDirectory() as folder:
            rig = Rig(folder)
            rig.vhost.catalog.declare_queue(b"s", True, False, False, {"x-queue-type": "stream"}, 0)
            rig.turn()
            for at, edge in enumerate(edges[1:]):
                if not rig.is_closing():
                    rig.send(stream[edges[at] : edge])
            answers.append((octets_of(rig.line), rig.is_closing()))
            rig.close()
    assert answers[0] == answers[1]
