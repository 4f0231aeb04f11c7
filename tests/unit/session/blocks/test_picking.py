"""Fetches with a filter: exactly the records for which it holds come, with their offsets, and work is bounded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.core.message import ACCEPTED, AMQP091
from forebay.log.block import HEAD_OCTETS, block_octets, parse_whole
from forebay.session.blocks.picking import WORK_A_RECORD, WORK_A_REQUEST, WORK_A_TURN
from forebay.wire.blocks.frames import (
    BLOCKS_HEAD_OCTETS,
    PICKED,
    PREFACE,
    REQUEST,
    BlocksFrame,
    decode_blocks_head,
    encode_json,
)
from tests.unit.session.blocks.test_connection import LOGIN, Rig, error, fetch

BATCH = 500


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(str(tmp_path))
    made.vhost.catalog.declare_queue(b"s", True, False, False, {"x-queue-type": "stream"}, 0)
    made.turn()
    made.send(PREFACE)
    made.ask(LOGIN)
    yield made
    made.close()


def picked(frame: BlocksFrame) -> tuple[int, int, list[tuple[int, bytes]]]:
    """Where to go on, the start, and offset and body of each record."""
    assert frame.kind == PICKED, frame.payload
    octets = frame.payload[BLOCKS_HEAD_OCTETS:]
    found: list[tuple[int, bytes]] = []
    while octets:
        length = block_octets(octets[:HEAD_OCTETS])
        block = parse_whole(octets[:length])
        end = length + 8 * int(block.count)
        for at in range(int(block.count)):
            offset = int.from_bytes(octets[length + 8 * at : length + 8 * at + 8], "little")
            found.append((offset, block.body(at)))
        octets = octets[end:]
    return *decode_blocks_head(frame.payload), found


def pick_all(rig: Rig, filter: str, first: int, end: int, octets_max: int) -> tuple[list[tuple[int, bytes]], int]:
    """All that a client gets that goes on where each answer ended, and in how many answers."""
    found: list[tuple[int, bytes]] = []
    answers = 0
    while first < end:
        (answer,) = rig.ask(fetch("s", first, end, filter=filter, octets_max=octets_max))
        next, _, part = picked(answer)
        assert all(first <= offset < next for offset, _ in part)
        answers += 1
        found += part
        if next == first:
            break
        first = next
    return found, answers


def publish(rig: Rig, count: int) -> dict[int, bytes]:
    """Records of several blocks: numbers as JSON, each with its number as routing key."""
    bodies: dict[int, bytes] = {}
    for first in range(0, count, BATCH):
        for number in range(first, min(first + BATCH, count)):
            bodies[number] = json.dumps({"n": number, "pad": "x" * (number % 7)}).encode()
            route = rig.vhost.router.route(b"", b"$queue/s/%d" % number)
            assert rig.vhost.publishing.publish(route, AMQP091, b"", bodies[number]).status == ACCEPTED
        rig.clock.us += 1000
        rig.turn()
    return bodies


@pytest.mark.parametrize(
    ("filter", "wanted"),
    [
        ("/n % 3 = 0", lambda n: n % 3 == 0),
        ("/n BETWEEN 490 AND 1010", lambda n: 490 <= n <= 1010),
        ("offset >= 1200", lambda n: n >= 1200),
        ("routing_key LIKE '7$'", lambda n: n % 10 == 7),
        ("deliveries = 0 AND queue = 's'", lambda n: True),
        ("/n < 0", lambda n: False),
    ],
)
def test_exactly_the_records_that_match_come(rig: Rig, filter: str, wanted: object) -> None:
    assert callable(wanted)
    bodies = publish(rig, 1700)
    expected = [(offset, body) for offset, body in bodies.items() if wanted(offset)]
    whole, answers = pick_all(rig, filter, 0, 1700, 1 << 20)
    assert whole == expected
    assert answers > 1, "one request may not look at all of them"
    assert pick_all(rig, filter, 0, 5000, 3000)[0] == expected
    part = [(offset, body) for offset, body in expected if 495 <= offset < 1203]
    assert pick_all(rig, filter, 495, 1203, 1 << 20)[0] == part


def test_timestamps_come_with_the_records(rig: Rig) -> None:
    publish(rig, 600)
    (answer,) = rig.ask(fetch("s", 400, 600, filter="/n IN (499, 500)"))
    octets = answer.payload[BLOCKS_HEAD_OCTETS:]
    block = parse_whole(octets[: block_octets(octets[:HEAD_OCTETS])])
    assert [int(block.timestamp_us(1) - block.timestamp_us(0)), int(block.count)] == [1000, 2]


def test_what_is_looked_at_does_not_go_to_the_cache(rig: Rig) -> None:
    publish(rig, 900)
    log = rig.vhost.catalog.queue(b"s").log
    log.cached.clear()
    assert len(pick_all(rig, "/n >= 0", 0, 900, 1 << 20)[0]) == 900
    rig.ask(fetch("s", 0, 900))
    assert log.cached == {}


def test_a_bad_filter_is_refused_in_the_parsers_words(rig: Rig) -> None:
    publish(rig, 1)
    refusal = error(rig.ask(fetch("s", 0, 1, filter="/n >"))[0])
    assert refusal["reason"] == "invalid"
    assert "filter" in str(refusal["text"])
    assert picked(rig.ask(fetch("s", 0, 1, filter="/n = 0"))[0])[2] != []


def test_a_range_that_is_gone(rig: Rig) -> None:
    publish(rig, 1000)
    rig.vhost.catalog.queue(b"s").log.truncate(700)
    next, start, found = picked(rig.ask(fetch("s", 0, 1000, filter="/n % 100 = 0"))[0])
    assert (next, start, [offset for offset, _ in found]) == (1000, 700, [700, 800, 900])
    assert picked(rig.ask(fetch("s", 1000, 2000, filter="/n > 0"))[0]) == (1000, 700, [])


def test_what_is_too_much_for_a_turn_waits_for_the_next(rig: Rig) -> None:
    publish(rig, 1700)
    at_once = WORK_A_TURN // WORK_A_REQUEST
    requests = [encode_json(REQUEST, fetch("s", 0, 1700, filter="/n < 0")) for _ in range(at_once + 1)]
    rig.send(b"".join(requests))
    assert len(rig.written()) == at_once
    assert rig.vhosts.shared.next_turn.sessions == [rig.session.id]
    assert rig.vhosts.has_work()
    assert len(rig.frames()) == at_once + 1


def test_a_request_does_a_bounded_amount_of_work(rig: Rig) -> None:
    publish(rig, 1700)
    next, _, _ = picked(rig.ask(fetch("s", 0, 1700, filter="/n < 0"))[0])
    assert 100 < next < WORK_A_REQUEST // WORK_A_RECORD
    long = "/n IN (" + ", ".join(str(number) for number in range(2000, 2900)) + ")"
    assert picked(rig.ask(fetch("s", 0, 1700, filter=long))[0])[0] <= next
