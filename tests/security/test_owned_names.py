"""What outlives a connection under a name belongs to the user who gave the name: nobody else moves, ends or uses it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import pika
import pytest

from forebay.client.blocks import BlockClient
from forebay.client.control import ControlClient
from forebay.client.staging import StagingClient
from forebay.core.errors import RequestError
from tests.blocks import to_queue
from tests.broker_process import BrokerProcess, running
from tests.conformance.mqtt.raw import Raw, connect, user
from tests.waiting import until

ALL = {"configure": ".*", "write": ".*", "read": ".*"}
LAST = (1 << 63) - 1
Client = TypeVar("Client", bound=BlockClient)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("names")) as made:
        with control(made) as admin:
            for name in ("vic", "low"):
                admin.run("user.add", user=name, password=name)
                admin.run("permission.set", user=name, vhost="/", **ALL)
        yield made


@pytest.fixture
def queue(broker: BrokerProcess, request: pytest.FixtureRequest) -> str:
    name = f"q-{request.node.name}"
    with amqp(broker, "vic") as connection:
        connection.channel().queue_declare(name, durable=True)
    return name


def control(broker: BrokerProcess) -> ControlClient:
    return ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest")


def client(kind: type[Client], broker: BrokerProcess, name: str) -> Client:
    return kind.connect(f"127.0.0.1:{broker.amqp_port}", name, name)


def amqp(broker: BrokerProcess, name: str) -> pika.BlockingConnection:
    credentials = pika.PlainCredentials(name, name)
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port, "/", credentials))


def publish(broker: BrokerProcess, name: str, queue: str, body: bytes, **headers: object) -> None:
    with amqp(broker, name) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        named = {f"x-{key.replace('_', '-')}": value for key, value in headers.items()}
        channel.basic_publish("", queue, body, pika.BasicProperties(headers=named))


def bodies(broker: BrokerProcess, queue: str) -> list[bytes]:
    with amqp(broker, "vic") as connection:
        channel = connection.channel()
        count = channel.queue_declare(queue, passive=True).method.message_count
        return [channel.basic_get(queue, auto_ack=True)[2] for _ in range(count)]


def test_another_user_does_not_fence_a_producer_over_amqp(broker: BrokerProcess, queue: str) -> None:
    publish(broker, "low", queue, b"of low", producer_id="p", sequence=LAST, deduplication_key="k")
    publish(broker, "vic", queue, b"1", producer_id="p", sequence=1)
    publish(broker, "vic", queue, b"2", deduplication_key="k")
    publish(broker, "vic", queue, b"1 again", producer_id="p", sequence=1)
    publish(broker, "vic", queue, b"2 again", deduplication_key="k")
    assert bodies(broker, queue) == [b"of low", b"1", b"2"]


def test_another_user_does_not_fence_a_producer_over_mqtt(broker: BrokerProcess, queue: str) -> None:
    for name, number, body in (("low", LAST, b"of low"), ("vic", 1, b"1"), ("vic", 1, b"1 again")):
        raw = Raw(broker)
        raw.send(connect(f"c-{name}", login=(name, name)))
        raw.connack()
        properties = user("x-producer-id", "p") + user("x-sequence", str(number))
        raw.publish(f"$queue/{queue}", body, properties=properties)
        raw.close()
    assert bodies(broker, queue) == [b"of low", b"1"]


def test_another_user_does_not_end_a_readers_hold(broker: BrokerProcess, queue: str) -> None:
    for number in range(3):
        publish(broker, "vic", queue, b"%d" % number)
    with client(BlockClient, broker, "vic") as mine, client(BlockClient, broker, "low") as other:
        assert mine.hold(queue, "job", 0, 60) == (0, 0)
        other.hold(queue, "job", 3, 60)
        other.release(queue, "job")
        assert bodies(broker, queue) == [b"0", b"1", b"2"]
        assert mine.describe(queue).start == 0
        with control(broker) as admin:
            listed = admin.run("group.list", vhost="/", queue=queue)["items"]
            assert isinstance(listed, list)
            assert [(each["group"], each["user"]) for each in listed if each["kind"] == "reader"] == [("job", "vic")]
            admin.run("group.release", vhost="/", queue=queue, group="job")
        until(lambda: mine.describe(queue).start == 3, "nobody holds them")


def test_another_user_neither_commits_nor_aborts_a_transaction(broker: BrokerProcess, queue: str) -> None:
    with client(StagingClient, broker, "vic") as mine, client(StagingClient, broker, "low") as other:
        assert mine.stage("sink", 7, "p", to_queue(queue.encode(), b"row"))
        other.abort("sink", 7)
        with pytest.raises(RequestError, match="only 0 of 1 rows of part 'p' of batch 7 of query 'sink' are staged"):
            other.commit("sink", 7, {"p": 1})
        other.commit("sink", LAST, {})
        assert mine.last_batch("sink") == -1
        assert mine.commit("sink", 7, {"p": 1}).rows == 1
        assert bodies(broker, queue) == [b"row"]
        with pytest.raises(RequestError, match=r"query: 'a.*b' has an octet 0"):
            mine.commit("a\0b", 1, {})
