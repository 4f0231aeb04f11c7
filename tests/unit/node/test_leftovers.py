"""Nothing of a connection stays when it has gone, whatever it was doing; tests/fuzz has found what was left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.amqp091 import raw as amqp
from tests.conformance.mqtt import raw as mqtt
from tests.node_rig import NodeRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[NodeRig]:
    made = NodeRig(tmp_path)
    yield made
    made.close()


def test_a_client_that_stops_reading_when_its_session_is_over_is_forgotten(rig: NodeRig) -> None:
    raw = amqp.Raw(rig)
    raw.handshake()
    line = rig.lines[-1]
    line.sendall(amqp.frame(3, 7, b"a body on no channel"))  # the session is over, and the turn has not come yet
    line.left = 1 << 30
    line.fill(True)
    assert rig.broker.vhosts.by_name[b"/"].consumers.paused
    line.close()
    rig.settle()
    assert not rig.broker.vhosts.by_name[b"/"].consumers.paused


@pytest.mark.parametrize(
    "octets",
    [
        mqtt.publish("kept", bytes(200_000), 1, 5, bits=1) + mqtt.subscribe(6, ("kept", 1)),
        mqtt.subscribe(5, ("$queue/q", 1)) + mqtt.publish("$queue/q", bytes(200_000), 1, 6),
        mqtt.subscribe(6, ("#", 1)),
    ],
    ids=["retained", "queue", "what was retained"],
)
@pytest.mark.parametrize("one_read", [True, False])
def test_what_comes_for_a_vhost_in_the_turn_that_deletes_it_does_nothing(
    rig: NodeRig, octets: bytes, one_read: bool
) -> None:
    rig.vhosts.add(b"v")
    line = rig.connect("mqtt")
    line.sendall(mqtt.connect("c", login=("v:guest", "guest")))
    line.sendall(mqtt.publish("kept", b"x", 1, 1, bits=1))
    rig.settle()
    rig.vhosts.delete(b"v")
    if one_read:
        line.sendall(octets)
    else:
        line.sendall(octets[: len(octets) // 2])
        line.sendall(octets[len(octets) // 2 :])
    rig.settle()
    vhosts = rig.vhosts.all()
    there = {number for vhost in vhosts for number in vhost.catalog.queues_by_id}
    there.update(internal.number for vhost in vhosts for internal in vhost.turn.internals)
    assert set(rig.store.logs.stored) == there
    rig.checkpoint()
    rig.crash()
    rig.settle()
    assert line.gone and rig.vhosts.all() == [rig.vhost]


def test_who_comes_as_a_user_that_is_made_anew_in_one_turn_may_stay(rig: NodeRig) -> None:
    users = rig.vhosts.directory.users
    lines = []
    for name in ("first", "second"):
        users.add("bo", "secret", [])
        users.set_permissions("bo", b"/", ".*", ".*", ".*")
        lines.append(rig.connect("mqtt"))
        lines[-1].sendall(mqtt.connect(name, login=("bo", "secret")))
        for proof in rig.broker.logins.take_proofs():
            proof.run()
            rig.broker.answered(proof)
        if name == "first":
            rig.settle()
            users.delete("bo")
    rig.settle()
    assert [line.gone for line in lines] == [True, False]
    lines[1].sendall(mqtt.subscribe(1, ("a", 1)))
    rig.settle()
    assert not lines[1].gone
