"""A whole broker in this process, without a socket or a thread: clients by octets, turns and syncs by hand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.core.errors import StorageError
from forebay.directory.logins.passwords import SALT_OCTETS, hash_password
from forebay.node.ready import OWN_STATE, STORAGE
from forebay.node.shutdown import say_goodbye, stop_reading
from tests.conformance.amqp091 import raw as amqp
from tests.conformance.mqtt import raw as mqtt
from tests.conformance.mqtt.v5.flows import LONG_S, expiry
from tests.node_rig import NodeRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[NodeRig]:
    made = NodeRig(tmp_path)
    yield made
    made.close()


def test_a_publish_is_confirmed_once_it_is_synced_and_not_before(rig: NodeRig) -> None:
    threads = threading.active_count()
    with amqp.connect(rig) as client:
        client.declare("work")
        client.confirm()
        rig.holding = True
        client.send(amqp.publish(1, "work", b"one"))
        rig.settle()
        assert rig.commit is not None and not rig.lines[0].sent
        rig.sync()
        client.confirmed(1)
        rig.holding = False
        client.consume("work")
        tag, redelivered, body = client.delivery()
        assert (body, redelivered) == (b"one", False)
        client.settle(amqp.ACK, tag)
        client.sync()
        assert client.count("work") == (0, 1)
    assert threading.active_count() == threads


def test_a_crash_keeps_what_was_confirmed_and_nothing_else(rig: NodeRig) -> None:
    with amqp.connect(rig) as client:
        client.declare("work")
        client.fill("work", [b"kept", b"settled"])
        client.consume("work")
        assert [client.delivery()[2], client.delivery()[2]] == [b"kept", b"settled"]
        client.settle(amqp.ACK, 2)
        rig.wait(1)  # what nobody waits for goes to the disk
        rig.holding = True
        client.send(amqp.publish(1, "work", b"lost"))
        rig.settle()
    rig.holding = False
    rig.crash()
    with amqp.connect(rig) as client:
        client.consume("work")
        assert client.delivery()[2] == b"kept"
        client.sync()
        assert client.count("work") == (0, 1)


def test_a_session_of_mqtt_outlives_a_crash(rig: NodeRig) -> None:
    first = mqtt.connected(rig, "reader", properties=expiry(LONG_S), clean=False)
    first.subscribe("a/#")
    first.vanish()
    second = mqtt.connected(rig, "writer")
    assert second.publish("a/b", b"kept") == 0
    rig.wait(1)
    rig.crash()
    again = mqtt.connected(rig, "reader", properties=expiry(LONG_S), clean=False, present=True)
    found = again.delivery()
    assert (found.topic, found.body, found.qos) == ("a/b", b"kept", 1)
    again.send(mqtt.puback(found.id))
    again.quiet()


def test_a_client_that_comes_again_takes_its_session_over(rig: NodeRig) -> None:
    first = mqtt.connected(rig, "one")
    second = mqtt.connected(rig, "one")
    first.refused(0x8E)
    second.quiet()
    assert len(rig.broker.connections) == len(rig.broker.open) == 1


def test_a_password_is_proven_outside_of_the_turn(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path, users={"guest": hash_password("guest", bytes(SALT_OCTETS))})
    client = amqp.Raw(rig)
    client.send(amqp.HEADER)
    client.expect(0, amqp.START)
    client.send(start_ok("guest"))
    (line,) = rig.lines
    ready = rig.node.turn()
    (proof,) = ready.proofs
    assert line.holds and line in ready.reading and not line.sent
    proof.run()
    rig.broker.answered(proof)
    assert not line.holds
    client.expect(0, amqp.TUNE)
    rig.close()


def test_a_wrong_password_is_counted(rig: NodeRig) -> None:
    client = amqp.Raw(rig)
    client.send(amqp.HEADER)
    client.expect(0, amqp.START)
    client.send(start_ok("wrong"))
    client.expect(0, amqp.CLOSE)
    assert rig.broker.stats.refused_logins["amqp"] == 1
    assert rig.broker.audit.entries == []


def start_ok(password: str) -> bytes:
    answer = amqp.table(amqp.CLIENT) + amqp.short("PLAIN") + amqp.long(f"\0guest\0{password}") + amqp.short("en_US")
    return amqp.method(0, amqp.START_OK, answer)


def test_a_failed_sync_stops_the_node(rig: NodeRig) -> None:
    with amqp.connect(rig) as client:
        client.declare("work")
        client.confirm()
        rig.holding = True
        client.send(amqp.publish(1, "work", b"one"))
        rig.settle()
        assert rig.commit is not None
        rig.node.synced(rig.commit, StorageError("fsync: EIO"))
        ready = rig.node.turn()
        assert ready.stop is not None and ready.stop.why == STORAGE
        assert not ready.send and ready.commit is None and not rig.lines[0].sent


def test_a_doubt_about_what_all_share_stops_the_node_before_it_writes(rig: NodeRig) -> None:
    with amqp.connect(rig) as client:
        rig.broker.vhosts.by_name[b"/"].catalog.queues[b"held"] = object()  # type: ignore[assignment]
        with pytest.raises((AttributeError, TypeError), match=r"owner|Queue"):  # interpreted, compiled
            client.send(amqp.method(1, amqp.QUEUE_DECLARE, b"\0\0" + amqp.short("held") + b"\x02" + amqp.table()))
        ready = rig.node.turn()
        assert ready.stop is not None and ready.stop.why == OWN_STATE
        assert ready.commit is None and not ready.send


def test_a_connection_too_many_is_cut(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path, connections_max=1)
    with amqp.connect(rig):
        assert amqp.Raw(rig).ended()
    with amqp.connect(rig) as client:
        client.sync()


def test_who_publishes_too_fast_is_not_read_until_the_node_is_woken(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path, client_messages_per_s=1, client_messages_burst=1)
    with amqp.connect(rig) as client:
        client.declare("work")
        client.send(*[amqp.publish(1, "work", b"much")] * 3)
        (line,) = rig.lines
        ready = rig.node.turn()
        rig.do(ready)
        assert line.holds and line in ready.reading and ready.again_us > rig.clock.us
        rig.clock.us = ready.again_us
        rig.broker.wake(rig.clock.us)
        assert rig.node.turn().reading == [line] and not line.holds


def test_what_a_client_sends_is_taken_however_it_is_cut(rig: NodeRig) -> None:
    client = amqp.Raw(rig)
    for octet in amqp.HEADER:
        client.send(bytes([octet]))
    client.expect(0, amqp.START)


def test_leave_is_taken_of_every_client(rig: NodeRig) -> None:
    with amqp.connect(rig) as client:
        reader = mqtt.connected(rig, "c")
        stop_reading(rig.broker)
        rig.settle()
        say_goodbye(rig.broker)
        rig.do(rig.node.take())
        client.expect(0, amqp.CLOSE)
        client.send(amqp.method(0, amqp.CLOSE_OK))
        assert client.ended()
        reader.refused(0x8B)
        assert not rig.broker.open
