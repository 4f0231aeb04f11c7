"""Clients of a node that does not lead and relays nobody, in each protocol's words."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import aiomqtt
import httpx
import pika
import pytest
from aiomqtt import ProtocolVersion
from pika.exceptions import AMQPConnectionError

from forebay.client.blocks import BlockClient
from forebay.core.errors import ForebayError
from forebay.core.options import make_options
from forebay.server.cluster.clients import refusing
from forebay.server.cluster.clients.refusing import Refusals
from forebay.server.listen import endpoints, listen
from forebay.server.transport.tls import TlsContexts
from tests.certificates import Certificates
from tests.conformance.amqp10 import raw as amqp10
from tests.conformance.mqtt import raw as mqtt
from tests.scenes import run_scene

NOTHING: Mapping[str, object] = {}
LEADER = {"amqp": "a.shop:5672", "mqtt": "a.shop:1883", "mqtts": "a.shop:8883", "http": "a.shop:15672"}


@asynccontextmanager
async def node(
    redirects: bool, options: Mapping[str, object] = NOTHING, clients_max: int = 100
) -> AsyncIterator[tuple[Refusals, dict[str, tuple[str, int]]]]:
    """A node that refuses, and where it listens."""
    listeners = dict.fromkeys(("amqp", "mqtt", "mqtt_websocket"), "127.0.0.1:0")
    made = make_options({**listeners, **options})
    refusals = Refusals("b", redirects, clients_max)
    refusals.addresses = LEADER
    places = {}
    async with AsyncExitStack() as stack:
        for endpoint in endpoints(made, TlsContexts(made)):
            server, address = await listen(refusals.make, endpoint)
            stack.callback(server.close)
            host, _, port = address.rpartition(":")
            places[endpoint.name] = (host, int(port))
        yield refusals, places


@pytest.mark.parametrize(("redirects", "code", "server"), [(True, 0x9C, [(0x1C, b"a.shop:1883")]), (False, 0x88, [])])
def test_mqtt_5_is_told_the_server(redirects: bool, code: int, server: list[tuple[int, bytes]]) -> None:
    async def scene() -> None:
        async with node(redirects) as (_, places):
            reader, writer = await asyncio.open_connection(*places["mqtt"])
            octets = mqtt.connect("c") + mqtt.publish("t", b"sent before the answer")
            for at in range(len(octets)):
                writer.write(octets[at : at + 1])
                await asyncio.sleep(0)
            answer = await reader.read()
            assert answer[0] == 0x20
            assert answer[2:4] == bytes((0, code))
            _, block = mqtt.cut_varint(answer[4:])
            found = mqtt.properties_of(block)
            assert found == [(0x1F, b"node b does not lead"), *server]
            writer.close()

    run_scene(scene)


@pytest.mark.parametrize("version", [ProtocolVersion.V311, ProtocolVersion.V31, ProtocolVersion.V5])
@pytest.mark.parametrize("redirects", [True, False])
def test_a_real_mqtt_client_is_refused(version: ProtocolVersion, redirects: bool) -> None:
    async def scene() -> None:
        async with node(redirects) as (refusals, (places)):
            host, port = places["mqtt"]
            words = {False: "Server unavailable", True: "Use another server"}[redirects]
            with pytest.raises(aiomqtt.MqttError, match=words if version is ProtocolVersion.V5 else "(?i)unavailable"):
                async with aiomqtt.Client(host, port, protocol=version):
                    pass
            assert refusals.refused == 1

    run_scene(scene)


def test_the_leader_is_that_of_the_same_listener(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)

    async def scene() -> None:
        async with node(True, certificates.options(mqtts="127.0.0.1:0")) as (_, places):
            host, port = places["mqtts"]
            reader, writer = await asyncio.open_connection(host, port, ssl=certificates.client())
            writer.write(mqtt.connect("c"))
            assert b"a.shop:8883" in await reader.read()
            writer.close()

    run_scene(scene)


@pytest.mark.parametrize("login", [amqp10.sasl_plain() + amqp10.AMQP_HEADER, amqp10.AMQP_HEADER])
@pytest.mark.parametrize("redirects", [True, False])
@pytest.mark.parametrize("piece", [1, 10_000])
def test_amqp_1_0_is_told_the_server(login: bytes, redirects: bool, piece: int) -> None:
    async def scene() -> None:
        async with node(redirects) as (_, places):
            reader, writer = await asyncio.open_connection(*places["amqp"])
            octets = login + amqp10.opened() + amqp10.begin() + amqp10.performative(0, amqp10.CLOSE)
            for at in range(0, len(octets), piece):
                writer.write(octets[at : at + piece])
                await asyncio.sleep(0)
            answer = await reader.read()
            found = [amqp10.decode(each, 8)[0] for each in frames_of(answer)]
            assert [each.code for each in found[-2:]] == [amqp10.OPEN, amqp10.CLOSE]
            assert found[-2].value[9]["amqp:connection-establishment-failed"] is True
            error = found[-1].value[0].value
            assert error[1] == "node b does not lead"
            if redirects:
                info = {"hostname": "a.shop", "network-host": "a.shop", "port": 5672}
                assert error == ["amqp:connection:redirect", error[1], info]
            else:
                assert error[0] == "amqp:connection:forced"
            writer.close()

    run_scene(scene)


def frames_of(octets: bytes) -> list[bytes]:
    """The frames in what the node has answered, without protocol headers."""
    found = []
    while octets:
        size = 8 if octets.startswith(b"AMQP") else int.from_bytes(octets[:4], "big")
        if not octets.startswith(b"AMQP"):
            found.append(octets[:size])
        octets = octets[size:]
    return found


@pytest.mark.parametrize("octets", [b"AMQP\2\1\0\0", amqp10.AMQP_HEADER + b"\0\0\0\1", amqp10.SASL_HEADER + b"\0" * 8])
def test_amqp_1_0_that_is_none_ends_at_once(octets: bytes) -> None:
    async def scene() -> None:
        async with node(True) as (_, places):
            reader, writer = await asyncio.open_connection(*places["amqp"])
            writer.write(octets)
            with suppress(ConnectionResetError):
                await reader.read()
            writer.close()

    run_scene(scene)


@pytest.mark.parametrize(
    ("redirects", "text"),
    [
        (True, "CONNECTION_FORCED - node b does not lead; connect to a.shop:5672"),
        (False, "CONNECTION_FORCED - node b does not lead"),
    ],
)
def test_a_real_amqp_client_is_told_the_reason(redirects: bool, text: str) -> None:
    async def scene() -> None:
        async with node(redirects) as (refusals, places):
            host, port = places["amqp"]
            # What a broker says in answer to `connection.open`, pika takes for a vhost that may not be entered.
            with pytest.raises(AMQPConnectionError) as caught:
                await asyncio.to_thread(pika.BlockingConnection, pika.ConnectionParameters(host, port))
            assert f"(320) '{text}'" in repr(caught.value)
            assert refusals.refused == 1

    run_scene(scene)


def test_another_version_of_amqp_is_told_ours() -> None:
    async def scene() -> None:
        async with node(True) as (_, places):
            reader, writer = await asyncio.open_connection(*places["amqp"])
            writer.write(b"AMQP\0\0\x08\0")
            assert await reader.read() == b"AMQP\0\0\x09\x01"
            writer.close()

    run_scene(scene)


def test_the_block_protocol_is_told_by_an_error() -> None:
    async def scene() -> None:
        async with node(True) as (_, places):
            host, port = places["amqp"]

            def connect() -> None:
                BlockClient.connect(f"{host}:{port}", "guest", "guest")

            with pytest.raises(ForebayError, match=r"node b does not lead; connect to a\.shop:5672"):
                await asyncio.to_thread(connect)

    run_scene(scene)


def test_a_websocket_is_refused_by_its_status() -> None:
    async def scene() -> None:
        async with node(True) as (_, places):
            host, port = places["mqtt_websocket"]
            async with httpx.AsyncClient(trust_env=False) as client:
                answer = await client.get(f"http://{host}:{port}/mqtt")
            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "1"
            assert answer.text == "node b does not lead\n"

    run_scene(scene)


def test_http_is_sent_to_the_leader_or_refused() -> None:
    refusals = Refusals("b", True, 10)
    assert refusals.http("http", "/api/queues?page=1") == (503, {"Retry-After": "1"}, "node b does not lead")
    refusals.addresses = LEADER
    status, headers, _ = refusals.http("http", "/api/queues?page=1")
    assert (status, headers) == (307, {"Location": "http://a.shop:15672/api/queues?page=1"})
    assert refusals.http("https", "/")[0] == 503
    refusals.redirects = False
    assert refusals.http("http", "/")[0] == 503


WRONG = (b"\x10\xff\xff\xff\xff\x01", b"AMQP\0\0\x09\x01\x01\0\0\xff\xff\xff\xff", b"\x10\xff\xff\x7f")


@pytest.mark.parametrize("octets", WRONG)
def test_octets_that_cannot_be_are_the_end(octets: bytes) -> None:
    async def scene() -> None:
        async with node(True) as (refusals, places):
            reader, writer = await asyncio.open_connection(*places["amqp"])
            began = time.monotonic()
            writer.write(octets)
            answer = await reader.read()
            assert not answer.startswith(b"\x20")
            assert time.monotonic() - began < refusing.FAREWELL_S / 2
            assert not refusals.clients
            writer.close()

    run_scene(scene)


def test_clients_that_say_nothing_are_few_and_do_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusing, "FAREWELL_S", 0.2)

    async def scene() -> None:
        async with node(True, clients_max=2) as (refusals, places):
            pairs = [await asyncio.open_connection(*places["mqtt"]) for _ in range(5)]
            for reader, writer in pairs:
                assert await reader.read() == b""
                writer.close()
            assert refusals.refused == 5

    run_scene(scene)
