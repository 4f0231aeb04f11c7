"""A small synchronous client of MQTT 3.1.1 at QoS 1, for the load generator of the command line."""

from __future__ import annotations

import socket
import time
from collections import deque
from typing import Final

from forebay.client.publishing import RECEIVE_S, TIMEOUT_S, PublishingClient
from forebay.core.errors import REFUSED, ForebayError, OutcomeUnknown, PeerError, RequestError
from forebay.wire.mqtt.codes import FAILURE, PUBACK, PUBLISH, SUBSCRIBE, V311
from forebay.wire.mqtt.encoding import encode_packet, write_ack, write_publish
from forebay.wire.mqtt.packets import Connack, Connect, Publish, Suback, Subscribe, decode_packet, decode_publish, frame

PACKET_OCTETS_MAX: Final = 1 << 28
QOS_1: Final = PUBLISH << 4 | 2
PACKET_IDS: Final = 65_535


class MqttClient(PublishingClient):
    """One connection with a clean session; `confirmed` counts messages acknowledged with PUBACK."""

    def __init__(self, connection: socket.socket, server: str) -> None:
        super().__init__(connection, server)
        self._answers: deque[Connack | Suback] = deque()
        self._bodies: deque[bytes] = deque()
        self._publish = Publish()

    def subscribe(self, filter: str) -> None:
        """Subscribe to a topic filter at QoS 1. Raises RequestError if the broker refuses the subscription."""
        packet = Subscribe(SUBSCRIBE, 1)
        packet.filters.append(filter.encode())
        packet.options.append(1)
        self._out.write(encode_packet(packet, V311))
        answer = self._answer()
        if not isinstance(answer, Suback) or answer.answers[0] >= FAILURE:
            raise RequestError(REFUSED, f"{self.server}: the subscription to {filter} was refused")

    def publish(self, topic: bytes, body: bytes) -> None:
        """Buffer a message for publishing. It is sent when the buffer is full, or with the next `flush` or `settle`."""
        packet_id = self.published % PACKET_IDS + 1
        write_publish(self._out, QOS_1, topic, packet_id, b"", body, V311)
        self._published()

    def next(self, timeout_s: float) -> bytes | None:
        """Return the body of the next message, or None if none arrives within `timeout_s`.

        The message is acknowledged.
        """
        if not self._bodies:
            self.flush()
            self._receive(timeout_s)
        return self._bodies.popleft() if self._bodies else None

    # ---- internal

    def _greet(self, user: str, password: str, place: str) -> None:
        packet = Connect()
        packet.clean = True
        packet.client_id = place.encode()
        packet.user = user.encode()
        packet.password = password.encode()
        self._out.write(encode_packet(packet, V311))
        answer = self._answer()
        if not isinstance(answer, Connack) or answer.code:
            raise RequestError(REFUSED, f"{self.server}: the login was refused")

    def _answer(self) -> Connack | Suback:
        self.flush()
        until = time.monotonic() + TIMEOUT_S
        while not self._answers:
            self._receive(RECEIVE_S)
            if time.monotonic() > until:
                raise OutcomeUnknown(f"{self.server}: no answer in time")
        return self._answers.popleft()

    def _take(self, data: bytes) -> int:
        at = 0
        while found := int(frame(data, at, len(data), PACKET_OCTETS_MAX)):
            self._take_packet(data, at, at + (found & 7), found >> 3)
            at = found >> 3
        return at

    def _take_packet(self, data: bytes, at: int, start: int, end: int) -> None:
        first = data[at]
        if first >> 4 == PUBLISH:
            packet = self._publish
            decode_publish(packet, data, first & 15, start, end, V311)
            self._bodies.append(packet.body())
            if packet.packet_id:
                write_ack(self._out, PUBACK, packet.packet_id, 0, b"")
        elif first >> 4 == PUBACK:
            self.confirmed += 1
        else:
            answer = decode_packet(data, first, start, end, V311)
            if not isinstance(answer, Connack | Suback):
                raise self._unexpected(first >> 4)
            self._answers.append(answer)

    def _unexpected(self, kind: int) -> ForebayError:
        return PeerError("unexpected", f"{self.server}: packet of type {kind}")
