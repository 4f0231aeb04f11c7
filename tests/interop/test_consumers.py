"""Consumers of aio-pika and pika: priorities, counts, timeouts, streams by value."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aio_pika
import pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aiormq.abc import FieldValue

from tests.broker_process import BrokerProcess
from tests.waiting import until_async

WAIT_S = 20


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine."""

    @functools.wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        asyncio.run(test(*args, **fixtures))

    return run


@asynccontextmanager
async def open_channel(broker: BrokerProcess, prefetch: int = 10) -> AsyncIterator[AbstractChannel]:
    connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}/")
    async with connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=prefetch)
        yield channel


async def fill(channel: AbstractChannel, queue: AbstractQueue, count: int) -> None:
    for number in range(count):
        await channel.default_exchange.publish(aio_pika.Message(b"%d" % number), queue.name)


async def consumers(channel: AbstractChannel, queue: str) -> int:
    """How many the broker counts."""
    count = (await channel.declare_queue(queue, passive=True)).declaration_result.consumer_count
    assert count is not None
    return count


async def take(queue: AbstractQueue, count: int, **arguments: object) -> list[AbstractIncomingMessage]:
    """The next deliveries to a consumer with these arguments, acknowledged."""
    found: list[AbstractIncomingMessage] = []
    names = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    async with asyncio.timeout(WAIT_S), queue.iterator(arguments=names) as messages:
        async for message in messages:
            await message.ack()
            found.append(message)
            if len(found) == count:
                return found
    raise AssertionError(f"only {len(found)} of {count} came")


@in_a_loop
async def test_the_higher_priority_is_served_while_it_has_credit(broker: BrokerProcess) -> None:
    async with open_channel(broker, prefetch=3) as channel:
        queue = await channel.declare_queue("q", durable=True)
        low: list[AbstractIncomingMessage] = []
        high: list[AbstractIncomingMessage] = []
        full = asyncio.Event()

        async def take_low(message: AbstractIncomingMessage) -> None:
            low.append(message)
            if len(low) == 2:
                full.set()

        async def take_high(message: AbstractIncomingMessage) -> None:
            high.append(message)

        await queue.consume(take_low, arguments={"x-priority": -1})
        await queue.consume(take_high, arguments={"x-priority": 10})
        await fill(channel, queue, 5)
        await asyncio.wait_for(full.wait(), WAIT_S)
        assert sorted(message.body for message in high) == [b"0", b"1", b"2"]
        assert sorted(message.body for message in low) == [b"3", b"4"]


@in_a_loop
async def test_a_redelivery_counts(broker: BrokerProcess) -> None:
    async with open_channel(broker) as channel:
        queue = await channel.declare_queue("q", durable=True, arguments={"x-delivery-limit": 5})
        await fill(channel, queue, 1)
        first = await queue.get()
        assert first is not None
        assert (first.redelivered, first.headers) == (False, {})
        await first.reject(requeue=True)
        second = await queue.get()
        assert second is not None
        await second.nack(requeue=True)
        third = (await take(queue, 1))[0]
        assert (third.redelivered, third.headers) == (True, {"x-delivery-count": 2, "x-acquired-count": 2})


@in_a_loop
async def test_who_takes_too_long_is_cancelled_and_may_come_again(broker: BrokerProcess) -> None:
    async with open_channel(broker) as channel:
        queue = await channel.declare_queue("q", durable=True, arguments={"x-delivery-limit": 5})
        await fill(channel, queue, 1)
        held: list[AbstractIncomingMessage] = []
        gone = asyncio.Event()

        async def hold(message: AbstractIncomingMessage) -> None:
            held.append(message)

        tag = await queue.consume(hold, arguments={"x-consumer-timeout": 300})
        channel.close_callbacks.add(lambda *_: gone.set())

        async def is_ended() -> bool:
            return bool(held) and not await consumers(channel, "q")

        await until_async(is_ended, "the end of a consumer that takes too long")
        again = (await take(queue, 1))[0]
        assert (again.body, again.redelivered, again.headers["x-delivery-count"]) == (b"0", True, 1)
        assert not gone.is_set()  # the channel stays: only the consumer was ended
        assert tag


@in_a_loop
async def test_a_stream_by_value_from_some_time_ago(broker: BrokerProcess) -> None:
    async with open_channel(broker) as channel:
        queue = await channel.declare_queue("s", durable=True, arguments={"x-queue-type": "stream"})
        for number in range(10):
            headers: dict[str, FieldValue] = {"x-stream-filter-value": "odd" if number % 2 else "even"}
            await channel.default_exchange.publish(aio_pika.Message(b"%d" % number, headers=headers), "s")
        found = await take(queue, 5, stream_offset="1h", stream_filter=["odd"])
        assert [(message.body, message.headers["x-stream-offset"]) for message in found] == [
            (b"%d" % number, number) for number in (1, 3, 5, 7, 9)
        ]


@pytest.mark.parametrize("arguments", [{"x-priority": "high"}, {"x-stream-filter": "a"}])
@in_a_loop
async def test_wrong_arguments_close_the_channel_only(broker: BrokerProcess, arguments: dict[str, object]) -> None:
    async with open_channel(broker) as channel:
        queue = await channel.declare_queue("q", durable=True)
        with pytest.raises(aio_pika.exceptions.ChannelPreconditionFailed, match=next(iter(arguments))):
            await take(queue, 1, **{name[2:]: value for name, value in arguments.items()})


def test_pika_hears_that_its_consumer_took_too_long(broker: BrokerProcess) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"x")
    bodies = []
    for method, _, body in channel.consume("q", arguments={"x-consumer-timeout": 300}, inactivity_timeout=WAIT_S):
        bodies.append(body)
        assert method is not None, "neither cancelled nor given anything more"
    assert bodies == [b"x"]  # basic.cancel ends the generator
    method, properties, body = channel.basic_get("q")
    assert (method.redelivered, properties.headers, body) == (True, None, b"x")
    connection.close()
