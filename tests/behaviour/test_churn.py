"""Queues, channels and connections that come and go by the thousand leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable

import pika

from forebay.client.control import ControlClient
from tests.broker_process import BrokerProcess
from tests.process_figures import handles, resident
from tests.waiting import until

ROUNDS = 4
QUEUES = 250  # a round
CHANNELS = 500
CONNECTIONS = 100
INTERNAL_LOGS = 4_294_900_000  # numbers from here on are those of logs that belong to no queue
GROWTH_OCTETS_MAX = 8 << 20  # over all rounds but the first, in which Python's own memory finds its size


def churn(broker: BrokerProcess, turn: int) -> None:
    """One round: everything that is made goes again, each in one of the ways in which it can."""
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        for number in range(QUEUES):
            name = f"queue-{turn}-{number}"
            channel.queue_declare(name, durable=number % 2 == 0, auto_delete=number % 5 == 4, exclusive=number % 5 == 3)
            channel.exchange_declare(f"exchange-{turn}-{number}", "topic", durable=True)
            channel.queue_bind(name, f"exchange-{turn}-{number}", f"a.{number}.#")
            channel.basic_publish(f"exchange-{turn}-{number}", f"a.{number}.b", bytes(1000))
            tag = channel.basic_consume(name, lambda *_: None, auto_ack=number % 2 == 0)
            channel.basic_cancel(tag)
            channel.exchange_delete(f"exchange-{turn}-{number}")
            if number % 5 < 3:
                channel.queue_delete(name)
        for _ in range(CHANNELS):
            connection.channel().close()
    for number in range(CONNECTIONS):
        other = pika.BlockingConnection(parameters)
        other.channel().queue_declare(f"of-connection-{number}", exclusive=True)
        other.close()


def test_churn_leaves_nothing_behind(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(wal_octets_max=4 << 20, wal_chunk_octets=1 << 20)
    churn(broker, 0)
    before, open_before = resident(broker), handles(broker)
    for turn in range(1, ROUNDS):
        churn(broker, turn)
    assert resident(broker) - before < GROWTH_OCTETS_MAX
    assert handles(broker) <= open_before + 4  # a file of the log or two may be about to go
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as control:
        assert [each["queue"] for each in control.items("queue.list")] == []
        assert not [each for each in control.items("exchange.list") if str(each["exchange"]).startswith("exchange-")]
        assert not [each for each in control.items("binding.list") if each["exchange"]]
        assert list(control.items("channel.list")) == []
    broker.restart()
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as control:
        assert [each["queue"] for each in control.items("queue.list")] == []
    until(lambda: logs_of(broker)[0] >= INTERNAL_LOGS)  # folders of what was deleted last go in the background


def logs_of(broker: BrokerProcess) -> list[int]:
    return sorted(int(path.name) for path in (broker.data / "queues").iterdir())
