"""Operations over the block protocol: an answer leaves when what it says is on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.session.blocks.connection import HELD
from forebay.wire.blocks.frames import ERROR, PREFACE, REPLY, REQUEST, decode_json, encode_json
from tests.unit.management.test_cluster_words import Told
from tests.unit.session.blocks.test_connection import LOGIN, Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(str(tmp_path))
    made.send(PREFACE)
    made.ask({**LOGIN, "vhost": ""})
    yield made
    made.close()


def ask(rig: Rig, do: str, **arguments: object) -> None:
    """A request, and the end of the turn without its write."""
    rig.send(encode_json(REQUEST, {"op": "control", "do": do, **arguments}))


def is_held(rig: Rig) -> bool:
    return bool(rig.session.hold_lsn > rig.store.durable)


def test_the_answer_to_a_change_waits_for_the_disk(rig: Rig) -> None:
    ask(rig, "queue.declare", queue="q")
    assert rig.session.hold_lsn == HELD
    rig.turn(sync=False)
    assert is_held(rig)
    rig.write()
    assert not is_held(rig)
    assert [frame.kind for frame in rig.sent()] == [REPLY]


class Cluster(Told):
    """A cluster whose leader moves when it is told so."""

    def transfer(self, node: str) -> None:
        assert node == "b"


def test_a_leader_that_hands_over_answers_at_once(rig: Rig) -> None:
    rig.broker.control.cluster = Cluster()
    rig.vhost.catalog.declare_queue(b"q", True, False, False, {}, 0)  # others write in the same turn
    ask(rig, "cluster.transfer", node="b")
    rig.turn(sync=False)
    assert not is_held(rig)
    (frame,) = rig.sent()
    assert decode_json(frame.payload) == {"node": "b"}


def test_a_question_waits_for_nothing(rig: Rig) -> None:
    ask(rig, "queue.list")
    assert not is_held(rig)
    rig.turn(sync=False)
    (frame,) = rig.sent()
    assert decode_json(frame.payload) == {"items": [], "total": 0}


def test_a_change_that_changed_nothing_waits_for_nothing(rig: Rig) -> None:
    ask(rig, "queue.delete", queue="nowhere")
    rig.turn(sync=False)
    assert not is_held(rig)
    assert [frame.kind for frame in rig.sent()] == [ERROR]


@pytest.mark.parametrize("consumed", [False, True])
def test_a_purge_waits_for_the_disk(rig: Rig, consumed: bool) -> None:
    rig.vhost.catalog.declare_queue(b"q", True, False, False, {}, 0)
    if consumed:
        rig.vhost.consumers.consume(b"q", 7, 1, b"c", False, False, 1, {})
    rig.fill(b"q", b"1", b"2", b"3")
    ask(rig, "queue.purge", queue="q")
    rig.turn(sync=False)
    assert is_held(rig)
    rig.write()
    assert not is_held(rig)


def test_an_answer_behind_a_change_waits_too(rig: Rig) -> None:
    ask(rig, "queue.declare", queue="q")
    rig.turn(sync=False)
    ask(rig, "queue.list")
    rig.turn(sync=False)
    assert is_held(rig)
    rig.write()
    assert not is_held(rig)
    assert [frame.kind for frame in rig.sent()] == [REPLY, REPLY]


def test_who_has_entered_no_vhost_reads_no_queue(rig: Rig) -> None:
    rig.vhost.catalog.declare_queue(b"q", True, False, False, {}, 0)
    (frame,) = rig.ask({"op": "describe", "queue": "q"})
    assert frame.kind == ERROR
    assert "refused for user" in str(decode_json(frame.payload)["text"])


def test_an_answer_has_a_limit(rig: Rig) -> None:
    arguments = {f"x-ha-{name}": "x" * 250_000 for name in ("mode", "nodes", "params")}
    rig.vhost.catalog.declare_queue(b"q", True, False, False, {**arguments, "x-ha-policy": ["\x01" * 700_000]}, 0)
    ask(rig, "queue.show", queue="q")
    rig.turn(sync=False)
    (frame,) = rig.sent()
    assert frame.kind == ERROR
    assert "ask for less" in str(decode_json(frame.payload)["text"])
