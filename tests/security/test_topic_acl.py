"""Rules for MQTT topics, held to by a broker, and changed while it runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import V5, V311, Client
from tests.waiting import until

WAIT_S = 60
TAKEN = (0, 16)  # by subscribers, or by nobody
NOT_AUTHORIZED = 135
RULES = """
user guest
topic readwrite rooms/#
topic deny rooms/secret
topic readwrite $queue/jobs
pattern readwrite clients/%c/#
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "acl"
    path.write_text(RULES)
    return path


@pytest.mark.parametrize("version", [V311, V5])
def test_clients_are_held_to_the_rules(
    start_broker: Callable[..., BrokerProcess], rules: Path, version: MQTTProtocolVersion
) -> None:
    client = Client(start_broker(mqtt_acl=str(rules)), "c1", version=version)
    assert not client.connect()[0].is_failure
    assert not client.subscribe("rooms/1/#").is_failure
    assert not client.subscribe("clients/c1/#").is_failure
    assert not client.subscribe("$share/g/rooms/2/#").is_failure
    for refused in ("rooms/#", "rooms/+", "clients/c2/#", "#", "$share/g/#", "$SYS/#", "$queue/other"):
        assert client.subscribe(refused).is_failure, refused
    for topic, body in (
        ("clients/c2/x", b"no"),
        ("rooms/secret", b"no"),
        ("rooms/1/heat", b"21"),
        ("clients/c1/x", b"mine"),
    ):
        client.publish(topic, body)
    assert [client.next().payload for _ in range(2)] == [b"21", b"mine"]
    client.end()


def test_a_refused_publish_says_so(start_broker: Callable[..., BrokerProcess], rules: Path) -> None:
    client = Client(start_broker(mqtt_acl=str(rules)), "c1")
    client.connect()
    assert client.publish("rooms/secret", b"").value == NOT_AUTHORIZED
    assert client.publish("rooms/open", b"").value in TAKEN
    client.end()


def test_new_rules_are_in_force_after_a_reload(start_broker: Callable[..., BrokerProcess], rules: Path) -> None:
    broker = start_broker(mqtt_acl=str(rules))
    client = Client(broker, "c1")
    client.connect()
    assert client.publish("rooms/1", b"").value in TAKEN
    rules.write_text("user guest\ntopic doors/#\n")
    os.kill(broker.pid, signal.SIGHUP)
    until(lambda: client.publish("rooms/1", b"").value == NOT_AUTHORIZED)
    assert client.publish("doors/1", b"").value in TAKEN
    rules.write_text("nonsense\n")
    os.kill(broker.pid, signal.SIGHUP)
    until(lambda: "line 1: 'nonsense' is no rule" in broker.log_text())
    assert client.publish("doors/1", b"").value in TAKEN
    client.end()


def test_a_file_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker", mqtt_acl=str(tmp_path / "missing"))
    broker.launch()
    assert broker.wait() == 2
    assert "mqtt_acl: " in broker.log_text()
