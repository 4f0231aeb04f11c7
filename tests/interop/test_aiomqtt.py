"""aiomqtt, as people use it."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import aiomqtt
import pytest
from paho.mqtt.client import MQTT_CLEAN_START_FIRST_ONLY
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import properties_of, user_properties

WAIT_S = 20
DAY_S = 86_400
VERSIONS = [
    pytest.param(aiomqtt.ProtocolVersion.V311, id="3.1.1"),
    pytest.param(aiomqtt.ProtocolVersion.V5, id="5"),
]


def connect(
    broker: BrokerProcess,
    name: str,
    version: aiomqtt.ProtocolVersion,
    expiry_s: int = 0,
    will: aiomqtt.Will | None = None,
) -> aiomqtt.Client:
    """A client that is not connected yet; with `expiry_s` its session outlives it."""
    at_5 = version == aiomqtt.ProtocolVersion.V5
    return aiomqtt.Client(
        "127.0.0.1",
        broker.mqtt_port,
        username="guest",
        password="guest",
        identifier=name,
        protocol=version,
        will=will,
        clean_session=None if at_5 else expiry_s == 0,
        clean_start=expiry_s == 0 if at_5 else MQTT_CLEAN_START_FIRST_ONLY,
        properties=properties_of(PacketTypes.CONNECT, SessionExpiryInterval=expiry_s) if at_5 else None,
    )


async def take(client: aiomqtt.Client, count: int) -> list[aiomqtt.Message]:
    """The next so many messages."""
    found: list[aiomqtt.Message] = []
    async with asyncio.timeout(WAIT_S):
        async for message in client.messages:
            found.append(message)
            if len(found) == count:
                break
    return found


async def is_quiet(client: aiomqtt.Client) -> bool:
    """Whether nothing is on its way here; what the broker had when it was asked has come by its second answer."""
    for _ in range(2):
        await client.unsubscribe("nobody/has/subscribed/to/this")
    return len(client.messages) == 0


def cut(client: aiomqtt.Client) -> None:
    """End the connection without DISCONNECT."""
    found = client._client.socket()
    assert isinstance(found, socket.socket)
    found.shutdown(socket.SHUT_RDWR)


def facts(message: aiomqtt.Message) -> dict[str, str]:
    properties: Any = message.properties  # its fields are set at run time
    return dict(properties.UserProperty)


@pytest.mark.parametrize("version", VERSIONS)
def test_publish_and_subscribe(broker: BrokerProcess, version: aiomqtt.ProtocolVersion) -> None:
    async def main() -> list[tuple[str, bytes]]:
        async with connect(broker, "sink", version) as sink, connect(broker, "source", version) as source:
            await sink.subscribe("sensors/#", qos=2)
            for qos in (0, 1, 2):
                await source.publish(f"sensors/{qos}", b"%d" % qos, qos=qos)
            await asyncio.gather(*[source.publish("sensors/more", b"x", qos=1) for _ in range(100)])
            return [(message.topic.value, message.payload) for message in await take(sink, 103)]

    found = asyncio.run(main())  # a client hands on what came at QoS 2 when its PUBREL comes: in no order to the rest
    assert sorted(found) == [(f"sensors/{qos}", b"%d" % qos) for qos in (0, 1, 2)] + [("sensors/more", b"x")] * 100


@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_waits_for_its_client(
    broker: BrokerProcess, version: aiomqtt.ProtocolVersion, qos: int, killed: bool
) -> None:
    async def main() -> list[bytes]:
        async with connect(broker, "sink", version, DAY_S) as sink:
            await sink.subscribe("sensors/+", qos=qos)
        async with connect(broker, "source", version) as source:
            for number in range(200):
                await source.publish("sensors/1", b"%d" % number, qos=qos)
        if killed:
            broker.kill9()
            broker.start()
        async with connect(broker, "sink", version, DAY_S) as sink:
            found = await take(sink, 200)
            assert await is_quiet(sink)
            return [bytes(message.payload) for message in found if isinstance(message.payload, bytes)]

    assert asyncio.run(main()) == [b"%d" % number for number in range(200)]


@pytest.mark.parametrize("version", VERSIONS)
def test_retained_messages_and_a_will(broker: BrokerProcess, version: aiomqtt.ProtocolVersion) -> None:
    async def main() -> None:
        will = aiomqtt.Will("state", b"offline", qos=2, retain=True)
        dying = connect(broker, "c", version, will=will)
        async with connect(broker, "watcher", version) as watcher:
            await watcher.subscribe("state", qos=2)
            await dying.__aenter__()
            await dying.publish("state", b"online", qos=1, retain=True)
            cut(dying)
            found = await take(watcher, 2)
            assert [(message.payload, message.qos) for message in found] == [(b"online", 1), (b"offline", 2)]
            await dying.__aexit__(None, None, None)
        async with connect(broker, "late", version) as late:
            await late.subscribe("#", qos=2)
            (message,) = await take(late, 1)
            assert (message.payload, message.retain) == (b"offline", True)

    asyncio.run(main())


@pytest.mark.parametrize("version", VERSIONS)
def test_members_of_a_group_share_messages(broker: BrokerProcess, version: aiomqtt.ProtocolVersion) -> None:
    async def main() -> None:
        async with (
            connect(broker, "one", version) as one,
            connect(broker, "two", version) as two,
            connect(broker, "source", version) as source,
        ):
            for member in (one, two):
                await member.subscribe("$share/workers/jobs/+", qos=2)
            for number in range(60):
                await source.publish("jobs/1", b"%d" % number, qos=2)
            shares = [await take(member, 30) for member in (one, two)]
            payloads = [message.payload for share in shares for message in share]
            assert sorted(payloads) == sorted(b"%d" % number for number in range(60))
            assert await is_quiet(one)

    asyncio.run(main())


def test_identifiers_and_options_of_subscriptions(broker: BrokerProcess) -> None:
    async def main() -> None:
        async with connect(broker, "c", aiomqtt.ProtocolVersion.V5) as made:
            told = properties_of(PacketTypes.SUBSCRIBE, SubscriptionIdentifier=5)
            await made.subscribe("a/+", options=SubscribeOptions(qos=1), properties=told)
            await made.subscribe("b/+", options=SubscribeOptions(qos=1, noLocal=True))
            await made.publish("b/1", b"mine", qos=1)
            await made.publish("a/1", b"x", qos=1)
            (message,) = await take(made, 1)
            found: Any = message.properties
            assert (message.payload, found.SubscriptionIdentifier) == (b"x", [5])
            assert await is_quiet(made)

    asyncio.run(main())


def test_what_expired_is_not_delivered(broker: BrokerProcess) -> None:
    async def main() -> None:
        async with connect(broker, "sink", aiomqtt.ProtocolVersion.V5, DAY_S) as sink:
            await sink.subscribe("a", qos=1)
        async with connect(broker, "source", aiomqtt.ProtocolVersion.V5) as source:
            for seconds in (1, 600):
                told = properties_of(PacketTypes.PUBLISH, MessageExpiryInterval=seconds)
                await source.publish("a", b"%d" % seconds, qos=1, properties=told)
        await asyncio.to_thread(broker.wait_out, 1)
        async with connect(broker, "sink", aiomqtt.ProtocolVersion.V5, DAY_S) as sink:
            (message,) = await take(sink, 1)
            found: Any = message.properties
            assert message.payload == b"600"
            assert 0 < found.MessageExpiryInterval <= 599

    asyncio.run(main())


def test_a_worker_on_a_queue(broker: BrokerProcess) -> None:
    open_channel(broker).queue_declare("jobs", durable=True)
    group = user_properties(PacketTypes.SUBSCRIBE, ("consumer-group", "printers"))

    async def settle(worker: aiomqtt.Client, verb: str, message: aiomqtt.Message) -> None:
        told = facts(message)
        pairs = [(name, told[name]) for name in ("message-id", "group-id")]
        await worker.publish(f"$queue/jobs/${verb}", qos=1, properties=user_properties(PacketTypes.PUBLISH, *pairs))

    async def main() -> None:
        async with connect(broker, "source", aiomqtt.ProtocolVersion.V5) as source:
            for number in range(20):
                await source.publish("$queue/jobs/a4", b"%d" % number, qos=1)
        async with connect(broker, "worker", aiomqtt.ProtocolVersion.V5) as worker:
            await worker.subscribe("$queue/jobs/#", qos=1, properties=group)
            messages = await take(worker, 20)
            assert [message.payload for message in messages] == [b"%d" % number for number in range(20)]
            for message in messages[1:]:
                await settle(worker, "ack", message)
            await settle(worker, "nack", messages[0])
            (again,) = await take(worker, 1)
            assert (again.payload, facts(again)["delivery-count"]) == (b"0", "2")
            await settle(worker, "ack", again)
        async with connect(broker, "heir", aiomqtt.ProtocolVersion.V5) as heir:
            await heir.subscribe("$queue/jobs/#", qos=1, properties=group)
            assert await is_quiet(heir)

    asyncio.run(main())
