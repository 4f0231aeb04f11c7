"""A data folder of an earlier version, killed with everything in it, opens with everything in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika
import pytest
import requests
from pika.adapters.blocking_connection import BlockingChannel

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
    return start_broker(http="127.0.0.1:0", wrapper=["env", f"PYTHONPATH={sources / 'src'}"])


def http(broker: BrokerProcess, method: str, path: str, body: Any = None) -> requests.Response:
    """Return the answer of the administration, which must be no error."""
    url = f"http://127.0.0.1:{broker.port('http')}/api/{path}"
    answer = requests.request(method, url, json=body, auth=("guest", "guest"), timeout=60)
    assert answer.ok, answer.text
    return answer


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
    http(broker, "PUT", "vhosts/tenant", {"description": "of a tenant"})
    http(broker, "PUT", "users/ann", {"password": "secret", "tags": "monitoring"})
    http(broker, "PUT", "permissions/tenant/ann", {"configure": "^a", "write": ".*", "read": ""})
    http(broker, "PUT", "policies/%2F/p", {"pattern": "^classic$", "definition": {"max-length": 99}})
    http(broker, "PUT", "global-parameters/cluster_name", {"value": "old house"})
    before = http(broker, "GET", "definitions").json()
    broker.kill9()
    broker.wrapper = []
    broker.start()
    after = http(broker, "GET", "definitions").json()
    for section in ("users", "vhosts", "permissions", "policies", "queues", "exchanges", "bindings"):
        assert after[section] == before[section], section
    assert {"name": "cluster_name", "value": "old house"} in after["global_parameters"]
    channel = open_channel(broker)
    for name in ("classic", "quorum", "priorities"):
        assert bodies(channel, name) == [b"1", b"2"], name
    assert bodies(channel, "dead") == [b"died"]
    assert http(broker, "GET", "queues/%2F/stream").json()["messages"] == 3
    check_session(connected(broker, "reader", properties=EXPIRY, clean=False, present=True))
    late = connected(broker, "late")
    late.subscribe("state", qos=0)
    assert late.delivery().body == b"kept"
    late.close()
