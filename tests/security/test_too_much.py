"""One client that asks for much at once, and others that go on meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import httpx

from tests.broker_process import BrokerProcess
from tests.conformance.amqp091.raw import QUEUE_DECLARE, QUEUE_DECLARE_OK, Raw, method, short, table
from tests.conformance.mqtt.raw import connected, subscribe

DECLARATIONS = 500


def test_a_read_of_many_requests_is_put_off_and_everything_is_answered_in_order(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker(prometheus="127.0.0.1:0")
    amqp = Raw(broker)
    amqp.handshake()
    amqp.open_channel()
    names = [f"q{each}" for each in range(DECLARATIONS)]
    amqp.send(*[method(1, QUEUE_DECLARE, b"\0\0" + short(name) + b"\0" + table()) for name in names])
    for name in names:
        assert amqp.expect(1, QUEUE_DECLARE_OK)[1:].startswith(name.encode() + b"\0")
    mqtt = connected(broker)
    mqtt.send(*[subscribe(id, *[(f"{id}/{each}", 1) for each in range(400)]) for id in range(1, 10)])
    for id in range(1, 10):
        assert mqtt.granted(id) == [1] * 400
    text = httpx.get(f"http://{broker.ready['prometheus']}/metrics").text
    put_off = [line.split()[-1] for line in text.splitlines() if line.startswith("forebay_reads_put_off_total")]
    assert int(put_off[0]) >= 2
    amqp.socket.close()
    mqtt.close()
