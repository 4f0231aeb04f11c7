"""Errors of the broker's own: what ends with them, and what goes on."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop
from starlette.types import ASGIApp, Receive, Scope, Send

from forebay.admin.http.early_answers import EarlyAnswers
from forebay.admin.service import HttpService
from forebay.broker.publish.headers import read_publish_headers
from forebay.core.errors import HALF_CHANGED, NOT_FOUND, RequestError, StorageError, note_half_change
from forebay.message.formats.table import EXCHANGE_FORMAT
from forebay.node.broker import NodeBroker
from forebay.node.fault_policy import stops_broker
from forebay.node.link import Link
from forebay.node.node import Node
from forebay.node.ready import CONNECTION
from forebay.queue.leases.lease import Consumer, Delivery
from forebay.routing.topic_trie import check_topic
from forebay.server.app import App
from forebay.server.faults import CALLBACK, EXIT_SOFTWARE, REQUEST, Faults
from forebay.server.listen import http_endpoints
from forebay.server.process import Process
from forebay.session.session import Session
from tests.conformance.amqp091 import raw
from tests.conformance.mqtt import raw as mqtt
from tests.conformance.mqtt.raw_websocket import BINARY, frame, request
from tests.held_app import Client, amqp_client, connect, held, held_app, mqtt_client, read_method, until
from tests.logins import amqp_login

QUEUE = "held"
PUBLISHED = raw.publish(1, QUEUE, b"work")
CONSUME = raw.method(1, raw.CONSUME, b"\0\0" + raw.short(QUEUE) + raw.short("t") + b"\0" + raw.table())


STATE = (
    *("vhost", "out", "parts", "file", "sends_files", "closing", "reason", "hold_lsn", "unread"),
    *("meter", "swell", "rights", "principal", "context", "proof"),
)


class WrongSession(Session):
    """A real session, and a step in which it is wrong once it has done it: half a frame may have been written.

    What the broker sees of it is the state of the real one, which each step is given and from which it is taken back.
    """

    def __init__(self, real: Session, app: WrongApp) -> None:
        super().__init__(real.id, amqp_login(), real.vhost, real.rights)
        self.real = real
        self.app = app
        self.show(real, self)

    def show(self, one: Session, other: Session) -> None:
        """Have the other say what this one says."""
        for name in STATE:
            setattr(other, name, getattr(one, name))

    def step(self, name: str, *given: Any) -> Any:
        """Do a step, and be wrong in it where that is asked for."""
        self.show(self, self.real)
        try:
            result = getattr(self.real, name)(*given)
        finally:
            self.show(self.real, self)
        if name == self.app.wrong_step:
            if name == "deliver":
                self.out.write(b"half a frame")
            raise KeyError(f"wrong in {name}")
        return result

    def receive(self, data: bytes) -> int:
        return cast(int, self.step("receive", data))

    def wanted(self, rest: bytes) -> int:
        return cast(int, self.step("wanted", rest))

    def deliver(self, delivery: Delivery) -> None:
        self.step("deliver", delivery)

    def cancelled(self, consumer: Consumer) -> None:
        self.step("cancelled", consumer)

    def end_turn(self, lsn: int, durable: int) -> None:
        self.step("end_turn", lsn, durable)

    def on_durable(self, durable: int) -> None:
        self.step("on_durable", durable)

    def waiting(self) -> bool:
        return cast(bool, self.step("waiting"))

    def tick(self, now_us: int) -> None:
        self.step("tick", now_us)

    def taken_over(self) -> None:
        self.step("taken_over")

    def shut_down(self) -> None:
        self.step("shut_down")

    def closed(self) -> None:
        self.step("closed")

    def describe(self) -> dict[str, object]:
        return cast(dict[str, object], self.step("describe"))

    def dismiss(self, text: str, is_ours: bool = False) -> None:
        self.step("dismiss", text, is_ours)

    def is_publisher(self) -> bool:
        return cast(bool, self.step("is_publisher"))

    def blocked(self, reason: str) -> None:
        self.step("blocked", reason)

    def proven(self) -> None:
        self.step("proven")


class WrongBroker(NodeBroker):
    """One whose first session is wrong in one step."""

    app: WrongApp

    def begin_session(self, link: Link) -> None:
        super().begin_session(link)
        if link.session is not None and link.session.id == 1:
            link.session = WrongSession(link.session, self.app)


class WrongNode(Node):
    """One with such a broker."""

    app: WrongApp

    def make_broker(self) -> NodeBroker:
        broker = WrongBroker(self.options, self.member.store, self.clock, self.chance)
        broker.app = self.app
        return broker


class WrongApp(App):
    """A broker whose first session is wrong in one step, from when the test says so."""

    wrong_step = ""

    def __init__(self, process: Process) -> None:
        node = WrongNode(process.options, process.peers.group, process.clock, process.chance)
        node.app = self
        process.node = node
        super().__init__(process)


async def declare(client: Client) -> None:
    reader, writer = client
    writer.write(raw.method(1, raw.QUEUE_DECLARE, b"\0\0" + raw.short(QUEUE) + b"\x02" + raw.table()))
    await read_method(reader, raw.QUEUE_DECLARE_OK)


async def consume(client: Client) -> None:
    reader, writer = client
    writer.write(CONSUME)
    await read_method(reader, raw.CONSUME_OK)


async def delivered(client: Client) -> None:
    """The next method is a delivery."""
    await read_method(client[0], raw.DELIVER)
    await client[0].readuntil(b"work\xce")


async def ended(client: Client) -> bytes:
    """What comes before the end; the client closes then, as clients do."""
    octets = await client[0].read()
    client[1].close()
    return octets


def do(app: WrongApp, client: Client, step: str) -> None:
    """Have the broker come to this step of the client's session."""
    app.wrong_step = step
    if step == "tick":
        app.every_second(app.now_us())
    else:
        client[1].write(PUBLISHED)


def assert_counted(app: App, caplog: pytest.LogCaptureFixture, step: str) -> None:
    assert app.faults.counts == {CONNECTION: 1, REQUEST: 0, CALLBACK: 0}
    (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert "an error of the broker's own ended the connection from 127.0.0.1" in record.getMessage()
    assert record.exc_info is not None and str(record.exc_info[1]) == repr(f"wrong in {step}")


@pytest.mark.parametrize("step", ["receive", "deliver", "end_turn", "on_durable", "waiting", "tick"])
def test_an_error_of_our_own_ends_an_amqp_connection_and_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    async def be_wrong() -> None:
        async with held(WrongApp, tmp_path) as app:
            first, second = await amqp_client(app), await amqp_client(app)
            await declare(first)
            first[1].write(raw.method(1, raw.CONFIRM_SELECT, b"\0"))
            await read_method(first[0], raw.CONFIRM_SELECT_OK)
            await consume(first)
            second[1].write(PUBLISHED)
            await delivered(first)
            await consume(second)
            do(app, first, step)
            reply = raw.number(541, 2) + raw.short("INTERNAL_ERROR - an error of the broker's own: its log has it")
            goodbye = await ended(first)
            assert goodbye.endswith(raw.method(0, raw.CLOSE, reply + bytes(4))), goodbye
            assert b"half a frame" not in goodbye
            await delivered(second)  # what the first held
            app.wrong_step = ""
            await until(lambda: len(app.open) == 1)
            assert list(app.connections) == [2]
            assert_counted(app, caplog, step)
            second[1].close()

    uvloop.run(be_wrong())


@pytest.mark.parametrize("step", ["receive", "end_turn", "tick"])
def test_an_error_of_our_own_ends_an_mqtt_connection_and_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    async def be_wrong() -> None:
        async with held(WrongApp, tmp_path) as app:
            first, second = await mqtt_client(app, "first"), await mqtt_client(app, "second")
            second[1].write(mqtt.subscribe(1, ("gone", 0)))
            await second[0].readuntil(b"\x90\x04\x00\x01\x00\x00")
            app.wrong_step = step
            if step == "tick":
                app.every_second(app.now_us())
            else:
                first[1].write(mqtt.publish("gone", b"early", 1))
            text = b"an error of the broker's own: its log has it"
            assert await ended(first) == mqtt.packet(0xE0, b"\x80" + mqtt.block(mqtt.V5, b"\x1f" + mqtt.text(text)))
            app.wrong_step = ""
            third = await mqtt_client(app, "third")
            third[1].write(mqtt.publish("gone", b"late"))
            await second[0].readuntil(b"late")
            assert_counted(app, caplog, step)
            for client in (second, third):
                client[1].close()

    uvloop.run(be_wrong())


def test_an_error_of_our_own_is_told_over_websocket(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def be_wrong() -> None:
        async with held(WrongApp, tmp_path) as app:
            reader, writer = await connect(app, "mqtt_websocket")
            writer.write(request())
            await reader.readuntil(b"\r\n\r\n")
            writer.write(frame(BINARY, mqtt.connect("c")))
            await reader.readexactly(3)
            app.wrong_step = "receive"
            writer.write(frame(BINARY, mqtt.publish("a", b"b")))
            await reader.readuntil(b"an error of the broker's own: its log has it" + b"\x88\x02\x03\xe8")
            writer.close()
            await until(lambda: not app.open)
            assert_counted(app, caplog, "receive")

    uvloop.run(be_wrong())


@pytest.mark.parametrize("protocol", ["amqp", "mqtt"])
def test_a_session_that_cannot_even_say_so_is_cut_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, protocol: str
) -> None:
    async def be_wrong() -> None:
        async with held(WrongApp, tmp_path) as app:
            client = await (amqp_client(app) if protocol == "amqp" else mqtt_client(app))
            (connection,) = app.connections.values()
            app.wrong_step = "dismiss"
            app.broker.failed(connection, KeyError("wrong"))
            app.look()
            assert not app.connections and not app.broker.dirty
            with suppress(ConnectionResetError):
                assert not await client[0].read()
            await until(lambda: not app.open)
            assert app.faults.counts[CONNECTION] == 2
            client[1].close()

    uvloop.run(be_wrong())


class WrongService(HttpService):
    """One whose application is wrong about every request."""

    def make_application(self) -> ASGIApp:
        return self.be_wrong

    async def be_wrong(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise KeyError("wrong in a request")


def test_an_error_of_our_own_ends_a_request_over_http(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def ask() -> None:
        async with held_app(tmp_path, http="127.0.0.1:0") as app:
            service = WrongService(app, http_endpoints(app.options, app.tls), EarlyAnswers(app, is_open=False))
            app.addresses.update(await service.start())
            reader, writer = await connect(app, "http")
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 500 ")
            writer.close()
            await service.stop()
            assert app.faults.counts == {CONNECTION: 0, REQUEST: 1, CALLBACK: 0}
            assert "ended the request GET /" in caplog.text

    uvloop.run(ask())


def test_an_error_in_a_callback_is_counted_and_one_of_the_network_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def call() -> None:
        found = Faults()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(found.on_loop_error)
        loop.call_soon(int, "not a number")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert found.counts == {CONNECTION: 0, REQUEST: 0, CALLBACK: 1}
        found.on_loop_error(loop, {"message": "accept failed", "exception": OSError(24, "Too many open files")})
        assert found.counts[CALLBACK] == 1 and "Too many open files" in caplog.text

    uvloop.run(call())


# ---- what ends the broker

DOUBTS = {
    "what a vhost is made of is not what it must be": """
    app.vhosts.by_name[b"/"].catalog.queues[b"held"] = object()
    writer.write(raw.method(1, raw.QUEUE_DECLARE, b"\\0\\0" + raw.short("held") + b"\\x02" + raw.table()))
""",
    "what a connection held cannot be taken back": """
    app.connections[1].session.channels[1] = None
    writer.close()
""",
}


@pytest.mark.parametrize("doubt", DOUBTS)
def test_a_doubt_about_what_all_share_ends_the_broker(tmp_path: Path, doubt: str) -> None:
    code = f"""
import asyncio, sys
from pathlib import Path
from tests.conformance.amqp091 import raw
from tests.held_app import amqp_client, held_app, until

async def run():
    async with held_app(Path(sys.argv[1])) as app:
        reader, writer = await amqp_client(app)
{DOUBTS[doubt].replace("    ", "        ")}
        await asyncio.Event().wait()

asyncio.run(run())
"""
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ended.returncode == EXIT_SOFTWARE, ended.stderr
    assert "wrong about its own state" in ended.stderr


def test_an_error_of_a_socket_that_nobody_has_taken_ends_the_broker_with_a_word() -> None:
    code = """
from forebay.server.serve import to_its_end

async def run():
    raise BrokenPipeError(32, "Broken pipe")

to_its_end(run())
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == EXIT_SOFTWARE
    assert "BrokenPipeError: [Errno 32] Broken pipe" in ended.stderr


def raised(function: Any, *given: object) -> Exception:
    """What the function raises."""
    with pytest.raises(Exception) as found:  # noqa: PT011  whatever it is
        function(*given)
    return found.value


def broken_off(error: Exception) -> None:
    """Have a change of shared state be interrupted by an error."""
    try:
        raise error
    except Exception as found:
        note_half_change(found)
        raise


def refuse() -> None:
    raise RequestError(NOT_FOUND, "no queue 'q'")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (raised(check_topic, 1, 2, 3), False),
        (raised(read_publish_headers, EXCHANGE_FORMAT, None), False),
        (raised(broken_off, KeyError("half")), True),
        (raised(broken_off, StorageError("disk")), True),
        (raised(refuse), False),
        (raised(broken_off, RequestError(NOT_FOUND, "no queue 'q'")), False),
    ],
)
def test_an_error_says_what_may_be_half_done(error: Exception, expected: bool) -> None:
    assert stops_broker(error) is expected


def test_an_error_is_noted_once_however_many_changes_it_breaks_off() -> None:
    error = raised(broken_off, raised(broken_off, KeyError("half")))
    assert error.__notes__ == [HALF_CHANGED]


def test_a_protocol_that_uvloop_s_tls_has_let_go_of_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    found = Faults()
    with closing(asyncio.new_event_loop()) as loop, caplog.at_level(logging.INFO, "forebay"):
        for message in ("protocol.pause_writing() failed", "protocol.resume_writing() failed"):
            with pytest.raises(AttributeError) as gone:
                cast(Any, None).pause_writing()
            found.on_loop_error(loop, {"message": message, "exception": gone.value})
        assert sum(found.counts.values()) == 0
        with pytest.raises(AttributeError) as ours:
            cast(Any, found).pause_writing()
        found.on_loop_error(loop, {"message": "protocol.pause_writing() failed", "exception": ours.value})
    assert found.counts[CALLBACK] == 1
