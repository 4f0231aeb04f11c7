"""A broker in the test's own process and loop, so that a test says between which two callbacks something happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from forebay.core.options import Options, make_options
from forebay.server.app import App
from forebay.server.broker_view import BrokerView
from forebay.server.drain import drain
from forebay.server.listen import endpoints, listen, make_protocol
from forebay.server.node_process import Alone, NodeProcess
from forebay.server.transport.tls import TlsContexts
from tests.conformance.amqp091 import raw
from tests.conformance.mqtt import raw as mqtt

AnyApp = TypeVar("AnyApp", bound=App)


class HeldProcess(NodeProcess):
    """The process of a node alone, whose broker has a class of the test's."""

    def __init__(self, options: Options, make_app: Callable[[NodeProcess], App] = App) -> None:
        self.app_type = make_app
        super().__init__(options, asyncio.get_running_loop(), TlsContexts(options), Alone)

    def make_app(self) -> App:
        return self.app_type(self)


def opened_app(options: Options) -> App:
    """The broker of a new process, which has read its folder."""
    process = HeldProcess(options)
    process.open()
    assert process.app is not None
    return process.app


WAIT_S = 20  # guards against a hang
Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def held(kind: type[AnyApp], folder: Path, **options: object) -> AsyncIterator[AnyApp]:
    """A broker of this class, with AMQP, MQTT and WebSocket; its clock ticks only when the test has it tick."""
    listeners = dict.fromkeys(("amqp", "mqtt", "mqtt_websocket"), "127.0.0.1:0")
    made = make_options({"data": str(folder), **listeners, **options})
    process = HeldProcess(made, kind)
    process.open()
    app = cast("AnyApp", process.app)
    servers = []
    try:
        for endpoint in endpoints(made):
            server, app.addresses[endpoint.name] = await listen(partial(make_protocol, app), endpoint)
            servers.append(server)
        async with asyncio.timeout(WAIT_S):
            yield app
    finally:
        for server in servers:
            server.close()
        await drain(app, asyncio.Event())


@asynccontextmanager
async def held_app(folder: Path, **options: object) -> AsyncIterator[App]:
    """The broker as it is, as `held`."""
    async with held(App, folder, **options) as app:
        yield app


async def connect(app: BrokerView, listener: str) -> Client:
    """A client of this listener, which has said nothing yet."""
    host, _, port = app.addresses[listener].rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def amqp_client(app: App, heartbeat_s: int = 60) -> Client:
    """A client that has logged in over AMQP and has channel 1 open."""
    reader, writer = await connect(app, "amqp")
    writer.write(raw.HEADER)
    await read_method(reader, raw.START)
    answer = raw.table() + raw.short("PLAIN") + raw.long("\0guest\0guest") + raw.short("en_US")
    writer.write(raw.method(0, raw.START_OK, answer))
    await read_method(reader, raw.TUNE)
    tuned = raw.number(2047, 2) + raw.number(131072, 4) + raw.number(heartbeat_s, 2)
    writer.write(raw.method(0, raw.TUNE_OK, tuned) + raw.method(0, raw.OPEN, raw.short("/") + b"\0\0"))
    await read_method(reader, raw.OPEN_OK)
    writer.write(raw.method(1, raw.CHANNEL_OPEN, b"\0"))
    await read_method(reader, raw.CHANNEL_OPEN_OK)
    return reader, writer


async def read_method(reader: asyncio.StreamReader, which: raw.Method) -> bytes:
    """Arguments of the next method, which must be this one."""
    payload = b""
    while not payload:  # of a heartbeat
        head = await reader.readexactly(7)
        payload = await reader.readexactly(int.from_bytes(head[3:], "big"))
        assert await reader.readexactly(1) == b"\xce"
    assert payload[:4] == raw.number(which[0], 2) + raw.number(which[1], 2), payload
    return payload[4:]


async def mqtt_client(app: App, name: str = "c") -> Client:
    """A client that has logged in over MQTT 5."""
    reader, writer = await connect(app, "mqtt")
    writer.write(mqtt.connect(name))
    kind, octets = await reader.readexactly(2)
    assert kind == 0x20
    await reader.readexactly(octets)
    return reader, writer


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until that holds; `held` says how long that may take."""
    while not condition():  # noqa: ASYNC110  what changes it is this very loop
        await asyncio.sleep(0)
