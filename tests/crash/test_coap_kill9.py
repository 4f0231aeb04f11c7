"""kill -9 right after an answer over CoAP: what was answered 2.04 is there."""

from __future__ import annotations

from collections.abc import Callable

from tests.broker_process import BrokerProcess
from tests.conformance.coap.raw import BLOCK1, CHANGED, CONTINUE, GET, Client, block, bodies, client, operate

ROUNDS = 5
AT_ONCE = 20


def test_what_was_answered_survives(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(coap="127.0.0.1:0", http="127.0.0.1:0")
    operate(broker, "queue.declare", queue="q")
    answered: list[object] = []
    for round in range(ROUNDS):
        with client(broker) as found:
            for index in range(AT_ONCE):
                body = f"{round}:{index}"
                assert found.publish("$queue/q", body.encode()).code == CHANGED
                answered.append(body)
            assert found.publish("state", b"%d" % round, "retain=true").code == CHANGED
            in_blocks(found, bytes(b"x" * 1024), b"end")
            answered.append("x" * 1024 + "end")
        broker.kill9()
        broker.start()
        broker.wait_ready()
        assert bodies(broker, "q") == answered
        with client(broker) as found:
            assert found.request(GET, "topic/state").payload == b"%d" % round


def in_blocks(found: Client, first: bytes, last: bytes) -> None:
    answer = found.publish("$queue/q", first, options=[(BLOCK1, block(0, True, 6))])
    assert answer.code == CONTINUE
    assert found.publish("$queue/q", last, options=[(BLOCK1, block(1, False, 6))]).code == CHANGED
