"""A message that is rejected goes to one place, whatever protocol it is rejected over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import httpx
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.admin.test_bridge import Subscriber
from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import client, told
from tests.waiting import until

WAIT_S_MAX: Final = 60


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    return start_broker(http="127.0.0.1:0")


def over_amqp(broker: BrokerProcess, verb: str = "reject") -> None:
    channel = open_channel(broker)
    method, _, _ = channel.basic_get("q")
    if verb == "reject":
        channel.basic_reject(method.delivery_tag, requeue=False)
    else:
        channel.basic_nack(method.delivery_tag, requeue=False)
    channel.connection.close()


def over_amqp_by_nack(broker: BrokerProcess) -> None:
    over_amqp(broker, "nack")


def over_mqtt(broker: BrokerProcess) -> None:
    with client(broker, "worker") as worker:
        worker.subscribe("$queue/q/#")
        said = told(worker.next())
        assert not worker.publish("$queue/q/$reject", message_id=said["message-id"]).is_failure


def over_http(broker: BrokerProcess) -> None:
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=WAIT_S_MAX) as http:
        subscriber = Subscriber(http, "/subscribe/$queue/q", params={"prefetch": 1})
        offset = int(str(subscriber.take(1)[0]["id"]))
        told = {"queue": "q", "offsets": [offset], "action": "reject"}
        answer = httpx.post(f"{broker.http_url}/ack", json=told, auth=("guest", "guest"), timeout=WAIT_S_MAX)
        assert answer.json() == {"settled": 1}
        subscriber.stop()


WAYS: Final = (over_amqp, over_amqp_by_nack, over_mqtt, over_http)


def rejected(broker: BrokerProcess, arguments: dict[str, object]) -> BlockingChannel:
    """A channel, when one message of a queue with these arguments has been rejected in each way."""
    channel = open_channel(broker)
    channel.queue_declare("dead", durable=True)
    channel.queue_declare("q", durable=True, arguments=arguments)
    for number, way in enumerate(WAYS):
        channel.basic_publish("", "q", b"%d" % number)
        way(broker)
    until(lambda: channel.queue_declare("q", passive=True).method.message_count == 0, "an empty queue")
    return channel


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    """The bodies in a queue, once everything that was rejected has come."""
    found: list[bytes] = []

    def is_there() -> bool:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is not None:
            found.append(body)
        return len(found) == len(WAYS)

    until(is_there, f"dead letters in {queue}")
    return sorted(found)


ALL: Final = [b"0", b"1", b"2", b"3"]
DECLARED: Final = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.mark.parametrize(
    ("arguments", "place"), [({"x-dlq": True}, "$dlq/q"), (DECLARED, "dead"), ({**DECLARED, "x-dlq": True}, "dead")]
)
def test_it_goes_to_one_place(broker: BrokerProcess, arguments: dict[str, object], place: str) -> None:
    assert bodies(rejected(broker, arguments), place) == ALL


def test_without_a_place_it_is_gone(broker: BrokerProcess) -> None:
    rejected(broker, {})
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=WAIT_S_MAX) as http:
        names = {each["name"]: each["messages"] for each in http.get("/api/queues").json()}
    assert "$dlq/q" not in names
    assert (names["q"], names["dead"]) == (0, 0)


def test_a_policy_gives_queues_a_place_and_other_deaths_lead_there_too(broker: BrokerProcess) -> None:
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=WAIT_S_MAX) as http:
        policy = {"pattern": ".*", "definition": {"dlq": True}, "apply-to": "queues"}
        http.put("/api/policies/%2F/dlq", json=policy).raise_for_status()
    channel = rejected(broker, {"x-max-length": 1})
    assert bodies(channel, "$dlq/q") == ALL
    for body in (b"first", b"second"):
        channel.basic_publish("", "q", body)

    def is_there() -> bool:
        return bool(channel.basic_get("$dlq/q", auto_ack=True)[2] == b"first")

    until(is_there, "what was one too many")
