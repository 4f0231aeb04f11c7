"""kill -9 while rows are staged, committed and published: in the end just what was committed is there, once."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable

import pika
import pytest

from forebay.client.control import ControlClient
from forebay.client.staging import StagingClient
from forebay.core.errors import OutcomeUnknown, RequestError, Unreachable
from tests.blocks import to_queue
from tests.broker_process import BrokerProcess
from tests.waiting import pause

ROUNDS = 9
PARTS = 3
BLOCKS = 4
ROWS = 25
WAIT_S = 60


def connect(broker: BrokerProcess) -> StagingClient:
    return StagingClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest")


def stage(client: StagingClient, batch: int, padding: int) -> dict[str, int]:
    """All parts of a batch, of which each row says of which it is; the rows of each."""
    number = 0
    for part in range(PARTS):
        for _ in range(BLOCKS):
            bodies = [b"%d %d " % (batch, number + row) + b"." * padding for row in range(ROWS)]
            assert client.stage("q", batch, f"part-{part}", to_queue(b"out", *bodies))
            number += ROWS
    return {f"part-{part}": BLOCKS * ROWS for part in range(PARTS)}


def commit(client: StagingClient, batch: int, parts: dict[str, int]) -> None:
    """A commit whose answer perhaps does not come."""
    with contextlib.suppress(OutcomeUnknown):
        client.commit("q", batch, parts)


def rows_of(batches: list[int]) -> Counter[tuple[int, int]]:
    return Counter((batch, row) for batch in batches for row in range(PARTS * BLOCKS * ROWS))


def drained(broker: BrokerProcess) -> Counter[tuple[int, int]]:
    """What can be taken out of the queue, and stays out of it after a crash."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    channel = connection.channel()
    channel.tx_select()
    found: Counter[tuple[int, int]] = Counter()
    while True:
        method, _, body = channel.basic_get("out")
        if method is None:
            break
        channel.basic_ack(method.delivery_tag)
        batch, row = body.split()[:2]
        found[int(batch), int(row)] += 1
    channel.tx_commit()
    connection.close()
    return found


@pytest.mark.timeout(300)
def test_kill9_at_any_moment_of_a_transaction(start_broker: Callable[..., BrokerProcess]) -> None:
    chance = random.Random(20_26)
    # Small files, so that transactions lie at their ends too.
    broker = start_broker(wal_octets_max=1 << 20, wal_chunk_octets=1 << 18, segment_octets_max=1 << 20)
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    connection.channel().queue_declare("out", durable=True)
    connection.close()
    committed: list[int] = []
    for batch in range(ROUNDS):
        client = connect(broker)
        parts = stage(client, batch, chance.choice([0, 100, 3000]))
        if batch % 3 == 0:  # before the commit: perhaps the end of what was staged is lost
            pause(chance.uniform(0, 0.02))
            broker.kill9()
        else:  # in the commit, or just after it
            thread = threading.Thread(target=commit, args=(client, batch, parts))
            thread.start()
            pause(chance.uniform(0, 0.03))
            broker.kill9()
            thread.join(WAIT_S)
            assert not thread.is_alive()
        client.close()
        broker.start()
        with connect(broker) as client:
            try:
                client.commit("q", batch, parts)
            except RequestError:  # the end of what was staged was not on the disk
                client.abort("q", batch)
                parts = stage(client, batch, 10)
                client.commit("q", batch, parts)
            assert client.commit("q", batch, parts).again
            assert client.last_batch("q") == batch
        committed.append(batch)
    assert drained(broker) == rows_of(committed)


@pytest.mark.timeout(300)
def test_kill9_while_a_transaction_is_half_published(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    limits = {"x-max-length": 40, "x-overflow": "reject-publish"}
    connection.channel().queue_declare("out", durable=True, arguments=limits)
    connection.close()
    with connect(broker) as client:
        parts = stage(client, 0, 10)
    found: Counter[tuple[int, int]] = Counter()
    deadline = time.monotonic() + WAIT_S * 2
    while True:
        assert time.monotonic() < deadline, f"{found.total()} rows"
        client = StagingClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest", 0.5)
        try:
            client.commit("q", 0, parts)
        except (OutcomeUnknown, Unreachable):
            state = published(broker)
        else:
            break
        finally:
            client.close()
        assert state == "publishing", "it waits for room in the queue"
        broker.kill9()
        broker.start()
        found += drained(broker)
    assert found + drained(broker) == rows_of([0])
    assert published(broker) == "committed"


def published(broker: BrokerProcess) -> object:
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as client:
        (transaction,) = client.items("transaction.list")
        return transaction["state"]
