"""Recovery of MQTT sessions: backlogs with gaps, packets in flight, and blocks that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.internal_log import SESSIONS_LOG
from forebay.broker.mqtt.client_session import AWAIT_PUBACK, AWAIT_PUBCOMP, AWAIT_PUBREC, PHASE_BITS
from forebay.broker.mqtt.session_recovery import Backlogs, StoredSessions
from tests.conformance.mqtt.raw import PUBREC, UNSUBACK, acknowledge, connect, publish, unsubscribe
from tests.conformance.mqtt.v5.flows import DUP, bodies, expiry, publish_whole, receive_maximum, subscribed
from tests.mqtt_rig import MqttRig

LONG_S = 600
FILL = b" " * 5000  # so long that each message has a segment of its own
TOPICS = "aabbabbbaabab"


def sessions_of(rig: MqttRig) -> StoredSessions:
    sessions = rig.vhost.sessions
    assert isinstance(sessions, StoredSessions)
    return sessions


def with_two_backlogs(rig: MqttRig) -> dict[str, list[bytes]]:
    """Sessions A and B that are away, each with every few messages of the log; the bodies that wait for each."""
    expected: dict[str, list[bytes]] = {"a": [], "b": []}
    for name in expected:
        subscribed(rig.durable(name.upper()), (name, 1)).vanish()
    source = rig.connected("source")
    for number, topic in enumerate(TOPICS):
        publish_whole(source, topic, b"%d" % number)
        expected[topic].append(b"%d" % number)
    return expected


@pytest.mark.parametrize("checkpoints", [0, 1, 2])
def test_a_backlog_with_gaps_is_the_same_after_a_crash(tmp_path: Path, checkpoints: int) -> None:
    """What waits stands in a checkpoint as intervals; of what came after it the subscriptions say the same."""
    rig = MqttRig(tmp_path)
    expected = with_two_backlogs(rig)
    for _ in range(checkpoints):
        rig.checkpoint()
        rig.crash()
    more = rig.connected("more")
    for topic in "abba":
        publish_whole(more, topic, b"later")
        expected[topic].append(b"later")
    rig.crash()
    for name, wanted in expected.items():
        sessions = sessions_of(rig)
        assert sessions.clients[name.upper().encode()].mqueue.count == len(wanted)
        assert bodies(rig.durable(name.upper(), True), len(wanted)) == wanted
    rig.close()


def test_what_was_taken_since_a_checkpoint_does_not_wait_again(tmp_path: Path) -> None:
    """Some of it waited in the checkpoint, some came after it; the acknowledgements of all are on the disk."""
    rig = MqttRig(tmp_path)
    expected = with_two_backlogs(rig)
    rig.checkpoint()
    publish_whole(rig.connected("more"), "a", b"later")
    expected["a"].append(b"later")
    reader = rig.durable("A", True, receive_maximum(2))
    assert bodies(reader, 4) == expected["a"][:4]
    rig.turn()
    rig.flush()
    rig.crash()
    assert bodies(rig.durable("A", True), len(expected["a"]) - 4) == expected["a"][4:]
    assert bodies(rig.durable("B", True), len(expected["b"])) == expected["b"]
    rig.close()


def test_qos_0_for_who_was_connected_at_a_crash_waits_from_then_on(tmp_path: Path) -> None:
    """It is away since the crash: what comes until it is back is kept for it, also over the next crash."""
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("away"), ("a", 1)).vanish()  # for this one it is in the log
    subscribed(rig.durable("sink"), ("a", 0))
    rig.crash()
    rig.connected("source").publish("a", b"0", 0)
    rig.flush()
    for _ in range(2):
        assert sessions_of(rig).clients[b"sink"].mqueue.count == 1
        rig.crash()
    assert bodies(rig.durable("sink", True), 1) == [b"0"]
    rig.close()


def test_packets_in_flight_of_which_the_log_has_nothing_more_are_taken_as_acknowledged(tmp_path: Path) -> None:
    """The note of their end was lost with a crash, while the log had forgotten the messages already."""
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("A"), ("a", 1)).vanish()
    source = rig.connected("source")
    for number in range(6):
        publish_whole(source, "a", b"%d" % number)
        rig.turn()
    sessions = sessions_of(rig)
    client = sessions.clients[b"A"]
    sessions.log.truncate(3)
    assert (sessions.log.start, sessions.log.end) == (3, 6)
    client.inflight = {
        1: 4 << PHASE_BITS | AWAIT_PUBACK,
        2: 2 << PHASE_BITS | AWAIT_PUBACK,
        3: AWAIT_PUBCOMP,
        4: 1 << PHASE_BITS | AWAIT_PUBREC,
        5: 3 << PHASE_BITS | AWAIT_PUBREC,
        6: 0 << PHASE_BITS | AWAIT_PUBACK,
        7: 6 << PHASE_BITS | AWAIT_PUBACK,  # beyond the end
    }
    Backlogs(sessions).check_inflight(client)
    assert list(client.inflight.items()) == [
        (1, 4 << PHASE_BITS | AWAIT_PUBACK),
        (3, AWAIT_PUBCOMP),
        (5, 3 << PHASE_BITS | AWAIT_PUBREC),
        (4, AWAIT_PUBCOMP),
    ]
    rig.close()


def put_in_segments(rig: MqttRig) -> None:
    """Have what was published so far in segments of the sessions' log."""
    for _ in range(4):
        rig.checkpoint()
        rig.flush()
        rig.housekeep()


def spoil(folder: Path, first: int) -> None:
    """Change an octet of the segment of the sessions' log that begins here, or change it back."""
    path = folder / "queues" / str(SESSIONS_LOG) / f"{first:020d}.seg"
    octets = bytearray(path.read_bytes())
    octets[1000] ^= 0x40
    path.write_bytes(octets)


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_what_cannot_be_read_is_kept_and_comes_once_it_can(tmp_path: Path, damaged: int, checkpoint: bool) -> None:
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("reader"), ("t/#", 1)).vanish()
    writer = rig.connected("writer")
    for number in range(3):
        publish_whole(writer, "t/x", b"%d" % number + FILL)
        put_in_segments(rig)
    if checkpoint:
        rig.checkpoint()
    spoil(tmp_path, damaged)
    rig.crash()
    sessions = sessions_of(rig)
    assert sessions.needed(0, 3) == [(0, 3)]
    assert sessions.unreadable == [(damaged, damaged + 1)]
    reader = rig.durable("reader", True)
    assert [reader.delivery().body[:1] for _ in range(2)] == [b"%d" % each for each in range(3) if each != damaged]
    reader.vanish()
    rig.later(1000)
    assert sessions.log.start <= damaged, "what cannot be read is not forgotten"
    assert (0, 3) in sessions.needed(0, 3)
    rig.crash()  # once more: each start writes a checkpoint
    spoil(tmp_path, damaged)
    rig.crash()
    reader = rig.durable("reader", True)
    assert sorted(reader.delivery().body[:1] for _ in range(3)) == [b"0", b"1", b"2"]
    reader.quiet()
    rig.close()


def test_a_block_that_cannot_be_matched_is_kept_and_those_behind_it_are(tmp_path: Path) -> None:
    """Opening the folder has read it, and when the sessions want it the disk refuses."""
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("reader"), ("t/#", 1)).vanish()
    writer = rig.connected("writer")
    for number in range(3):
        publish_whole(writer, "t/x", b"%d" % number + FILL)
        put_in_segments(rig)
    spoil(tmp_path, 1)
    rig.crash()
    sessions = sessions_of(rig)
    client = sessions.clients[b"reader"]
    client.mqueue.clear()
    sessions.unreadable = []
    client.covered = 0  # as if no checkpoint had been made since
    Backlogs(sessions).fill()
    assert sessions.unreadable == [(1, 2)]
    assert client.wanted(0, 3) == [(0, 1), (2, 3)]
    rig.close()


@pytest.mark.parametrize("qos", [1, 2])
def test_a_packet_in_flight_that_cannot_be_read_is_not_taken_as_acknowledged(tmp_path: Path, qos: int) -> None:
    rig = MqttRig(tmp_path)
    reader = subscribed(rig.durable("reader", properties=receive_maximum(1)), ("t/#", qos))
    writer = rig.connected("writer")
    for number in range(2):
        publish_whole(writer, "t/x", b"%d" % number + FILL, qos)
        put_in_segments(rig)
    sent = reader.delivery()
    assert sent.body[:1] == b"0"
    rig.flush()
    rig.crash()
    spoil(tmp_path, 0)
    rig.crash()
    phase = AWAIT_PUBACK if qos == 1 else AWAIT_PUBREC
    assert list(sessions_of(rig).clients[b"reader"].inflight.values()) == [0 << PHASE_BITS | phase]
    spoil(tmp_path, 0)
    rig.crash()
    again = rig.durable("reader", True).delivery()
    assert (again.body[:1], again.bits & DUP, again.id) == (b"0", DUP, sent.id)
    rig.close()


def test_the_end_of_a_session_after_a_checkpoint_stays_its_end(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("A"), ("a", 1)).vanish()
    subscribed(rig.durable("B"), ("b", 1), ("e", 1), ("f", 0)).vanish()
    rig.checkpoint()
    rig.connected("A", clean=True, present=False).vanish()
    again = subscribed(rig.durable("B", True), ("c", 2), ("f", 1))
    again.send(unsubscribe(2, "e"))
    again.expect(UNSUBACK)
    again.vanish()
    rig.flush()
    rig.crash()
    sessions = sessions_of(rig)
    assert list(sessions.clients) == [b"B"]
    subscriptions = sessions.clients[b"B"].subscriptions.values()
    assert [(each.filter, each.qos) for each in subscriptions] == [(b"b", 1), (b"f", 1), (b"c", 2)]
    assert sessions.next_number > sessions.clients[b"B"].number
    assert sessions.wills == [] and sessions.left == []
    rig.close()


def test_a_qos_2_publish_whose_identifier_is_known_is_known_after_a_checkpoint(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("sink"), ("a", 1)).vanish()
    writer = rig.client()
    writer.send(connect("writer", properties=expiry(LONG_S), clean=False))
    writer.connack(present=False)
    writer.send(publish("a", b"once", 2, 9))
    writer.expect(PUBREC)
    rig.checkpoint()
    rig.crash()
    assert sessions_of(rig).clients[b"writer"].received == {9}
    writer = rig.durable("writer", True)
    writer.send(publish("a", b"once", 2, 9, bits=8))
    writer.expect(PUBREC)
    writer.send(acknowledge(0x62, 9))
    rig.turn()
    assert bodies(rig.durable("sink", True), 1) == [b"once"]
    rig.close()
