"""Clients of MQTT and AMQP for tests over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import paho.mqtt.client as paho
import pika
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from pika.adapters.blocking_connection import BlockingChannel

from tests.broker_process import BrokerProcess
from tests.waiting import until

WAIT_S_MAX = 40


@contextmanager
def mqtt(broker: BrokerProcess, client_id: str, expiry_s: int = 0, manual: bool = False) -> Iterator[paho.Client]:
    """A connected client of version 5; `manual`: it acknowledges nothing by itself."""
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5, manual_ack=manual)
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = expiry_s
    client.connect("127.0.0.1", broker.mqtt_port, clean_start=False, properties=properties)
    client.loop_start()
    until(client.is_connected)
    yield client
    client.disconnect()
    client.loop_stop()


@contextmanager
def open_channel(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    """A channel of a real client, with confirms."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    if connection.is_open:
        connection.close()


def publish_mqtt(broker: BrokerProcess, topic: str, body: str, retain: bool = False) -> None:
    """Publish one message at QoS 1, and wait for its acknowledgement."""
    with mqtt(broker, "") as client:
        client.publish(topic, body, 1, retain).wait_for_publish(WAIT_S_MAX)
