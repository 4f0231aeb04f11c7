"""AMQP over WebSocket with rhea, and with Qpid Proton and pika behind a bridge of another library's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pika
import pytest
from proton import Message
from proton.utils import BlockingConnection

from tests.broker_process import BrokerProcess
from tests.certificates import Certificates
from tests.interop.amqp10.proton_client import WAIT_S, take
from tests.interop.amqp10.websocket_bridge import bridge

LENGTHS = (0, 1, 125, 126, 65_535, 65_536, 1_000_000)


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize(("path", "subprotocol"), [("/amqp", "amqp"), ("/$servicebus/websocket", "AMQPWSB10")])
def test_proton_over_websocket(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path, path: str, subprotocol: str, secure: bool
) -> None:
    certificates = Certificates(tmp_path / "certificates")
    broker = start_broker(**certificates.options(mqtt_websocket_tls="127.0.0.1:0"))
    port = broker.port("mqtt_websocket_tls" if secure else "mqtt_websocket")
    url = f"{'wss' if secure else 'ws'}://localhost:{port}{path}"
    with bridge(url, subprotocol, certificates.client() if secure else None) as near:
        address = f"amqp://guest:guest@127.0.0.1:{near}"
        connection = BlockingConnection(address, allowed_mechs="PLAIN", timeout=WAIT_S)
        sender = connection.create_sender("$queue/orders")
        for length in LENGTHS:
            sender.send(Message(body=b"a" * length, inferred=True))
        receiver = connection.create_receiver("$queue/orders", credit=10)
        assert [len(each.body) for each in take(receiver, len(LENGTHS))] == list(LENGTHS)
        connection.close()


def test_pika_over_websocket(broker: BrokerProcess) -> None:
    with bridge(f"ws://127.0.0.1:{broker.port('mqtt_websocket')}/amqp") as near:
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", near))
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        channel.confirm_delivery()
        for length in LENGTHS:
            channel.basic_publish("", "orders", b"a" * length)
        found = [channel.basic_get("orders", auto_ack=True)[2] for _ in LENGTHS]
        assert [len(each or b"") for each in found] == list(LENGTHS)
        connection.close()
