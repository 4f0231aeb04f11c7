"""MQTT.js, as people use it in Node, over TCP and WebSocket, at versions 3.1.1 and 5."""

from __future__ import annotations

import base64
import json
import queue as queues
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.broker_process import BrokerProcess
from tests.interop import npm

VERSION = "5.16.0"
SCRIPT = Path(__file__).with_name("mqttjs_client.js")
WAIT_S = 20
DAY_S = 86_400
BURST = 500

each_listener = pytest.mark.parametrize("listener", ["mqtt", "mqtt_websocket"], ids=["tcp", "ws"])
each_version = pytest.mark.parametrize("version", [pytest.param(4, id="3.1.1"), pytest.param(5, id="5")])


@pytest.fixture(scope="module")
def package() -> Path:
    """Folder with MQTT.js."""
    return npm.installed("mqtt", VERSION)


class Message:
    """What arrived, with the names that MQTT.js gives the properties."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.topic: str = told["topic"]
        self.payload = base64.b64decode(told["payload"])
        self.qos: int = told["qos"]
        self.retain: bool = told["retain"]
        self.properties: dict[str, Any] = told["properties"]


class Node:
    """One MQTT.js client in a process of its own; it comes back by itself when its connection breaks."""

    def __init__(self, package: Path, url: str, options: dict[str, object]) -> None:
        node = shutil.which("node")
        assert node is not None, "node is missing: apt-get install nodejs"
        self.process = subprocess.Popen(
            [node, str(SCRIPT), str(package), url, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.connected: queues.Queue[bool] = queues.Queue()
        self.messages: queues.Queue[Message] = queues.Queue()
        self.answers: dict[int, queues.Queue[dict[str, Any]]] = {}
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            if "id" in told:
                self.answers[told["id"]].put(told)
            elif told["event"] == "connect":
                self.connected.put(told["present"])
            elif told["event"] == "message":
                self.messages.put(Message(told))

    def ask(self, what: str, **arguments: object) -> int:
        """Give a command; the number of its answer."""
        id = len(self.answers) + 1
        self.answers[id] = queues.Queue()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"id": id, "do": what, **arguments}).encode() + b"\n")
        self.process.stdin.flush()
        return id

    def answer(self, id: int) -> Any:
        told = self.answers[id].get(timeout=WAIT_S)
        assert told["error"] == "", told
        return told["value"]

    def subscribe(self, topic: str, qos: int = 1, **options: object) -> None:
        """Subscribe, which must be granted."""
        assert self.answer(self.ask("subscribe", topic=topic, options={"qos": qos, **options})) == [qos]

    def publish(self, topic: str, payload: bytes = b"", qos: int = 1, retain: bool = False, **told: object) -> None:
        """Publish, and wait until the broker has it."""
        options = {"qos": qos, "retain": retain, **({"properties": told} if told else {})}
        self.answer(self.ask("publish", topic=topic, payload=base64.b64encode(payload).decode(), options=options))

    def count(self, topic: str, count: int, qos: int) -> int:
        """Publish so many numbers; the number of the answer, which comes once the broker has them all."""
        return self.ask("count", topic=topic, count=count, options={"qos": qos})

    def next(self) -> Message:
        return self.messages.get(timeout=WAIT_S)

    def numbers(self, count: int) -> list[int]:
        return [int(self.next().payload) for _ in range(count)]

    def is_quiet(self) -> bool:
        """Whether nothing is on its way here; what the broker had when it was asked has come by its second answer."""
        for _ in range(2):
            self.answer(self.ask("unsubscribe", topic="nobody/has/subscribed/to/this"))
        return self.messages.empty()

    def kill(self) -> None:
        """The process is gone, and its connection with it, without DISCONNECT."""
        self.process.kill()
        self.process.wait()
        self.thread.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


MakeNode = Callable[..., Any]  # with the arguments of `connected`: a context manager that gives a Node


@pytest.fixture
def connected(package: Path, broker: BrokerProcess) -> MakeNode:
    """Function that connects a client to the broker."""
    return lambda name, *arguments, **options: connection(package, broker, name, *arguments, **options)


@contextmanager
def connection(
    package: Path,
    broker: BrokerProcess,
    name: str,
    version: int = 5,
    listener: str = "mqtt",
    present: bool = False,
    expiry_s: int = 0,
    **options: Any,
) -> Iterator[Node]:
    """A connected client; with `expiry_s` its session outlives it, and `present` says whether there must be one."""
    path = f"mqtt://127.0.0.1:{broker.port(listener)}"
    if listener == "mqtt_websocket":
        path = f"ws://127.0.0.1:{broker.port(listener)}/mqtt"
    properties = {"sessionExpiryInterval": expiry_s, **options.pop("properties", {})}
    made = Node(
        package,
        path,
        {
            "clientId": name,
            "clean": expiry_s == 0,
            "protocolVersion": version,
            "username": "guest",
            "password": "guest",
            "reconnectPeriod": 50,
            "resubscribe": False,
            **({"properties": properties} if version == 5 else {}),
            **options,
        },
    )
    try:
        assert made.connected.get(timeout=WAIT_S) == present
        yield made
        if made.process.poll() is None:
            made.answer(made.ask("end"))
    finally:
        made.kill()


@pytest.mark.parametrize("qos", [0, 1, 2])
@each_version
@each_listener
def test_messages_arrive_once_and_in_order(connected: MakeNode, listener: str, version: int, qos: int) -> None:
    with connected("sink", version, listener) as sink, connected("source", version, listener) as source:
        sink.subscribe("a/#", qos)
        source.answer(source.count("a/b c", BURST, qos))
        found = [sink.next() for _ in range(BURST)]
        assert [int(message.payload) for message in found] == list(range(BURST))
        assert {(message.topic, message.qos, message.retain) for message in found} == {("a/b c", qos, False)}
        assert sink.is_quiet()


@each_version
@each_listener
def test_payloads_of_any_octets_and_length(connected: MakeNode, listener: str, version: int) -> None:
    payloads = [b"", bytes(range(256)), bytes(range(256)) * 1200]
    with connected("c", version, listener) as made:
        made.subscribe("a", 2)
        for payload in payloads:
            made.publish("a", payload, 2)
            assert made.next().payload == payload


@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
@each_version
@each_listener
def test_a_session_waits_for_its_client(
    broker: BrokerProcess, connected: MakeNode, listener: str, version: int, killed: bool
) -> None:
    with connected("sink", version, listener, expiry_s=DAY_S) as sink:
        for qos in (1, 2):
            sink.subscribe(f"at/{qos}", qos)
    with connected("source", version, listener) as source:
        for qos in (1, 2):
            source.answer(source.count(f"at/{qos}", BURST, qos))
    if killed:
        broker.kill9()
        broker.start()
    with connected("sink", version, listener, present=True, expiry_s=DAY_S) as sink:
        found = [sink.next() for _ in range(2 * BURST)]
        for qos in (1, 2):
            assert [int(each.payload) for each in found if each.topic == f"at/{qos}"] == list(range(BURST))
        assert sink.is_quiet()


@pytest.mark.parametrize("qos", [1, 2])
@each_version
@each_listener
def test_clients_come_back_after_a_kill(
    start_broker: Callable[..., BrokerProcess], package: Path, listener: str, version: int, qos: int
) -> None:
    """Both ends have messages in flight when the broker is killed."""
    broker = start_broker(mqtt_max_mqueue_len=0)
    with (
        connection(package, broker, "sink", version, listener, expiry_s=DAY_S) as sink,
        connection(package, broker, "source", version, listener, expiry_s=DAY_S) as source,
    ):
        sink.subscribe("a", qos)
        # No more at once than the broker takes from a client.
        published = source.count("a", 1000, qos)
        values = sink.numbers(100)
        broker.kill9()
        broker.start()
        assert source.connected.get(timeout=WAIT_S)
        assert sink.connected.get(timeout=WAIT_S)
        source.answer(published)
        source.publish("a", b"the end", qos)
        while (payload := sink.next().payload) != b"the end":
            values.append(int(payload))
        assert sink.is_quiet()
        if qos == 2:
            assert values == list(range(1000))
        assert list(dict.fromkeys(values)) == list(range(1000))


@each_version
@each_listener
def test_a_retained_message(connected: MakeNode, listener: str, version: int) -> None:
    with connected("c", version, listener) as made:
        for payload in (b"old", b"new"):
            made.publish("lamps/1", payload, 1, retain=True)
        made.publish("lamps/2", b"x", 2, retain=True)
        made.publish("lamps/2", b"", 2, retain=True)
        made.subscribe("lamps/+", 2)
        message = made.next()
        assert (message.topic, message.payload, message.retain, message.qos) == ("lamps/1", b"new", True, 1)
        assert made.is_quiet()


@each_version
@each_listener
def test_a_will(connected: MakeNode, listener: str, version: int) -> None:
    will = {"topic": "gone", "payload": "farewell", "qos": 2, "retain": True}
    with connected("watcher", version, listener) as watcher, connected("c", version, listener, will=will) as dying:
        watcher.subscribe("gone", 2)
        dying.kill()
        message = watcher.next()
        assert (message.payload, message.qos, message.retain) == (b"farewell", 2, False)
        watcher.subscribe("gone", 2)
        assert watcher.next().retain


def test_a_will_waits_for_its_delay(connected: MakeNode) -> None:
    will = {"topic": "gone", "payload": "farewell", "qos": 1, "properties": {"willDelayInterval": 1}}
    with connected("watcher") as watcher:
        watcher.subscribe("gone", 1)
        with connected("c", expiry_s=DAY_S, will=will) as dying:
            dying.kill()
        with connected("c", present=True, expiry_s=DAY_S, will=will) as dying:  # back in time: no will
            with connected("later", expiry_s=DAY_S, will={**will, "payload": "later"}) as later:
                later.kill()
            assert watcher.next().payload == b"later"
            assert watcher.is_quiet()
            dying.kill()
        assert watcher.is_quiet()
        assert watcher.next().payload == b"farewell"


@each_version
@each_listener
def test_members_of_a_group_share_messages(connected: MakeNode, listener: str, version: int) -> None:
    with (
        connected("one", version, listener) as one,
        connected("two", version, listener) as two,
        connected("source", version, listener) as source,
    ):
        for member in (one, two):
            member.subscribe("$share/workers/jobs/#", 1)
        source.answer(
            source.count("jobs/1", 60, 1)
        )  # so few that no window is ever full: a member would be passed over
        shares = [member.numbers(30) for member in (one, two)]
        assert sorted(shares[0] + shares[1]) == list(range(60))
        for member, share in ((one, shares[0]), (two, shares[1])):
            assert share == sorted(share)
            assert member.is_quiet()


@each_listener
def test_identifiers_and_options_of_subscriptions(connected: MakeNode, listener: str) -> None:
    with connected("c", 5, listener) as made, connected("other", 5, listener) as other:
        made.subscribe("a/+", 1, nl=True, rap=True, properties={"subscriptionIdentifier": 12})
        made.publish("a/1", b"mine")
        other.publish("a/1", b"others", retain=True)
        message = made.next()
        assert (message.payload, message.retain) == (b"others", True)
        assert message.properties["subscriptionIdentifier"] == 12
        assert made.is_quiet()


def test_properties_pass_through(connected: MakeNode) -> None:
    with connected("c") as made:
        made.subscribe("a", 1)
        made.publish(
            "a",
            b"{}",
            payloadFormatIndicator=True,
            contentType="application/json",
            responseTopic="answers/1",
            correlationData=base64.b64encode(b"\0\xff").decode(),
            userProperties={"colour": ["red", "blue"]},
        )
        found = made.next().properties
        assert (found["contentType"], found["responseTopic"]) == ("application/json", "answers/1")
        assert (found["correlationData"]["data"], found["payloadFormatIndicator"]) == ([0, 255], True)
        assert found["userProperties"] == {"colour": ["red", "blue"]}


def test_what_expired_is_not_delivered(connected: MakeNode, broker: BrokerProcess) -> None:
    with connected("sink", expiry_s=DAY_S) as sink:
        sink.subscribe("a", 2)
    with connected("source") as source:
        for seconds in (1, 600):
            source.publish("a", b"%d" % seconds, 2, messageExpiryInterval=seconds)
    broker.wait_out(1)
    with connected("sink", present=True, expiry_s=DAY_S) as sink:
        message = sink.next()
        assert message.payload == b"600"
        assert 0 < message.properties["messageExpiryInterval"] <= 599
        assert sink.is_quiet()


@pytest.mark.parametrize("qos", [0, 1, 2])
@each_listener
def test_aliases_stand_for_topics_both_ways(connected: MakeNode, listener: str, qos: int) -> None:
    taken = 0 if qos == 2 else 2  # at QoS 2 MQTT.js shows its user the empty topic of a packet with an alias
    with (
        connected("sink", 5, listener, properties={"topicAliasMaximum": taken} if taken else {}) as sink,
        connected("source", 5, listener, autoAssignTopicAlias=True) as source,
    ):
        sink.subscribe("#", qos)
        topics = ["long/topic/1", "long/topic/2", "long/topic/3"]
        for _ in range(5):
            for topic in topics:
                source.publish(topic, b"x", qos)
        found = [sink.next() for _ in range(15)]
        assert [message.topic for message in found] == topics * 5
        assert any("topicAlias" in message.properties for message in found) == (taken > 0)
        assert sink.is_quiet()
