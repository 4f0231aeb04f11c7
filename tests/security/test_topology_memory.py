"""The memory of what one client, and one vhost, may declare."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.broker_process import BrokerProcess
from tests.conformance.mqtt.raw import SUBACK, UNSUBACK, V5, V311, Raw, connected, split_block, subscribe, unsubscribe
from tests.waiting import until

MIB = 1 << 20
LONG = "x" * 30_000
GUEST = ("guest", "guest")


def topology_octets(broker: BrokerProcess) -> int:
    text = httpx.get(f"http://{broker.ready['prometheus']}/metrics/per-object").text
    found = [line for line in text.splitlines() if line.startswith("forebay_vhost_topology_octets")]
    return int(float(found[0].split()[-1]))


def fill(client: Raw, filters: int) -> tuple[list[int], bytes]:
    """Subscribe to long filters one by one; the answers, and the last packet."""
    answers: list[int] = []
    last = b""
    for each in range(filters):
        client.send(subscribe(each + 1, (f"{each}/{LONG}", 1), version=client.version))
        last = client.expect(SUBACK)
        answers.append(last[-1])
    return answers, last


def amqp(broker: BrokerProcess) -> pika.BlockingConnection:
    credentials = pika.PlainCredentials(*GUEST)
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port, credentials=credentials))


def test_filters_of_one_client_end_at_its_share_and_others_go_on(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(client_topology_octets_max=MIB)
    client = connected(broker, "greedy")
    answers, last = fill(client, 40)
    taken = answers.count(1)
    assert 30 <= taken < 35
    assert answers == [1] * taken + [0x97] * (40 - taken)
    assert b"client_topology_octets_max" in split_block(last[2:])[0]
    other = connected(broker, "modest")
    assert fill(other, 2)[0] == [1, 1]
    client.subscribe("small")
    client.publish(f"0/{LONG}", b"kept")
    assert client.delivery().body == b"kept", "what was granted stays"
    client.send(unsubscribe(99, f"0/{LONG}"))
    client.expect(UNSUBACK)
    client.send(subscribe(100, (f"new/{LONG}", 1)))
    assert client.granted(100) == [1]
    client.close()
    other.close()


def test_a_client_of_version_3_is_told_by_a_failure(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(client_topology_octets_max=MIB)
    client = connected(broker, "greedy", version=V311)
    answers, _ = fill(client, 40)
    assert set(answers) == {1, 0x80}
    client.close()


def test_all_clients_of_a_vhost_share_and_give_back(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(vhost_topology_octets_max=MIB, prometheus="127.0.0.1:0")
    before = topology_octets(broker)
    clients = [connected(broker, f"c{each}", version=V5) for each in range(4)]
    answers = [fill(client, 10)[0] for client in clients]
    assert answers[0] == [1] * 10
    assert answers[-1][-1] == 0x97
    assert 30 * len(LONG) < topology_octets(broker) <= MIB
    for client in clients:
        client.close()
    until(lambda: topology_octets(broker) == before)


def test_a_kept_session_comes_back_whole_beyond_a_lowered_limit(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(prometheus="127.0.0.1:0")
    client = connected(broker, "kept", clean=False, properties=b"\x11\0\0\x0e\x10")
    assert fill(client, 10)[0] == [1] * 10
    held = topology_octets(broker)
    client.close()
    broker.options["client_topology_octets_max"] = 100_000
    broker.restart()
    assert topology_octets(broker) == held
    client = connected(broker, "kept", clean=False, properties=b"\x11\0\0\x0e\x10", present=True)
    client.publish(f"9/{LONG}", b"still")
    assert client.delivery().body == b"still"
    client.close()


def bind_on(channel: BlockingChannel) -> None:
    """Bind with long arguments until that is refused."""
    for each in range(40):
        channel.queue_bind("q", "amq.headers", arguments={"x-match": "all", "n": each, "h": LONG})


def declare_on(channel: BlockingChannel) -> None:
    """Declare exclusive queues until that is refused."""
    for _ in range(400):
        channel.queue_declare("", exclusive=True)


def consume_on(channel: BlockingChannel) -> None:
    """Consume until that is refused."""
    for each in range(400):
        channel.basic_consume("r", lambda *_: None, consumer_tag=f"{each}-" + "t" * 240)


def test_bindings_queues_and_consumers_end_at_the_share(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(vhost_topology_octets_max=MIB, client_topology_octets_max=200_000, prometheus="127.0.0.1:0")
    before = topology_octets(broker)
    with amqp(broker) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        with pytest.raises(ChannelClosedByBroker, match="vhost_topology_octets_max") as caught:
            bind_on(channel)
        assert caught.value.reply_code == 406
        channel = connection.channel()
        channel.queue_delete("q")
        with pytest.raises(ChannelClosedByBroker, match="client_topology_octets_max"):
            declare_on(channel)
        connection.channel().queue_declare("r")
    with amqp(broker) as connection:
        with pytest.raises(ChannelClosedByBroker, match="client_topology_octets_max"):
            consume_on(connection.channel())
        connection.channel().queue_delete("r")
    until(lambda: topology_octets(broker) == before)
