"""Administration of a running broker, by the client that tools use."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pika
import pytest

from forebay.client.control import ControlClient
from forebay.core.errors import INVALID, NOT_FOUND, PRECONDITION, REFUSED, PeerError, RequestError
from forebay.wire.blocks.frames import CONTROL_OCTETS_MAX
from tests.broker_process import BrokerProcess
from tests.waiting import until

WAIT_S_MAX = 20
FROM = {"x-bound-from": "elsewhere"}  # arguments of a binding, for programs


def connect(broker: BrokerProcess) -> ControlClient:
    return ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest")


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[ControlClient]:
    with connect(broker) as client:
        yield client


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[pika.BlockingConnection]:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    yield connection
    if connection.is_open:
        connection.close()


def refused(client: ControlClient, operation: str, **arguments: object) -> tuple[str, str]:
    with pytest.raises(RequestError) as caught:
        client.run(operation, **arguments)
    return caught.value.reason, caught.value.text.split(": ", 1)[1]


def by(items: Iterator[dict[str, object]], name: str) -> dict[object, dict[str, object]]:
    return {item[name]: item for item in items}


def test_vhosts_come_and_go(broker: BrokerProcess, client: ControlClient) -> None:
    client.run("vhost.add", vhost="test", description="for tests", queues_max=5)
    client.run("vhost.set", vhost="test", tags=["a"], default_queue_type="quorum")
    assert refused(client, "vhost.add", vhost="test") == (PRECONDITION, "vhost: 'test' is there already")
    assert refused(client, "vhost.add", vhost="bad", queues_max=-2)[0] == INVALID
    client.run("queue.declare", vhost="test", queue="q")
    broker.kill9()
    broker.start()
    with connect(broker) as again:
        known = by(again.items("vhost.list"), "vhost")
        assert set(known) == {"/", "test"}
        test = known["test"]
        assert (test["description"], test["queues_max"], test["tags"], test["queues"]) == ("for tests", 5, ["a"], 1)
        assert again.run("queue.show", vhost="test", queue="q")["type"] == "quorum"
        again.run("vhost.delete", vhost="test")
        assert refused(again, "queue.list", vhost="test") == (NOT_FOUND, "vhost: 'test' does not exist")
        broker.kill9()
    broker.start()
    with connect(broker) as last:
        assert set(by(last.items("vhost.list"), "vhost")) == {"/"}


def test_queues_exchanges_and_bindings(client: ControlClient) -> None:
    made = client.run("queue.declare", queue="orders", arguments={"x-max-length": 10})
    assert (made["queue"], made["type"], made["durable"], made["ready"]) == ("orders", "classic", True, 0)
    client.run("queue.declare", queue="log", type="stream")
    client.run("exchange.declare", exchange="in", type="topic")
    client.run("exchange.declare", exchange="inner", type="fanout", durable=False, auto_delete=True)
    client.run("binding.add", exchange="in", destination="orders", routing_key="a.#")
    client.run("binding.add", exchange="in", destination="inner", destination_type="exchange", arguments=FROM)
    assert list(client.items("binding.list", exchange="in")) == [
        {
            "exchange": "in",
            "destination": "orders",
            "destination_type": "queue",
            "routing_key": "a.#",
            "arguments": {},
        },
        {
            "exchange": "in",
            "destination": "inner",
            "destination_type": "exchange",
            "routing_key": "",
            "arguments": FROM,
        },
    ]
    assert len(list(client.items("binding.list", queue="orders"))) == 1
    exchanges = by(client.items("exchange.list"), "exchange")
    assert (exchanges["in"]["type"], exchanges["in"]["bindings"]) == ("topic", 2)
    assert exchanges["inner"]["auto_delete"] is True
    client.run("binding.delete", exchange="in", destination="orders", routing_key="a.#")
    assert refused(client, "exchange.delete", exchange="in", if_unused=True)[0] == PRECONDITION
    client.run("binding.delete", exchange="in", destination="inner", destination_type="exchange", arguments=FROM)
    client.run("exchange.delete", exchange="in", if_unused=True)
    assert client.run("queue.delete", queue="orders") == {"messages": 0}
    assert set(by(client.items("queue.list"), "queue")) == {"log"}
    assert refused(client, "queue.show", queue="orders") == (NOT_FOUND, "no queue 'orders' in vhost '/'")
    assert refused(client, "exchange.delete", exchange="in") == (NOT_FOUND, "no exchange 'in' in vhost '/'")
    assert refused(client, "queue.declare", queue="") == (INVALID, "queue: '' is no name")
    assert refused(client, "binding.add", exchange="amq.direct", destination="log", destination_type="x")[0] == INVALID


def test_messages_are_looked_at_and_purged(client: ControlClient, connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    for number in range(6):
        properties = pika.BasicProperties(headers={"n": number, "who": "x"}, priority=number, message_id=f"m{number}")
        channel.basic_publish("", "q", json.dumps({"n": number, "tags": ["a", f"t{number}"]}).encode(), properties)
    channel.basic_publish("", "q", b"\xff\x00" * 10)
    _, _, body = channel.basic_get("q", auto_ack=True)
    assert json.loads(body)["n"] == 0

    shown = list(client.items("queue.messages", queue="q", body_octets_max=12))
    assert [each["offset"] for each in shown] == [1, 2, 3, 4, 5, 6]
    first = shown[0]
    assert first["headers"] == {"n": 1, "who": "x"}
    assert first["properties"] == {"priority": 1, "message_id": "m1"}
    assert (first["body"], first["is_cut"], first["routing_key"], first["protocol"]) == (
        '{"n": 1, "ta',
        True,
        "q",
        "amqp091",
    )
    assert (shown[-1]["body_base64"], shown[-1]["octets"]) == ("/wD/AP8A/wD/AP8A", 20)

    for where, offsets in {
        "/n > 3": [4, 5],
        "header.n = 2 OR priority = 3": [2, 3],
        "/tags = 't4' AND message_id LIKE 'm[0-9]'": [4],
        "/n IS NULL AND octets = 20": [6],
        "routing_key = 'q' AND queue = 'q' AND exchange IS NULL AND offset < 2 AND age_ms < 600000": [1],
        "death_reason IS NOT NULL": [],
    }.items():
        found = client.items("queue.messages", queue="q", where=where, limit=1)
        assert [each["offset"] for each in found] == offsets, where
    assert refused(client, "queue.messages", queue="q", where="/n >") == (
        INVALID,
        "filter, position 5, the end: a value is due here",
    )
    assert refused(client, "queue.messages", queue="q", limit=0)[0] == INVALID
    assert refused(client, "queue.messages", queue="q", body_octets_max=-1)[0] == INVALID
    assert client.run("queue.purge", queue="q") == {"messages": 6}
    assert list(client.items("queue.messages", queue="q")) == []


def test_one_request_looks_at_so_much_and_no_more(client: ControlClient, connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    for _ in range(66):
        channel.basic_publish("", "q", bytes(1 << 20))
    until(lambda: client.run("queue.show", queue="q")["ready"] == 66)
    answer = client.run("queue.messages", queue="q", where="octets = 1")
    assert (answer["items"], answer["next"]) == ([], 64)
    assert list(client.items("queue.messages", queue="q", where="octets = 1")) == []
    answer = client.run("dlq.purge", queue="q", where="octets = 1")
    assert (answer["scanned"], answer["next"], answer["done"]) == (64, 64, 0)


def test_what_was_purged_stays_so_over_a_kill(broker: BrokerProcess) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        for _ in range(100):
            channel.basic_publish("", "q", b"x", pika.BasicProperties(delivery_mode=2))
    with connect(broker) as client:
        assert client.run("queue.purge", queue="q") == {"messages": 100}
        broker.kill9()
    broker.start()
    with connect(broker) as client:
        assert client.run("queue.show", queue="q")["ready"] == 0


def test_a_stream_is_truncated_at_an_offset_for_good(broker: BrokerProcess) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
        channel.queue_declare("q", durable=True)
        for number in range(30):
            channel.basic_publish("", "s", b"%d" % number)
    with connect(broker) as client:
        assert client.run("queue.truncate", queue="s", below=7) == {"start": 7}
        assert client.run("queue.truncate", queue="s", below=3) == {"start": 7}
        assert refused(client, "queue.truncate", queue="s", below=-1) == (INVALID, "below: -1 is below 0")
        reason, said = refused(client, "queue.truncate", queue="q", below=1)
        assert (reason, said) == (INVALID, "queue: 'q' is no stream: it keeps what is not settled")
        broker.kill9()
    broker.start()
    with connect(broker) as client:
        assert next(client.items("queue.messages", queue="s"))["offset"] == 7
        assert client.run("queue.truncate", queue="s", below=1 << 62) == {"start": 30}
        assert list(client.items("queue.messages", queue="s")) == []


def test_unsettled_offsets_are_told_and_sent_back_once(broker: BrokerProcess) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("dead", durable=True)
        channel.queue_declare("orders", durable=True)
        for number in range(6):
            channel.basic_publish("", "dead", b"%d" % number)
        tags = [channel.basic_get("dead")[0].delivery_tag for _ in range(3)]
        channel.basic_ack(tags[0])
        channel.basic_ack(tags[2])
        with connect(broker) as client:
            answer = client.run("queue.unsettled", queue="dead")
            assert (answer["start"], answer["end"], answer["ranges"]) == (1, 6, [[1, 2], [3, 6]])
            assert client.run("queue.unsettled", queue="dead", **{"from": 4})["ranges"] == [[4, 6]]
            assert refused(client, "queue.unsettled", queue="dead", **{"from": -1})[0] == INVALID
            asked = {"queue": "dead", "to": "orders", "offsets": [[0, 4], 5, 5], "id": answer["id"]}
            done = client.run("dlq.redrive", **asked)
            assert {name: done[name] for name in ("done", "held", "gone", "refused")} == {
                "done": 2,
                "held": 1,
                "gone": 2,
                "refused": 0,
            }
    broker.kill9()
    broker.start()
    with connect(broker) as client:
        again = client.run("dlq.redrive", **asked)
        assert (again["done"], again["gone"]) == (1, 4)  # what was held is not any more
        assert client.run("queue.show", queue="orders")["ready"] == 3
        other = refused(client, "dlq.redrive", **{**asked, "id": 10_000})
        assert other[0] == PRECONDITION
        assert "it was made anew" in other[1]
        for offsets in ([-1], [[3, 2]], [[1]], ["1"], [True], list(range(20_000))):
            assert refused(client, "dlq.redrive", queue="dead", offsets=offsets)[0] == INVALID


def test_groups_leases_and_consumers(client: ControlClient, connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.basic_qos(prefetch_count=2)
    channel.queue_declare("q", durable=True)
    for _ in range(3):
        channel.basic_publish("", "q", b"x")
    arguments = {"x-consumer-group": "g", "x-priority": 4}
    tag = channel.basic_consume("q", lambda *_: None, consumer_tag="me", arguments=arguments)
    connection.process_data_events(0.1)
    until(lambda: len(list(client.items("lease.list", queue="q"))) > 0)
    (group,) = client.items("group.list", queue="q")
    assert (group["group"], group["kind"], group["leased"], group["ready"]) == ("g", "work", 2, 1)
    assert sum(int(str(lease["left"])) for lease in client.items("lease.list")) == 2
    (consumer,) = client.items("consumer.list")
    assert (consumer["queue"], consumer["consumer"], consumer["group"], consumer["priority"]) == ("q", tag, "g", 4)
    (lease, *_) = client.items("lease.list")
    assert lease["consumer"] == tag
    assert lease["connection"] == consumer["connection"]


def test_a_stream_group_is_moved(broker: BrokerProcess, client: ControlClient) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
        for _ in range(5):
            channel.basic_publish("", "s", b"x")
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume("s", lambda *_: None, arguments={"x-consumer-group": "g", "x-stream-offset": "first"})
        connection.process_data_events(0.1)
    client.run("group.commit", queue="s", group="g", offset=3)
    assert refused(client, "group.commit", queue="s", group="g", offset=9)[0] == INVALID
    assert refused(client, "group.commit", queue="s", group="h", offset=0)[0] == NOT_FOUND
    broker.kill9()
    broker.start()
    with connect(broker) as again:
        (group,) = again.items("group.list", queue="s")
        assert (group["committed"], group["kind"]) == (3, "stream")


def test_connections_are_listed_and_closed(client: ControlClient, connection: pika.BlockingConnection) -> None:
    connection.channel()
    listed = by(client.items("connection.list"), "protocol")
    assert set(listed) == {"AMQP 0.9.1", "blocks"}
    amqp = listed["AMQP 0.9.1"]
    assert (amqp["user"], amqp["vhost"], amqp["channels"]) == ("guest", "/", 1)
    assert str(amqp["peer"]).startswith("127.0.0.1:")
    assert list(client.items("connection.list", vhost="other")) == []
    (channel,) = client.items("channel.list", connection=amqp["id"])
    assert (channel["channel"], channel["vhost"], channel["consumers"], channel["confirms"]) == (1, "/", 0, False)
    assert list(client.items("channel.list", connection=999_999)) == []
    client.run("connection.close", id=amqp["id"], reason="time to go")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        connection.process_data_events(WAIT_S_MAX)
    assert caught.value.reply_code == 320
    assert "time to go" in caught.value.reply_text
    until(lambda: amqp["id"] not in by(client.items("connection.list"), "id"))
    assert refused(client, "connection.close", id=amqp["id"])[0] == NOT_FOUND


def test_delayed_messages_are_listed_and_cancelled(client: ControlClient, connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    for number in range(3):
        headers = {"x-delay": 3_600_000 * (number + 1), "x-delay-id": f"d{number}"}
        channel.basic_publish("", "q", b"later", pika.BasicProperties(headers=headers))
    listed = list(client.items("delayed.list", limit=2))
    assert [each["key"] for each in listed] == ["d0", "d1", "d2"]
    client.run("delayed.cancel", name="d1")
    client.run("delayed.cancel", name=str(listed[2]["number"]))
    assert [each["key"] for each in client.items("delayed.list")] == ["d0"]
    assert refused(client, "delayed.cancel", name="d1") == (NOT_FOUND, "name: no message waits under 'd1'")


def test_long_lists_come_in_pages(client: ControlClient) -> None:
    for number in range(7):
        client.run("queue.declare", queue=f"q{number}", durable=False)
    answer = client.run("queue.list", limit=3)
    assert (answer["total"], answer["next"]) == (7, 3)
    assert [queue["queue"] for queue in client.items("queue.list", limit=3)] == [f"q{n}" for n in range(7)]
    assert refused(client, "queue.list", limit=0) == (INVALID, "limit: 0 is not within 1 .. 1000")
    assert refused(client, "queue.list", **{"from": -1}) == (INVALID, "from: -1 is below 0")


@pytest.mark.parametrize(
    ("operation", "arguments", "reason", "said"),
    [
        ("queue.polish", {}, NOT_FOUND, "do: 'queue.polish' is no operation; known are binding.add"),
        ("queue.purge", {}, INVALID, "queue.purge: queue is missing: name of the queue"),
        ("queue.purge", {"queue": 5}, INVALID, "queue.purge: queue: 5 is not what it must be: text"),
        ("queue.purge", {"queue": "\ud800"}, INVALID, "is not what it must be: text"),
        ("queue.purge", {"queue": "q", "colour": 1}, INVALID, "'colour' is no argument; known are vhost, queue"),
        ("queue.list", {"limit": True}, INVALID, "limit: True is not what it must be: whole number"),
        ("queue.list", {"limit": 1 << 70}, INVALID, "is not what it must be: whole number"),
        ("queue.delete", {"queue": "q", "if_empty": 1}, INVALID, "if_empty: 1 is not what it must be: true or false"),
        ("queue.declare", {"queue": "q", "arguments": [1]}, INVALID, "arguments: a list is not what it must be"),
        ("vhost.add", {"vhost": "v", "tags": [1]}, INVALID, "tags: a list is not what it must be: list of texts"),
    ],
)
def test_an_error_names_operation_argument_and_value(
    client: ControlClient, operation: str, arguments: dict[str, object], reason: str, said: str
) -> None:
    got = refused(client, operation, **arguments)
    assert got[0] == reason
    assert said in got[1]


def test_whoever_has_not_logged_in_is_refused(broker: BrokerProcess) -> None:
    with pytest.raises(RequestError) as caught:
        ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "wrong")
    assert caught.value.reason == REFUSED


def test_a_request_has_a_limit(client: ControlClient) -> None:
    client.run("queue.declare", queue="q", arguments={"x-ha-params": "x" * 100_000})
    assert client.run("queue.show", queue="q")["arguments"] == {"x-ha-params": "x" * 100_000}
    with pytest.raises(PeerError, match=f"at most {CONTROL_OCTETS_MAX} are taken"):
        client.run("queue.declare", queue="r", arguments={"x-ha-params": "x" * CONTROL_OCTETS_MAX})
