"""Clients over MQTT under load, by paho, with sessions that outlive connections and nodes."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MessageState
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.cluster.faults.amqp_load import DIAL_S, STEP_S, Reconnecting, body_of, number_of
from tests.cluster.faults.ledger import DUPLICATED, Line

PORT = 1883
KEEP_ALIVE_S = 5
SESSION_S = 3600
WINDOW = 20
WAITING_MAX = 40


class Paho(paho.Client):
    """Paho's client, which is wrong in one thing: after two attempts to connect it sends a PUBLISH of QoS 2 once more
    though it has sent the PUBREL [MQTT-4.3.3-5]."""

    def _messages_reconnect_reset_out(self) -> None:
        for message in self._out_messages.values():
            if message.state == MessageState.MQTT_MS_RESEND_PUBREL:
                message.state = MessageState.MQTT_MS_WAIT_FOR_PUBCOMP
        super()._messages_reconnect_reset_out()


class MqttClient(Reconnecting):
    """A client with one session, on one connection after the other."""

    def __init__(self, name: str, line: Line, hosts: list[str], seed: int, qos: int) -> None:
        super().__init__(f"{name} of {line.name}", hosts, seed)
        self.line = line
        self.qos = qos
        self.is_connected = False
        self.had_session = False
        newer = qos == 2  # version 5 with QoS 2, version 3.1.1 with QoS 1
        self.properties: Properties | None = None
        identity = f"{name}-{line.name.replace('/', '-')}"
        if newer:
            self.properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho's
            self.properties.SessionExpiryInterval = SESSION_S
            self.client: paho.Client = Paho(CallbackAPIVersion.VERSION2, identity, protocol=paho.MQTTv5)
        else:
            self.client = Paho(CallbackAPIVersion.VERSION2, identity, clean_session=False)
        self.client.username_pw_set("guest", "guest")
        self.client.connect_timeout = 2 * DIAL_S
        self.client.max_inflight_messages_set(WINDOW)
        self.client.on_connect = self.connected

    def connected(self, client: paho.Client, _: object, flags: Any, code: Any, __: object) -> None:
        """The broker has taken the connection; it must have kept the session."""
        if code.is_failure:
            return
        if self.had_session and not flags.session_present:
            self.line.findings.add("lost", f"the session of the {self.name}")
        self.had_session = self.is_connected = True
        self.alive_at = time.monotonic()
        self.begin()

    def live(self, host: str) -> None:
        """One connection, from its begin to its end."""
        self.is_connected = False
        self.alive_at = time.monotonic()
        clean: dict[str, Any] = {} if self.properties is None else {"clean_start": False, "properties": self.properties}
        try:
            self.client.connect(host, PORT, KEEP_ALIVE_S, **clean)
        except OSError:
            return
        while not self.stopping.is_set() and self.client.loop(STEP_S) == paho.MQTT_ERR_SUCCESS:
            if self.is_hung():
                break
            if self.is_connected:
                self.work()
        with suppress(OSError):
            self.client._sock_close()

    def begin(self) -> None:
        """A connection was taken."""

    def work(self) -> None:
        """Whenever there is time."""


class MqttPublisher(MqttClient):
    """Publishes with QoS 1 or 2; what was not acknowledged is sent again by the session, as the protocol has it.

    waiting  message identifiers and the numbers that they stand for
    """

    def __init__(self, line: Line, hosts: list[str], seed: int, qos: int, rate: float) -> None:
        super().__init__("publisher", line, hosts, seed, qos)
        self.rate = rate
        self.waiting: dict[int, int] = {}
        self.began = time.monotonic()
        self.sent = 0
        self.connection = line.connect()
        self.client.on_publish = self.published

    def published(self, client: paho.Client, _: object, identifier: int, code: Any, __: object) -> None:
        self.alive_at = time.monotonic()
        number = self.waiting.pop(identifier)
        if not code.is_failure:
            self.line.confirm(number)

    def work(self) -> None:
        if not self.waiting:
            self.alive_at = time.monotonic()
        due = int((time.monotonic() - self.began) * self.rate) - self.sent
        for _ in range(min(due, WAITING_MAX - len(self.waiting))):
            number = self.line.send(self.connection)
            self.sent += 1
            told = self.client.publish(self.line.name, body_of(number, self.chance), self.qos)
            self.waiting[told.mid] = number
        if due > WAITING_MAX:
            self.began, self.sent = time.monotonic(), 0


class MqttSubscriber(MqttClient):
    """Takes what comes to its session: at least once and in order, with QoS 2 exactly once."""

    def __init__(self, line: Line, hosts: list[str], seed: int, qos: int) -> None:
        super().__init__("subscriber", line, hosts, seed, qos)
        self.most = -1
        self.subscribed = threading.Event()
        self.client.on_message = self.take
        self.client.on_subscribe = lambda *_: self.subscribed.set()

    def begin(self) -> None:
        if not self.subscribed.is_set():
            self.client.subscribe(self.line.name, self.qos)

    def take(self, client: paho.Client, _: object, message: paho.MQTTMessage) -> None:
        self.alive_at = time.monotonic()
        number = number_of(bytes(message.payload))
        times = self.line.see(number)
        if times > 1 and self.qos == 2:
            self.line.findings.add(DUPLICATED, f"{self.line.name}: {number} came {times} times with QoS 2")
        if times == 1 and number < self.most:
            self.line.disordered(number, self.most, "")
        self.most = max(self.most, number)
