"""aiomqtt, as people use it."""

from __future__ import annotations

import asyncio
from typing import Any

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import QUIET_S, user_properties

WAIT_S = 20
VERSIONS = [
    pytest.param(aiomqtt.ProtocolVersion.V311, id="3.1.1"),
    pytest.param(aiomqtt.ProtocolVersion.V5, id="5"),
]


def connect(broker: BrokerProcess, name: str, version: aiomqtt.ProtocolVersion) -> aiomqtt.Client:
    return aiomqtt.Client(
        "127.0.0.1", broker.mqtt_port, username="guest", password="guest", identifier=name, protocol=version
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
    try:
        async with asyncio.timeout(QUIET_S):
            await anext(client.messages)
    except TimeoutError:
        return True
    return False


def facts(message: aiomqtt.Message) -> dict[str, str]:
    properties: Any = message.properties  # its fields are set at run time
    return dict(properties.UserProperty)


@pytest.mark.parametrize("version", VERSIONS)
def test_publish_and_subscribe(broker: BrokerProcess, version: aiomqtt.ProtocolVersion) -> None:
    async def main() -> list[tuple[str, object]]:
        async with connect(broker, "sink", version) as sink, connect(broker, "source", version) as source:
            await sink.subscribe("sensors/#", qos=1)
            for qos in (0, 1, 2):
                await source.publish(f"sensors/{qos}", b"%d" % qos, qos=qos)
            await asyncio.gather(*[source.publish("sensors/more", b"x", qos=1) for _ in range(100)])
            return [(message.topic.value, message.payload) for message in await take(sink, 103)]

    found = asyncio.run(main())
    assert found == [(f"sensors/{qos}", b"%d" % qos) for qos in (0, 1, 2)] + [("sensors/more", b"x")] * 100


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
