"""STAGE, commit and abort over a real vhost and store: what is refused, what comes back, and what is in the queues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.core.message import AMQP091, MQTT, QOS_SHIFT, RETAIN, Properties
from forebay.directory.permissions import Permission
from forebay.log.block import HEAD_OCTETS, LONG_OCTETS, make_head, parse_block
from forebay.wire.amqp091.properties import encode_properties
from forebay.wire.blocks.frames import ERROR, PREFACE, REPLY, REQUEST, STAGE, decode_json, encode_head, encode_json
from forebay.wire.blocks.stage import encode_stage
from tests.blocks import EMPTY, annotated_block, octets_of, stage_frame, staged_block, to_queue
from tests.unit.session.blocks.test_connection import LOGIN, Rig, error


class StagingRig(Rig):
    """With the requests of a sink."""

    def stage(self, block: bytes, part: str = "p", batch: int = 0, query: str = "q") -> dict[str, object]:
        self.send(stage_frame(query, batch, part, block))
        (frame,) = self.frames()
        return decode_json(frame.payload)

    def commit_batch(self, batch: int = 0, query: str = "q", **parts: int) -> dict[str, object]:
        self.send(encode_json(REQUEST, {"op": "commit", "query": query, "batch": batch, "parts": parts}))
        (frame,) = self.frames()
        return decode_json(frame.payload)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[StagingRig]:
    made = StagingRig(str(tmp_path))
    made.vhost.catalog.declare_queue(b"q", True, False, False, {}, 0)
    made.send(PREFACE)
    made.ask(LOGIN)
    yield made
    made.close()


def test_rows_are_published_by_the_commit_and_not_before(rig: StagingRig) -> None:
    assert rig.stage(to_queue(b"q", b"1", b"2")) == {"rows": 2, "again": False}
    assert rig.stage(to_queue(b"q", b"3"), "other") == {"rows": 1, "again": False}
    assert rig.kept(b"q") == []
    assert rig.commit_batch(other=1, p=2) == {"rows": 3, "unroutable": 0, "again": False}
    assert rig.kept(b"q") == [b"3", b"1", b"2"]
    assert rig.commit_batch(p=2, other=1) == {"rows": 3, "unroutable": 0, "again": True}
    assert rig.kept(b"q") == [b"3", b"1", b"2"]
    assert not rig.vhost.staging.staged
    assert not rig.vhost.staging.open


def test_long_blocks_are_published_too(rig: StagingRig) -> None:
    """One that is alone in its turn is stored as a long body, beside its block."""
    bodies = [bytes([at]) * (LONG_OCTETS // 2) for at in range(3)]
    assert rig.stage(to_queue(b"q", *bodies))["rows"] == 3
    assert rig.stage(to_queue(b"q", bytes(LONG_OCTETS)), "other")["rows"] == 1
    assert rig.commit_batch(p=3, other=1)["rows"] == 4
    while rig.vhosts.has_work():
        rig.turn()
    assert sorted(rig.kept(b"q")) == sorted([*bodies, bytes(LONG_OCTETS)])


def test_rows_of_a_batch_that_is_committed_are_not_kept(rig: StagingRig) -> None:
    rig.stage(to_queue(b"q", b"1"), batch=5)
    assert rig.commit_batch(5, p=1)["rows"] == 1
    assert rig.stage(to_queue(b"q", b"again"), batch=5) == {"rows": 0, "again": True}
    assert rig.stage(to_queue(b"q", b"again"), batch=4) == {"rows": 0, "again": True}
    assert rig.commit_batch(4, p=9) == {"rows": 0, "unroutable": 0, "again": True}
    (frame,) = rig.ask({"op": "transaction", "query": "q"})
    assert decode_json(frame.payload) == {"batch": 5}
    (frame,) = rig.ask({"op": "transaction", "query": "nobody"})
    assert decode_json(frame.payload) == {"batch": -1}
    assert rig.kept(b"q") == [b"1"]


def test_an_abort_throws_away_what_is_not_committed(rig: StagingRig) -> None:
    rig.stage(to_queue(b"q", b"1"))
    (frame,) = rig.ask({"op": "abort", "query": "q", "batch": 0})
    assert decode_json(frame.payload) == {}
    answer = rig.commit_batch(p=1)
    assert answer["reason"] == "precondition"
    assert answer["text"] == "commit: only 0 of 1 rows of part 'p' of batch 0 of query 'q' are staged"
    rig.stage(to_queue(b"q", b"2"))
    assert rig.commit_batch(p=1)["rows"] == 1
    (frame,) = rig.ask({"op": "abort", "query": "q", "batch": 0})
    assert error(frame)["text"] == "abort: batch 0 of query 'q' is committed"
    assert rig.kept(b"q") == [b"2"]


def test_a_part_whose_end_is_missing_is_not_committed(rig: StagingRig) -> None:
    rig.stage(to_queue(b"q", b"1"))
    assert rig.commit_batch(p=2)["reason"] == "precondition"
    rig.stage(to_queue(b"q", b"2"))
    assert rig.commit_batch(p=1)["reason"] == "precondition"
    assert rig.commit_batch(p=2)["rows"] == 2
    assert rig.kept(b"q") == [b"1", b"2"]


def test_parts_that_the_commit_does_not_name_are_thrown_away(rig: StagingRig) -> None:
    rig.stage(to_queue(b"q", b"first"), "attempt_0", 1)
    rig.stage(to_queue(b"q", b"second"), "attempt_1", 1)
    rig.stage(to_queue(b"q", b"before"), "attempt_0", 0)
    rig.stage(to_queue(b"q", b"later"), "attempt_0", 2)
    rig.stage(to_queue(b"q", b"another's"), "attempt_0", 0, "other")
    assert rig.commit_batch(1, attempt_1=1)["rows"] == 1
    assert sorted(rig.vhost.staging.staged) == [("guest\0other", 0), ("guest\0q", 2)]
    assert rig.commit_batch(2, attempt_0=1)["rows"] == 1
    assert rig.kept(b"q") == [b"second", b"later"]


def test_administrators_see_what_is_staged_and_committed(rig: StagingRig) -> None:
    rig.stage(to_queue(b"q", b"1"), batch=1)
    assert rig.commit_batch(1, p=1)["rows"] == 1
    block = to_queue(b"q", b"2", b"3")
    rig.stage(block, batch=2)
    rig.stage(to_queue(b"q", b"4"), query="another")
    (frame,) = rig.ask({"op": "control", "do": "transaction.list"})
    nothing = {"user": "guest", "batch": -1, "state": "", "rows": 0, "unroutable": 0}
    other = {**nothing, "query": "another", "staged": [{"batch": 0, "parts": 1, "rows": 1, "octets": 128}]}
    staged = [{"batch": 2, "parts": 1, "rows": 2, "octets": len(block)}]
    done = {"user": "guest", "batch": 1, "state": "committed", "rows": 1, "unroutable": 0}
    assert decode_json(frame.payload)["items"] == [other, {**done, "query": "q", "staged": staged}]


def test_a_batch_without_rows_is_committed_too(rig: StagingRig) -> None:
    assert rig.commit_batch(3) == {"rows": 0, "unroutable": 0, "again": False}
    assert rig.commit_batch(3)["again"] is True


def test_rows_go_the_ways_of_published_messages(rig: StagingRig) -> None:
    rig.vhost.catalog.declare_queue(b"by-header", True, False, False, {}, 0)
    rig.vhost.catalog.declare_queue(b"s", True, False, False, {"x-queue-type": "stream"}, 0)
    rig.vhost.catalog.bind(b"by-header", b"amq.headers", b"", {"x-match": "all", "kind": "a"})
    rig.vhost.catalog.bind(b"q", b"amq.topic", b"a.#", {})
    kind = with_headers([("kind", "a")])
    copied = with_headers([("CC", ["s"])])
    rig.stage(
        staged_block(
            (b"amq.headers", b"", kind, b"1"),
            (b"amq.headers", b"", EMPTY, b"nowhere"),
            (b"amq.topic", b"a.b", EMPTY, b"2"),
            (b"", b"q", copied, b"3"),
            (b"", b"s", EMPTY, b"4"),
        )
    )
    rig.stage(staged_block((b"amq.topic", b"a/c", b"", b"5"), format=MQTT | 1 << QOS_SHIFT | RETAIN))
    assert rig.commit_batch(p=6) == {"rows": 6, "unroutable": 1, "again": False}
    assert rig.kept(b"by-header") == [b"1"]
    assert rig.kept(b"q") == [b"2", b"3", b"5"]
    assert rig.kept(b"s") == [b"3", b"4"]
    assert rig.vhost.retained.count() == 1


def test_what_properties_ask_for_is_done(rig: StagingRig) -> None:
    once = with_headers([("x-deduplication-key", "k")])
    rig.stage(
        staged_block(
            (b"", b"q", with_headers([("x-delay", 60_000)]), b"later"),
            (b"", b"q", once, b"once"),
            (b"", b"q", once, b"twice"),
        )
    )
    assert rig.commit_batch(p=3)["rows"] == 3
    assert rig.kept(b"q") == [b"once"]
    assert rig.vhost.delayed.count() == 1


def test_an_expiration_of_a_row_holds(rig: StagingRig) -> None:
    rig.stage(staged_block((b"", b"q", b"\x01\x00\x011", b"goes"), (b"", b"q", EMPTY, b"stays")))
    assert rig.commit_batch(p=2)["rows"] == 2
    assert rig.vhost.catalog.queue(b"q").ready() == 2
    rig.tick(1_000_000)
    rig.turn()
    assert rig.vhost.catalog.queue(b"q").ready() == 1


def with_headers(headers: list[tuple[str, object]]) -> bytes:
    properties = Properties()
    properties.headers = headers
    return encode_properties(properties)


def test_a_full_queue_makes_the_rest_of_a_transaction_wait(rig: StagingRig) -> None:
    limits = {"x-max-length": 2, "x-overflow": "reject-publish"}
    rig.vhost.catalog.declare_queue(b"small", True, False, False, limits, 0)
    rig.stage(to_queue(b"small", b"1", b"2", b"3", b"4", b"5"))
    rig.send(encode_json(REQUEST, {"op": "commit", "query": "q", "batch": 0, "parts": {"p": 5}}))
    assert rig.frames() == []
    assert rig.session.waiting()
    assert not rig.vhost.has_work(), "it waits for room"
    assert rig.kept(b"small") == [b"1", b"2"]
    staging = rig.vhost.staging
    staging.stage("other", 0, "p", 1, to_queue(b"q", b"another's"), rig.clock.us)
    staging.commit("other", 0, {"p": 1}, rig.clock.us)
    rig.turn()
    assert rig.kept(b"q") == [b"another's"], "one that waits does not keep up the others"
    for expected in ([b"1", b"2"], [b"3", b"4"]):
        taken = [rig.vhost.consumers.get(b"small", 1, 1, True) for _ in expected]
        assert [each.block.body(each.index) for each in taken if each is not None] == expected
        frames = rig.frames()
    (frame,) = frames
    assert decode_json(frame.payload) == {"rows": 5, "unroutable": 0, "again": False}
    assert rig.vhost.catalog.queue(b"small").ready() == 1


def test_a_transaction_that_waits_for_room_writes_nothing_meanwhile(rig: StagingRig) -> None:
    """Each sync brings a turn: were there something to write in each turn, the disk would never rest."""
    limits = {"x-max-length": 1, "x-overflow": "reject-publish"}
    rig.vhost.catalog.declare_queue(b"small", True, False, False, limits, 0)
    rig.stage(to_queue(b"small", b"1", b"2"))
    rig.send(encode_json(REQUEST, {"op": "commit", "query": "q", "batch": 0, "parts": {"p": 2}}))
    assert rig.frames() == []
    rig.turn(sync=False)
    assert rig.kept(b"small") == [b"1"] and rig.session.waiting()
    assert rig.commit is None, "nothing has happened since the last turn"


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (to_queue(b"nobody", b"1"), "stage: row 0: no queue 'nobody' in vhost '/'"),
        (staged_block((b"", b"q", EMPTY, b""), (b"none", b"", EMPTY, b"")), "row 1: no exchange 'none' in vhost '/'"),
        (staged_block((b"", b"q", EMPTY, b""), (b"", b"q", b"\0", b"")), "row 1: properties: content header ends"),
        (staged_block((b"", b"q", b"\x01\x00\x02-1", b"")), "row 0: invalid expiration '-1'"),
        (staged_block((b"", b"q", b"\x00\x10\x02me", b"")), "row 0: user_id property set to 'me'"),
        (staged_block((b"", b"q", b"\x02\x00\x15amq.rabbitmq.reply-to", b"")), "fast reply consumer does not exist"),
        (to_queue(b"q", b"1")[:-8], "stage: block of 128 octets has only 120"),
        (to_queue(b"q", b"1")[:-1] + b"\1", "stage: checksum does not match"),
        (annotated_block((b"", b"q", EMPTY, b""), b"\1"), "stage: annotations are the broker's alone"),
        (staged_block((b"", b"q", EMPTY, b""), format=0), "row 0: format 0 is neither"),
        (staged_block((b"", b"q", EMPTY, b""), format=AMQP091 | 16), "row 0: format 17 is neither"),
        (staged_block((b"", b"q", b"", b""), format=MQTT | 3 << QOS_SHIFT), "row 0: format 50 is neither"),
        (staged_block((b"amq.topic", b"a/#", b"", b""), format=MQTT), "row 0: topic 'a/#' contains a wildcard"),
        (staged_block((b"amq.topic", b"$SYS/x", b"", b""), format=MQTT), "row 0: topic '$SYS/x' is no topic"),
        (staged_block((b"amq.topic", b"$queue/q/$ack", b"", b""), format=MQTT), "is no topic of messages"),
        (staged_block((b"amq.topic", b"a", b"\x23\0\1", b""), format=MQTT), "row 0: properties: a topic alias"),
        (staged_block((b"", b"$queue/q/$commit", EMPTY, b"")), "routing key '$queue/q/$commit' is a command"),
        (staged_block((b"", b"q", EMPTY, b"x" * (16 * 1024 * 1024 + 1))), "message_octets_max is 16777216"),
    ],
)
def test_what_cannot_be_published_is_refused_when_it_comes(rig: StagingRig, block: bytes, text: str) -> None:
    answer = rig.stage(block)
    assert text in str(answer["text"])
    assert not rig.session.closing
    assert not rig.vhost.staging.staged
    assert rig.stage(to_queue(b"q", b"1"))["rows"] == 1


def test_a_block_whose_offsets_lie_is_refused(rig: StagingRig) -> None:
    good = to_queue(b"q", b"1", b"2")
    block = parse_block(good[:HEAD_OCTETS], good[HEAD_OCTETS:])
    for at in (block.exchange_at, block.key_at + 4, block.properties_at + 8, block.body_at + 4):
        data = bytearray(block.data)
        data[at : at + 4] = (1 << 20).to_bytes(4, "little")
        head = make_head(bytes(data), 0, 2, 0, 2, 4, 2)
        assert "offsets of a column do not ascend" in str(rig.stage(head + bytes(data))["text"])
    assert octets_of(block) == good


def test_rights_are_checked_when_rows_come(rig: StagingRig) -> None:
    rig.session.rights.grants.permission = Permission("", "^q$", "")
    assert "write access to exchange 'amq.default' in vhost '/' refused" in str(rig.stage(to_queue(b"q", b""))["text"])


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xff\xff\xff\xff", b"\x02\0\0\0{}\0\0", b"\x02\0\0\0[]\0\0" + bytes(48), b"\x02\0\0\0{}\0\1" + bytes(48)],
)
def test_what_no_stage_frame_can_be_ends_the_connection(rig: StagingRig, payload: bytes) -> None:
    rig.send(encode_head(STAGE, len(payload)) + payload)
    (frame,) = rig.frames()
    assert frame.kind == ERROR
    assert decode_json(frame.payload)["error"] == "protocol" or not rig.session.closing


def test_nobody_stages_before_the_login(tmp_path: Path) -> None:
    rig = Rig(str(tmp_path))
    rig.send(PREFACE + stage_frame("q", 0, "p", to_queue(b"q", b"1")))
    (frame,) = rig.frames()
    assert error(frame)["error"] == "protocol"
    assert rig.is_closing()
    rig.close()


def test_frames_may_come_in_pieces_and_together(rig: StagingRig) -> None:
    octets = stage_frame("q", 0, "p", to_queue(b"q", b"1", b"2")) + stage_frame("q", 0, "r", to_queue(b"q", b"3"))
    for at in range(0, len(octets), 7):
        rig.send(octets[at : at + 7])
    frames = rig.frames()
    assert [decode_json(frame.payload)["rows"] for frame in frames] == [2, 1]
    assert [frame.kind for frame in frames] == [REPLY, REPLY]
    assert rig.commit_batch(p=2, r=1)["rows"] == 3


def test_the_block_of_a_stage_frame_is_aligned() -> None:
    for length in range(1, 20):
        assert len(encode_stage("q" * length, 0, "p", 0)) % 8 == 0
