"""Messages for very many clients: delivered over several turns, in order, and none lost between them."""

from __future__ import annotations

from pathlib import Path

from forebay.broker.mqtt.audience import WIDE_MIN
from forebay.broker.mqtt.client_session import ClientSession, Subscription
from tests.conformance.mqtt.raw import PINGREQ, PINGRESP, publish, subscribe
from tests.conformance.mqtt.v5.flows import take
from tests.mqtt_rig import MqttRig, RigClient

COUNT = WIDE_MIN + 100
POINTS = 200  # of a turn


def make_rig(folder: Path, points: int = POINTS) -> MqttRig:
    """A rig with very many sessions that are kept, whose clients are away."""
    rig = MqttRig(folder)
    rig.vhost.fanout.wide.most = points
    clients = rig.vhost.clients
    for number in range(COUNT):
        client = rig.vhost.sessions.attach(b"away-%d" % number, 1_000_000 + number, False, 1000, None)
        clients.subscribe(client, Subscription(client, b"all", 1, rig.vhost.sessions.next_offset()))
        clients.detach(client, client.connection)
    rig.turn()
    return rig


def last_client(rig: MqttRig, present: bool = False) -> RigClient:
    """The client that comes last in every audience."""
    last = rig.durable("last", present)
    if not present:
        last.subscribe("all", "own")
    return last


def away(rig: MqttRig) -> list[ClientSession]:
    return [client for client in rig.vhost.sessions.by_number.values() if client.client_id.startswith(b"away")]


def counts(rig: MqttRig) -> set[int]:
    """The messages that wait for each of those who are away."""
    return {int(client.mqueue.count) for client in away(rig)}


def finish(rig: MqttRig) -> int:
    """Turns until all is delivered."""
    turns = 0
    while rig.vhost.fanout.wide.batches:
        rig.turn()
        turns += 1
        assert turns < 1000
    return turns


def test_a_message_for_very_many_lets_others_have_their_turns(tmp_path: Path) -> None:
    rig = make_rig(tmp_path)
    last, source, other = last_client(rig), rig.connected("source"), rig.connected("other")
    source.send(publish("all", b"1", 1, 1), publish("all", b"2", 1, 2), publish("own", b"3", 1, 3))
    rig.turn()
    other.send(PINGREQ)
    assert counts(rig) == {0, 2}  # some have both, which are one run
    source.acked(1)  # it is in the log
    source.acked(2)
    assert other.read(len(PINGRESP)) == PINGRESP
    # Who publishes to few is not kept waiting by that, and its messages come at once.
    other.publish("own", b"at once")
    assert take(last).body == b"at once"
    assert not source.line.sent
    assert finish(rig) > 2
    source.acked(3)
    assert [take(last).body for _ in range(3)] == [b"1", b"2", b"3"]
    assert counts(rig) == {2}
    rig.close()


def test_qos_0_for_very_many_who_are_there(tmp_path: Path) -> None:
    rig = make_rig(tmp_path, COUNT)
    for client in away(rig):
        rig.vhost.sessions.attach(client.client_id, 1_000_000 + client.number, False, 1000, None)
    last, source = last_client(rig), rig.connected("source")
    source.send(publish("all", b"1"), publish("own", b"2"), publish("all", b"3"))
    rig.turn()
    assert not last.line.sent
    assert [take(last).body for _ in range(2)] == [b"1", b"2"]
    rig.settle()
    assert take(last).body == b"3"
    rig.close()


def test_a_crash_between_the_parts_loses_nothing_that_was_confirmed(tmp_path: Path) -> None:
    rig = make_rig(tmp_path)
    last_client(rig).vanish()
    source = rig.connected("source")
    source.send(publish("all", b"x", 1, 1))
    rig.turn()
    source.acked(1)
    assert counts(rig) == {0, 1}
    rig.crash()
    assert counts(rig) == {1}
    assert take(last_client(rig, present=True)).body == b"x"
    rig.close()


def test_a_checkpoint_between_the_parts(tmp_path: Path) -> None:
    """It says what waits for whom: also of those who have not been reached."""
    rig = make_rig(tmp_path)
    last_client(rig).vanish()
    rig.connected("source").send(publish("all", b"x", 1, 1))
    rig.turn()
    assert counts(rig) == {0, 1}
    rig.vhosts.sweep(rig.clock.us)  # the log forgets nothing that somebody still has to get
    rig.store.rotate(rig.broker.checkpoint())
    rig.flush()
    assert counts(rig) == {1}
    rig.crash()
    assert counts(rig) == {1}
    assert take(last_client(rig, present=True)).body == b"x"
    rig.close()


def test_the_log_keeps_what_is_on_its_way(tmp_path: Path) -> None:
    rig = make_rig(tmp_path, COUNT)
    last = last_client(rig)
    for client in away(rig):
        rig.vhost.sessions.attach(client.client_id, 1_000_000 + client.number, False, 1000, None)
    source = rig.connected("source")
    source.send(publish("all", b"x", 1, 1))
    rig.turn()
    sessions = rig.vhost.sessions
    sessions.tick(rig.clock.us)
    assert sessions.log.start < sessions.log.end
    assert sessions.needed(0, sessions.log.end) == [(sessions.log.end - 1, sessions.log.end)]
    assert take(last).body == b"x"
    rig.close()


def test_who_lowers_its_subscription_between_the_parts_keeps_what_was_published(tmp_path: Path) -> None:
    """[MQTT-3.8.4-4], also after a crash: the subscription does not say any more that it waits."""
    rig = make_rig(tmp_path)
    last, source = last_client(rig), rig.connected("source")
    source.send(publish("all", b"x", 1, 1))
    rig.turn()
    last.send(subscribe(1, ("all", 0)))
    last.vanish()
    rig.turn()
    rig.flush()
    rig.crash()
    assert take(last_client(rig, present=True)).body == b"x"
    rig.close()


def test_sessions_that_end_between_the_parts_get_nothing(tmp_path: Path) -> None:
    rig = make_rig(tmp_path)
    source = rig.connected("source")
    source.send(publish("all", b"x", 1, 1))
    rig.turn()
    gone = away(rig)[-1]
    rig.vhost.clients.forget(gone)
    finish(rig)
    assert counts(rig) == {1}
    assert gone.mqueue.count == 0
    rig.close()
