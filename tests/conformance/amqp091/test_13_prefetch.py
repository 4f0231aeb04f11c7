"""basic.qos for the whole channel (RabbitMQ's meaning of `global`)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.amqp091.raw import ACK, DELIVER, GET, GET_OK, connect, method, publish, short


@pytest.mark.parametrize("arguments", [{}, {"x-queue-type": "stream"}])
def test_a_limit_of_the_whole_channel_changes_for_who_consumes(
    broker: AnyBroker, arguments: Mapping[str, object]
) -> None:
    with connect(broker) as raw:
        raw.declare("q", arguments=arguments)
        raw.fill("q", [b"%d" % n for n in range(9)])
        raw.prefetch(1, whole_channel=True)
        raw.consume("q", arguments={"x-stream-offset": "first"} if arguments else None)
        assert raw.delivery()[0] == 1
        raw.prefetch(3, whole_channel=True)
        assert [raw.delivery()[0] for _ in range(2)] == [2, 3]
        raw.sync()
        raw.prefetch(2, whole_channel=True)
        raw.settle(ACK, 1)
        raw.sync()
        raw.settle(ACK, 2)
        assert raw.delivery()[0] == 4
        raw.sync()
        raw.prefetch(0, whole_channel=True)
        assert [raw.delivery()[0] for _ in range(5)] == [5, 6, 7, 8, 9]


def test_a_limit_of_the_whole_channel_and_a_consumers_own(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", [b"x"] * 9)
        raw.prefetch(1, whole_channel=True)
        raw.prefetch(2)
        raw.consume("q")
        assert raw.delivery()[0] == 1
        raw.prefetch(5, whole_channel=True)
        assert raw.delivery()[0] == 2
        raw.sync()


def test_a_full_channel_keeps_messages_from_consumers_without_acknowledgements(broker: AnyBroker) -> None:
    with connect(broker) as raw, connect(broker) as other:
        raw.declare("p")
        raw.declare("q")
        raw.prefetch(1, whole_channel=True)
        raw.consume("p", "p")
        raw.consume("q", "q", bits=2)
        other.confirm()
        other.send(publish(1, "q", b"1"))
        assert raw.delivery(tag="q")[2] == b"1"
        other.send(publish(1, "p", b"2"))
        assert raw.delivery(tag="p")[2] == b"2"
        other.send(*[publish(1, "q", b"%d" % n) for n in range(3, 6)])
        other.confirmed(5)
        raw.sync()
        raw.consume("q", "r", bits=2)
        raw.sync()
        assert raw.count("q")[0] == 3, "nobody took what nobody may have"
        raw.settle(ACK, 2)
        found = []
        for _ in range(3):
            raw.expect(1, DELIVER)
            found.append(raw.content(1)[1])
        assert sorted(found) == [b"3", b"4", b"5"]


def test_what_was_got_counts_for_no_limit(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", [b"1", b"2", b"3"])
        raw.prefetch(1, whole_channel=True)
        raw.send(method(1, GET, b"\0\0" + short("q") + b"\0"))
        raw.expect(1, GET_OK)
        raw.content(1)
        raw.consume("q")
        assert raw.delivery()[0] == 2
        raw.settle(ACK, 1)
        raw.sync()
        raw.settle(ACK, 2)
        assert raw.delivery()[0] == 3
