"""A broker that is told to stop: who is told what, what is kept, and how long it takes."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import paho.mqtt.client as paho
import pika
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.broker_process import BrokerProcess
from tests.waiting import until

WAIT_S = 60
SECOND_SIGNAL = 128
BODY = bytes(1 << 20)
Start = Callable[..., BrokerProcess]


def connect(broker: BrokerProcess) -> Any:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))


def mqtt_client(broker: BrokerProcess, **given: Any) -> tuple[paho.Client, list[tuple[Any, Any]]]:
    """A connected client, and the reasons and properties of the DISCONNECTs that it gets."""
    told: list[tuple[Any, Any]] = []
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5, **given)
    client.on_disconnect = lambda *args: told.append((args[3], args[4]))
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = 3600
    client.connect("127.0.0.1", broker.mqtt_port, properties=properties)
    client.loop_start()
    until(client.is_connected)
    return client, told


@pytest.fixture
def stuck_reader() -> Callable[[BrokerProcess], None]:
    """Function that makes a consumer which does not read what is on its way to it, more than the system's buffers."""
    kept: list[Any] = []

    def connect_reader(broker: BrokerProcess) -> None:
        kept.append(reader_of_nothing(broker))

    return connect_reader


def reader_of_nothing(broker: BrokerProcess) -> Any:
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("big", durable=True)
    channel.confirm_delivery()
    for _ in range(30):
        channel.basic_publish("", "big", BODY)
    connection.channel().basic_consume("big", lambda *_: None)
    return connection


def listens(broker: BrokerProcess) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", broker.amqp_port)) == 0


def test_every_client_is_told_in_its_protocol(broker: BrokerProcess) -> None:
    amqp = connect(broker)
    client, told = mqtt_client(broker, client_id="ann")
    os.kill(broker.pid, signal.SIGTERM)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        amqp.process_data_events(WAIT_S)
    assert closed.value.reply_code == 320
    assert "shutdown" in closed.value.reply_text
    until(lambda: told)
    assert told[0][0].value == 0x8B
    client.loop_stop()
    assert broker.wait() == 0
    assert "have not left" not in broker.log_text(), "who answers is not waited for"


def publish_until_the_end(broker: BrokerProcess, channel: Any) -> int:
    """Publish, and have the broker stop meanwhile; how many were confirmed."""
    confirmed = 0
    try:
        while True:
            channel.basic_publish("", "orders", b"%d" % confirmed)
            confirmed += 1
            if confirmed == 200:
                os.kill(broker.pid, signal.SIGTERM)
    except pika.exceptions.AMQPError:
        return confirmed


def test_what_was_confirmed_is_there_after_a_stop_in_the_middle_of_publishing(broker: BrokerProcess) -> None:
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("orders", durable=True)
    channel.confirm_delivery()
    confirmed = publish_until_the_end(broker, channel)
    assert broker.wait() == 0
    broker.start()
    after = connect(broker)
    count = after.channel().queue_declare("orders", passive=True).method.message_count
    assert confirmed <= count <= confirmed + 1, "all that was confirmed, and at most the one on its way"
    after.close()


def test_a_client_that_does_not_read_is_given_the_time_of_the_option_and_no_more(
    start_broker: Start, stuck_reader: Callable[[BrokerProcess], None]
) -> None:
    broker = start_broker(drain_timeout_ms=300)
    stuck_reader(broker)
    os.kill(broker.pid, signal.SIGTERM)
    assert broker.wait() == 0
    assert "have not left within drain_timeout_ms=300" in broker.log_text()
    broker.start()
    after = connect(broker)
    assert after.channel().queue_declare("big", passive=True).method.message_count == 30, "what it held is back"
    after.close()


def test_a_second_signal_ends_the_wait_for_clients_and_loses_nothing(
    start_broker: Start, stuck_reader: Callable[[BrokerProcess], None]
) -> None:
    broker = start_broker(drain_timeout_ms=10_000_000)
    stuck_reader(broker)
    os.kill(broker.pid, signal.SIGTERM)
    until(lambda: not listens(broker))  # were it not for the second signal, the wait would last for hours
    os.kill(broker.pid, signal.SIGTERM)
    assert broker.wait() == SECOND_SIGNAL + signal.SIGTERM
    broker.start()
    after = connect(broker)
    assert after.channel().queue_declare("big", passive=True).method.message_count == 30
    after.close()


def test_health_checks_fail_before_clients_are_let_go(start_broker: Start) -> None:
    broker = start_broker(http="127.0.0.1:0", drain_grace_ms=10_000_000)
    check = f"{broker.http_url}/api/health/checks/is-in-service"
    guest = ("guest", "guest")
    assert httpx.get(check, auth=guest).status_code == 200
    amqp = connect(broker)
    os.kill(broker.pid, signal.SIGTERM)
    until(lambda: httpx.get(check, auth=guest).status_code == 503)
    amqp.channel().queue_declare("q", auto_delete=True)
    connect(broker).close()
    os.kill(broker.pid, signal.SIGINT)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        amqp.process_data_events(WAIT_S)
    assert broker.wait() == SECOND_SIGNAL + signal.SIGINT


def test_the_service_manager_hears_when_it_is_ready_reloads_and_stops(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(WAIT_S)
        names = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000000"}
        os.environ.update(names)
        broker = BrokerProcess(tmp_path / "broker")
        try:
            broker.start()
            assert manager.recv(1000) == b"READY=1"
            assert manager.recv(1000) == b"WATCHDOG=1"
            os.kill(broker.pid, signal.SIGHUP)
            said: list[bytes] = []
            while b"READY=1" not in said:
                said.append(manager.recv(1000))
            reloading = [each for each in said if each.startswith(b"RELOADING=1\nMONOTONIC_USEC=")]
            assert len(reloading) == 1
            os.kill(broker.pid, signal.SIGTERM)
            while manager.recv(1000) != b"STOPPING=1":
                pass
            assert broker.wait() == 0
        finally:
            broker.abandon()
            for name in names:
                del os.environ[name]
