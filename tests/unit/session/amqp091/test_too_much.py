"""What one client of AMQP 0.9.1 may have done at once: frames before login, and reads that hold many methods."""

from __future__ import annotations

from pathlib import Path

from forebay.session.amqp091.connection import Amqp091Session
from forebay.session.amqp091.handshake import Amqp091Handshake
from forebay.session.amqp091.publish import ROUTE_POINTS
from forebay.session.meter import DECLARE_POINTS, WORK_A_TURN
from tests.conformance.amqp091.raw import (
    CHANNEL_OPEN,
    HEADER,
    OPEN,
    QUEUE_DECLARE,
    START_OK,
    TUNE_OK,
    long,
    method,
    number,
    publish,
    short,
    table,
)
from tests.logins import from_machine
from tests.mqtt_rig import MqttRig

FRAME_OCTETS = 131_072
NOTHING = b"\0\0"


class AmqpRig(MqttRig):
    """The same node, with sessions of AMQP that are given by hand what comes in a read."""

    def running(self) -> Amqp091Session:
        """A session with an open channel."""
        line = self.connect("amqp")
        line.received(HEADER + start_ok(b""))
        tuned = method(0, TUNE_OK, number(2047, 2) + number(FRAME_OCTETS, 4) + number(0, 2))
        line.received(tuned + method(0, OPEN, short("/") + b"\0\0"))
        session = line.session
        assert isinstance(session, Amqp091Session)
        self.give(session, method(1, CHANNEL_OPEN, b"\0"))
        line.drop()
        return session

    def give(self, session: Amqp091Session, *octets: bytes) -> bytes:
        """What comes in one read; what is left of it."""
        data = b"".join(octets)
        return data[session.receive(data) :]


def start_ok(fields: bytes) -> bytes:
    return method(0, START_OK, long(fields) + short("PLAIN") + long("\0guest\0guest") + short("en"))


def test_a_long_frame_before_login_ends_the_connection(tmp_path: Path) -> None:
    rig = AmqpRig(tmp_path)
    session = Amqp091Handshake(1, from_machine("amqp"), rig.auth, rig.options)
    session.receive(HEADER + start_ok(short("a") + b"S" + long("x" * 65_536))[:1000])
    assert "longer than frame_max 4096 allows" in session.reason
    rig.close()


def test_after_login_frames_are_as_long_as_was_agreed(tmp_path: Path) -> None:
    rig = AmqpRig(tmp_path)
    session = rig.running()
    assert rig.give(session, publish(1, "nowhere", b"x" * 100_000)) == b""
    assert session.reason == ""
    rig.close()


def test_a_read_of_many_declarations_is_spread_over_turns(tmp_path: Path) -> None:
    rig = AmqpRig(tmp_path)
    session = rig.running()
    count = 3 * WORK_A_TURN // DECLARE_POINTS
    rest = b"".join(method(1, QUEUE_DECLARE, NOTHING + short(f"q{each}") + b"\0" + table()) for each in range(count))
    turns = 0
    while rest:
        rest = rig.give(session, rest)
        turns += 1
        assert session.meter.is_over == bool(rest)
        assert len(rig.vhost.catalog.queues) <= turns * WORK_A_TURN // DECLARE_POINTS + 1
    assert turns == 3
    assert len([name for name in rig.vhost.catalog.queues if name.startswith(b"q")]) == count
    rig.close()


def test_a_read_of_publishes_to_many_new_places_is_spread_over_turns_and_none_is_lost(tmp_path: Path) -> None:
    rig = AmqpRig(tmp_path)
    session = rig.running()
    rig.give(session, method(1, QUEUE_DECLARE, NOTHING + short("all") + b"\0" + table()))
    rig.vhost.catalog.bind(b"all", b"amq.topic", b"#", {})
    most = WORK_A_TURN // ROUTE_POINTS
    rest = b"".join(publish(1, f"k{each}", b"x", exchange="amq.topic") for each in range(3 * most))
    turns = 0
    while rest:
        rest = rig.give(session, rest)
        turns += 1
        assert session.published() <= turns * (most + 1)
    assert turns > 2
    rig.turn()
    assert rig.vhost.catalog.queues[b"all"].log.end == 3 * most
    rig.close()
