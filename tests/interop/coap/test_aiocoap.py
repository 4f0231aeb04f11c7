"""aiocoap's client: publishes, long bodies, retained messages, observation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator

import aiocoap
import pytest
from aiocoap.numbers import types

from tests.broker_process import BrokerProcess, running
from tests.conformance.coap.raw import bodies, operate

LOGIN = "user=guest&password=guest"
WAIT_S = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("aiocoap"), coap="127.0.0.1:0", http="127.0.0.1:0") as broker:
        yield broker


def run(work: Callable[[aiocoap.Context], Awaitable[None]]) -> None:
    async def go() -> None:
        client = await aiocoap.Context.create_client_context()
        try:
            await asyncio.wait_for(work(client), WAIT_S)
        finally:
            await client.shutdown()

    asyncio.run(go())


def message(broker: BrokerProcess, code: aiocoap.Code, path: str, query: str = "", **fields: object) -> aiocoap.Message:
    uri = f"coap://127.0.0.1:{broker.port('coap')}/{path}?{LOGIN}{query}"
    return aiocoap.Message(code=code, uri=uri, **fields)


def test_it_publishes_confirmable_and_not(broker: BrokerProcess) -> None:
    operate(broker, "queue.declare", queue="q")

    async def work(client: aiocoap.Context) -> None:
        for type in (types.CON, types.NON):
            request = message(broker, aiocoap.PUT, "publish/$queue/q", payload=b"x")
            request.mtype = type
            answer = await client.request(request).response
            assert answer.code == aiocoap.CHANGED

    run(work)
    assert bodies(broker, "q") == ["x", "x"]


@pytest.mark.parametrize("octets", [0, 1, 1024, 1025, 5000, 100_000])
def test_bodies_of_any_length_come_and_go(broker: BrokerProcess, octets: int) -> None:
    body = bytes(index % 251 for index in range(octets))

    async def work(client: aiocoap.Context) -> None:
        put = message(broker, aiocoap.PUT, f"publish/long/{octets}", "&retain=true", payload=body)
        assert (await client.request(put).response).code == aiocoap.CHANGED
        answer = await client.request(message(broker, aiocoap.GET, f"topic/long/{octets}")).response
        # An empty message on a topic retains none.
        assert (answer.code, answer.payload) == ((aiocoap.CONTENT, body) if body else (aiocoap.NOT_FOUND, b""))

    run(work)


@pytest.mark.parametrize("path", ["topic/seen/a", "subscribe/seen/+"])
def test_it_observes(broker: BrokerProcess, path: str) -> None:
    async def work(client: aiocoap.Context) -> None:
        observing = client.request(message(broker, aiocoap.GET, path, observe=0))
        first = await observing.response
        assert first.code == aiocoap.CONTENT and first.opt.observe is not None
        seen = []
        publishing = asyncio.create_task(publish(client))
        async for notification in observing.observation:
            is_plain = path.startswith("topic")
            body = notification.payload.decode() if is_plain else json.loads(notification.payload)["payload"]
            seen.append(body)
            if body == "9":
                break
        await publishing
        # Of several messages that come while one is on its way, the newest is seen.
        assert seen == sorted(seen) and seen[0] == "0"

    async def publish(client: aiocoap.Context) -> None:
        for index in range(10):
            put = message(broker, aiocoap.PUT, "publish/seen/a", payload=b"%d" % index)
            assert (await client.request(put).response).code == aiocoap.CHANGED

    run(work)


def test_errors_are_told(broker: BrokerProcess) -> None:
    async def work(client: aiocoap.Context) -> None:
        for path, query, code in (
            ("publish/a", "&qos=7", aiocoap.BAD_REQUEST),
            ("topic/none", "", aiocoap.NOT_FOUND),
            ("publish/a/%23", "", aiocoap.BAD_REQUEST),
        ):
            method = aiocoap.GET if path.startswith("topic") else aiocoap.POST
            assert (await client.request(message(broker, method, path, query)).response).code == code

    run(work)
