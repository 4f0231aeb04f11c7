"""A device over MQTT 5 takes commands that were sent while it was away, and keeps its state in a retained message."""

from __future__ import annotations

import argparse
import asyncio

import aiomqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

DAY_S = 86_400


def device(port: int) -> aiomqtt.Client:
    """A connection of the device, which takes up its session."""
    session = Properties(PacketTypes.CONNECT)
    session.SessionExpiryInterval = DAY_S
    lost = aiomqtt.Will("lamps/hall/state", "lost", qos=1, retain=True)
    return aiomqtt.Client(
        "127.0.0.1",
        port,
        identifier="lamp-hall",
        protocol=aiomqtt.ProtocolVersion.V5,
        clean_start=False,
        properties=session,
        will=lost,
    )


async def run(port: int) -> None:
    async with device(port) as lamp:
        await lamp.subscribe("lamps/hall/set", qos=1)
    print("the lamp is away")
    async with aiomqtt.Client("127.0.0.1", port) as switch:
        for state in ("on", "off", "on"):
            await switch.publish("lamps/hall/set", state, qos=1)
    print("three commands were sent")
    async with device(port) as lamp:
        taken = 0
        async for message in lamp.messages:
            print("the lamp is told", message.payload.decode())
            taken += 1
            if taken == 3:
                break
        await lamp.publish("lamps/hall/state", "on", qos=1, retain=True)
    async with aiomqtt.Client("127.0.0.1", port) as late:
        await late.subscribe("lamps/+/state", qos=1)
        async for message in late.messages:
            print(message.topic, "is", message.payload.decode())
            break


def main(argv: list[str] | None = None) -> None:
    """Be away, come back, and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=1883, help="the broker's MQTT port")
    asyncio.run(run(parser.parse_args(argv).port))


if __name__ == "__main__":
    main()
