"""MQTT over WebSocket with paho and aiomqtt, as people use them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import aiomqtt
import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from tests.broker_process import BrokerProcess
from tests.certificates import Certificates
from tests.interop.mqtt_client import V5, V311, WAIT_S, Client, client

BURST = 500

each_version = pytest.mark.parametrize("version", [pytest.param(V311, id="3.1.1"), pytest.param(V5, id="5")])


def over_websocket(broker: BrokerProcess, name: str, version: MQTTProtocolVersion) -> Client:
    """A connected paho client."""
    made = Client(broker, name, version, listener="mqtt_websocket")
    assert not made.connect()[0].is_failure
    return made


@each_version
@pytest.mark.parametrize("payload", [b"", bytes(range(256)), bytes(range(256)) * 4000])
def test_paho_over_websocket_and_over_tcp(broker: BrokerProcess, version: MQTTProtocolVersion, payload: bytes) -> None:
    made = over_websocket(broker, "browser", version)
    with client(broker, "plain", version) as plain:
        made.subscribe("to/browser")
        plain.subscribe("to/plain")
        for sender, receiver, topic in ((made, plain, "to/plain"), (plain, made, "to/browser")):
            for qos in (0, 1, 2):
                sender.client.publish(topic, payload, qos).wait_for_publish(WAIT_S)
                assert receiver.next().payload == payload
    made.end()
    assert not made.ended.get(timeout=WAIT_S).is_failure


@each_version
def test_pipelined_messages_arrive_once_and_in_order(broker: BrokerProcess, version: MQTTProtocolVersion) -> None:
    source, sink = over_websocket(broker, "source", version), over_websocket(broker, "sink", version)
    sink.subscribe("numbers")
    for number in range(BURST):
        source.client.publish("numbers", b"%d" % number, 1)
    assert [int(sink.next().payload) for _ in range(BURST)] == list(range(BURST))
    assert sink.is_quiet()
    source.end()
    sink.end()


@each_version
def test_a_wrong_password_is_refused(broker: BrokerProcess, version: MQTTProtocolVersion) -> None:
    made = Client(broker, "c", version, password="wrong", listener="mqtt_websocket")
    assert made.connect()[0].is_failure
    made.end()


def test_paho_is_told_of_a_path_where_mqtt_is_not(broker: BrokerProcess) -> None:
    made = Client(broker, "c", listener="mqtt_websocket")
    made.client.ws_set_options(path="/elsewhere")
    with pytest.raises(OSError, match="WebSocket handshake error"):
        made.connect()


def test_paho_over_websocket_and_tls(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates")
    broker = start_broker(**certificates.options(mqtt_websocket_tls="127.0.0.1:0"))
    made = Client(broker, "secure", listener="mqtt_websocket_tls")
    made.client.tls_set(str(certificates.ca))
    assert not made.connect()[0].is_failure
    made.subscribe("a")
    made.publish("a", b"x" * 300_000)
    assert made.next().payload == b"x" * 300_000
    made.end()


@pytest.mark.parametrize("version", [aiomqtt.ProtocolVersion.V311, aiomqtt.ProtocolVersion.V5])
@pytest.mark.parametrize("secure", [False, True])
def test_aiomqtt(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path, version: aiomqtt.ProtocolVersion, secure: bool
) -> None:
    certificates = Certificates(tmp_path / "certificates")
    listener = "mqtt_websocket_tls" if secure else "mqtt_websocket"
    broker = start_broker(**certificates.options(mqtt_websocket_tls="127.0.0.1:0"))
    context: ssl.SSLContext | None = certificates.client() if secure else None

    def connect(name: str) -> aiomqtt.Client:
        return aiomqtt.Client(
            "127.0.0.1",
            broker.port(listener),
            username="guest",
            password="guest",
            identifier=name,
            protocol=version,
            transport="websockets",
            websocket_path="/mqtt",
            tls_context=context,
        )

    async def main() -> list[object]:
        async with connect("sink") as sink, connect("source") as source, asyncio.timeout(WAIT_S):
            await sink.subscribe("sensors/#", qos=1)
            await asyncio.gather(*[source.publish("sensors/1", b"%d" % n, qos=1) for n in range(100)])
            found: list[object] = []
            async for message in sink.messages:
                found.append(message.payload)
                if len(found) == 100:
                    break
            return found

    assert sorted(asyncio.run(main()), key=str) == sorted((b"%d" % n for n in range(100)), key=str)
