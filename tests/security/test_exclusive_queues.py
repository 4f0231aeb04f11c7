"""An exclusive queue is its connection's: nobody else reads, moves, settles or empties it, through whichever door."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.broker_process import BrokerProcess, running
from tests.interop.mqtt_client import Client

LOCKED = 405
BAD_REQUEST = 400
SECRET = "the answer"
MESSAGES = "/forebay/queues/%2F/{queue}/messages"
# What a user of the management may ask of a queue that it may read: method, path and body.
ASKED: list[tuple[str, str, object]] = [
    ("GET", MESSAGES, None),
    ("GET", MESSAGES + "/0", None),
    ("DELETE", MESSAGES, {}),
    ("POST", "/forebay/queues/%2F/{queue}/move", {"to": "mine"}),
    ("GET", "/forebay/dead-letters/%2F/{queue}", None),
    ("GET", "/forebay/explain?queue={queue}&offset=0", None),
    ("GET", "/forebay/history?queue={queue}&offset=0", None),
    ("GET", "/forebay/explain?queue={queue}&message_id=m", None),
    ("GET", "/forebay/history?queue={queue}&message_id=m", None),
    ("DELETE", "/forebay/leases/%2F/{queue}/0", None),
    ("POST", "/forebay/groups/%2F/{queue}/g/seek", {"to": "first"}),
    ("DELETE", "/forebay/groups/%2F/{queue}/g", None),
    ("POST", "/forebay/operations/queue.messages", {"queue": "$queue/{queue}"}),
    ("POST", "/forebay/operations/message.show", {"queue": "$queue/{queue}", "offset": 0}),
    ("POST", "/forebay/operations/queue.purge", {"queue": "{queue}"}),
    ("POST", "/forebay/operations/dlq.purge", {"queue": "{queue}"}),
    ("POST", "/forebay/operations/group.commit", {"queue": "{queue}", "group": "g", "offset": 0}),
    ("DELETE", "/queues/%2F/{queue}", None),
    ("DELETE", "/queues/%2F/{queue}/contents", None),
    ("POST", "/queues/%2F/{queue}/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}),
    ("POST", "/bindings/%2F/e/amq.topic/q/{queue}", {"routing_key": "k"}),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("exclusive"), http="127.0.0.1:0") as broker:
        with client(broker, "guest") as http:
            everything = {"configure": ".*", "write": ".*", "read": ".*"}
            made = {"password": "manager", "tags": "management"}
            assert http.put("/api/users/manager", json=made).status_code == 201
            assert http.put("/api/permissions/%2F/manager", json=everything).status_code == 201
            assert http.put("/api/queues/%2F/mine", json={"durable": False}).status_code == 201
        yield broker


@pytest.fixture
def owner(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    """The channel of whoever has the queue `answers` for itself, with a message in it."""
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("answers", exclusive=True)
    channel.confirm_delivery()
    channel.basic_publish("", "answers", SECRET.encode(), pika.BasicProperties(message_id="m"))
    yield channel
    connection.close()


def connect(broker: BrokerProcess) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))


def client(broker: BrokerProcess, user: str) -> httpx.Client:
    return httpx.Client(base_url=broker.http_url, auth=(user, user), timeout=60, verify=False)


def filled(value: object) -> object:
    if isinstance(value, dict):
        return {key: filled(each) for key, each in value.items()}
    return value.replace("{queue}", "answers") if isinstance(value, str) else value


@pytest.mark.parametrize(("method", "path", "body"), ASKED)
def test_a_manager_cannot_have_it(
    broker: BrokerProcess, owner: BlockingChannel, method: str, path: str, body: object
) -> None:
    with client(broker, "manager") as http:
        answer = http.request(method, f"/api{filled(path)}", json=filled(body))
        assert answer.status_code == BAD_REQUEST, answer.text
        assert "locked queue 'answers'" in answer.json()["reason"]
        assert SECRET not in answer.text
    got = owner.basic_get("answers")
    assert got[2] == SECRET.encode()
    assert not got[0].redelivered


def test_an_administrator_may_look_and_clear(broker: BrokerProcess, owner: BlockingChannel) -> None:
    with client(broker, "guest") as http:
        found = http.get(f"/api{filled(MESSAGES)}").json()["items"]
        assert [each["body"] for each in found] == [SECRET]
        assert http.request("DELETE", f"/api{filled(MESSAGES)}", json={}).json()["done"] == 1
    assert owner.basic_get("answers")[2] is None


def test_what_its_owner_holds_is_settled_by_nobody_else(broker: BrokerProcess, owner: BlockingChannel) -> None:
    got = owner.basic_get("answers")
    with client(broker, "manager") as http:
        answer = http.post("/ack", json={"queue": "answers", "offsets": [0]})
        assert (answer.status_code, answer.json()["reason"][:32]) == (BAD_REQUEST, "cannot obtain exclusive access t")
    over_mqtt = Client(broker, "c1")
    over_mqtt.connect()
    for command in ("$ack", "$nack", "$reject", "$extend", "$commit"):
        code = over_mqtt.publish(f"$queue/answers/{command}", message_id="answers:0", group_id="g", offset="0")
        assert code.is_failure, command
    over_mqtt.end()
    with connect(broker) as connection:
        for command in ("$extend", "$commit"):
            channel = connection.channel()
            channel.confirm_delivery()
            headers = {"x-group-id": "g", "x-offset": 0, "x-message-id": "answers:0"}
            with pytest.raises(ChannelClosedByBroker) as caught:
                channel.basic_publish("", f"$queue/answers/{command}", b"", pika.BasicProperties(headers=headers))
            assert caught.value.reply_code == LOCKED, command
    owner.basic_nack(got[0].delivery_tag)
    again = owner.basic_get("answers")
    assert (again[2], again[0].redelivered) == (SECRET.encode(), True)
