"""Reads of blocks as tasks of Spark make them, and what nodes tell of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

from forebay.client.blocks import BlockClient, Fetched, ReadGrant
from forebay.client.granted import GrantedClient
from forebay.log.block import Block
from forebay.spark.access import Access
from forebay.spark.arrow.batches import BlockView
from forebay.spark.reading.logs import RemoteLogs
from tests.blocks import blocks_of
from tests.cluster.clients import Cut, Publisher
from tests.cluster.nodes import Cluster, ClusterNode
from tests.waiting import WAIT_S_MAX, until

STREAM = {"x-queue-type": "stream"}
LONG = 400_000  # octets of a message: two are more than one answer of a follower has
COUNT = 30


class PatientClient(GrantedClient):
    """It waits for a node that has no time: where another one would be asked, a test would say what is not so."""

    timeout_s = answer_s = WAIT_S_MAX


class StreamPublisher(Publisher):
    """Publishes long messages to a stream, each with its number in front."""

    def declare(self) -> None:
        self.channel.queue_declare(self.queue, durable=True, arguments=STREAM)

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.channel.basic_publish("", self.queue, numbered(self.confirmed))
            self.confirmed += 1

    def try_to_publish(self) -> None:
        """One, to a leader that dies before it is confirmed."""
        with suppress(*Cut):
            self.publish(1)


def numbered(number: int) -> bytes:
    return b"%08d" % number + b"-" * LONG


def fill(cluster: Cluster, queue: str, count: int = COUNT) -> None:
    """A stream with so many messages, which all nodes have."""
    publisher = StreamPublisher([cluster.leader()], queue)
    publisher.publish(count)
    publisher.close()


def servers_of(cluster: Cluster, listener: str = "amqp") -> str:
    return ",".join(f"127.0.0.1:{node.port(listener)}" for node in cluster.nodes.values())


class Reading:
    """A read, block by block, as a task of Spark makes it.

    numbers  of the messages that it had
    served   the nodes that have sent them, "" for the leader
    """

    def __init__(
        self, cluster: Cluster, queue: str, count: int = COUNT, access: Access | None = None, filter: str = ""
    ) -> None:
        self.logs = RemoteLogs(access or Access(servers_of(cluster)))
        views = self.logs.blocks(queue, 0, count, True, filter=filter)
        assert isinstance(views, Generator)
        self.views: Generator[BlockView] = views
        self.next = 0
        self.numbers: list[int] = []
        self.served: list[str] = []

    def step(self) -> str:
        """Take the next block; the node that it came from."""
        view = next(self.views)
        octets = view.buffer.view[view.at : view.at + view.octets]
        (block,) = blocks_of(bytes(octets))
        for offset in range(max(self.next, int(block.base)), int(block.end)):
            self.numbers.append(int(block.body(offset - int(block.base))[:8]))
        self.next = int(block.end)
        found = re.match(r"node (\w+) at ", view.buffer.source)
        self.served.append(found[1] if found else "")
        return self.served[-1]

    def finish(self) -> None:
        """Take the rest."""
        while True:
            try:
                self.step()
            except StopIteration:
                break
        self.close()

    def close(self) -> None:
        """Let the nodes go, wherever it is."""
        self.views.close()
        self.logs.close()


def begun_at_follower(cluster: Cluster, queue: str) -> Reading:
    """A read whose first block a follower has sent: one that has no time for 5 s leaves it to the leader."""

    def begun() -> Reading | None:
        reading = Reading(cluster, queue)
        if reading.step():
            return reading
        reading.close()
        return None

    return until(begun, cluster.told)  # type: ignore[return-value]


class FollowersSeen:
    """What whole reads have had from whom, as nodes tell it, since a node leads: another may while a test runs.

    epoch  of that leader
    before  the octets that each node had sent to readers then
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.epoch = -1
        self.before: dict[str, int] = {}

    def look(self, read: Callable[[], object]) -> bool:
        """Have all be read; True once both followers have served since this leader leads.

        The leader must not have sent anything as a follower does.
        """
        record = self.cluster.record()
        if record["epoch"] != self.epoch:
            self.before = read_octets(self.cluster)
            self.epoch = record["epoch"]
        read()
        found = read_octets(self.cluster)
        if self.cluster.record()["epoch"] != self.epoch:
            return False
        leader = record["leader"]
        assert found[leader] == self.before[leader]
        return all(found[name] > self.before[name] for name in found if name != leader)


def read_octets(cluster: Cluster) -> dict[str, int]:
    """The octets of blocks that each node has sent while it did not lead, as far as the leader has heard."""
    return {each["node"]: int(each["read_octets"] or 0) for each in cluster.status()["members"]}


def granted_by_both(cluster: Cluster, queue: str, first: int = 0, end: int = COUNT, **login: str) -> ReadGrant:
    """The leader's answer once it names both followers: one that was late may not be in sync just now."""

    def found() -> ReadGrant | None:
        grant = granted(cluster, queue, first, end, **login)
        return grant if len(grant.nodes) == len(cluster.nodes) - 1 else None

    grant = until(found, cluster.told)
    assert grant is not None
    return grant


def granted(cluster: Cluster, queue: str, first: int = 0, end: int = COUNT, **login: str) -> ReadGrant:
    """The leader's answer to who asks where to read."""
    with asking(cluster.leader(), **login) as client:
        return client.grant(queue, first, end)


def asking(node: ClusterNode, user: str = "guest", password: str = "guest", vhost: str | None = None) -> BlockClient:
    """A client of a node that has logged in."""
    return BlockClient.connect(f"127.0.0.1:{node.amqp_port}", user, password, WAIT_S_MAX, vhost)


def fetched(server: str, token: str, queue: str, first: int, end: int) -> list[Fetched]:
    """All that a node sends to whoever shows this."""
    with PatientClient.open(server, token, None) as client:
        return list(client.fetch(queue, first, end))


def rows(answers: list[Fetched]) -> list[int]:
    """The numbers of the messages in them."""
    blocks: list[Block] = [block for answer in answers for block in blocks_of(answer.blocks)]
    return [int(block.body(at)[:8]) for block in blocks for at in range(int(block.count))]


def member(cluster: Cluster, name: str) -> dict[str, Any]:
    """A member as the leader knows it."""
    found: dict[str, Any] = next(each for each in cluster.status()["members"] if each["node"] == name)
    return found
