"""python-qpid-proton, as people use it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from proton import ConnectionException, Disposition, Message, symbol, timestamp, ulong
from proton.reactor import AtMostOnce, Copy, LinkOption, Selector
from proton.utils import BlockingConnection, LinkDetached, SendException

from tests.broker_process import BrokerProcess
from tests.interop.amqp10.proton_client import QUEUE, TOPIC, WAIT_S, connected, take
from tests.interop.test_pika import connect as pika_connect


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[BlockingConnection]:
    with connected(broker) as made:
        yield made


def test_hello(connection: BlockingConnection) -> None:
    sender = connection.create_sender("hello", options=[QUEUE])
    assert sender.send(Message("Hello World!", id="1", properties={"n": 1})).remote_state == Disposition.ACCEPTED
    (found,) = take(connection.create_receiver("hello", options=[QUEUE]), 1)
    assert (found.body, found.id, found.properties) == ("Hello World!", "1", {"n": 1})


def test_a_wrong_password(broker: BrokerProcess) -> None:
    with pytest.raises(ConnectionException, match=r"(?i)auth"), connected(broker, password="wrong"):
        pass


def test_a_vhost_that_is_not_there(broker: BrokerProcess) -> None:
    url = f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}"
    with pytest.raises(ConnectionException, match=r"none"):
        BlockingConnection(url, allowed_mechs="PLAIN", virtual_host="vhost:none", timeout=WAIT_S)


def test_what_is_not_there_is_refused_by_name(connection: BlockingConnection) -> None:
    for make in (connection.create_sender, connection.create_receiver):
        with pytest.raises(LinkDetached, match=r"amqp:not-found.*no queue 'none'"):
            make("/queues/none")
    with pytest.raises(LinkDetached, match=r"amqp:invalid-field.*/exchange/x/y"):
        connection.create_sender("/exchange/x/y")
    with pytest.raises(LinkDetached, match=r"amqp:not-found.*no exchange 'none'"):
        connection.create_sender("/exchanges/none/key")


def test_a_message_that_nobody_gets_is_released(connection: BlockingConnection) -> None:
    with pytest.raises(SendException) as caught:
        connection.create_sender("/exchanges/amq.direct/nobody").send(Message("x"))
    assert caught.value.state == Disposition.RELEASED


def test_a_full_queue_rejects(broker: BrokerProcess, connection: BlockingConnection) -> None:
    channel = pika_connect(broker).channel()
    channel.queue_declare("full", durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    sender = connection.create_sender("/queues/full")
    sender.send(Message("1"))
    delivery = sender.link.send(Message("2"))
    connection.wait(lambda: delivery.settled, timeout=WAIT_S)
    assert delivery.remote_state == Disposition.REJECTED
    assert delivery.remote.condition.name == "amqp:resource-limit-exceeded"
    assert delivery.remote.condition.info == {symbol("queue"): "full", symbol("reason"): symbol("maxlen")}


def test_each_message_says_where_it_goes(broker: BrokerProcess, connection: BlockingConnection) -> None:
    channel = pika_connect(broker).channel()
    channel.queue_declare("a/b", durable=True)
    sender = connection.create_sender(None)
    sender.send(Message("1", address="/queues/a%2Fb"))
    with pytest.raises(SendException) as caught:
        sender.send(Message("3", address="/queues/none"))
    assert caught.value.state in {Disposition.REJECTED, Disposition.RELEASED}
    with pytest.raises(SendException) as caught:
        sender.send(Message("4"))
    assert caught.value.state == Disposition.REJECTED
    assert [each.body for each in take(connection.create_receiver("/queues/a%2Fb"), 1)] == ["1"]


def test_outcomes(broker: BrokerProcess, connection: BlockingConnection) -> None:
    channel = pika_connect(broker).channel()
    channel.queue_declare("dead", durable=True)
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("jobs", durable=True, arguments={"x-queue-type": "quorum", **dead})
    sender = connection.create_sender("/queues/jobs")
    for body in ("released", "failed", "rejected", "accepted"):
        sender.send(Message(body, durable=True))
    receiver = connection.create_receiver("/queues/jobs", credit=1)
    assert receiver.receive(WAIT_S).body == "released"
    receiver.release(delivered=False)
    again = receiver.receive(WAIT_S)
    assert (again.body, again.delivery_count, again.first_acquirer) == ("released", 0, False)
    receiver.accept()
    assert receiver.receive(WAIT_S).body == "failed"
    failed = receiver.fetcher.unsettled.popleft()
    failed.local.failed = True
    failed.update(Disposition.MODIFIED)
    failed.settle()
    again = receiver.receive(WAIT_S)
    assert (again.body, again.delivery_count) == ("failed", 1)
    receiver.accept()
    assert receiver.receive(WAIT_S).body == "rejected"
    receiver.reject()
    assert [each.body for each in take(receiver, 1)] == ["accepted"]
    (letter,) = take(connection.create_receiver("/queues/dead"), 1)
    assert letter.body == "rejected"


def test_a_receiver_that_detaches_gives_back_what_it_holds(connection: BlockingConnection) -> None:
    sender = connection.create_sender("held", options=[QUEUE])
    for number in range(5):
        sender.send(Message(number))
    receiver = connection.create_receiver("held", options=[QUEUE], credit=10)
    assert receiver.receive(WAIT_S).body == 0
    receiver.close()
    found = take(connection.create_receiver("held", options=[QUEUE]), 5)
    assert [each.body for each in found] == list(range(5))


def test_messages_that_are_sent_settled(connection: BlockingConnection) -> None:
    sender = connection.create_sender("settled", options=[QUEUE, AtMostOnce()])
    for number in range(10):
        sender.link.send(Message(number))
    receiver = connection.create_receiver("settled", options=[QUEUE, AtMostOnce()], credit=10)
    assert [receiver.receive(WAIT_S).body for _ in range(10)] == list(range(10))


def test_never_more_than_the_credit(connection: BlockingConnection) -> None:
    sender = connection.create_sender("many", options=[QUEUE])
    for number in range(20):
        sender.send(Message(number))
    receiver = connection.create_receiver("many", options=[QUEUE], credit=0)
    receiver.link.flow(3)
    connection.wait(lambda: len(receiver.fetcher.incoming) >= 3, timeout=WAIT_S)
    assert len(receiver.fetcher.incoming) == 3
    receiver.link.drain(30)
    connection.wait(lambda: len(receiver.fetcher.incoming) >= 20, timeout=WAIT_S)
    connection.wait(lambda: not receiver.link.draining(), timeout=WAIT_S)
    assert receiver.link.credit == 0


def test_questions_and_answers(broker: BrokerProcess, connection: BlockingConnection) -> None:
    with connected(broker) as served:
        requests = served.create_receiver("questions", options=[QUEUE])
        reply = connection.create_receiver(None, dynamic=True, credit=1)
        sender = connection.create_sender("questions", options=[QUEUE])
        sender.send(Message("ping", reply_to=reply.remote_source.address, correlation_id=7))
        request = requests.receive(WAIT_S)
        requests.accept()
        served.create_sender(request.reply_to).send(
            Message(request.body.upper(), correlation_id=request.correlation_id)
        )
        answer = reply.receive(WAIT_S)
        assert (answer.body, answer.correlation_id) == ("PING", 7)


def test_topics(connection: BlockingConnection) -> None:
    receiver = connection.create_receiver("news/+", options=[TOPIC], credit=10)
    sender = connection.create_sender("news/sport", options=[TOPIC])
    sender.send(Message("goal"))
    assert [each.body for each in take(receiver, 1)] == ["goal"]
    receiver.close()
    with pytest.raises(SendException):
        sender.send(Message("nobody"))


def test_a_stream_from_an_offset(broker: BrokerProcess, connection: BlockingConnection) -> None:
    channel = pika_connect(broker).channel()
    channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
    sender = connection.create_sender("/queues/log")
    for number in range(10):
        sender.send(Message(number))

    class From(LinkOption):  # type: ignore[misc]
        def apply(self, link: Any) -> None:
            data = link.source.filter
            data.put_map()
            data.enter()
            data.put_symbol(symbol("rabbitmq:stream-offset-spec"))
            data.put_described()
            data.enter()
            data.put_symbol(symbol("rabbitmq:stream-offset-spec"))
            data.put_ulong(ulong(7))
            data.exit()
            data.exit()

    receiver = connection.create_receiver("/queues/log", options=[From()], credit=10)
    found = take(receiver, 3)
    assert [each.body for each in found] == [7, 8, 9]
    assert [each.annotations[symbol("x-stream-offset")] for each in found] == [7, 8, 9]


@pytest.mark.parametrize("octets", [0, 1, 255, 256, 65_000, 131_072, 1_048_576, 10_000_000])
def test_bodies_of_any_length(connection: BlockingConnection, octets: int) -> None:
    body = bytes(each % 251 for each in range(min(octets, 1000))) * -(-octets // 1000) if octets else b""
    sender = connection.create_sender("long", options=[QUEUE])
    sender.send(Message(body[:octets], inferred=True))
    (found,) = take(connection.create_receiver("long", options=[QUEUE]), 1)
    assert found.body == body[:octets]


def test_what_was_accepted_outlives_a_kill(broker: BrokerProcess) -> None:
    url = f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}"
    sender = BlockingConnection(url, allowed_mechs="PLAIN", timeout=WAIT_S).create_sender("kept", options=[QUEUE])
    for number in range(50):
        sender.send(Message(number, durable=True, creation_time=timestamp(5)))
    broker.kill9()
    broker.start()
    with connected(broker) as connection:
        found = take(connection.create_receiver("kept", options=[QUEUE]), 50)
        assert [each.body for each in found] == list(range(50))


def test_a_queue_that_is_deleted_detaches_its_receiver(broker: BrokerProcess, connection: BlockingConnection) -> None:
    channel = pika_connect(broker).channel()
    channel.queue_declare("short-lived", durable=True)
    receiver = connection.create_receiver("/queues/short-lived", credit=1)
    channel.queue_delete("short-lived")
    with pytest.raises(LinkDetached, match=r"amqp:resource-deleted"):
        receiver.receive(WAIT_S)


def test_a_selector(connection: BlockingConnection) -> None:
    sender = connection.create_sender("colors", options=[QUEUE])
    for each in range(4):
        sender.send(Message(str(each), properties={"color": "red" if each % 2 else "blue", "n": each}))
    receiver = connection.create_receiver("colors", options=[QUEUE, Selector("color = 'red' AND n >= 1")])
    assert [each.body for each in take(receiver, 2)] == ["1", "3"]
    receiver.close()
    others = connection.create_receiver("colors", name="others", options=[QUEUE])
    assert [each.body for each in take(others, 2)] == ["0", "2"]
    with pytest.raises(LinkDetached, match=r"amqp:invalid-field.*position 9"):
        connection.create_receiver("colors", name="wrong", options=[QUEUE, Selector("color = ")])


def test_a_queue_is_browsed(connection: BlockingConnection) -> None:
    sender = connection.create_sender("shown", options=[QUEUE])
    for each in range(3):
        sender.send(Message(str(each)))
    browser = connection.create_receiver("shown", credit=10, options=[QUEUE, Copy()])
    assert [each.body for each in take(browser, 3)] == ["0", "1", "2"]
    browser.close()
    receiver = connection.create_receiver("shown", name="taker", options=[QUEUE])
    assert [(each.body, each.delivery_count) for each in take(receiver, 3)] == [("0", 0), ("1", 0), ("2", 0)]


def test_what_one_receiver_cannot_take_goes_to_another(broker: BrokerProcess, connection: BlockingConnection) -> None:
    sender = connection.create_sender("passed", options=[QUEUE])
    for body in ("first", "second"):
        sender.send(Message(body))
    receiver = connection.create_receiver("passed", credit=5, options=[QUEUE])
    assert receiver.receive(WAIT_S).body == "first"
    refused = receiver.fetcher.unsettled.popleft()
    refused.local.undeliverable = True
    refused.local.annotations = {symbol("x-opt-reason"): "not mine", symbol("x-opt-tries"): 2}
    refused.update(Disposition.MODIFIED)
    refused.settle()
    assert [each.body for each in take(receiver, 1)] == ["second"]
    sender.send(Message("third"))  # which sends what was settled
    channel = pika_connect(broker).channel()
    _, properties, body = next(channel.consume("passed", auto_ack=True))
    headers = properties.headers
    assert (body, headers["x-opt-reason"], headers["x-opt-tries"]) == (b"first", "not mine", 2)
