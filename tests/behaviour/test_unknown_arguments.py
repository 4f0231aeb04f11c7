"""An argument that nothing puts in force is refused by its name, over every protocol."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import client, told

SLIP: Final = {"x-dead-leter-exchange": "dead"}


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    return start_broker(http="127.0.0.1:0")


def refusal(broker: BrokerProcess, ask: Callable[[BlockingChannel], object]) -> str:
    """The text with which a channel is closed for what is asked of it, by 406."""
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        ask(open_channel(broker))
    assert caught.value.reply_code == 406
    return str(caught.value.reply_text)


def test_over_amqp(broker: BrokerProcess) -> None:
    open_channel(broker).queue_declare("q", durable=True, arguments={"x-ha-policy": "all"})
    said = refusal(broker, lambda channel: channel.queue_declare("new", durable=True, arguments=SLIP))
    assert "'x-dead-leter-exchange'" in said and "did you mean x-dead-letter-exchange?" in said
    said = refusal(broker, lambda channel: channel.queue_declare("q", durable=True, arguments=SLIP))
    assert "did you mean x-dead-letter-exchange?" in said  # also of a queue that is there
    said = refusal(broker, lambda channel: channel.queue_declare("new", arguments={"x-barrier-expresion": "/a = 1"}))
    assert "'x-barrier-expresion'" in said
    said = refusal(broker, lambda channel: channel.exchange_declare("x", arguments={"alternate-exchang": "a"}))
    assert "did you mean alternate-exchange?" in said
    said = refusal(
        broker, lambda channel: channel.basic_consume("q", lambda *_: None, arguments={"x-consumer-grup": "g"})
    )
    assert "did you mean x-consumer-group?" in said
    slip = pika.BasicProperties(headers={"x-offset": 0, "x-extends-ms": 5})
    channel = open_channel(broker)

    def extend(channel: BlockingChannel) -> None:
        channel.confirm_delivery()
        channel.basic_publish("", "$queue/q/$extend", b"", slip)

    assert "did you mean x-extend-ms?" in refusal(broker, extend)
    assert channel.is_open


def test_over_mqtt(broker: BrokerProcess) -> None:
    open_channel(broker).queue_declare("q", durable=True)
    with client(broker, "worker") as worker:
        for name in ("consumer_grup", "x_consumer_group"):
            assert worker.subscribe("$queue/q/#", 1, **{name: "g"}).value == 0x83
        assert worker.subscribe("$queue/q/#", consumer_group="g", traceparent="00-1-2-01", x_mine="1").value == 1
        worker.publish("$queue/q/k", b"a")
        said = told(worker.next())
        fields = {"message_id": said["message-id"], "group_id": "g"}
        assert worker.publish("$queue/q/$nack", b"", **fields, delay_mss="5").is_failure
        assert not worker.publish("$queue/q/$ack", b"", **fields, colour="red").is_failure


def test_over_http(broker: BrokerProcess) -> None:
    with httpx.Client(base_url=broker.http_url + "/api", auth=("guest", "guest"), timeout=60) as http:
        for path, body, meant in (
            ("/queues/%2F/new", {"durable": True, "arguments": SLIP}, "x-dead-letter-exchange"),
            ("/exchanges/%2F/new", {"type": "fanout", "arguments": {"alternate_exchange": "a"}}, "alternate-exchange"),
            ("/policies/%2F/new", {"pattern": "q", "definition": {"max-lenght": 5}}, "max-length"),
            ("/operator-policies/%2F/new", {"pattern": "q", "definition": {"max-lenght": 5}}, "max-length"),
        ):
            answer = http.put(path, json=body)
            assert (answer.status_code, f"did you mean {meant}?" in answer.json()["reason"]) == (400, True), answer.text
        definitions = {"queues": [{"name": "new", "vhost": "/", "durable": True, "arguments": SLIP}]}
        answer = http.post("/definitions", params={"strict": "true"}, json=definitions)
        assert answer.status_code == 400 and "x-dead-leter-exchange" in answer.text
        answer = http.post("/definitions", json=definitions)
        (left_out,) = answer.json()["left_out"]
        assert (answer.status_code, left_out["may_lose_messages"]) == (200, True)
        assert left_out["field"] == "arguments.x-dead-leter-exchange"
        assert "did you mean x-dead-letter-exchange?" in left_out["reason"]


def test_of_bindings(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True)
    channel.exchange_declare("inner", "fanout")
    wrong = {"x-match": "any"}
    for exchange in ("amq.direct", "amq.topic", "amq.fanout"):
        said = refusal(broker, partial(BlockingChannel.queue_bind, queue="q", exchange=exchange, arguments=wrong))
        assert f"'x-match' for a binding of exchange '{exchange}'" in said
        assert "only headers exchanges look at arguments" in said
    said = refusal(broker, lambda channel: channel.exchange_bind("inner", "amq.direct", "", {"owner": "billing"}))
    assert "'owner' for a binding" in said
    said = refusal(broker, lambda channel: channel.queue_bind("q", "amq.headers", "", {"x-macth": "any", "a": 1}))
    assert "did you mean x-match?" in said
    channel.queue_bind("q", "amq.headers", "", {"x-match": "any", "a": 1, "x-left-out": 1})  # as RabbitMQ's do
    channel.queue_bind("q", "amq.headers", "", {"x-match": "any-with-x", "x-mach": 1})  # a header of that name
    channel.queue_bind("q", "amq.direct", "k", {"x-bound-from": [{"cluster-name": "a"}]})  # as its federation does
    with httpx.Client(base_url=broker.http_url + "/api", auth=("guest", "guest"), timeout=60) as http:
        answer = http.post("/bindings/%2F/e/amq.direct/q/q", json={"routing_key": "k", "arguments": {"owner": "a"}})
        assert answer.status_code == 400 and "'owner' for a binding" in answer.text, answer.text
        lost = {"source": "amq.direct", "vhost": "/", "destination": "q", "routing_key": "k", "arguments": {"o": 1}}
        (left_out,) = http.post("/definitions", json={"bindings": [lost]}).json()["left_out"]
        assert (left_out["field"], "only headers exchanges look" in left_out["reason"]) == ("arguments.o", True)


def test_of_publishes(broker: BrokerProcess) -> None:
    """Applications have headers of their own, whatever they begin with, but for the prefix that is the broker's."""
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True)
    own = pika.BasicProperties(
        headers={"x-dely": 5, "x-mine": 1, "X-Forebay-Signature": "a", "x-forebays": 1, "n": None}
    )
    channel.basic_publish("", "q", b"a", own, mandatory=True)
    slip = pika.BasicProperties(headers={"n": 1, "x-forebay-dely": 5})
    said = refusal(broker, lambda channel: channel.basic_publish("", "q", b"b", slip))
    assert "header 'x-forebay-dely'" in said and "did you mean x-delay?" in said
    channel.queue_bind("q", "amq.topic", "t")
    with client(broker, "worker") as worker:
        assert worker.publish("t", b"b", x_forebay_group="g").value == 0x83
        assert not worker.publish("t", b"a", x_forebays="g", x_mine="1").is_failure
    url = f"{broker.http_url}/publish/t"
    answer = httpx.post(url, content=b"b", headers={"x-forebay-group": "g"}, auth=("guest", "guest"), timeout=60)
    assert answer.status_code == 400 and "user property 'x-forebay-group'" in answer.text, answer.text
    event = {"X-Forebay-Event": "queue.created", "X-Forebay-Delivery": "1", "X-Forebay-Signature": "sha256=0"}
    answer = httpx.post(url, content=b"a", headers=event, auth=("guest", "guest"), timeout=60)
    assert answer.status_code == 200, "a webhook may go to a broker's bridge"
    assert [channel.basic_get("q", auto_ack=True)[2] for _ in range(4)] == [b"a", b"a", b"a", None]
