"""Who moves messages must be allowed to publish them where they go; and a queue has one name, however it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.broker_process import BrokerProcess, running

ACCESS_REFUSED = 403
MOVE = "/forebay/queues/%2F/mine/move"
REFUSAL = "write access to topic 'secret.door' in exchange 'amq.topic' in vhost '/' refused for user 'manager'"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("moving"), http="127.0.0.1:0") as broker:
        with client(broker, "guest") as http:
            made = {"password": "manager", "tags": "management"}
            assert http.put("/users/manager", json=made).status_code == 201
            rights = {"configure": "", "write": "^(mine|amq\\.topic)$", "read": "^mine$|\\.public$"}
            assert http.put("/permissions/%2F/manager", json=rights).status_code == 201
            topics = {"exchange": "amq.topic", "write": "^open\\.", "read": "^open\\."}
            assert http.put("/topic-permissions/%2F/manager", json=topics).status_code == 201
            for queue in ("mine", "all", "hidden"):
                assert http.put(f"/queues/%2F/{queue}", json={"durable": False}).status_code == 201
            assert http.post("/bindings/%2F/e/amq.topic/q/all", json={"routing_key": "#"}).status_code == 201
        yield broker


def client(broker: BrokerProcess, user: str) -> httpx.Client:
    return httpx.Client(base_url=broker.http_url + "/api", auth=(user, user), timeout=60, verify=False)


def fill(guest: httpx.Client, *keys: str) -> None:
    """Have a message of each routing key in the queue `mine`."""
    for queue in ("mine", "all"):
        assert guest.delete(f"/queues/%2F/{queue}/contents").status_code == 204
    for key in keys:
        assert guest.post("/bindings/%2F/e/amq.direct/q/mine", json={"routing_key": key}).status_code == 201
        message = {"properties": {}, "routing_key": key, "payload": key, "payload_encoding": "string"}
        assert guest.post("/exchanges/%2F/amq.direct/publish", json=message).json() == {"routed": True}


def bodies(http: httpx.Client, queue: str) -> list[str]:
    return [each["body"] for each in http.get(f"/forebay/queues/%2F/{queue}/messages").json()["items"]]


def test_a_key_that_may_not_be_published_to_is_refused(broker: BrokerProcess) -> None:
    with client(broker, "guest") as guest, client(broker, "manager") as http:
        fill(guest, "k")
        answer = http.post(MOVE, json={"exchange": "amq.topic", "routing_key": "secret.door"})
        assert (answer.status_code, answer.json()["reason"]) == (401, REFUSAL)
        assert (bodies(guest, "mine"), bodies(guest, "all")) == (["k"], [])
        assert http.post(MOVE, json={"exchange": "amq.topic", "routing_key": "open.door"}).json()["done"] == 1
        assert (bodies(guest, "mine"), bodies(guest, "all")) == ([], ["k"])


def test_of_messages_with_keys_of_their_own_those_go_that_may(broker: BrokerProcess) -> None:
    with client(broker, "guest") as guest, client(broker, "manager") as http:
        fill(guest, "open.a", "secret.door", "open.b")
        told = http.post(MOVE, json={"exchange": "amq.topic"}).json()
        assert (told["done"], told["refused"], told["refusal"]) == (2, 1, REFUSAL)
        assert (bodies(guest, "mine"), bodies(guest, "all")) == (["secret.door"], ["open.a", "open.b"])
        # An administrator may do everything.
        assert guest.post(MOVE, json={"exchange": "amq.topic"}).json()["done"] == 1


def test_to_a_queue_takes_leave_to_publish_to_queues(broker: BrokerProcess) -> None:
    with client(broker, "guest") as guest, client(broker, "manager") as http:
        fill(guest, "k")
        answer = http.post(MOVE, json={"to": "all"})
        assert answer.status_code == 401
        assert "write access to exchange 'amq.default'" in answer.json()["reason"]
        assert bodies(guest, "mine") == ["k"]


@pytest.mark.parametrize("address", ["$queue/hidden/x.public", "$queue/hidden"])
def test_patterns_are_over_the_queues_name_and_not_its_address(broker: BrokerProcess, address: str) -> None:
    login = pika.PlainCredentials("manager", "manager")
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, "/", login)
    refused = "read access to queue 'hidden' in vhost '/' refused for user 'manager'"
    connection = pika.BlockingConnection(parameters)
    asked: list[Callable[[BlockingChannel], object]] = [
        lambda channel: channel.basic_get(address),
        lambda channel: channel.basic_consume(address, lambda *_: None),
        lambda channel: channel.queue_purge(address),
    ]
    for ask in asked:
        with pytest.raises(ChannelClosedByBroker) as caught:
            ask(connection.channel())
        assert (caught.value.reply_code, caught.value.reply_text) == (ACCESS_REFUSED, f"ACCESS_REFUSED - {refused}")
    connection.channel().queue_purge("$queue/mine/x")  # what is allowed by its name is by its address
    connection.close()
    with client(broker, "manager") as http:
        values = {"queue": address}
        answer = http.post("/forebay/operations/queue.messages", json=values)
        assert (answer.status_code, answer.json()["reason"]) == (401, refused)
