"""The broker's totals, gathered from a real vhost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.broker.mqtt.client_session import ClientSession, Subscription
from forebay.core.message import ACCEPTED, AMQP091, MQTT, QOS_SHIFT
from forebay.core.options import Options
from forebay.node.telemetry.stats import BrokerStats
from forebay.wire.mqtt.codes import CONNACK, PINGRESP, PUBLISH, SUBACK, V5, V311
from forebay.wire.mqtt.packets import frame
from tests.node_rig import NodeRig
from tests.vhosts import OneVhost

QOS_1 = MQTT | 1 << QOS_SHIFT
EXPIRED = b"\x02\0\0\0\0"  # a message expiry interval of 0
CONNECTS = {V311: b"\x10\x0c\0\4MQTT\4\2\0\0\0\0", V5: b"\x10\x0d\0\4MQTT\5\2\0\0\0\0\0"}
SUBSCRIBES = {V311: b"\x82\6\0\1\0\1t", V5: b"\x82\7\0\1\0\0\1t"}  # its last octet is the QoS
PING = b"\xc0\0"


class Broker(OneVhost):
    """A vhost, and the stats of it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, None, mqtt_max_mqueue_len=2, mqtt_mqueue_overflow="drop", mqtt_sys_interval_s=0)
        self.stats = BrokerStats(self.options, self.clock.now_us())

    def look(self) -> None:
        self.turn()
        self.stats.look([self.vhost], [])

    def away(self, name: bytes, connection: int, filter: bytes) -> ClientSession:
        """A durable session whose client has subscribed at QoS 1 and gone."""
        client = self.vhost.sessions.attach(name, connection, False, 100, None)
        self.vhost.clients.subscribe(client, Subscription(client, filter, 1, 0))
        self.vhost.clients.detach(client, connection)
        return client


def kinds(octets: bytes) -> list[int]:
    """The types of these packets."""
    found: list[int] = []
    at = 0
    while at < len(octets):
        found.append(octets[at] >> 4)
        at = frame(octets, at, len(octets), len(octets)) >> 3
    return found


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path / "data")
    yield broker
    broker.close()


def test_clients_subscriptions_and_what_is_kept(broker: Broker) -> None:
    vhost = broker.vhost
    broker.away(b"a", 1, b"t/#")
    broker.away(b"b", 2, b"$share/g/s")
    vhost.sessions.attach(b"c", 3, True, 0, None)
    vhost.publishing.retain(b"kept", QOS_1, b"", b"12345")
    vhost.retained.put_volatile(b"$SYS/x", b"1", 1)
    assert vhost.publishing.publish_topic(b"t/1", QOS_1, b"", b"x").status == ACCEPTED
    broker.look()
    totals = broker.stats.totals
    assert (totals.clients_connected, totals.clients_disconnected) == (1, 2)
    assert (totals.subscriptions, totals.shared_subscriptions) == (1, 1)
    assert (totals.retained, totals.stored_messages) == (1, 2)
    assert totals.stored_octets == 5 + vhost.sessions.log.octets


def test_what_waits_for_its_time_and_what_died(broker: Broker) -> None:
    vhost = broker.vhost
    vhost.publishing.delay(b"later", broker.clock.us + 10**9, QOS_1, b"t", b"", b"x")
    limits = {"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    vhost.catalog.declare_queue(b"letters", False, False, False, {}, 0)
    vhost.catalog.declare_queue(b"short", False, False, False, limits, 0)
    for _ in range(3):
        vhost.publishing.publish(vhost.router.route(b"", b"short"), AMQP091, b"\0\0", b"x")
    broker.look()
    totals = broker.stats.totals
    assert (totals.delayed, totals.staged_batches) == (1, 0)
    assert (totals.dead_letters_moved, totals.dead_letters_dropped) == (2, 0)
    vhost.upkeep.delete_queue(b"letters", False, False)
    vhost.publishing.publish(vhost.router.route(b"", b"short"), AMQP091, b"\0\0", b"x")
    broker.look()
    assert (totals.dead_letters_moved, totals.dead_letters_dropped) == (2, 1)


def test_what_was_dropped_stays_counted_when_its_session_ends(broker: Broker) -> None:
    vhost = broker.vhost
    broker.away(b"a", 1, b"t")
    for expected in (3, 8):
        for _ in range(5):
            vhost.publishing.publish_topic(b"t", QOS_1, b"", b"x")
        broker.look()
        assert broker.stats.totals.dropped_queue_full == expected == broker.stats.totals.publishes_dropped
        assert broker.stats.totals.stored_messages == 2
    for _ in range(4):  # and is not seen by any look before the session ends
        vhost.publishing.publish_topic(b"t", QOS_1, b"", b"x")
    broker.turn()
    vhost.sessions.attach(b"a", 2, True, 0, None)
    broker.look()
    assert broker.stats.totals.publishes_dropped == 12
    assert broker.stats.totals.stored_messages == 0


@pytest.mark.parametrize("version", [V311, V5])
@pytest.mark.parametrize(("qos", "window", "came"), [(0, 1, [5, 11]), (1, 1, [5]), (1, 9, [5, 11])])
def test_packets_and_payloads_of_connections_that_share_what_they_get(
    tmp_path: Path, version: int, qos: int, window: int, came: list[int]
) -> None:
    rig = NodeRig(tmp_path, None, mqtt_max_inflight=window, mqtt_sys_interval_s=0)
    lines = [rig.connect("mqtt") for _ in range(2)]
    for line in lines:
        line.received(CONNECTS[version] + SUBSCRIBES[version] + bytes([qos]) + PING)
    rig.turn()
    for properties, body in ((b"", b"12345"), (EXPIRED, b"1234567"), (b"", b"12345678901")):
        rig.vhost.publishing.publish_topic(b"t", QOS_1, properties, body)
    rig.turn()
    stats = rig.broker.stats  # which has counted their handshakes
    ended, stays = [line.session for line in lines]
    assert ended is not None and stays is not None
    stats.ended(ended)
    stats.look([rig.vhost], [stays])
    totals = stats.totals
    for line in lines:
        packets = kinds(bytes(line.sent))
        assert packets == [CONNACK, SUBACK, PINGRESP] + [PUBLISH] * len(came)
    assert (totals.connects, totals.packets_received, totals.packets_sent) == (2, 6, 2 * (3 + len(came)))
    assert (totals.publishes_sent, totals.publish_octets_sent) == (2 * len(came), 2 * sum(came))
    rig.close()


def test_they_are_retained_and_published(broker: Broker) -> None:
    vhost = broker.vhost
    client = vhost.sessions.attach(b"a", 1, True, 0, None)
    vhost.clients.subscribe(client, Subscription(client, b"$SYS/broker/retained messages/#", 0, 0))
    broker.stats.tell(broker.vhosts, [], broker.clock.us)
    told = broker.deliveries()
    assert [(each.block.routing_key(each.index), each.block.body(each.index), each.count) for each in told] == [
        (b"$SYS/broker/retained messages/count", b"0", 1)
    ]
    kept = vhost.retained.matching(b"$SYS/broker/retained messages/count", broker.clock.us)
    assert [each.body for each in kept] == [b"0"]
    vhost.publishing.retain(b"kept", QOS_1, b"", b"1")
    broker.stats.tell(broker.vhosts, [], broker.clock.us)
    kept = vhost.retained.matching(b"$SYS/broker/retained messages/count", broker.clock.us)
    assert [each.body for each in kept] == [b"1"]


@pytest.mark.parametrize(("interval_s", "due"), [(0, []), (1, [1, 2, 3, 4, 5, 6]), (3, [3, 6])])
def test_when_they_are_due(interval_s: int, due: list[int]) -> None:
    stats = BrokerStats(Options(mqtt_sys_interval_s=interval_s), 1)
    assert [second for second in range(1, 7) if stats.is_due(second)] == due
