"""A leader's gate: clients are delivered what is committed, while the lease is valid, and in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.node.commit_gate import CommitGate
from forebay.node.group.lone_member import LoneMember
from tests.conformance.amqp091 import raw as amqp
from tests.conformance.mqtt import raw as mqtt
from tests.conformance.mqtt.v5.flows import LONG_S, expiry
from tests.node_rig import NodeRig

NO_ACK = 2
BODY = 3  # a kind of frame


class LeasedMember(LoneMember):
    """A member whose lease is as the test says."""

    may_deliver = True

    def can_deliver(self) -> bool:
        return self.may_deliver


class GateRig(NodeRig):
    """A node with a gate, and a lease."""

    def make_member(self) -> LeasedMember:
        self.member = LeasedMember(self.make_store())
        return self.member

    def open_gate(self, is_open: bool) -> None:
        """Have the lease be valid from now on, or no longer."""
        self.member.may_deliver = is_open
        self.node.check_lease()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[GateRig]:
    made = GateRig(tmp_path)
    made.broker.gate = CommitGate()
    made.open_gate(True)
    yield made
    made.close()


def test_a_record_is_delivered_when_it_is_committed_and_not_before(rig: GateRig) -> None:
    with amqp.connect(rig) as reader, amqp.connect(rig) as writer:
        writer.declare("work")
        writer.confirm()
        reader.consume("work", bits=NO_ACK)
        rig.holding = True
        writer.send(amqp.publish(1, "work", b"one"))
        rig.settle()
        assert rig.commit is not None and not rig.lines[0].sent
        assert rig.lines[0].kept_octets > 0
        assert rig.lines[0].waiting_octets() >= rig.lines[0].kept_octets
        rig.sync()
        assert reader.delivery()[2] == b"one"
        writer.confirmed(1)
        assert not rig.lines[0].kept_octets


def test_what_is_committed_leaves_though_more_is_delivered_in_every_turn(rig: GateRig) -> None:
    with amqp.connect(rig) as reader, amqp.connect(rig) as writer:
        writer.declare("work")
        writer.confirm()
        reader.consume("work", bits=NO_ACK)
        rig.holding = True
        for number in range(20):
            writer.send(amqp.publish(1, "work", b"%d" % number))
            rig.settle()
            commit, rig.commit = rig.commit, None
            assert commit is not None
            writer.send(amqp.publish(1, "work", b"and %d" % number))  # of a later frame
            rig.do(rig.node.turn())
            commit.run()
            rig.node.synced(commit)
            rig.do(rig.node.take())
            assert reader.delivery()[2] == b"%d" % number
            assert rig.lines[0].kept_octets
            rig.settle()
            rig.sync()
            assert reader.delivery()[2] == b"and %d" % number


def test_without_a_lease_publishers_are_confirmed_and_nothing_is_delivered(rig: GateRig) -> None:
    with amqp.connect(rig) as reader, amqp.connect(rig) as writer:
        writer.declare("work")
        writer.confirm()
        reader.consume("work", bits=NO_ACK)
        rig.open_gate(False)
        writer.send(amqp.publish(1, "work", b"one"))
        writer.confirmed(1)
        rig.settle()
        assert not rig.lines[0].sent and rig.lines[0].kept_octets
        rig.open_gate(True)
        assert reader.delivery()[2] == b"one"


def test_who_publishes_and_is_delivered_to_hears_all_in_order(rig: GateRig) -> None:
    with amqp.connect(rig) as client:
        client.declare("work")
        client.confirm()
        client.consume("work", bits=NO_ACK)
        rig.open_gate(False)
        client.send(amqp.publish(1, "work", b"one"))
        rig.settle()
        assert not rig.lines[0].sent
        rig.open_gate(True)
        assert client.delivery()[2] == b"one"
        client.confirmed(1)


def test_a_topic_s_subscriber_waits_for_the_commit_of_the_turn(rig: GateRig) -> None:
    reader = mqtt.connected(rig, "reader", properties=expiry(LONG_S), clean=False)
    reader.subscribe("a/#")
    writer = mqtt.connected(rig, "writer")
    rig.holding = True
    writer.send(mqtt.publish("a/b", b"kept", qos=1, id=7))
    rig.settle()
    assert not rig.lines[0].sent
    rig.sync()
    assert reader.delivery().body == b"kept"


def test_a_client_that_takes_its_leave_is_sent_all_before_the_end(rig: GateRig) -> None:
    client = amqp.Raw(rig)
    client.handshake()
    client.open_channel()
    client.declare("work")
    client.fill("work", [b"one"])
    client.consume("work", bits=NO_ACK)
    rig.open_gate(False)
    client.send(amqp.method(0, amqp.CLOSE, b"\0\xc8\0\0\0\0\0"))
    rig.settle()
    assert rig.lines and not rig.lines[0].sent
    rig.open_gate(True)
    assert client.delivery()[2] == b"one"
    client.expect(0, amqp.CLOSE_OK)
    rig.settle()
    assert not rig.lines


def test_a_connection_that_is_gone_leaves_nothing_at_the_gate(rig: GateRig) -> None:
    client = amqp.Raw(rig)
    client.handshake()
    client.open_channel()
    client.declare("work")
    client.fill("work", [b"one"])
    rig.open_gate(False)
    client.send(amqp.method(1, amqp.CONSUME, b"\0\0" + amqp.short("work") + amqp.short("t") + b"\2" + amqp.table()))
    rig.settle()
    assert rig.broker.gate is not None and rig.broker.gate.kept
    rig.lines[0].close()
    rig.settle()
    assert not rig.broker.gate.kept


def body(client: amqp.Raw) -> bytes:
    """The next body of one frame; whatever is no body before it is passed over."""
    while (found := client.frame())[0] != BODY:
        pass
    return found[2]


def test_who_waits_for_confirms_and_deliveries_of_many_frames_has_each_in_order(rig: GateRig) -> None:
    with amqp.connect(rig) as client:
        client.declare("work")
        client.confirm()
        client.consume("work", bits=NO_ACK)
        rig.holding = True
        client.send(amqp.publish(1, "work", b"0"))
        rig.settle()
        for number in range(1, 20):
            commit, rig.commit = rig.commit, None
            assert commit is not None
            client.send(amqp.publish(1, "work", b"%d" % number))  # of a later frame
            rig.do(rig.node.turn())
            commit.run()
            rig.node.synced(commit)
            rig.do(rig.node.take())
            rig.settle()
            assert rig.lines[0].kept_octets
        rig.sync()
        assert [body(client) for _ in range(20)] == [b"%d" % number for number in range(20)]


def test_what_may_leave_and_is_not_sent_yet_stays_before_all_else(rig: GateRig) -> None:
    with amqp.connect(rig) as client:
        client.declare("work")
        client.consume("work", bits=NO_ACK)
        rig.holding = True
        client.send(amqp.publish(1, "work", b"0"))
        rig.settle()
        for number in range(1, 20, 2):
            commit, rig.commit = rig.commit, None
            assert commit is not None
            client.send(amqp.publish(1, "work", b"%d" % number))
            rig.do(rig.node.turn())
            commit.run()
            rig.node.synced(commit)
            client.send(amqp.publish(1, "work", b"%d" % (number + 1)))  # before what may leave by now has left
            rig.settle()
        rig.sync()
        assert [body(client) for _ in range(20)] == [b"%d" % number for number in range(20)]


def test_what_is_let_go_by_a_lease_leaves_before_what_is_still_kept(rig: GateRig) -> None:
    with amqp.connect(rig) as reader, amqp.connect(rig) as writer:
        writer.declare("work")
        writer.confirm()
        reader.consume("work", bits=NO_ACK)
        rig.open_gate(False)
        writer.send(amqp.publish(1, "work", b"one"))
        rig.settle()
        rig.holding = True
        writer.send(amqp.publish(1, "work", b"two"))
        rig.settle()
        rig.open_gate(True)
        writer.send(amqp.publish(1, "work", b"three"))
        rig.settle()
        assert reader.delivery()[2] == b"one"
        assert not rig.lines[0].sent and rig.lines[0].kept_octets
        rig.sync()
        rig.settle()
        rig.sync()
        assert [reader.delivery()[2] for _ in range(2)] == [b"two", b"three"]


def test_an_answer_stays_behind_deliveries_that_are_still_kept(rig: GateRig) -> None:
    with amqp.connect(rig) as client, amqp.connect(rig) as writer:
        writer.declare("work")
        writer.confirm()
        client.consume("work", bits=NO_ACK)
        rig.holding = True
        writer.send(amqp.publish(1, "work", b"one"))
        rig.settle()
        writer.send(amqp.publish(1, "work", b"two"))
        rig.settle()
        client.send(amqp.method(1, amqp.QOS, b"\0\0\0\0\0\x0a\0"))
        rig.write()
        rig.settle()
        assert client.delivery()[2] == b"one"
        rig.sync()
        assert client.delivery()[2] == b"two"
        client.expect(1, amqp.QOS_OK)
