"""Connections that break and a broker that is killed: QoS 1 loses nothing, QoS 2 arrives once, both in order.

Publishers and subscribers keep the state that MQTT asks of a client across connections, octet by octet, and nothing
else: each loses its connection again and again, in the middle of packets too, and the broker is killed under them.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Callable

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.mqtt.raw import (
    DISCONNECT,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    V5,
    V311,
    acknowledge,
    connect,
    cut_text,
    number,
    publish,
    split_block,
    subscribe,
)
from tests.crash.length import TEST_S_MAX, TIMES
from tests.waiting import pause, readable

SEED = 20_26
ROUNDS_S = 4 * TIMES  # between one kill and the next
KILLS = 2
PUBLISHERS = 3
TOPICS = 2  # of a publisher, for each QoS
SUBSCRIBERS = 3
WINDOW = 20
AHEAD = 500  # messages of a topic that a publisher may be ahead of the slowest subscriber: backlogs, but none for ever
WAIT_S = 20  # guards against a hang
EXPIRY = b"\x11" + number(3600, 4)
CONNACK, PUBLISH, SUBACK = 2, 3, 9  # kinds of packets
NOT_FOUND = 0x92  # "Packet Identifier not found"


class Cut(Exception):
    """The connection is gone."""


class Link:
    """One connection of a durable session, until it breaks.

    present  whether the broker had the session
    life_s   after so long we break it ourselves
    """

    def __init__(self, broker: BrokerProcess, name: str, version: int, life_s: float) -> None:
        self.version = version
        self.rest = b""
        try:
            self.socket = socket.create_connection(("127.0.0.1", broker.mqtt_port), timeout=WAIT_S)
        except OSError as error:
            raise Cut from error
        self.ends = time.monotonic() + WAIT_S
        try:
            self.send(connect(name, version, EXPIRY, clean=False))
            while (answer := self.packet()) is None:
                continue
        except Cut:
            self.socket.close()
            raise
        assert answer[0] >> 4 == CONNACK and answer[1][1] == 0, answer
        self.present = answer[1][0] == 1
        self.ends = time.monotonic() + life_s

    def send(self, octets: bytes) -> None:
        try:
            self.socket.sendall(octets)
        except OSError as error:
            raise Cut from error

    def packet(self) -> tuple[int, bytes] | None:
        """First octet and content of the next packet; None if none is whole yet, after a short wait."""
        if (found := self.whole()) is not None:
            return found
        if time.monotonic() > self.ends:
            raise Cut
        try:
            if not readable(self.socket, 0.02):
                return None
            more = self.socket.recv(65536)
        except OSError as error:
            raise Cut from error
        if not more:
            raise Cut
        self.rest += more
        return self.whole()

    def whole(self) -> tuple[int, bytes] | None:
        length = 0
        for at in range(1, min(len(self.rest), 5)):
            length |= (self.rest[at] & 127) << 7 * (at - 1)
            if self.rest[at] < 128:
                end = at + 1 + length
                if len(self.rest) < end:
                    return None
                first, content = self.rest[0], self.rest[at + 1 : end]
                self.rest = self.rest[end:]
                return first, content
        return None

    def close(self, chance: random.Random, unsent: bytes) -> None:
        """Break it in one of the ways in which connections end; `unsent` is a packet that may go half."""
        try:
            how = chance.randrange(4)
            if how == 0:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif how == 1:
                self.socket.sendall(unsent[: chance.randrange(len(unsent))])
            elif how == 2:
                self.socket.sendall(DISCONNECT)
        except OSError:
            pass  # the broker was faster
        self.socket.close()


class Client(threading.Thread):
    """A session over as many connections as it takes.

    ending  nothing new, and it breaks no connection any more
    leave   it is over
    broken  why the thread ended, if it did before that
    """

    def __init__(self, broker: BrokerProcess, name: str, version: int) -> None:
        super().__init__(name=name)
        self.broker = broker
        self.version = version
        self.chance = random.Random(f"{SEED} {name}")
        self.connections = 0
        self.ending = threading.Event()
        self.leave = threading.Event()
        self.broken: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while not self.leave.is_set():
                self.connection()
        except BaseException as error:
            self.broken = error
            raise

    def connection(self) -> None:
        life_s = WAIT_S if self.ending.is_set() else self.chance.choice([0.05, 0.3, 1.0])
        try:
            link = Link(self.broker, self.name, self.version, life_s)
        except Cut:
            pause(0.02)
            return
        assert link.present or not self.connections, f"{self.name}: the broker lost the session"
        self.connections += 1
        try:
            self.resume(link)
            while not self.leave.is_set():
                self.step(link)
        except Cut:
            pass
        link.close(self.chance, publish("soak/half", b"x" * 50, 1, 9999, self.version))

    def resume(self, link: Link) -> None:
        """Send what the last connection left open."""

    def step(self, link: Link) -> None:
        """Send what may be sent, and take what came."""
        raise NotImplementedError


class Publisher(Client):
    """Counts up in each of its topics; keeps what is not acknowledged to the end, in order, by packet identifier."""

    def __init__(self, broker: BrokerProcess, place: int, readers: list[Subscriber]) -> None:
        self.readers = readers
        self.topics = [(f"soak/{place}/{qos}/{which}", qos) for qos in (1, 2) for which in range(TOPICS)]
        self.counts = {topic: 0 for topic, _qos in self.topics}
        self.open: dict[int, tuple[str, int, bytes]] = {}
        self.released: dict[int, None] = {}  # of those at QoS 2, the ones of which only PUBCOMP is missing
        self.recovering: set[int] = set()  # those whose PUBREL this connection sent again
        self.next_id = 0
        super().__init__(broker, f"publisher-{place}", (V311, V5)[place % 2])

    def resume(self, link: Link) -> None:
        for id, (topic, qos, body) in self.open.items():
            if id not in self.released:
                link.send(publish(topic, body, qos, id, self.version, bits=8))
        self.recovering = set(self.released)
        for id in self.released:
            link.send(acknowledge(PUBREL, id))

    def step(self, link: Link) -> None:
        batch = []
        while len(self.open) < WINDOW and not self.ending.is_set():
            topic, qos = self.chance.choice(self.topics)
            if self.counts[topic] > AHEAD + min(each.reached(topic) for each in self.readers):
                break
            body = (b"%d " % self.counts[topic]).ljust(self.chance.choice([8, 8, 300, 5000]))
            self.counts[topic] += 1
            self.next_id = self.next_id % 65_535 + 1
            assert self.next_id not in self.open
            self.open[self.next_id] = (topic, qos, body)
            batch.append(publish(topic, body, qos, self.next_id, self.version))
        link.send(b"".join(batch))
        found = link.packet()
        if found is None:
            return
        first, content = found
        id = int.from_bytes(content[:2], "big")
        code = content[2] if len(content) > 2 else 0
        # A PUBREL that is sent again may have been answered before: "this is not an error during recovery".
        assert code < 0x80 or (first == PUBCOMP and code == NOT_FOUND and id in self.recovering), f"{code:#x}"
        if first == PUBREC:
            assert self.open[id][1] == 2
            self.released[id] = None
            link.send(acknowledge(PUBREL, id))
        else:
            assert first == (PUBACK if self.open[id][1] == 1 else PUBCOMP), hex(first)
            assert first == PUBACK or id in self.released
            self.released.pop(id, None)
            del self.open[id]


class Subscriber(Client):
    """Gathers the numbers of each topic, and acknowledges some of them only after a while."""

    def __init__(self, broker: BrokerProcess, place: int) -> None:
        self.found: dict[str, list[int]] = {}
        self.incomplete: set[int] = set()  # identifiers at QoS 2 whose PUBREL has not come
        self.subscribed = threading.Event()
        super().__init__(broker, f"subscriber-{place}", (V5, V311)[place % 2])

    def resume(self, link: Link) -> None:
        if not self.subscribed.is_set():
            link.send(subscribe(1, ("soak/+/#", 2), version=self.version))

    def step(self, link: Link) -> None:
        answers = []
        while (found := link.packet()) is not None:
            first, content = found
            if first >> 4 == PUBLISH:
                answers.append(self.delivered(first, content))
            elif first == PUBREL:
                id = int.from_bytes(content[:2], "big")
                self.incomplete.discard(id)
                answers.append(acknowledge(PUBCOMP, id))
            else:
                assert first >> 4 == SUBACK, hex(first)
                self.subscribed.set()
            if self.chance.random() < 0.1:
                break
        link.send(b"".join(answers))

    def delivered(self, first: int, content: bytes) -> bytes:
        """Take a PUBLISH; the answer to it."""
        topic, rest = cut_text(content)
        qos, id = first >> 1 & 3, int.from_bytes(rest[:2], "big")
        body = split_block(rest[2:])[1] if self.version == V5 else rest[2:]
        assert qos == int(topic.decode().split("/")[2])
        if qos == 2:
            if id in self.incomplete:
                assert first & 8, f"{self.name}: identifier {id} is in use, and this is no repetition"
                return acknowledge(PUBREC, id)
            self.incomplete.add(id)
        self.found.setdefault(topic.decode(), []).append(int(body.split()[0]))
        return acknowledge(PUBACK if qos == 1 else PUBREC, id)

    def reached(self, topic: str) -> int:
        """How far it is in a topic."""
        numbers = self.found.get(topic)
        return numbers[-1] + 1 if numbers else 0

    def has(self, counts: dict[str, int]) -> bool:
        """Whether the end of each topic has arrived, and no QoS 2 exchange is open."""
        return not self.incomplete and all(self.reached(topic) == count for topic, count in counts.items())


def wait_for(done: Callable[[], bool], clients: list[Client]) -> bool:
    """Whether it came to be in time."""
    ends = time.monotonic() + WAIT_S
    while not done():
        for client in clients:
            if client.broken is not None:
                raise client.broken
        if time.monotonic() > ends:
            return False
        pause(0.05)
    return True


def check(subscriber: Subscriber, counts: dict[str, int]) -> None:
    """Everything is there; at QoS 2 once, at QoS 1 in the order of what came for the first time."""
    for topic, count in counts.items():
        numbers = subscriber.found[topic]
        firsts = list(dict.fromkeys(numbers))
        lost = sorted(set(range(count)) - set(firsts))
        assert not lost, (
            f"{subscriber.name} {topic}: {len(lost)} of {count} are lost, {lost[:5]} the first (seed {SEED})"
        )
        assert firsts == list(range(count)), f"{subscriber.name} {topic}: out of order (seed {SEED})"
        if topic.split("/")[2] == "2":
            assert numbers == firsts, f"{subscriber.name} {topic}: more than once (seed {SEED})"


@pytest.mark.timeout(TEST_S_MAX)
def test_nothing_is_lost_and_qos_2_comes_once(start_broker: Callable[..., BrokerProcess]) -> None:
    # Small files, so that rotation and rewriting into segments are killed too; nobody's backlog may be cut.
    broker = start_broker(
        wal_octets_max=4 << 20, wal_chunk_octets=1 << 20, segment_octets_max=1 << 20, mqtt_max_mqueue_len=0
    )
    subscribers = [Subscriber(broker, place) for place in range(SUBSCRIBERS)]
    clients: list[Client] = list(subscribers)
    try:
        assert wait_for(lambda: all(each.subscribed.is_set() for each in subscribers), clients)
        publishers = [Publisher(broker, place, subscribers) for place in range(PUBLISHERS)]
        clients += publishers
        for _ in range(KILLS):
            pause(ROUNDS_S)
            broker.kill9()
            broker.start()
        pause(ROUNDS_S)
        for client in clients:
            client.ending.set()
        assert wait_for(lambda: not any(each.open for each in publishers), clients), "publishes without an answer"
        counts = {topic: count for each in publishers for topic, count in each.counts.items()}
        wait_for(lambda: all(each.has(counts) for each in subscribers), clients)
    finally:
        for client in clients:
            client.leave.set()
        for client in clients:
            client.join()
    for client in clients:
        assert client.broken is None, client.broken
        assert client.connections > 10, f"{client.name} was never cut off"
    assert min(counts.values()) > 100
    for subscriber in subscribers:
        check(subscriber, counts)
    print(counts, [client.connections for client in clients])
