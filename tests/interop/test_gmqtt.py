"""gmqtt, as people use it, at versions 3.1.1 and 5."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import gmqtt
import pytest
from gmqtt.mqtt.constants import MQTTv50, MQTTv311
from gmqtt.storage import PersistentStorage

from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import V5, Client

WAIT_S = 20
DAY_S = 86_400
BURST = 1000
DISCONNECT_WITH_WILL = 4
VERSIONS = [pytest.param(MQTTv311, id="3.1.1"), pytest.param(MQTTv50, id="5")]

each_version = pytest.mark.parametrize("version", VERSIONS)


class Message:
    """What arrived, with gmqtt's names for the properties."""

    def __init__(self, topic: str, payload: bytes, qos: int, properties: dict[str, object]) -> None:
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.properties = properties


class Storage(PersistentStorage):  # type: ignore[misc]  # gmqtt has no types
    """What gmqtt has in flight; `begun` once something of it has been acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()

    def remove_message_by_mid(self, mid: int) -> None:
        super().remove_message_by_mid(mid)
        self.begun.set()


class Connected:
    """A gmqtt client that gathers what it is told."""

    def __init__(self, client: gmqtt.Client, storage: Storage) -> None:
        self.client = client
        self.storage = storage
        self.present = False
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        self.granted: asyncio.Queue[tuple[int, ...]] = asyncio.Queue()
        self.dropped: asyncio.Queue[int] = asyncio.Queue()
        client.on_message = self.on_message
        client.on_subscribe = lambda _client, _id, codes, _properties: self.granted.put_nowait(codes)
        client.on_unsubscribe = lambda _client, id, *_: self.dropped.put_nowait(id)
        client.on_connect = lambda _client, present, _code, _properties: setattr(self, "present", present == 1)

    def on_message(
        self, _client: gmqtt.Client, topic: str, payload: bytes, qos: int, properties: dict[str, object]
    ) -> int:
        self.messages.put_nowait(Message(topic, payload, qos, properties))
        return 0

    async def subscribe(self, topic: str, qos: int = 1, **options: object) -> None:
        """Subscribe, which must be granted."""
        self.client.subscribe(topic, qos, **options)
        assert await asyncio.wait_for(self.granted.get(), WAIT_S) == (qos,)

    async def publish(
        self, topic: str, payload: bytes = b"", qos: int = 1, retain: bool = False, **told: object
    ) -> None:
        """Publish, and wait until the broker has it."""
        self.client.publish(topic, payload, qos, retain, **told)
        await self.settled()

    async def settled(self) -> None:
        """Everything at QoS 1 and 2 is acknowledged."""
        await asyncio.wait_for(self.storage.wait_empty(), WAIT_S)

    async def next(self) -> Message:
        return await asyncio.wait_for(self.messages.get(), WAIT_S)

    async def is_quiet(self) -> bool:
        """Whether nothing is on its way here; what the broker had when it was asked has come by its second answer."""
        for _ in range(2):
            self.client.unsubscribe("nobody/has/subscribed/to/this")
            await asyncio.wait_for(self.dropped.get(), WAIT_S)
        return self.messages.empty()


@asynccontextmanager
async def connected(
    broker: BrokerProcess,
    name: str,
    version: int = MQTTv50,
    expiry_s: int = 0,
    will: gmqtt.Message | None = None,
    **properties: int,
) -> AsyncIterator[Connected]:
    """A client that comes back by itself; with `expiry_s` its session outlives it."""
    if version == MQTTv50:
        properties["session_expiry_interval"] = expiry_s
    storage = Storage()
    client = gmqtt.Client(
        name, clean_session=expiry_s == 0, will_message=will, persistent_storage=storage, **properties
    )
    client.set_config({"reconnect_retries": -1, "reconnect_delay": 0.05})
    client.set_auth_credentials("guest", "guest")
    made = Connected(client, storage)
    await asyncio.wait_for(client.connect("127.0.0.1", broker.mqtt_port, version=version), WAIT_S)
    try:
        yield made
    finally:
        await client.disconnect()


@pytest.mark.parametrize("qos", [0, 1, 2])
@each_version
def test_messages_arrive_once_and_in_order(broker: BrokerProcess, version: int, qos: int) -> None:
    async def main() -> None:
        async with connected(broker, "sink", version) as sink, connected(broker, "source", version) as source:
            await sink.subscribe("a/#", qos)
            for number in range(BURST):
                source.client.publish("a/b c", b"%d" % number, qos)
            found = [await sink.next() for _ in range(BURST)]
            assert [int(message.payload) for message in found] == list(range(BURST))
            assert {(message.topic, message.qos) for message in found} == {("a/b c", qos)}
            await source.settled()
            assert await sink.is_quiet()

    asyncio.run(main())


@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
@pytest.mark.parametrize("qos", [1, 2])
@each_version
def test_a_session_waits_for_its_client(broker: BrokerProcess, version: int, qos: int, killed: bool) -> None:
    async def main() -> None:
        async with connected(broker, "sink", version, DAY_S) as sink:
            assert not sink.present
            await sink.subscribe("a", qos)
        async with connected(broker, "source", version) as source:
            for number in range(500):
                source.client.publish("a", b"%d" % number, qos)
            await source.settled()
        if killed:
            broker.kill9()
            broker.start()
        async with connected(broker, "sink", version, DAY_S) as sink:
            assert sink.present
            found = [await sink.next() for _ in range(500)]
            assert [int(message.payload) for message in found] == list(range(500))
            assert await sink.is_quiet()

    asyncio.run(main())


@pytest.mark.parametrize("qos", [1, 2])
@each_version
def test_a_publisher_comes_back_after_a_kill(
    start_broker: Callable[..., BrokerProcess], version: int, qos: int
) -> None:
    """What gmqtt has in flight it sends again, of QoS 2 what is still missing."""
    broker = start_broker(mqtt_max_mqueue_len=0)  # at QoS 1 up to twice as many wait
    sink = Client(broker, "sink", V5, expiry_s=DAY_S)  # gmqtt would show a repeated message twice at QoS 2, too
    sink.resume(present=False)
    sink.subscribe("a", qos)
    sink.end()

    async def main() -> None:
        async with connected(broker, "source", version, DAY_S) as source:
            for number in range(BURST):
                source.client.publish("a", b"%d" % number, qos)
            await asyncio.wait_for(source.storage.begun.wait(), WAIT_S)
            broker.kill9()
            broker.start()
            await source.settled()
            await source.publish("a", b"the end", qos)

    asyncio.run(main())
    sink.resume()
    values: list[int] = []
    while (payload := sink.next().payload) != b"the end":
        values.append(int(payload))
    assert sink.is_quiet()
    sink.end()
    if qos == 2:
        assert values == list(range(BURST))
    assert list(dict.fromkeys(values)) == list(range(BURST))


@each_version
def test_a_retained_message(broker: BrokerProcess, version: int) -> None:
    async def main() -> None:
        async with connected(broker, "source", version) as source:
            for payload in (b"old", b"new"):
                await source.publish("lamps/1", payload, 2, retain=True)
            await source.publish("lamps/2", b"x", 1, retain=True)
            await source.publish("lamps/2", b"", 1, retain=True)
            await source.subscribe("lamps/+", 2)
            message = await source.next()
            assert (message.payload, message.properties["retain"], message.qos) == (b"new", 1, 2)
            assert await source.is_quiet()

    asyncio.run(main())


def test_a_will_waits_for_its_delay(broker: BrokerProcess) -> None:
    async def main() -> None:
        will = gmqtt.Message("gone", b"farewell", qos=2, will_delay_interval=1, user_property=("why", "lost"))
        async with connected(broker, "watcher") as watcher, connected(broker, "c", expiry_s=DAY_S, will=will) as dying:
            await watcher.subscribe("gone", 2)
            await dying.client.disconnect(reason_code=DISCONNECT_WITH_WILL)
            assert await watcher.is_quiet()
            message = await watcher.next()
            assert (message.payload, message.qos) == (b"farewell", 2)
            assert message.properties["user_property"] == [("why", "lost")]

    asyncio.run(main())


@each_version
def test_members_of_a_group_share_messages(broker: BrokerProcess, version: int) -> None:
    async def main() -> None:
        async with (
            connected(broker, "one", version) as one,
            connected(broker, "two", version) as two,
            connected(broker, "source", version) as source,
        ):
            for member in (one, two):
                await member.subscribe("$share/workers/jobs/+", 2)
            for number in range(60):  # so few that no window is ever full: a member would be passed over
                await source.publish("jobs/1", b"%d" % number, 2)
            shares = [[int((await member.next()).payload) for _ in range(30)] for member in (one, two)]
            assert sorted(shares[0] + shares[1]) == list(range(60))
            for member, share in ((one, shares[0]), (two, shares[1])):
                assert share == sorted(share)
                assert await member.is_quiet()

    asyncio.run(main())


def test_subscription_identifiers_and_options(broker: BrokerProcess) -> None:
    async def main() -> None:
        async with connected(broker, "c") as made, connected(broker, "other") as other:
            await made.subscribe("a/#", 1, no_local=True, retain_as_published=True, subscription_identifier=9)
            await made.publish("a/1", b"mine")
            await other.publish("a/1", b"others", retain=True)
            message = await made.next()
            told = message.properties
            assert (message.payload, told["retain"], told["subscription_identifier"]) == (b"others", 1, [9])
            assert await made.is_quiet()

    asyncio.run(main())


def test_what_expired_is_not_delivered(broker: BrokerProcess) -> None:
    async def main() -> None:
        async with connected(broker, "sink", expiry_s=DAY_S) as sink:
            await sink.subscribe("a", 2)
        async with connected(broker, "source") as source:
            for seconds in (1, 600):
                await source.publish("a", b"%d" % seconds, 2, message_expiry_interval=seconds)
        await asyncio.to_thread(broker.wait_out, 1)
        async with connected(broker, "sink", expiry_s=DAY_S) as sink:
            message = await sink.next()
            assert message.payload == b"600"
            left = message.properties["message_expiry_interval"]
            assert isinstance(left, list)
            assert 0 < left[0] <= 599
            assert await sink.is_quiet()

    asyncio.run(main())


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_aliases_stand_for_topics_both_ways(broker: BrokerProcess, qos: int) -> None:
    async def main() -> None:
        async with connected(broker, "sink", topic_alias_maximum=2) as sink, connected(broker, "source") as source:
            await sink.subscribe("#", qos)
            topics = ["long/topic/1", "long/topic/2"]
            for alias, topic in enumerate(topics, 1):
                await source.publish(topic, b"named", qos, topic_alias=alias)
            for _ in range(5):
                for alias in (1, 2):
                    await source.publish("", b"by alias", qos, topic_alias=alias)
            await source.publish("one/more", b"", qos)
            found = [await sink.next() for _ in range(13)]
            assert [message.topic for message in found] == [*topics * 6, "one/more"]
            aliased = [message for message in found if "topic_alias" in message.properties]
            assert {message.properties["topic_alias"][0] for message in aliased} <= {1, 2}  # type: ignore[index]
            assert len(aliased) >= 6, "the broker makes no use of the aliases that it may use"

    asyncio.run(main())


def test_a_consumer_has_a_filter(broker: BrokerProcess) -> None:
    async def main() -> None:
        async with connected(broker, "sink") as sink, connected(broker, "source") as source:
            await sink.subscribe("$share/g/t/#", user_property=[("filter", "/n IN (2, 4) AND header.colour = 'red'")])
            for number in range(6):
                colour = ("red", "blue")[number == 4]
                await source.publish("t/a", b'{"n": %d}' % number, user_property=[("colour", colour)])
            assert (await sink.next()).payload == b'{"n": 2}'
            assert await sink.is_quiet()

    asyncio.run(main())
