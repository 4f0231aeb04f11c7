"""kill -9 under MQTT load: what got its PUBACK is in the queue, once, in the order of its publisher."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.reasoncodes import ReasonCode

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.waiting import pause

ROUNDS = 5
PUBLISHERS = 4
WINDOW = 500
QUEUE = "work"
VERSIONS = [MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5]
WAIT_S = 60
DRAINED_S = 6


class Ledger:
    """What publishers know, over all rounds."""

    def __init__(self) -> None:
        self.confirmed: set[str] = set()
        self.next_number = [0] * PUBLISHERS


class Publisher:
    """One connection with a window of unacknowledged publishes; what it lost is not sent again."""

    def __init__(self, broker: BrokerProcess, ledger: Ledger, number: int) -> None:
        self.ledger = ledger
        self.number = number
        self.first = ledger.next_number[number]
        self.confirmed: list[str] = []
        self.refused: list[ReasonCode] = []
        self.room = threading.Semaphore(WINDOW)
        self.stopping = threading.Event()
        self.connected = threading.Event()
        self.lost = threading.Event()
        self.client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"publisher-{number}",
            protocol=VERSIONS[number % len(VERSIONS)],
            reconnect_on_failure=False,
        )
        self.client.username_pw_set("guest", "guest")
        self.client.max_inflight_messages_set(WINDOW)
        self.client.on_connect = lambda _client, _data, _flags, code, _properties: (
            None if code.is_failure else self.connected.set()
        )
        self.client.on_disconnect = lambda _client, _data, _flags, _code, _properties: self.lost.set()
        self.client.on_publish = lambda _client, _data, mid, code, _properties: self.acked(mid, code)
        self.client.connect("127.0.0.1", broker.mqtt_port)
        self.client.loop_start()
        assert self.connected.wait(WAIT_S)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        number = self.first
        while not self.stopping.is_set():
            if not self.room.acquire(timeout=0.05):
                continue
            payload = f"{self.number}:{number}".encode().ljust(random.choice([8, 200, 3000]))
            number += 1
            info = self.client.publish("$queue/work/x", payload, 1)
            assert info.mid == number - self.first, "packet identifiers do not count the publishes"
            self.ledger.next_number[self.number] = number

    def acked(self, mid: int, code: ReasonCode) -> None:
        """PUBACK: the packet identifier counts the publishes of this connection from 1."""
        if code.is_failure:
            self.refused.append(code)
        else:
            self.confirmed.append(f"{self.number}:{self.first + mid - 1}")
        self.room.release()

    def stop(self) -> None:
        self.stopping.set()
        self.thread.join()
        self.client.disconnect()
        self.client.loop_stop()
        self.ledger.confirmed.update(self.confirmed)


def one_round(broker: BrokerProcess, ledger: Ledger) -> None:
    """Load until the broker is killed under it."""
    publishers = [Publisher(broker, ledger, number) for number in range(PUBLISHERS)]
    pause(random.uniform(0.3, 0.9))
    early = [publisher.number for publisher in publishers if publisher.lost.is_set()]
    broker.kill9()
    for publisher in publishers:
        publisher.lost.wait(WAIT_S)  # what the broker said before it died is read by then
        publisher.stop()
    assert not early, f"publishers {early} lost their connection before the kill"
    assert not [publisher.refused for publisher in publishers if publisher.refused]


def drain(broker: BrokerProcess) -> list[str]:
    """All that is in the queue."""
    channel = open_channel(broker)
    found: list[str] = []
    for method, _properties, body in channel.consume(QUEUE, auto_ack=True, inactivity_timeout=DRAINED_S):
        if method is None:
            break
        found.append(body.decode().strip())
    channel.connection.close()
    return found


@pytest.mark.timeout(300)
def test_kill9_loses_nothing_acknowledged(start_broker: Callable[..., BrokerProcess]) -> None:
    random.seed(20_26)
    # Small files, so that rotation and rewriting into segments are killed too.
    broker = start_broker(wal_octets_max=4 << 20, wal_chunk_octets=1 << 20, segment_octets_max=1 << 20)
    ledger = Ledger()
    open_channel(broker).queue_declare(QUEUE, durable=True)
    for _ in range(ROUNDS):
        one_round(broker, ledger)
        broker.start()
    found = drain(broker)
    assert ledger.confirmed - set(found) == set()
    assert len(ledger.confirmed) > 100 * ROUNDS
    for publisher in range(PUBLISHERS):
        numbers = [int(name.split(":")[1]) for name in found if name.startswith(f"{publisher}:")]
        assert numbers == sorted(set(numbers)), f"publisher {publisher}: out of order, or more than once"
