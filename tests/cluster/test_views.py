"""Views of a stream outlive their leader: what each has settled, what a filter took, and that it goes on from there."""

from __future__ import annotations

import json

from pika.adapters.blocking_connection import BlockingChannel

from tests.cluster.clients import channel_to
from tests.cluster.nodes import Cluster
from tests.waiting import until

MESSAGES = 2100  # more than two pages of the index of what a filter took
VIEW: dict[str, object] = {"x-source": "orders"}
EVEN: dict[str, object] = {**VIEW, "x-filter": "/n % 2 = 0", "x-publish-target": "orders"}


def settle(channel: BlockingChannel, queue: str, count: int) -> None:
    """Get and settle the first messages of a queue."""
    for _ in range(count):
        method, _, _ = channel.basic_get(queue)
        assert method is not None
        channel.basic_ack(method.delivery_tag)


def left(channel: BlockingChannel, queue: str) -> list[int]:
    """Take all that a queue has; the numbers of it."""
    found: list[int] = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append(json.loads(got[2])["n"])
    return found


def ready(channel: BlockingChannel, queue: str) -> int:
    count = channel.queue_declare(queue, passive=True).method.message_count
    assert isinstance(count, int)
    return count


def test_views_go_on_under_another_leader(cluster: Cluster) -> None:
    leader = cluster.leader()
    channel = channel_to([leader])
    channel.queue_declare("orders", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_declare("all", durable=True, arguments=VIEW)
    channel.queue_declare("even", durable=True, arguments=EVEN)
    plain = channel.connection.channel()
    for number in range(MESSAGES - 1):
        plain.basic_publish("", "orders", b'{"n": %d}' % number)
    until(lambda: ready(plain, "orders") == MESSAGES - 1)
    settle(channel, "all", 10)
    settle(channel, "even", 20)
    channel.basic_publish("", "orders", b'{"n": %d}' % (MESSAGES - 1))  # confirmed behind the settlements
    leader.kill9()
    led_by = cluster.wait_led_by_another(leader.name)
    channel = channel_to([led_by])
    until(lambda: ready(channel, "even") == MESSAGES // 2 - 20)
    assert ready(channel, "all") == MESSAGES - 10
    channel.queue_declare("late", durable=True, arguments={**VIEW, "x-recovery-point": "now"})
    for number in (MESSAGES, MESSAGES + 1):
        channel.basic_publish("", "even", b'{"n": %d}' % number)
    assert left(channel, "late") == [MESSAGES, MESSAGES + 1]
    assert left(channel, "even") == list(range(40, MESSAGES + 2, 2))
    settle(channel, "all", MESSAGES - 10)
    assert left(channel, "all") == [MESSAGES, MESSAGES + 1]
