"""Fetches that are answered with a part of a segment: which octets are named, and what waits meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from forebay.log.block import HEAD_OCTETS, block_octets, parse_whole
from forebay.session.blocks.answers import FILE_OCTETS_MIN
from forebay.wire.blocks.frames import (
    BLOCKS,
    FETCH_OCTETS_MAX,
    FRAME_HEAD_OCTETS,
    PREFACE,
    REPLY,
    REQUEST,
    decode_blocks_head,
    encode_json,
    frame_octets,
)
from tests.unit.session.blocks.test_connection import LOGIN, Rig, blocks, fetch

BODY = 3000
IN_SEGMENTS = 2000
IN_WAL = 200


def to_segments(rig: Rig) -> None:
    """Have all that is in the WAL rewritten as segments."""
    rig.checkpoint()
    log = rig.vhost.catalog.queue(b"s").log
    for _ in range(100):
        rig.flush()
        rig.housekeep()
    assert log.index.files[log.first] < 0


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    made = Rig(str(tmp_path_factory.mktemp("data")))
    made.store.logs.segment_octets_max = 4 << 20
    made.vhost.catalog.declare_queue(b"s", True, False, False, {"x-queue-type": "stream"}, 0)
    made.turn()
    made.send(PREFACE)
    made.ask(LOGIN)
    for number in range(0, IN_SEGMENTS, 10):
        made.fill(b"s", *(b"%08d" % (number + at) + bytes(BODY) for at in range(10)))
    to_segments(made)
    made.fill(b"s", *(b"%08d" % (IN_SEGMENTS + at) + bytes(BODY) for at in range(IN_WAL)))
    made.session.sends_files = True
    yield made
    made.close()


def taken(rig: Rig) -> tuple[int, list[tuple[int, int]]]:
    """What the server sends of a file: where to go on, base and count of each block; then it is sent."""
    head = rig.session.out.getvalue()
    rig.session.out.truncate(0)
    part = rig.session.file
    assert part is not None and not rig.session.parts
    rig.session.file = None
    octets = os.pread(part.handle, part.octets, part.position)
    os.close(part.handle)
    assert head[4] == BLOCKS and frame_octets(head, 0, 1 << 30) == len(head) + len(octets)
    found: list[tuple[int, int]] = []
    while octets:
        length = block_octets(octets[:HEAD_OCTETS])
        block = parse_whole(octets[:length])
        assert block.body(0)[:8] == b"%08d" % block.base
        found.append((int(block.base), int(block.count)))
        octets = octets[length:]
    rig.session.file_sent()
    return decode_blocks_head(head[FRAME_HEAD_OCTETS:])[0], found


def test_all_records_come_from_their_files_and_the_rest_from_memory(rig: Rig) -> None:
    offset = 0
    answers = 0
    while offset < IN_SEGMENTS:
        rig.send(encode_json(REQUEST, fetch("s", offset, 10_000)))
        if rig.session.file is None:  # the last blocks of a segment may be too few
            next, _, found = blocks(rig.frames()[0])
        else:
            next, found = taken(rig)
            answers += 1
        assert found[0][0] == offset
        assert sum(count for _, count in found) == next - offset
        offset = next
    assert answers >= IN_SEGMENTS * BODY // FETCH_OCTETS_MAX
    assert rig.session.file is None
    assert blocks(rig.ask(fetch("s", offset, 10_000))[0])[0] == IN_SEGMENTS + IN_WAL


def test_the_octets_asked_for_bound_an_answer(rig: Rig) -> None:
    rig.send(encode_json(REQUEST, fetch("s", 0, IN_SEGMENTS, octets_max=1)))
    next, found = taken(rig) if rig.session.file is not None else blocks(rig.frames()[0])[::2]
    assert len(found) == 1 and next == found[0][1]
    rig.send(encode_json(REQUEST, fetch("s", 500, 501)))
    file = rig.session.file
    next, found = taken(rig) if file is not None else blocks(rig.frames()[0])[::2]
    assert len(found) == 1 and found[0][0] <= 500 < next


def test_what_is_asked_while_a_file_is_sent_waits(rig: Rig) -> None:
    rig.send(encode_json(REQUEST, fetch("s", 0, IN_SEGMENTS)))
    file = rig.session.file
    assert file is not None and file.octets >= FILE_OCTETS_MIN
    head = len(rig.session.out)
    rig.send(encode_json(REQUEST, {"op": "describe", "queue": "s"}) + encode_json(REQUEST, fetch("s", 0, 1)))
    rig.session.end_turn(rig.store.lsn, rig.store.durable)
    assert len(rig.session.out) == head
    taken(rig)
    rig.session.end_turn(rig.store.lsn, rig.store.durable)
    described = rig.session.out.getvalue()
    assert described[4] == REPLY
    rig.session.out.truncate(0)
    rig.session.out.write(described[frame_octets(described, 0, 1 << 20) :])
    assert taken(rig)[0] >= 1


def test_a_server_that_sends_no_files_gets_octets(rig: Rig) -> None:
    rig.session.sends_files = False
    try:
        (answer,) = rig.ask(fetch("s", 0, IN_SEGMENTS))
        assert blocks(answer)[2][0][0] == 0
        assert rig.session.file is None
    finally:
        rig.session.sends_files = True
