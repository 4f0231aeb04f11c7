"""A data folder of an earlier version, killed with everything in it, opens with everything in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from forebay.client.control import ControlClient
from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.conformance.mqtt.raw import Raw, connected, publish
from tests.versions import extract_before, has_history

DURABLE = pika.BasicProperties(delivery_mode=2, headers={"n": 1})
EXPIRY = b"\x11\xff\xff\xff\xff"  # of a session that stays
KINDS: dict[str, dict[str, object]] = {
    "classic": {},
    "quorum": {"x-queue-type": "quorum"},
    "stream": {"x-queue-type": "stream"},
    "priorities": {"x-max-priority": 5},
}


@pytest.fixture
def broker(tmp_path: Path, start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A broker of the earlier version."""
    if not has_history():
        pytest.skip("the repository's history is not here, so there is no earlier version")
    sources = extract_before(tmp_path / "before")
    return start_broker(wrapper=["env", f"PYTHONPATH={sources / 'src'}"])


def ask(broker: BrokerProcess, operation: str, **arguments: object) -> dict[str, Any]:
    """Return the answer to an operation over AMQP: the HTTP of the earlier version wants other libraries."""
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as client:
        return client.run(operation, **arguments)


def listed(broker: BrokerProcess) -> dict[str, Any]:
    """Return what the broker lists of all that is declared or set."""
    found = {
        name: ask(broker, name) for name in ("user.list", "vhost.list", "permission.list", "global_parameter.list")
    }
    settings = ("vhost", "description", "tags", "default_queue_type", "connections_max", "queues_max", "protected")
    for vhost in found["vhost.list"]["items"]:  # and not what is connected
        for field in set(vhost) - set(settings):
            del vhost[field]
    in_vhost = ("policy.list", "binding.list", "exchange.list")
    return {**found, **{name: ask(broker, name, vhost="/") for name in in_vhost}}


def fill(channel: BlockingChannel) -> None:
    """Put three messages into a queue of each kind, of which the first is acknowledged, and one into a dead letter."""
    for name, arguments in KINDS.items():
        channel.queue_declare(name, durable=True, arguments=arguments)
        channel.queue_bind(name, "amq.topic", f"to.{name}")
        for number in range(3):
            channel.basic_publish("amq.topic", f"to.{name}", b"%d" % number, DURABLE)
        if name != "stream":
            method, _, _ = channel.basic_get(name)
            channel.basic_ack(method.delivery_tag)
    channel.queue_declare("dead", durable=True)
    channel.queue_declare(
        "rejecting", durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    )
    channel.basic_publish("", "rejecting", b"died", DURABLE)
    method, _, _ = channel.basic_get("rejecting")
    channel.basic_reject(method.delivery_tag, requeue=False)


def leave_session(broker: BrokerProcess) -> None:
    """Leave a session with one message in flight and two that wait, a retained message, and one that is delayed."""
    reader = connected(broker, "reader", properties=EXPIRY)
    reader.subscribe("news/#", qos=1)
    writer = connected(broker, "writer")
    assert writer.publish("news/1", b"in flight", id=1) == 0
    assert reader.delivery().body == b"in flight"
    reader.vanish()
    for id, body in enumerate((b"first", b"second"), 2):
        assert writer.publish("news/2", body, id=id) == 0
    writer.send(publish("state", b"kept", qos=1, id=9, bits=1))
    writer.acked(9, code=16)  # nobody has subscribed
    writer.close()


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Return what is ready in a queue, and acknowledge it."""
    found: list[bytes] = []
    while True:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        assert queue == "dead" or properties.headers["n"] == 1
        found.append(body)


def check_session(reader: Raw) -> None:
    """Have the session deliver what it had."""
    found: list[bytes] = []
    for _ in range(3):
        delivery = reader.delivery()
        found.append(delivery.body)
    assert found == [b"in flight", b"first", b"second"]


def test_a_folder_of_the_earlier_version_opens_with_everything_in_it(broker: BrokerProcess) -> None:
    fill(open_channel(broker))
    leave_session(broker)
    ask(broker, "vhost.add", vhost="tenant")
    ask(broker, "user.add", user="ann", password="secret", tags=["monitoring"])
    ask(broker, "permission.set", user="ann", vhost="tenant", configure="^a", write=".*", read="")
    ask(broker, "policy.set", vhost="/", policy="p", pattern="^classic$", definition={"max-length": 99})
    ask(broker, "global_parameter.set", name="cluster_name", value="old house")
    before = listed(broker)
    broker.kill9()
    broker.wrapper = []
    broker.start()
    assert listed(broker) == before
    channel = open_channel(broker)
    for name in ("classic", "quorum", "priorities"):
        assert bodies(channel, name) == [b"1", b"2"], name
    assert bodies(channel, "dead") == [b"died"]
    assert channel.queue_declare("stream", passive=True).method.message_count == 3
    channel.queue_declare("view", durable=True, arguments={"x-source": "stream"})
    assert channel.queue_declare("view", passive=True).method.message_count == 3
    check_session(connected(broker, "reader", properties=EXPIRY, clean=False, present=True))
    late = connected(broker, "late")
    late.subscribe("state", qos=0)
    assert late.delivery().body == b"kept"
    late.close()
