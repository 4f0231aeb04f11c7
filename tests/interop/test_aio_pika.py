"""aio-pika, as people use it."""

from __future__ import annotations

import asyncio

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage
from aio_pika.exceptions import ChannelPreconditionFailed, DeliveryError
from aio_pika.patterns import RPC, Master

from tests.broker_process import BrokerProcess

WAIT_S = 20


def url(broker: BrokerProcess) -> str:
    return f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}/"


def test_publish_and_iterate(broker: BrokerProcess) -> None:
    async def main() -> list[bytes]:
        async with await aio_pika.connect_robust(url(broker)) as connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=10)
            queue = await channel.declare_queue("q", durable=True)
            messages = [aio_pika.Message(b"%d" % index, delivery_mode=2) for index in range(300)]
            await asyncio.gather(*[channel.default_exchange.publish(message, "q") for message in messages])
            found = []
            async with queue.iterator(timeout=WAIT_S) as incoming:
                async for message in incoming:
                    async with message.process():
                        found.append(message.body)
                    if len(found) == len(messages):
                        break
            return found

    assert asyncio.run(main()) == [b"%d" % index for index in range(300)]


def test_request_and_answer(broker: BrokerProcess) -> None:
    async def main() -> bytes:
        async with await aio_pika.connect_robust(url(broker)) as connection:
            channel = await connection.channel()
            requests = await channel.declare_queue("requests", auto_delete=True)
            answers = await channel.declare_queue(exclusive=True)

            async def serve(message: AbstractIncomingMessage) -> None:
                async with message.process():
                    answer = aio_pika.Message(message.body.upper(), correlation_id=message.correlation_id)
                    assert message.reply_to is not None
                    await channel.default_exchange.publish(answer, message.reply_to)

            await requests.consume(serve)
            request = aio_pika.Message(b"hello", reply_to=answers.name, correlation_id="1")
            await channel.default_exchange.publish(request, "requests")
            async with answers.iterator(timeout=WAIT_S) as incoming:
                async for message in incoming:
                    await message.ack()
                    assert message.correlation_id == "1"
                    return message.body
        raise AssertionError("no answer")

    assert asyncio.run(main()) == b"HELLO"


def test_topic_exchange_with_many_bindings(broker: BrokerProcess) -> None:
    async def main() -> list[int]:
        async with await aio_pika.connect(url(broker)) as connection:
            channel = await connection.channel()
            exchange = await channel.declare_exchange("events", aio_pika.ExchangeType.TOPIC, durable=True)
            queues = []
            for number, pattern in enumerate(("*.created", "order.*", "#", "user.deleted")):
                queue = await channel.declare_queue(f"events-{number}", durable=True)
                await queue.bind(exchange, pattern)
                queues.append(queue)
            for key in ("order.created", "order.paid", "user.created", "user.deleted"):
                await exchange.publish(aio_pika.Message(key.encode()), key)
            counts = []
            for queue in queues:
                again = await channel.declare_queue(queue.name, passive=True)
                counts.append(again.declaration_result.message_count or 0)
            return counts

    assert asyncio.run(main()) == [2, 2, 4, 1]


def test_reject_returns_and_errors_are_raised(broker: BrokerProcess) -> None:
    async def main() -> None:
        async with await aio_pika.connect(url(broker)) as connection:
            channel = await connection.channel(on_return_raises=True)
            queue = await channel.declare_queue("q", durable=True)
            await channel.default_exchange.publish(aio_pika.Message(b"x"), "q")
            first = await queue.get(timeout=WAIT_S)
            assert not first.redelivered
            await first.reject(requeue=True)
            second = await queue.get(timeout=WAIT_S)
            assert second.redelivered
            await second.ack()
            assert await queue.get(fail=False) is None
            with pytest.raises(DeliveryError):
                await channel.default_exchange.publish(aio_pika.Message(b"x"), "nowhere")
            with pytest.raises(ChannelPreconditionFailed):
                await channel.declare_queue("q", durable=False)

    asyncio.run(main())


def test_a_robust_connection_survives_a_restart(broker: BrokerProcess) -> None:
    async def main() -> list[bytes]:
        connection = await aio_pika.connect_robust(url(broker), reconnect_interval=0.1)
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("q", durable=True)
            found: asyncio.Queue[bytes] = asyncio.Queue()

            async def take(message: AbstractIncomingMessage) -> None:
                async with message.process():
                    found.put_nowait(message.body)

            await queue.consume(take)
            await channel.default_exchange.publish(aio_pika.Message(b"before"), "q")
            bodies = [await asyncio.wait_for(found.get(), WAIT_S)]
            await asyncio.to_thread(broker.restart)
            await asyncio.wait_for(connection.ready(), WAIT_S)
            async with await aio_pika.connect(url(broker)) as other:
                publisher = await other.channel()
                await publisher.default_exchange.publish(aio_pika.Message(b"after"), "q")
            bodies.append(await asyncio.wait_for(found.get(), WAIT_S))
            return bodies

    assert asyncio.run(main()) == [b"before", b"after"]


def test_direct_reply_to(broker: BrokerProcess) -> None:
    async def main() -> list[bytes]:
        async with await aio_pika.connect(url(broker)) as connection, await aio_pika.connect(url(broker)) as other:
            channel = await connection.channel()
            server = await other.channel()
            requests = await server.declare_queue("requests", auto_delete=True)

            async def serve(message: AbstractIncomingMessage) -> None:
                async with message.process():
                    assert message.reply_to is not None
                    await server.default_exchange.publish(aio_pika.Message(message.body.upper()), message.reply_to)

            await requests.consume(serve)
            answers: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
            reply_to = await channel.get_queue("amq.rabbitmq.reply-to")
            await reply_to.consume(answers.put, no_ack=True)
            for body in (b"a", b"b"):
                request = aio_pika.Message(body, reply_to="amq.rabbitmq.reply-to")
                await channel.default_exchange.publish(request, "requests")
            return [(await asyncio.wait_for(answers.get(), WAIT_S)).body for _ in range(2)]

    assert asyncio.run(main()) == [b"A", b"B"]


def test_a_transaction(broker: BrokerProcess) -> None:
    async def main() -> list[int]:
        async with await aio_pika.connect(url(broker)) as connection:
            channel = await connection.channel(publisher_confirms=False)
            queue = await channel.declare_queue("q", durable=True)
            counts = []
            for fails in (False, True):
                transaction = channel.transaction()
                await transaction.select()
                for body in (b"a", b"b"):
                    await channel.default_exchange.publish(aio_pika.Message(body), "q")
                await (transaction.rollback() if fails else transaction.commit())
                counts.append((await channel.declare_queue("q", passive=True)).declaration_result.message_count or 0)
            await queue.delete(if_empty=False)
            return counts

    assert asyncio.run(main()) == [2, 2]


def test_a_transaction_is_whole_or_gone(broker: BrokerProcess) -> None:
    async def main() -> list[int]:
        counts = []
        async with await aio_pika.connect(url(broker)) as connection:
            channel = await connection.channel(publisher_confirms=False)
            queue = await channel.declare_queue("q", durable=True)

            async def publish_two(fails: bool) -> None:
                async with channel.transaction():
                    for body in (b"1", b"2"):
                        await channel.default_exchange.publish(aio_pika.Message(body), "q")
                    if fails:
                        raise ValueError("the program changed its mind")

            with pytest.raises(ValueError, match="changed its mind"):
                await publish_two(fails=True)
            await publish_two(fails=False)
            other = await connection.channel()
            again = await other.declare_queue(queue.name, durable=True)
            counts.append(again.declaration_result.message_count or 0)
        return counts

    assert asyncio.run(main()) == [2]


def test_procedures_and_tasks_by_the_patterns_of_aio_pika(broker: BrokerProcess) -> None:
    async def multiply(*, x: int, y: int) -> int:
        return x * y

    async def main() -> tuple[list[object], list[int]]:
        async with await aio_pika.connect_robust(url(broker)) as connection:
            channel = await connection.channel()
            rpc = await RPC.create(channel)
            await rpc.register("multiply", multiply, auto_delete=True)
            products = await asyncio.gather(*[rpc.call("multiply", {"x": x, "y": 7}) for x in range(20)])
            master = Master(await connection.channel())
            done: asyncio.Queue[int] = asyncio.Queue()

            async def work(*, number: int) -> None:
                await done.put(number)

            worker = await master.create_worker("tasks", work, auto_delete=True)
            for number in range(20):
                await master.create_task("tasks", {"number": number})
            numbers = [await asyncio.wait_for(done.get(), WAIT_S) for _ in range(20)]
            await worker.close()
            await rpc.close()
        return products, numbers

    products, numbers = asyncio.run(main())
    assert products == [7 * x for x in range(20)]
    assert numbers == list(range(20))


def test_exchanges_behind_exchanges(broker: BrokerProcess) -> None:
    async def main() -> list[bytes]:
        async with await aio_pika.connect(url(broker)) as connection:
            channel = await connection.channel()
            lost = await channel.declare_exchange("lost", aio_pika.ExchangeType.FANOUT)
            outer = await channel.declare_exchange(
                "outer", aio_pika.ExchangeType.TOPIC, arguments={"alternate-exchange": lost.name}
            )
            inner = await channel.declare_exchange("inner", aio_pika.ExchangeType.FANOUT, internal=True)
            await inner.bind(outer, "order.#")
            queue = await channel.declare_queue("q")
            await queue.bind(inner)
            await queue.bind(lost)
            for key in ("order.paid", "user.left"):
                await outer.publish(aio_pika.Message(key.encode()), key, mandatory=True)
            return [(await queue.get(no_ack=True, timeout=WAIT_S)).body for _ in range(2)]

    assert asyncio.run(main()) == [b"order.paid", b"user.left"]
