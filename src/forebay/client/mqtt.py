"""A small synchronous client of MQTT 3.1.1 at QoS 1, for the load generator of the command line."""

from __future__ import annotations

import socket
import time
from collections import deque
from functools import partial
from typing import Final, Self

from librt.strings import BytesWriter

from forebay.client.connecting import ClientTls, connect_any
from forebay.core.errors import REFUSED, ForebayError, OutcomeUnknown, PeerError, RequestError
from forebay.wire.mqtt.codes import FAILURE, PUBACK, PUBLISH, SUBSCRIBE, V311
from forebay.wire.mqtt.packets import (
    Connack,
    Connect,
    Publish,
    Suback,
    Subscribe,
    decode_packet,
    decode_publish,
    encode_packet,
    frame,
    write_ack,
    write_publish,
)

TIMEOUT_S: Final = 30.0
RECEIVE_S: Final = 0.2
RECEIVE_OCTETS: Final = 1 << 18
SEND_OCTETS: Final = 1 << 16
PACKET_OCTETS_MAX: Final = 1 << 28
QOS_1: Final = PUBLISH << 4 | 2
PACKET_IDS: Final = 65_535


class MqttClient:
    """One connection with a clean session.

    published, confirmed  messages at QoS 1, and those of which a PUBACK has come
    """

    def __init__(self, connection: socket.socket, server: str) -> None:
        self.server = server
        self.published = 0
        self.confirmed = 0
        self._connection = connection
        self._out = BytesWriter()
        self._rest = b""
        self._answers: deque[Connack | Suback] = deque()
        self._bodies: deque[bytes] = deque()
        self._publish = Publish()

    @classmethod
    def connect(
        cls,
        servers: str,
        user: str,
        password: str,
        client_id: str,
        timeout_s: float = TIMEOUT_S,
        tls: ClientTls | None = None,
    ) -> Self:
        """Connect to the first server of a list that answers, and log in; Unreachable, RequestError."""
        return connect_any(servers, timeout_s, tls, partial(cls._begin, user, password, client_id, timeout_s))

    @classmethod
    def _begin(
        cls, user: str, password: str, client_id: str, timeout_s: float, connection: socket.socket, server: str
    ) -> Self:
        client = cls(connection, server)
        connection.settimeout(timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client._greet(user, password, client_id)
        return client

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    @property
    def unconfirmed(self) -> int:
        """Messages published of which no PUBACK has come."""
        return self.published - self.confirmed

    def subscribe(self, filter: str) -> None:
        """Have the messages of these topics sent, at QoS 1."""
        packet = Subscribe(SUBSCRIBE, 1)
        packet.filters.append(filter.encode())
        packet.options.append(1)
        self._out.write(encode_packet(packet, V311))
        answer = self._answer()
        if not isinstance(answer, Suback) or answer.answers[0] >= FAILURE:
            raise RequestError(REFUSED, f"{self.server}: the subscription to {filter} was refused")

    def publish(self, topic: bytes, body: bytes) -> None:
        """Publish a message; it leaves with others, or with the next `settle`."""
        packet_id = self.published % PACKET_IDS + 1
        write_publish(self._out, QOS_1, topic, packet_id, b"", body, V311)
        self.published += 1
        if len(self._out) >= SEND_OCTETS:
            self.flush()

    def settle(self, unconfirmed_max: int) -> None:
        """Wait for PUBACKs until no more than so many are missing; OutcomeUnknown where none comes any more."""
        self.flush()
        until = time.monotonic() + TIMEOUT_S
        while self.unconfirmed > unconfirmed_max:
            before = self.unconfirmed
            self._receive(RECEIVE_S)
            if self.unconfirmed < before:
                until = time.monotonic() + TIMEOUT_S
            elif time.monotonic() > until:
                raise OutcomeUnknown(f"{self.server}: {self.unconfirmed} messages without a PUBACK")

    def next(self, timeout_s: float) -> bytes | None:
        """The body of the next message, which is acknowledged; None where none comes in that time."""
        if not self._bodies:
            self.flush()
            self._receive(timeout_s)
        return self._bodies.popleft() if self._bodies else None

    def flush(self) -> None:
        """Send what is gathered."""
        octets = self._out.getvalue()
        if octets:
            self._out.truncate(0)
            try:
                self._connection.sendall(octets)
            except OSError as error:
                raise OutcomeUnknown(f"{self.server}: sending failed: {error}") from error

    # ---- within

    def _greet(self, user: str, password: str, client_id: str) -> None:
        packet = Connect()
        packet.clean = True
        packet.client_id = client_id.encode()
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

    def _receive(self, timeout_s: float) -> None:
        self._connection.settimeout(timeout_s)
        try:
            octets = self._connection.recv(RECEIVE_OCTETS)
        except TimeoutError:
            return
        except OSError as error:
            raise OutcomeUnknown(f"{self.server}: receiving failed: {error}") from error
        finally:
            self._connection.settimeout(TIMEOUT_S)
        if not octets:
            raise OutcomeUnknown(f"{self.server}: the broker closed the connection")
        data = self._rest + octets
        at = 0
        try:
            while found := int(frame(data, at, len(data), PACKET_OCTETS_MAX)):
                self._take(data, at, at + (found & 7), found >> 3)
                at = found >> 3
        except PeerError as error:
            raise PeerError(error.reason, f"{self.server}: {error.text}") from None
        self._rest = data[at:]

    def _take(self, data: bytes, at: int, start: int, end: int) -> None:
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
