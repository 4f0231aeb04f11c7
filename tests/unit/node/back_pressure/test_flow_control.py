"""The table of held connections: of each reason, a connection that is held for it, and is released."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forebay.broker.limits.hold_reasons import NAMES, SENTENCES
from forebay.directory.logins.passwords import SALT_OCTETS, hash_password
from forebay.node.shutdown import say_goodbye, stop_reading
from tests.conformance.amqp091 import raw as amqp
from tests.conformance.mqtt import raw as mqtt
from tests.node_rig import Line, NodeRig

MIB = 1 << 20
MUCH = 1 << 60
Facts = dict[str, object]
Make = Callable[..., NodeRig]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    rigs: list[NodeRig] = []

    def made(**options: object) -> NodeRig:
        rigs.append(NodeRig(tmp_path, None, **options))
        return rigs[0]

    yield made
    for rig in rigs:
        assert sum(rig.broker.listed.view.counts().values()) == 0, "an entry is left"
        rig.close()


def why(line: Line) -> list[str]:
    """The names of the reasons for which a connection is held."""
    current = line.session or line.handshake
    assert current is not None
    found = line.rig.broker.listed.holds(int(current.id))
    counts = line.rig.broker.listed.view.counts()
    for each in found:
        assert counts[str(each["reason"])] > 0 and each["text"]
        assert int(str(each["since_ms"])) <= line.rig.clock.us // 1000
    return [str(each["reason"]) for each in found]


def holds(line: Line) -> Facts:
    """The only reason for which a connection is held."""
    assert line.session is not None
    (found,) = line.rig.broker.listed.holds(int(line.session.id))
    return found


def is_read(line: Line) -> bool:
    """Return whether the broker reads a connection."""
    return line.holds == 0


def explained(rig: NodeRig, operation: str, **given: object) -> list[Facts]:
    origin = rig.lines[0].session.origin() if rig.lines[0].session is not None else None
    assert origin is not None
    items = rig.broker.control.perform(origin, operation, given)["items"]
    assert isinstance(items, list)
    return items


def test_every_reason_has_a_sentence() -> None:
    assert len(set(NAMES)) == len(NAMES) == len(SENTENCES)


def test_a_login_that_is_being_checked(make: Make) -> None:
    rig = make(users={"guest": hash_password("guest", bytes(SALT_OCTETS))})
    client = amqp.Raw(rig)
    client.send(amqp.HEADER)
    client.expect(0, amqp.START)
    answer = amqp.table(amqp.CLIENT) + amqp.short("PLAIN") + amqp.long("\0guest\0guest") + amqp.short("en_US")
    client.send(amqp.method(0, amqp.START_OK, answer))
    (line,) = rig.lines
    rig.do(rig.node.turn())
    assert why(line) == ["login"] and not is_read(line)
    rig.prove()
    assert why(line) == [] and is_read(line)


def test_a_broker_that_stops(make: Make) -> None:
    rig = make()
    with amqp.connect(rig):
        (line,) = rig.lines
        stop_reading(rig.broker)
        assert why(line) == ["shutdown"] and not is_read(line)
        say_goodbye(rig.broker)
        assert why(line) == [] and is_read(line)


def test_much_that_is_to_be_sent_first(make: Make) -> None:
    rig = make(send_buffers_octets_max=256 << 10, send_buffer_octets_max=64 << 10)
    reader, publisher = mqtt.connected(rig, "reader"), mqtt.connected(rig, "publisher")
    reader.subscribe("t", qos=0)
    line = rig.lines[1]
    publisher.send(mqtt.publish("t", bytes(100 << 10), 0))
    assert why(line) == ["send_backlog"]
    rig.do(rig.node.turn())
    assert why(line) == []


def test_work_of_a_turn_that_is_used_up(make: Make) -> None:
    rig = make()
    with amqp.connect(rig) as client:
        (line,) = rig.lines
        declare = amqp.method(1, amqp.QUEUE_DECLARE, b"\0\0" + amqp.short("q") + b"\x02" + amqp.table())
        client.send(declare * 150)
        assert why(line) == ["turn_work"]
        rig.do(rig.node.turn())  # the one that goes on begins the next turn
        rig.do(rig.node.turn())
        assert why(line) == []


def test_a_search_that_goes_on_in_the_next_turn(make: Make) -> None:
    rig = make()
    rig.vhost.budgets.publishes.reach_most = 0
    with amqp.connect(rig) as client:
        (line,) = rig.lines
        for number in range(60):
            rig.vhost.catalog.declare_queue(b"q%d" % number, False, False, False, {}, 0)
            rig.vhost.catalog.bind(b"q%d" % number, b"amq.fanout", b"", {})
        client.send(amqp.publish(1, "t", b"x", "amq.fanout"))
        assert why(line) == ["search_budget"]
        rig.vhost.budgets.publishes.reach_most = MUCH
        rig.settle()
        assert why(line) == []


def test_a_delivery_to_very_many(make: Make) -> None:
    rig = make()
    publisher = mqtt.connected(rig, "publisher")
    (line,) = rig.lines
    assert line.session is not None
    batch = rig.vhost.fanout.wide.ticket()
    line.session.meter.await_delivery(batch)
    publisher.send(mqtt.publish("t", b"x", 0))
    assert why(line) == ["wide_delivery"]
    rig.settle()
    assert batch.done and why(line) == []


def test_consumers_that_wait_for_their_turn(make: Make) -> None:
    rig = make()
    with amqp.connect(rig) as client:
        (line,) = rig.lines
        client.declare("q")
        pace = rig.vhost.budgets.filters.pace
        pace.note(1)
        pace.end_turn(rig.clock.us)
        client.send(amqp.publish(1, "q", b"x") * 100)
        assert why(line) == ["consumers_wait"]
        rig.settle()
        assert why(line) == []


def test_a_queue_over_its_share(make: Make) -> None:
    rig = make(queue_octets_max=MIB)
    with amqp.connect(rig, client={"capabilities": {"connection.blocked": True}}) as client, amqp.connect(rig) as other:
        line, another = rig.lines
        client.declare("full")
        other.declare("empty")
        for body in (bytes(2 * MIB), b"x"):  # a queue is weighed when the records of a turn are sealed
            client.send(amqp.publish(1, "full", body))
            rig.settle()
        client.send(amqp.publish(1, "full", b"one more"))
        other.send(amqp.publish(1, "empty", b"x"))
        assert why(line) == ["queue_share"] and why(another) == []
        assert not is_read(line) and is_read(another) and rig.broker.pressure.choked() == 1
        since = holds(line)["since_ms"]
        assert holds(line)["queue"] == "full" and holds(line)["until_ms"] is None
        rig.broker.every_second(rig.clock.us)
        assert why(line) == ["queue_share"], "it is read once, and still held"
        assert is_read(line) and rig.broker.pressure.choked() == 0 and holds(line)["since_ms"] == since
        client.send(amqp.publish(1, "full", b"and another"))
        assert not is_read(line)
        rig.broker.every_second(rig.clock.us)
        shown = explained(rig, "queue.explain", queue="full")
        assert [each["reason"] for each in shown] == ["queue_share"] and shown[0]["connection"] == 1
        assert "over its share of disk" in str(shown[0]["text"])
        assert explained(rig, "queue.explain", queue="empty") == []
        other.send(amqp.method(1, (50, 30), b"\0\0" + amqp.short("full") + b"\0"))
        rig.settle()
        rig.broker.every_second(rig.clock.us)
        rig.broker.every_second(rig.clock.us)
        assert why(line) == [] and is_read(line)


def test_too_little_memory_and_too_little_room_on_the_disk(make: Make) -> None:
    rig = make()
    with amqp.connect(rig) as client:
        (line,) = rig.lines
        client.declare("q")
        rig.broker.surroundings.memory_octets = MUCH
        rig.broker.every_second(rig.clock.us)
        client.send(amqp.publish(1, "q", b"x"))
        assert why(line) == ["memory_alarm"] and line.session is not None and line.session.unread
        (shown,) = explained(rig, "queue.explain", queue="q")
        assert shown["text"] == "its publishes are held back: the broker is low on memory"
        assert explained(rig, "connection.explain", id=1)[0]["reason"] == "memory_alarm"
        rig.broker.surroundings.memory_octets = 0
        rig.broker.surroundings.free_octets = 0
        rig.broker.every_second(rig.clock.us)
        assert why(line) == ["disk_alarm"] and not is_read(line), "it is held for another reason now"
        rig.broker.surroundings.free_octets = MUCH
        rig.broker.every_second(rig.clock.us)
        assert why(line) == [] and is_read(line) and not line.session.unread


def test_a_disk_that_is_behind_and_does_not_answer(make: Make) -> None:
    rig = make(disk_answer_timeout_ms=1000)
    with amqp.connect(rig) as client:
        (line,) = rig.lines
        client.declare("q")
        rig.holding = True
        for _ in range(66):
            client.send(amqp.publish(1, "q", bytes(MIB)))
            rig.settle()
        assert why(line) == ["disk_behind"]
        for _ in range(20):
            rig.tick()
        assert why(line) == ["disk_silent"]
        rig.holding = False
        rig.sync()
        rig.settle()
        assert why(line) == []


def test_an_mqtt_client_that_does_not_keep_up(make: Make) -> None:
    rig = make()
    reader, publisher = mqtt.connected(rig, "reader"), mqtt.connected(rig, "publisher")
    reader.subscribe("t", qos=0)
    slow, line = rig.lines
    slow.fill(True)
    publisher.send(mqtt.publish("t", b"x", 0))
    rig.do(rig.node.turn())
    publisher.send(mqtt.publish("t", b"x", 0))
    assert why(line) == ["slow_subscriber"] and not is_read(line)
    assert holds(line)["client_id"] == "reader"
    assert int(str(holds(line)["until_ms"])) > rig.clock.us // 1000
    slow.fill(False)
    rig.settle()
    assert why(line) == [] and is_read(line)


def test_an_mqtt_session_over_its_quota(make: Make) -> None:
    rig = make(mqtt_session_octets_max=100_000, mqtt_publisher_hold_ms=2000)
    mqtt.connected(rig, "away", properties=b"\x11\xff\xff\xff\xff").subscribe("t")
    rig.lines[0].close()
    publisher = mqtt.connected(rig, "publisher")
    (line,) = rig.lines
    for _ in range(12):
        publisher.publish("t", bytes(10_000))
    rig.wait(1)
    publisher.send(mqtt.publish("t", bytes(10), 1))
    assert why(line) == ["session_quota"] and holds(line)["client_id"] == "away"
    rig.wait(3)
    assert why(line) == [], "what it publishes is refused by now"


def test_a_publisher_over_its_rate(make: Make) -> None:
    rig = make(client_messages_per_s=1, client_messages_burst=1)
    with amqp.connect(rig) as client:
        (line,) = rig.lines
        client.declare("work")
        client.send(*[amqp.publish(1, "work", b"much")] * 3)
        rig.do(rig.node.turn())
        assert why(line) == ["rate_limit"]
        assert holds(line)["until_ms"] == rig.again_us // 1000 > rig.clock.us // 1000
        rig.clock.us = rig.again_us
        rig.broker.wake(rig.clock.us)
        assert why(line) == []


def test_a_client_that_does_not_read(make: Make) -> None:
    rig = make(send_buffer_octets_max=64 << 10)
    with amqp.connect(rig):
        (line,) = rig.lines
        buffers = rig.broker.pressure.buffers
        line.left = 100 << 10
        line.fill(True)
        assert why(line) == ["send_buffer"] and is_read(line), "it is read"
        buffers.note(line, 0)
        line.fill(False)
        assert why(line) == []


def test_a_client_over_its_share_of_what_waits_for_all(make: Make) -> None:
    rig = make(send_buffers_octets_max=MIB, send_buffer_octets_max=MIB)
    with amqp.connect(rig):
        (line,) = rig.lines
        buffers = rig.broker.pressure.buffers
        buffers.note(line, 500 << 10)
        assert why(line) == ["send_share"] and is_read(line)
        line.fill(True)
        assert why(line) == ["send_buffer", "send_share"]
        buffers.note(line, 0)
        line.fill(False)
        assert why(line) == []


def test_a_connection_that_has_gone_is_in_the_table_no_more(make: Make) -> None:
    rig = make()
    with amqp.connect(rig) as client:
        client.declare("q")
        rig.broker.surroundings.memory_octets = MUCH
        rig.broker.every_second(rig.clock.us)
        client.send(amqp.publish(1, "q", b"x"))
        assert why(rig.lines[0]) == ["memory_alarm"]
    assert sum(rig.broker.listed.view.counts().values()) == 0
