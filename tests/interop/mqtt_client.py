"""A paho client that gathers what it is told, for tests over MQTT."""

from __future__ import annotations

import queue as queues
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.broker_process import BrokerProcess

WAIT_S = 60
V311 = MQTTProtocolVersion.MQTTv311
V5 = MQTTProtocolVersion.MQTTv5


def properties_of(kind: int, **values: object) -> Properties:
    """Properties of a packet of this kind, by paho's names for them."""
    properties = Properties(kind)  # type: ignore[no-untyped-call]
    for name, value in values.items():
        setattr(properties, name, value)
    return properties


def user_properties(kind: int, *pairs: tuple[str, str]) -> Properties:
    return properties_of(kind, UserProperty=list(pairs))


class Client:
    """A client that does not come back by itself.

    listener    the option that says where it connects
    expiry_s    how long its session outlives a connection; at 3.1.1 any but 0 asks for one that is not clean
    manual_ack  it acknowledges with `client.ack` only
    properties  of its CONNECT, beside the session's expiry
    """

    def __init__(
        self,
        broker: BrokerProcess,
        name: str,
        version: MQTTProtocolVersion = V5,
        password: str = "guest",
        listener: str = "mqtt",
        expiry_s: int = 0,
        manual_ack: bool = False,
        **properties: object,
    ) -> None:
        self.broker = broker
        self.listener = listener
        self.version = version
        self.expiry_s = expiry_s
        self.properties = properties
        self.client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=name,
            clean_session=expiry_s == 0 if version == V311 else None,
            protocol=version,
            reconnect_on_failure=False,
            manual_ack=manual_ack,
            transport="websockets" if "websocket" in listener else "tcp",
        )
        self.client.username_pw_set("guest", password)
        self.messages: queues.Queue[mqtt.MQTTMessage] = queues.Queue()
        self.granted: queues.Queue[list[ReasonCode]] = queues.Queue()
        self.dropped: queues.Queue[list[ReasonCode]] = queues.Queue()
        self.acked: queues.Queue[ReasonCode] = queues.Queue()
        self.connected: queues.Queue[tuple[ReasonCode, mqtt.ConnectFlags, Properties | None]] = queues.Queue()
        self.ended: queues.Queue[ReasonCode] = queues.Queue()
        self.client.on_message = lambda _client, _data, message: self.messages.put(message)
        self.client.on_subscribe = lambda _client, _data, _mid, codes, _properties: self.granted.put(codes)
        self.client.on_unsubscribe = lambda _client, _data, _mid, codes, _properties: self.dropped.put(codes)
        self.client.on_publish = lambda _client, _data, _mid, code, _properties: self.acked.put(code)
        self.client.on_connect = lambda _client, _data, flags, code, told: self.connected.put((code, flags, told))
        self.client.on_disconnect = lambda _client, _data, _flags, code, _properties: self.ended.put(code)

    def connect(self) -> tuple[ReasonCode, mqtt.ConnectFlags, Properties | None]:
        """What the CONNACK says."""
        port = self.broker.port(self.listener)
        if self.version == V5:
            told = properties_of(PacketTypes.CONNECT, SessionExpiryInterval=self.expiry_s, **self.properties)
            self.client.connect("127.0.0.1", port, clean_start=self.expiry_s == 0, properties=told)
        else:
            self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        return self.connected.get(timeout=WAIT_S)

    def resume(self, present: bool = True) -> None:
        """Connect; whether there was a session must be as said."""
        code, flags, _properties = self.connect()
        assert not code.is_failure
        assert flags.session_present == present

    def cut(self) -> None:
        """End the connection without DISCONNECT."""
        found = self.client.socket()
        assert isinstance(found, socket.socket)
        found.shutdown(socket.SHUT_RDWR)
        self.ended.get(timeout=WAIT_S)
        self.client.loop_stop()

    def subscribe(self, topic: str, qos: int = 1, **properties: str) -> ReasonCode:
        """The reason code of the SUBACK."""
        pairs = [(name.replace("_", "-"), value) for name, value in properties.items()]
        self.client.subscribe(topic, qos, properties=user_properties(PacketTypes.SUBSCRIBE, *pairs) if pairs else None)
        return self.granted.get(timeout=WAIT_S)[0]

    def subscribe_with(self, topic: str, options: SubscribeOptions, identifier: int = 0) -> None:
        """Subscribe with options of version 5; it must be granted as asked for."""
        told = properties_of(PacketTypes.SUBSCRIBE, SubscriptionIdentifier=identifier) if identifier else None
        self.client.subscribe(topic, options=options, properties=told)
        assert self.granted.get(timeout=WAIT_S)[0].value == options.QoS

    def publish(self, topic: str, payload: bytes = b"", **properties: str) -> ReasonCode:
        """Publish at QoS 1; the reason code of the PUBACK."""
        pairs = [(name.replace("_", "-"), value) for name, value in properties.items()]
        made = user_properties(PacketTypes.PUBLISH, *pairs) if pairs else None
        self.client.publish(topic, payload, 1, properties=made)
        return self.acked.get(timeout=WAIT_S)

    def send(
        self, topic: str, payload: bytes = b"", qos: int = 1, retain: bool = False, **properties: object
    ) -> ReasonCode:
        """Publish, and wait until the broker has it; the reason code of its acknowledgement."""
        made = properties_of(PacketTypes.PUBLISH, **properties) if properties else None
        self.client.publish(topic, payload, qos, retain, made)
        return self.acked.get(timeout=WAIT_S)

    def next(self) -> mqtt.MQTTMessage:
        return self.messages.get(timeout=WAIT_S)

    def is_quiet(self) -> bool:
        """Whether nothing is on its way here; what the broker had when it was asked has come by its second answer."""
        for _ in range(2):
            code, _id = self.client.unsubscribe("nobody/has/subscribed/to/this")
            if code != mqtt.MQTT_ERR_SUCCESS:
                break  # it is not connected any more
            self.dropped.get(timeout=WAIT_S)
        return self.messages.empty()

    def end(self) -> None:
        """DISCONNECT, if still connected."""
        self.client.disconnect()
        self.client.loop_stop()


def told(message: mqtt.MQTTMessage) -> dict[str, str]:
    """The user properties of a delivery."""
    properties: Any = message.properties  # its fields are set at run time
    return dict(properties.UserProperty)


@contextmanager
def client(broker: BrokerProcess, name: str, version: MQTTProtocolVersion = V5, **options: Any) -> Iterator[Client]:
    """A connected client, with the options of `Client`."""
    made = Client(broker, name, version, **options)
    try:
        code, _flags, _properties = made.connect()
        assert not code.is_failure
        yield made
    finally:
        made.end()
