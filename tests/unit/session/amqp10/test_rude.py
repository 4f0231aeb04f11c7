"""Clients that do anything at all, also with octets that are wrong, leave nothing behind and break nothing."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import cast

import pytest

from tests.conformance.amqp10 import raw as amqp10
from tests.conformance.amqp10.raw import Raw, Uint
from tests.node_rig import Line, NodeRig
from tests.rude_amqp10 import amqp10_act

CLIENTS = 4


def spoilt(chance: Random, octets: bytes) -> bytes:
    """The same with some octets changed, seldom those that say how many there are."""
    found = bytearray(octets)
    for _ in range(chance.randrange(1, 4)):
        found[chance.randrange(4 if chance.random() < 0.9 else 0, len(found))] = chance.randrange(256)
    return bytes(found)


def talk(rig: NodeRig, chance: Random) -> None:
    """One client, which may stay."""
    raw = Raw(rig)
    line = cast(Line, raw.socket)
    raw.log_in()
    frame_max = Uint(chance.choice((512, 65_536)))
    raw.send(amqp10.opened(f"rude-{chance.randrange(4)}", None, frame_max))
    raw.send(amqp10.begin(window=chance.choice((0, 1, 3, 1000))))
    for number in range(chance.randrange(5, 120)):
        octets = amqp10_act(chance, number)
        if line.gone:
            return
        raw.send(spoilt(chance, octets) if chance.random() < 0.05 else octets)
        if chance.random() < 0.3:
            rig.settle()
    if chance.random() < 0.5:
        rig.settle()
        line.close()


@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_left_of_clients_that_do_anything(tmp_path: Path, seed: int) -> None:
    rig = NodeRig(tmp_path, message_octets_max=200_000)
    chance = Random(seed)
    for _ in range(CLIENTS):
        talk(rig, chance)
    rig.settle()
    for line in list(rig.lines):
        line.close()
    rig.settle()
    assert not rig.vhost.catalog.memory.clients
    for queue in rig.vhost.catalog.queues.values():
        assert not queue.owner
        for group in queue.groups.values():
            assert not group.consumers
    rig.close()
