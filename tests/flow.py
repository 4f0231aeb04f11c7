"""MQTT clients on raw sockets that publish with a window, and that take their time to acknowledge."""

from __future__ import annotations

import threading
import time
from collections import deque

from tests.broker_process import BrokerProcess
from tests.conformance.mqtt.raw import PUBACK, V311, connected, puback, publish, subscribe
from tests.waiting import until_past

BATCH = 50
CONNECTION_S = 40  # guards against a hang


def sent_until_acknowledged(broker: BrokerProcess, topic: str, count: int, window: int = 200, name: str = "p") -> float:
    """Publish numbers at QoS 1, and wait for each PUBACK; the longest time without one, in seconds."""
    client = connected(broker, name, V311)
    client.socket.settimeout(CONNECTION_S)
    sent = acknowledged = 0
    longest = 0.0
    last = time.monotonic()
    while acknowledged < count:
        while sent < count and sent - acknowledged <= window - BATCH:
            end = min(count, sent + BATCH)
            client.send(*[publish(topic, b"%d" % at, 1, at % 65_535 + 1, V311) for at in range(sent, end)])
            sent = end
        client.expect(PUBACK)
        acknowledged += 1
        now = time.monotonic()
        longest = max(longest, now - last)
        last = now
    client.close()
    return longest


class Reader:
    """A subscriber in a thread of its own, which takes so many seconds for each message.

    numbers  that came, in their order
    """

    def __init__(
        self, broker: BrokerProcess, name: str, topic: str = "", qos: int = 1, each_s: float = 0, clean: bool = True
    ) -> None:
        """With a topic: subscribe to it; without: go on with the session that is there."""
        self.client = connected(broker, name, V311, clean=clean, present=not topic)
        self.client.socket.settimeout(CONNECTION_S)
        if topic:
            self.client.send(subscribe(1, (topic, qos), version=V311))
            assert self.client.granted() == [qos]
        self.each_s = each_s
        self.numbers: list[int] = []
        self.thread: threading.Thread | None = None

    def take(self, count: int) -> None:
        """Begin to read, until so many have come."""
        self.thread = threading.Thread(target=self.run, args=(count,), daemon=True)
        self.thread.start()

    def run(self, count: int) -> None:
        free = time.time()
        ids: deque[int] = deque()
        while len(self.numbers) < count:
            first, rest = self.client.packet()
            if first == PUBACK:
                continue  # of what it has published itself
            found = self.client.parsed(first, rest)
            self.numbers.append(int(found.body))
            if found.qos:
                ids.append(found.id)
            if self.each_s:
                free = max(free, time.time()) + self.each_s
                until_past(free)
            while ids:
                self.client.send(puback(ids.popleft()))

    def all(self) -> list[int]:
        """The messages that have come, once everything has."""
        assert self.thread is not None
        self.thread.join(CONNECTION_S)
        return self.numbers

    def publish(self, topic: str, count: int) -> None:
        """Publish numbers at QoS 1 on the same connection, all at once."""
        self.client.send(*[publish(topic, b"%d" % at, 1, at + 1, V311) for at in range(count)])

    def leave(self) -> None:
        """Take leave, so that the broker knows."""
        self.client.leave()
        self.client.close()

    def close(self) -> None:
        self.client.close()
