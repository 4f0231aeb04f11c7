"""Clients that come to a node which does not lead: real clients and sockets, a real broker behind the leader's port."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import aio_pika
import aiomqtt
import pytest

from forebay.core.options import make_options
from forebay.node.peer import Peer
from forebay.server.app import App
from forebay.server.cluster.clients import arrivals as arriving
from forebay.server.cluster.clients import relay as relaying
from forebay.server.cluster.clients.arrivals import Arrivals
from forebay.server.cluster.clients.relay import Relay
from forebay.server.cluster.links.handshake import RELAY
from forebay.server.cluster.links.links import OneContext
from forebay.server.listen import Endpoint, endpoints, listen, make_protocol
from forebay.server.transport.proxy import header_for
from forebay.wire.amqp10.frames import AMQP_HEADER, TLS_HEADER, encode_frame
from forebay.wire.amqp10.performatives import Open
from tests.certificates import Certificates
from tests.held_app import held_app
from tests.links import TestNode, linked_node
from tests.scenes import run_scene
from tests.waiting import until_async

MIB = 1 << 20
NAME = "mqtt"
RESET = struct.pack("ii", 1, 0)
NOTHING: Mapping[str, object] = {}


class Service(asyncio.Protocol):
    """A listener's protocol on the leader that a test drives."""

    def __init__(self, endpoint: Endpoint, peer: Peer | None) -> None:
        self.endpoint = endpoint
        self.peer = peer
        self.data = bytearray()
        self.ended = False
        self.lost: list[Exception | None] = []
        self.paused = False
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> bool:
        self.ended = True
        return True

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.append(error)


class Pair:
    """A leader and a node that relays to it.

    services   the leader's, as clients came
    addresses  where the other node listens, by the names of the listeners
    """

    def __init__(self, leader: TestNode, other: TestNode, relay: Relay) -> None:
        self.leader = leader
        self.other = other
        self.relay = relay
        self.services: list[Service] = []
        self.addresses: dict[str, str] = {}

    def serve(self, endpoint: Endpoint, peer: Peer | None) -> Service:
        self.services.append(Service(endpoint, peer))
        return self.services[-1]

    async def client(self, name: str = NAME) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = self.addresses[name].rpartition(":")
        return await asyncio.open_connection(host, int(port))

    async def service(self) -> Service:
        """The last client's, once it has come."""
        await self.until(lambda: self.services and self.services[-1].transport is not None)
        return self.services[-1]

    async def until(self, holds: Callable[[], object]) -> None:
        await self.leader.noted.until(holds)


@asynccontextmanager
async def pair_of(
    options: Mapping[str, object] = NOTHING, *, clients_max: int = 100, cluster: Mapping[str, object] = NOTHING
) -> AsyncIterator[Pair]:
    """A leader `a`, a node `b` and its listeners; the options are those of listeners."""
    made = make_options({"mqtt": "127.0.0.1:0", "amqp": "", "mqtt_websocket": "", **options})
    async with AsyncExitStack() as stack:
        leader = await stack.enter_async_context(linked_node("a", **cluster))
        other = await stack.enter_async_context(linked_node("b", **cluster))
        relay = Relay(other.links, clients_max)
        pair = Pair(leader, other, relay)
        leader.arrivals.is_open = True
        for endpoint in endpoints(made):
            leader.arrivals.offer(endpoint, pair.serve)
            server, pair.addresses[endpoint.name] = await listen(relay.make, endpoint)
            stack.callback(server.close)
        relay.lead("a", leader.links.address)
        stack.push_async_callback(relay.stop)
        yield pair
        for service in pair.services:
            service.transport.abort()


def serve_app(pair: Pair, app: App) -> None:
    """Have the leader serve clients with a real broker."""
    for name, (_, endpoint) in list(pair.leader.arrivals.listeners.items()):
        pair.leader.arrivals.listeners[name] = (partial(make_protocol, app), endpoint)


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


# ---- real clients


def test_amqp_over_another_node(tmp_path: Path) -> None:
    async def scene() -> None:
        async with held_app(tmp_path) as app, pair_of({"amqp": "127.0.0.1:0"}) as pair:
            serve_app(pair, app)
            connection = await aio_pika.connect(f"amqp://guest:guest@{pair.addresses['amqp']}/")
            channel = await connection.channel()
            queue = await channel.declare_queue("jobs", durable=True)
            bodies = [b"%d " % number * 1000 for number in range(200)]
            for body in bodies:
                message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
                await channel.default_exchange.publish(message, "jobs")
            taken = []
            async with queue.iterator() as messages:
                async for each in messages:
                    taken.append(each.body)
                    await each.ack()
                    if len(taken) == len(bodies):
                        break
            assert taken == bodies
            (link,) = app.connections.values()
            (client,) = pair.relay.clients
            host, port = client.transport.get_extra_info("peername")
            assert link.peer == f"{host}:{port}"
            assert link.loopback
            assert pair.leader.arrivals.taken == 1
            await connection.close()
            await pair.until(lambda: not app.connections and not pair.relay.clients)

    run_scene(scene)


def test_mqtt_over_tls_and_another_node_is_the_user_of_its_certificate(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "tls")
    tls = certificates.options(
        mqtts="127.0.0.1:0", tls_client_ca=str(certificates.ca), tls_client_auth="required", tls_identity="cn"
    )

    async def scene() -> None:
        async with held_app(tmp_path / "data", users={"sensor-1": "unknown"}) as app, pair_of(tls) as pair:
            serve_app(pair, app)
            context = certificates.client("sensor-1")
            async with aiomqtt.Client(
                "127.0.0.1", port_of(pair.addresses["mqtts"]), tls_context=context, protocol=aiomqtt.ProtocolVersion.V5
            ) as client:
                (link,) = app.connections.values()
                assert link.identity == "sensor-1"
                await client.subscribe("t/#", qos=1)
                await client.publish("t/1", b"x" * MIB, qos=1)
                message = await anext(aiter(client.messages))
                assert message.payload == b"x" * MIB

    run_scene(scene)


def test_tls_within_an_amqp_10_connection_over_another_node(tmp_path: Path) -> None:
    """The leader does it: the node between passes on what it cannot read, and the certificate is the client's own."""
    certificates = Certificates(tmp_path / "tls")
    tls = certificates.options(
        amqp="127.0.0.1:0", tls_client_ca=str(certificates.ca), tls_client_auth="optional", tls_identity="cn"
    )

    async def scene() -> None:
        async with held_app(tmp_path / "data", users={"sensor-1": "unknown"}) as app, pair_of(tls) as pair:
            serve_app(pair, app)
            reader, writer = await pair.client("amqp")
            writer.write(TLS_HEADER)
            assert await reader.readexactly(8) == TLS_HEADER
            await writer.start_tls(certificates.client("sensor-1"), server_hostname="127.0.0.1")
            writer.write(AMQP_HEADER + encode_frame(0, Open("a")))
            assert await reader.readexactly(8) == AMQP_HEADER
            (link,) = app.connections.values()
            assert (link.identity, link.session is not None) == ("sensor-1", True)
            assert await reader.read(1)
            writer.close()
            await pair.until(lambda: not app.connections and not pair.relay.clients)

    run_scene(scene)


def test_mqtt_over_websocket_and_another_node(tmp_path: Path) -> None:
    async def scene() -> None:
        async with held_app(tmp_path) as app, pair_of({"mqtt_websocket": "127.0.0.1:0"}) as pair:
            serve_app(pair, app)
            async with aiomqtt.Client(
                "127.0.0.1",
                port_of(pair.addresses["mqtt_websocket"]),
                transport="websockets",
                websocket_path="/mqtt",
                username="guest",
                password="guest",
            ) as client:
                await client.subscribe("t/#", qos=1)
                await client.publish("t/1", b"over there", qos=1)
                message = await anext(aiter(client.messages))
                assert message.payload == b"over there"

    run_scene(scene)


def test_a_client_that_a_proxy_announces_is_announced_to_the_leader() -> None:
    async def scene() -> None:
        async with pair_of({"proxy_protocol": True}) as pair:
            _, writer = await pair.client()
            writer.write(b"PROXY TCP4 192.0.2.7 198.51.100.1 4000 1883\r\nfirst")
            service = await pair.service()
            assert service.peer == Peer("192.0.2.7:4000", False)
            await pair.until(lambda: service.data == b"first")
            assert service.endpoint.name == NAME
            writer.close()

    run_scene(scene)


# ---- octets both ways


@pytest.mark.parametrize("secure", [False, True])
def test_octets_pass_both_ways_as_they_are(tmp_path: Path, secure: bool) -> None:
    cluster: dict[str, object] = {}
    if secure:
        certificates = Certificates(tmp_path)
        certificate, key = certificates.issue("node")
        cluster = {"tls_certificate": str(certificate), "tls_key": str(key), "tls_ca": str(certificates.ca)}

    async def scene() -> None:
        async with pair_of(cluster=cluster) as pair:
            reader, writer = await pair.client()
            sent = bytes(range(256)) * (8 * MIB // 256)
            writer.write(sent)
            service = await pair.service()
            service.transport.write(sent[::-1])
            assert await reader.readexactly(len(sent)) == sent[::-1]
            await pair.until(lambda: len(service.data) == len(sent))
            assert service.data == sent
            writer.close()
            await pair.until(lambda: service.ended or service.lost)

    run_scene(scene)


def test_who_does_not_read_is_not_written_to_for_ever() -> None:
    async def scene() -> None:
        async with pair_of() as pair:
            reader, writer = await pair.client()
            service = await pair.service()
            # The leader writes until its transport takes no more, since the client does not read.
            cast("asyncio.Transport", writer.transport).pause_reading()
            sent = 0
            while not service.paused:
                service.transport.write(bytes(65_536))
                sent += 65_536
                await asyncio.sleep(0)
                assert sent < 200 * MIB
            (client,) = pair.relay.clients
            await pair.until(lambda: client.transport.get_write_buffer_size() < MIB)
            cast("asyncio.Transport", writer.transport).resume_reading()
            await reader.readexactly(sent)
            await pair.until(lambda: not service.paused)
            # And the other way round: the client's own system holds back what the leader does not read.
            service.transport.pause_reading()
            cast("asyncio.Transport", writer.transport).set_write_buffer_limits(high=65_536)
            for count in range(3200):
                writer.write(bytes(65_536))
                sent = (count + 1) * 65_536
                await asyncio.sleep(0)
                if writer.transport.get_write_buffer_size() > MIB:
                    break
            assert sent < 200 * MIB
            assert len(service.data) < MIB
            service.transport.resume_reading()
            await pair.until(lambda: len(service.data) == sent)
            writer.close()

    run_scene(scene)


def test_the_end_of_one_direction_leaves_the_other_open() -> None:
    async def scene() -> None:
        async with pair_of() as pair:
            reader, writer = await pair.client()
            writer.write(b"question")
            writer.write_eof()
            service = await pair.service()
            await pair.until(lambda: service.ended)
            assert service.data == b"question"
            service.transport.write(b"answer")
            assert await reader.readexactly(6) == b"answer"
            service.transport.write(b" and end")
            service.transport.close()
            assert await reader.read() == b" and end"
            await pair.until(lambda: not pair.relay.clients)
            assert service.lost == [None]
            writer.close()

            reader, writer = await pair.client()
            service = await pair.service()
            await pair.until(lambda: len(pair.services) == 2)
            service = await pair.service()
            service.transport.write_eof()
            assert await reader.read() == b""
            writer.write(b"still here")
            await pair.until(lambda: service.data == b"still here")
            writer.close()
            await pair.until(lambda: service.ended and not pair.relay.clients)

    run_scene(scene)


def test_a_reset_is_passed_on() -> None:
    async def scene() -> None:
        async with pair_of() as pair:
            _, writer = await pair.client()
            service = await pair.service()
            own = writer.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()
            await pair.until(lambda: service.lost)
            assert isinstance(service.lost[0], ConnectionResetError)
            await pair.until(lambda: not pair.relay.clients)

            reader, writer = await pair.client()
            await pair.until(lambda: len(pair.services) == 2)
            service = await pair.service()
            own = service.transport.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            service.transport.abort()
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()

    run_scene(scene)


# ---- who leads


def test_a_client_waits_for_a_leader() -> None:
    async def scene() -> None:
        async with pair_of() as pair:
            pair.relay.lead("", "")
            _, writer = await pair.client()
            writer.write(b"hello")
            await pair.until(lambda: len(pair.relay.clients) == 1)
            assert pair.services == []
            pair.leader.arrivals.is_open = False
            pair.relay.lead("a", pair.leader.links.address)
            await asyncio.sleep(0)
            pair.leader.arrivals.is_open = True  # it has been asked before it was ready
            service = await pair.service()
            await pair.until(lambda: service.data == b"hello")
            writer.close()

    run_scene(scene)


def test_a_client_that_is_seen_only_after_its_node_leads_is_served_there() -> None:
    async def scene() -> None:
        async with pair_of() as pair:
            pair.relay.lead("", "")
            pair.relay.here[NAME] = pair.serve
            _, writer = await pair.client()
            writer.write(b"hello")
            service = await pair.service()
            await pair.until(lambda: service.data == b"hello")
            assert pair.relay.clients == set()
            writer.close()

    run_scene(scene)


def test_without_a_leader_a_client_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relaying, "WAIT_S", 0.2)

    async def scene() -> None:
        async with pair_of() as pair:
            for node, address in (("", ""), ("a", "127.0.0.1:1")):
                pair.relay.lead(node, address)
                reader, writer = await pair.client()
                with pytest.raises(ConnectionResetError):
                    await reader.read()
                writer.close()
            pair.leader.arrivals.is_open = False
            pair.relay.lead("a", pair.leader.links.address)
            reader, writer = await pair.client()
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()
            assert pair.relay.failed == 3
            assert not pair.relay.clients
            assert pair.services == []

    run_scene(scene)


def test_clients_go_with_the_leader_that_they_came_to() -> None:
    async def scene() -> None:
        async with pair_of() as pair, linked_node("c") as next_leader:
            next_leader.arrivals.is_open = True
            made: list[Service] = []

            def serve(endpoint: Endpoint, peer: Peer | None) -> Service:
                made.append(Service(endpoint, peer))
                return made[-1]

            for _, endpoint in pair.leader.arrivals.listeners.values():
                next_leader.arrivals.offer(endpoint, serve)
            reader, writer = await pair.client()
            service = await pair.service()
            pair.relay.lead("c", next_leader.links.address)
            assert await reader.read() == b""
            writer.close()
            await pair.until(lambda: service.ended)
            _, writer = await pair.client()
            await pair.until(lambda: made)
            assert len(pair.services) == 1
            writer.close()
            made[0].transport.abort()

    run_scene(scene)


def test_clients_are_no_more_than_they_may_be() -> None:
    async def scene() -> None:
        async with pair_of(clients_max=1) as pair:
            _, first = await pair.client()
            service = await pair.service()
            reader, second = await pair.client()
            assert await reader.read() == b""
            second.close()
            first.close()
            await pair.until(lambda: service.ended)
            service.transport.close()
            await pair.until(lambda: not pair.relay.clients)
            _, third = await pair.client()
            await pair.until(lambda: len(pair.services) == 2)
            third.close()

    run_scene(scene)


# ---- what another node may say


PREFACE = b"\x04mqtt" + header_for(Peer("192.0.2.7:4000", False), "sensor-1")


def test_a_preface_comes_in_any_pieces() -> None:
    async def scene() -> None:
        async with pair_of() as pair:
            for count in (1, 3, len(PREFACE)):
                octets = PREFACE + b"and more"
                connection = await pair.other.links.connect(pair.leader.links.address, "a", RELAY)
                for at in range(0, len(octets), count):
                    connection.transport.write(octets[at : at + count])
                    await asyncio.sleep(0)
                await pair.until(lambda: pair.services and pair.services[-1].data == b"and more")
                assert pair.services[-1].peer == Peer("192.0.2.7:4000", False)
                pair.services[-1].transport.abort()
                pair.services.clear()
                await connection.gone.wait()

    run_scene(scene)


@pytest.mark.parametrize(
    "octets",
    [
        b"\x05mqtts" + PREFACE[5:],  # no such listener
        b"\x04mqtt" + b"GET / HTTP/1.1\r\n",
        PREFACE[:-1] + b"\xff",  # no UTF-8
        b"\x04mqtt" + PREFACE[5:17] + b"\x21\x99\0\0",
        b"\x04mqtt" + PREFACE[5:17] + b"\x21\x00\0\x03\xe0\0\x09",  # a TLV that is cut
    ],
)
def test_a_preface_that_cannot_be_is_the_end(octets: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        async with pair_of() as pair:
            connection = await pair.other.links.connect(pair.leader.links.address, "a", RELAY)
            connection.transport.write(octets)

            async def ended() -> bool:
                return not connection.is_open

            await until_async(ended)
            assert pair.services == []

    run_scene(scene)
    assert "cluster: a client of node b was refused" in caplog.text


def test_a_node_that_says_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arriving, "PREFACE_S", 0.1)

    async def scene() -> None:
        async with pair_of() as pair:
            connection = await pair.other.links.connect(pair.leader.links.address, "a", RELAY)
            connection.transport.write(PREFACE[:-1])
            await pair.until(lambda: not connection.is_open)
            assert pair.services == []

    run_scene(scene)


def test_a_client_of_the_port_for_nodes_is_a_stranger() -> None:
    async def scene() -> None:
        async with pair_of() as pair:
            host, _, port = pair.leader.links.address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(PREFACE)
            assert b"a frame of kind" in await reader.read()
            writer.close()
            assert pair.services == []

    run_scene(scene)


def test_listeners_are_offered_without_their_tls() -> None:
    async def scene() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        arrivals = Arrivals()
        (endpoint,) = endpoints(make_options({"mqtt": "127.0.0.1:0", "amqp": "", "mqtt_websocket": ""}))
        arrivals.offer(replace(endpoint, tls=OneContext(context), identity="cn", proxied=True), make_nothing)
        _, offered = arrivals.listeners[NAME]
        assert (offered.tls, offered.identity, offered.proxied) == (None, "none", False)

    def make_nothing(endpoint: Endpoint, peer: Peer | None) -> asyncio.Protocol:
        raise AssertionError(endpoint, peer)

    run_scene(scene)
