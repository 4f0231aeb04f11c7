"""Listeners: who a connection is said to come from, and what happens before its first packet."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pytest
import uvloop

from forebay.core.options import make_options
from forebay.log.store import Store
from forebay.node.broker import NodeBroker
from forebay.node.link import Link
from forebay.node.wanted import store_options
from forebay.server.listen import Acceptor, endpoints, listen, make_protocol
from forebay.server.net import Connection, Host
from forebay.server.system.chance import SystemRandom
from forebay.server.system.clock import SystemClock
from forebay.server.system.disk import DataDisk
from forebay.session.handshake import Handshake
from tests.certificates import Certificates
from tests.conformance.mqtt.raw_websocket import BINARY, frame, request

WAIT_S = 20
PROXY_1 = b"PROXY TCP4 192.0.2.7 198.51.100.1 4000 1883\r\n"
PROXY_2_LOCAL = bytes.fromhex("0d0a0d0a000d0a515549540a") + b"\x20\x00\x00\x00"


class Visited(NodeBroker):
    """One that only notes who has come and gone."""

    def __init__(self, folder: str) -> None:
        self.disk_used = DataDisk(folder)
        clock = SystemClock()
        store = Store(self.disk_used, clock, store_options(make_options({})))
        super().__init__(make_options({}), store, clock, SystemRandom())
        self.came: asyncio.Queue[Link] = asyncio.Queue()
        self.gone: asyncio.Queue[Link] = asyncio.Queue()

    def opened(self, link: Link) -> None:
        self.came.put_nowait(link)

    def lost(self, link: Link) -> None:
        self.gone.put_nowait(link)

    def begin_handshake(self, link: Link, data: bytes) -> Handshake:
        raise AssertionError("no client of these tests says so much")

    def failed(self, link: Link, error: Exception) -> None:
        raise error


class Visitors(Host):
    """A process that only notes who has come and gone."""

    broker: Visited

    def __init__(self, folder: str) -> None:
        self.broker = Visited(folder)
        self.came = self.broker.came
        self.gone = self.broker.gone
        self.scheduled = False

    def schedule(self) -> None:
        raise AssertionError("there is no session")


class Client:
    """A blocking client, driven from a coroutine."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=WAIT_S)

    async def send(self, octets: bytes) -> None:
        await asyncio.to_thread(self.socket.sendall, octets)

    async def secure(self, context: ssl.SSLContext) -> None:
        self.socket = await asyncio.to_thread(context.wrap_socket, self.socket, server_hostname="127.0.0.1")

    async def ended(self) -> bool:
        with suppress(ConnectionResetError):
            return await asyncio.to_thread(self.socket.recv, 1) == b""
        return True


def visit(
    options: dict[str, object],
    act: Callable[[Client], Awaitable[None]],
    see: Callable[[Visitors, Client], Awaitable[None]],
) -> None:
    """Listen on the last endpoint of the options, let a client act, and look at what came of it."""

    async def main() -> None:
        visitors = Visitors(folder)
        server, address = await listen(partial(make_protocol, visitors), endpoints(make_options(options))[-1])
        client = Client(address)
        try:
            async with asyncio.timeout(WAIT_S):
                await act(client)
                await see(visitors, client)
        finally:
            client.socket.close()
            server.close()
            visitors.broker.disk_used.close_all()

    with TemporaryDirectory() as folder:
        uvloop.run(main())


def expects(peer: str, loopback: bool, identity: str = "") -> Callable[[Visitors, Client], Awaitable[None]]:
    async def see(visitors: Visitors, _client: Client) -> None:
        connection = await visitors.came.get()
        assert connection.peer.startswith(peer)
        assert (connection.loopback, connection.identity) == (loopback, identity)

    return see


async def nothing(_client: Client) -> None:
    pass


def sends(*parts: bytes) -> Callable[[Client], Awaitable[None]]:
    async def act(client: Client) -> None:
        for part in parts:
            await client.send(part)

    return act


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "certificates")


LISTENERS = [
    pytest.param({"mqtt": "127.0.0.1:0", "mqtt_websocket": ""}, id="tcp"),
    pytest.param({"mqtt_websocket": "127.0.0.1:0"}, id="websocket"),
]


@pytest.mark.parametrize("options", LISTENERS)
def test_a_client_is_where_it_connects_from(options: dict[str, object]) -> None:
    visit(options, nothing, expects("127.0.0.1:", True))


@pytest.mark.parametrize("options", LISTENERS)
def test_a_client_behind_a_proxy_is_where_the_proxy_says(options: dict[str, object]) -> None:
    visit({**options, "proxy_protocol": True}, sends(PROXY_1), expects("192.0.2.7:4000", False))


def test_a_proxy_that_speaks_for_itself_is_where_it_connects_from() -> None:
    visit(
        {"mqtt": "127.0.0.1:0", "mqtt_websocket": "", "proxy_protocol": True},
        sends(PROXY_2_LOCAL),
        expects("127.0.0.1:", True),
    )


def test_a_client_that_its_proxy_does_not_know_is_not_of_this_machine() -> None:
    visit(
        {"mqtt": "127.0.0.1:0", "mqtt_websocket": "", "proxy_protocol": True},
        sends(b"PROXY UNKNOWN\r\n"),
        expects("unknown", False),
    )


def test_a_header_may_come_octet_by_octet() -> None:
    visit(
        {"mqtt": "127.0.0.1:0", "mqtt_websocket": "", "proxy_protocol": True},
        sends(*[bytes([octet]) for octet in PROXY_1]),
        expects("192.0.2.7:4000", False),
    )


@pytest.mark.parametrize("name", ["", "sensor-1"])
@pytest.mark.parametrize("listener", ["mqtts", "amqps", "mqtt_websocket_tls"])
@pytest.mark.parametrize("proxied", [False, True])
def test_the_certificate_says_who_the_client_is(made: Certificates, listener: str, name: str, proxied: bool) -> None:
    async def act(client: Client) -> None:
        if proxied:
            await client.send(PROXY_1)
        await client.secure(made.client(name))

    options = made.options(tls_client_ca=str(made.ca), tls_client_auth="optional", tls_identity="cn")
    see = expects("192.0.2.7:4000", False, name) if proxied else expects("127.0.0.1:", True, name)
    visit({**options, listener: "127.0.0.1:0", "proxy_protocol": proxied}, act, see)


def test_a_certificate_says_nothing_unless_the_option_wants_it(made: Certificates) -> None:
    async def act(client: Client) -> None:
        await client.secure(made.client("sensor-1"))

    options = made.options(tls_client_ca=str(made.ca), tls_client_auth="required", mqtts="127.0.0.1:0")
    visit(options, act, expects("127.0.0.1:", True))


async def not_let_in(visitors: Visitors, client: Client) -> None:
    assert await client.ended()
    assert visitors.came.empty()


@pytest.mark.parametrize("octets", [b"\x10\x00", b"PROXY TCP4 1 2 3 4\r\n", b"GET / HTTP/1.1\r\n"])
def test_a_malformed_header_ends_the_connection_and_is_logged(caplog: pytest.LogCaptureFixture, octets: bytes) -> None:
    options: dict[str, object] = {"mqtt": "127.0.0.1:0", "mqtt_websocket": "", "proxy_protocol": True}
    with caplog.at_level("INFO", "forebay"):
        visit(options, sends(octets), not_let_in)
    assert "ended before its first packet: PROXY header" in caplog.text


@pytest.mark.parametrize("octets", [b"", b"PROXY TCP4 192.0"])
def test_a_header_that_does_not_come_in_time_ends_the_connection(
    caplog: pytest.LogCaptureFixture, octets: bytes
) -> None:
    options: dict[str, object] = {"mqtt": "127.0.0.1:0", "mqtt_websocket": "", "proxy_protocol": True}
    with caplog.at_level("INFO", "forebay"):
        visit({**options, "handshake_timeout_ms": 100}, sends(octets), not_let_in)
    assert "ended before its first packet: too slow" in caplog.text


@pytest.mark.parametrize("octets", [b"", b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a"])
def test_a_client_that_does_not_speak_tls_is_not_let_in(
    made: Certificates, caplog: pytest.LogCaptureFixture, octets: bytes
) -> None:
    options = made.options(mqtts="127.0.0.1:0", handshake_timeout_ms=300)

    async def see(visitors: Visitors, client: Client) -> None:
        while await asyncio.to_thread(client.socket.recv, 100):  # an alert, at most
            pass
        assert visitors.came.empty()

    with caplog.at_level("INFO", "forebay"):
        visit(options, sends(octets), see)
    assert "ended before its first packet" in caplog.text


@pytest.mark.parametrize("proxied", [False, True])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_that_distrusts_the_certificate_is_logged_as_such(
    made: Certificates, caplog: pytest.LogCaptureFixture, version: ssl.TLSVersion, proxied: bool
) -> None:
    async def act(client: Client) -> None:
        if proxied:
            await client.send(PROXY_1)
        context = ssl.create_default_context()  # which does not know the authority of these certificates
        context.maximum_version = version
        with pytest.raises(ssl.SSLCertVerificationError):
            await client.secure(context)

    async def see(visitors: Visitors, _client: Client) -> None:
        while "before its first packet" not in caplog.text:
            await asyncio.to_thread(time.sleep, 0.001)
        assert visitors.came.empty()

    options = made.options(mqtts="127.0.0.1:0", proxy_protocol=proxied)
    with caplog.at_level("INFO", "forebay"):
        visit(options, act, see)
    assert "it does not trust the broker's certificate (alert unknown ca)" in caplog.text


@pytest.mark.parametrize("resets", [False, True])
def test_a_client_that_goes_away_in_the_handshake_is_not_called_slow(
    made: Certificates, caplog: pytest.LogCaptureFixture, resets: bool
) -> None:
    """As clients do that distrust a certificate and say nothing."""

    async def act(client: Client) -> None:
        hello = ssl.MemoryBIO()
        tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="127.0.0.1")
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        await client.send(hello.read())
        assert await asyncio.to_thread(client.socket.recv, 1)
        if resets:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            client.socket.setblocking(False)
            with suppress(BlockingIOError):
                client.socket.recv(1 << 16)
        client.socket.close()

    async def see(visitors: Visitors, _client: Client) -> None:
        while "before its first packet" not in caplog.text:
            await asyncio.to_thread(time.sleep, 0.001)
        assert visitors.came.empty()

    with caplog.at_level("INFO", "forebay"):
        visit(made.options(mqtts="127.0.0.1:0"), act, see)
    assert "went away in the TLS handshake: it may not trust the broker's certificate" in caplog.text


def test_only_so_many_may_be_at_their_header() -> None:
    options: dict[str, object] = {"mqtt": "127.0.0.1:0", "mqtt_websocket": "", "proxy_protocol": True}

    async def see(visitors: Visitors, first: Client) -> None:
        host, port = first.socket.getpeername()
        second = Client(f"{host}:{port}")
        await second.send(PROXY_1)
        await visitors.came.get()
        assert await first.ended(), "the oldest goes for it"
        second.socket.close()

    visit({**options, "connections_login_max": 1}, sends(b"PROXY "), see)


def test_a_closed_listener_gives_up_who_has_not_come_to_a_protocol(tmp_path: Path) -> None:
    async def main() -> None:
        values: dict[str, object] = {"mqtt": "127.0.0.1:0", "mqtt_websocket": "", "proxy_protocol": True}
        visitors = Visitors(str(tmp_path))
        server, address = await listen(partial(make_protocol, visitors), endpoints(make_options(values))[-1])
        assert isinstance(server, Acceptor)
        client = Client(address)
        await client.send(b"PROXY ")
        while not server.starting:
            await asyncio.to_thread(time.sleep, 0.001)
        server.close()
        assert await client.ended()
        client.socket.close()
        visitors.broker.disk_used.close_all()

    uvloop.run(main())


def test_what_is_written_at_once_is_one_frame() -> None:
    async def see(visitors: Visitors, client: Client) -> None:
        connection = await visitors.came.get()
        answer = await asyncio.to_thread(client.socket.recv, 65536)
        assert answer.startswith(b"HTTP/1.1 101 ")
        cast(Connection, connection).transport.writelines([b"one ", b"two ", b"three"])
        wanted = frame(BINARY, b"one two three", masked=False)
        assert await asyncio.to_thread(client.socket.recv, len(wanted), socket.MSG_WAITALL) == wanted
        client.socket.close()
        assert await visitors.gone.get() is connection

    visit({"mqtt_websocket": "127.0.0.1:0"}, sends(request()), see)
