"""A socket of CoAP in the test's own loop: answers that take long, and clients that vanish."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from forebay.admin.coap import endpoint as endpoint_module
from forebay.admin.coap import observations, outbox
from forebay.admin.coap.service import CoapService
from forebay.core.errors import OptionError
from forebay.server.app import App
from tests.conformance.coap import raw
from tests.conformance.coap.raw import ACK, CHANGED, CON, CONTENT, GET, GUEST, OBSERVE, PUT, RST, Client, Message
from tests.held_app import held_app, until

WAIT_S = 20


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "ACK_TIMEOUT_S", 0.01)
    monkeypatch.setattr(observations, "PROBE_S", 0.1)
    monkeypatch.setattr(endpoint_module, "ACKNOWLEDGE_AFTER_S", 0.05)
    monkeypatch.setattr(endpoint_module, "SWEEP_S", 0.02)
    monkeypatch.setattr(endpoint_module, "END_S", 0.05)


@asynccontextmanager
async def served(folder: Path, **options: object) -> AsyncIterator[tuple[App, CoapService, Client]]:
    async with held_app(folder, coap="127.0.0.1:0", **options) as app:
        service = CoapService(app)
        addresses = await service.start()
        client = Client(int(addresses["coap"].rpartition(":")[2]))
        client.socket.setblocking(False)
        try:
            yield app, service, client
        finally:
            client.close()
            await service.stop()


async def hear(client: Client) -> Message:
    async with asyncio.timeout(WAIT_S):
        return raw.decode(await asyncio.get_running_loop().sock_recv(client.socket, 2048))


async def ask(client: Client, message: Message) -> Message:
    client.send(raw.encode(message))
    return await hear(client)


async def observe(client: Client) -> None:
    """Observe a topic, and show that the client is there."""
    assert (await ask(client, client.make(GET, "topic/a", GUEST, [(OBSERVE, b"")]))).type == ACK
    first = await hear(client)
    assert (first.type, first.code) == (CON, CONTENT)
    client.acknowledge(first)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def go() -> None:
        await work()

    asyncio.run(go())


def test_an_answer_that_takes_long_comes_in_a_message_of_its_own(tmp_path: Path) -> None:
    async def go() -> None:
        async with served(tmp_path) as (app, service, client):
            waiting = asyncio.Event()
            on_disk = app.on_disk

            async def slow() -> None:
                await waiting.wait()
                await on_disk()

            app.on_disk = slow  # type: ignore[method-assign]
            request = client.make(PUT, "publish/a", GUEST, payload=b"x")
            told = await ask(client, request)
            assert (told.type, told.code, told.message_id) == (ACK, 0, request.message_id)
            again = await ask(client, request)
            assert (again.type, again.code, again.message_id) == (ACK, 0, request.message_id)
            waiting.set()
            answer = await hear(client)
            assert (answer.type, answer.code, answer.token) == (CON, CHANGED, request.token)
            client.acknowledge(answer)
            await until(lambda: not service.endpoints[0].exchanges.running)

    run(go)


@pytest.mark.parametrize("is_told", [True, False])
def test_an_observer_that_vanishes_ends(tmp_path: Path, is_told: bool) -> None:
    async def go() -> None:
        async with served(tmp_path) as (app, _, client):
            await observe(client)
            await until(lambda: app.coap.notifications["acknowledged"] == 1)
            if is_told:
                await ask(client, client.make(PUT, "publish/a", GUEST, payload=b"x"))
            await until(lambda: app.coap.observations == 0)
            assert not app.connections
            assert app.coap.notifications["lost"] == int(is_told)
            assert app.coap.octets == 0

    run(go)


def test_a_silent_observer_that_is_there_stays(tmp_path: Path) -> None:
    async def go() -> None:
        async with served(tmp_path) as (app, _, client):
            await observe(client)
            for _ in range(3):
                probe = await hear(client)
                assert (probe.type, probe.code) == (CON, 0)
                client.reject(probe)
            assert app.coap.observations == 1

    run(go)


def test_the_end_of_the_broker_is_told(tmp_path: Path) -> None:
    async def go() -> None:
        async with served(tmp_path) as (app, service, client):
            await observe(client)
            await until(lambda: app.coap.notifications["acknowledged"] == 1)
            stopping = asyncio.create_task(service.stop())
            last = await hear(client)
            while last.code == 0:
                client.reject(last)
                last = await hear(client)
            assert (last.code_text, last.payload) == ("5.03", b"the broker stops")
            await stopping
            assert not app.connections

    run(go)


def test_too_many_requests_under_way_are_refused(tmp_path: Path) -> None:
    async def go() -> None:
        async with served(tmp_path, coap_requests_max=2) as (app, _, client):
            waiting = asyncio.Event()
            on_disk = app.on_disk

            async def slow() -> None:
                await waiting.wait()
                await on_disk()

            app.on_disk = slow  # type: ignore[method-assign]
            for _ in range(2):
                client.send(raw.encode(client.make(PUT, "publish/a", GUEST, payload=b"x")))
            answer = await ask(client, client.make(PUT, "publish/a", GUEST, payload=b"x"))
            assert (answer.code_text, answer.number(14)) == ("5.03", 1)
            waiting.set()

    run(go)


def test_an_error_of_our_own_ends_one_request(tmp_path: Path) -> None:
    async def go() -> None:
        async with served(tmp_path) as (app, service, client):
            requests = service.endpoints[0].requests

            async def broken(arrival: object) -> None:
                raise AssertionError("for a test")

            answer_as_it_is = requests.answer
            requests.answer = broken  # type: ignore[assignment,method-assign]
            answer = await ask(client, client.make(GET, "topic/a", GUEST))
            assert answer.code_text == "5.00"
            assert app.faults.counts["request"] == 1
            requests.answer = answer_as_it_is  # type: ignore[method-assign]
            assert (await ask(client, client.make(PUT, "publish/a", GUEST))).code == CHANGED

    run(go)


def test_an_address_that_is_taken_is_told(tmp_path: Path) -> None:
    async def go() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            async with held_app(tmp_path, coap=f"127.0.0.1:{port}") as app:
                with pytest.raises(
                    OptionError, match=f"coap: cannot listen on 127.0.0.1:{port}: Address already in use"
                ):
                    await CoapService(app).start()

    run(go)


def test_a_ping_is_answered(tmp_path: Path) -> None:
    async def go() -> None:
        async with served(tmp_path) as (_, _, client):
            answer = await ask(client, Message(CON, 0, 5, b""))
            assert (answer.type, answer.message_id) == (RST, 5)

    run(go)
