"""CONNECT: what the client wants, what it may have, and what its CONNACK says."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.mqtt.client_session import NEVER, ClientSession, Will
from forebay.core.errors import PeerError
from forebay.core.options import Options
from forebay.session.mqtt.outgoing.encode import PACKET_OCTETS_MAX, PacketEncoder
from forebay.session.mqtt.outgoing.window import IDS_MAX
from forebay.wire.mqtt import codes
from forebay.wire.mqtt import properties as props
from forebay.wire.mqtt.codes import CONNECT, V5, V311, check_topic_name, malformed, unexpected
from forebay.wire.mqtt.packets import Connect

ANONYMOUS: Final = "guest"  # the user of a client that gives none, with the password of the same name
GRACE_US: Final = 1_500_000  # of silence a second of keep alive: one and a half times [MQTT-3.1.2-22]
PROTOCOL_NAME: Final = b"\x00\x04MQTT"
OLD_PROTOCOL_NAME: Final = b"\x00\x06MQIsdp"  # of 3.1, whose clients are told that they are too old


@final
class Terms:
    """The terms of one connection: the options of the broker and the CONNECT of the client, put together."""

    def __init__(self, options: Options) -> None:
        self.window: i64 = options.mqtt_max_inflight or IDS_MAX
        self.receive_max: i64 = options.mqtt_receive_max
        self.octets_max: i64 = options.mqtt_packet_octets_max
        self.levels_max: i64 = options.mqtt_topic_levels_max
        self.alias_max: i64 = options.mqtt_topic_alias_max
        self.max_qos: i64 = options.mqtt_max_qos
        self.server_keep_alive_s: i64 = options.mqtt_server_keep_alive_s
        self.expiry_s: i64 = options.mqtt_session_expiry_s
        self.expiry_max_s: i64 = options.mqtt_session_expiry_max_s
        self.asked_expiry_s: i64 = 0
        self.keep_alive_us: i64 = 0
        self.packet_octets_max: i64 = PACKET_OCTETS_MAX  # that the client takes
        self.problem_information = True

    def take(self, packet: Connect, encoder: PacketEncoder) -> None:
        """Reckon with what a CONNECT says; PeerError if its will cannot be."""
        keep_alive_s = self.server_keep_alive_s or packet.keep_alive_s
        self.keep_alive_us = keep_alive_s * GRACE_US
        encoder.version = packet.version
        if packet.version == V311:
            self.keep_alive_us = packet.keep_alive_s * GRACE_US  # it cannot be told another one
            if packet.clean:
                self.expiry_s = 0
        else:
            block = packet.properties
            self.window = min(self.window, props.number_of(block, props.RECEIVE_MAXIMUM, 65_535))
            most = props.number_of(block, props.MAXIMUM_PACKET_SIZE, PACKET_OCTETS_MAX)
            self.packet_octets_max = min(most, i64(PACKET_OCTETS_MAX))
            encoder.packet_octets_max = self.packet_octets_max
            encoder.alias_max = min(self.alias_max, props.number_of(block, props.TOPIC_ALIAS_MAXIMUM, 0))
            self.problem_information = props.number_of(block, props.REQUEST_PROBLEM_INFORMATION, 1) == 1
            self.asked_expiry_s = props.number_of(block, props.SESSION_EXPIRY, 0)
            self.expiry_s = self.limit_expiry(self.asked_expiry_s)
        if packet.has_will:
            check_topic_name(packet.will_topic, "CONNECT: will topic", self.levels_max)
            if packet.version == V311:
                packet.will_qos = min(packet.will_qos, self.max_qos)  # as of its messages: it cannot know
            if packet.will_qos > self.max_qos:
                raise PeerError(codes.QOS, f"CONNECT: will QoS {packet.will_qos}: the maximum is {self.max_qos}")

    def limit_expiry(self, expiry_s: i64) -> i64:
        """The session expiry interval that a client of version 5 gets when it asks for this one."""
        return min(expiry_s, self.expiry_max_s) if self.expiry_max_s else expiry_s

    def connack_block(self, packet: Connect, assigned: bytes) -> bytes:
        """The properties of a CONNACK of version 5; only what differs from what the client takes for granted.

        assigned  client identifier that the broker has made; empty for none
        """
        made = [
            props.Property(props.RECEIVE_MAXIMUM, self.receive_max, b"", b""),
            props.Property(props.MAXIMUM_PACKET_SIZE, self.octets_max, b"", b""),
        ]
        if self.expiry_s != self.asked_expiry_s:
            made.append(props.Property(props.SESSION_EXPIRY, self.expiry_s, b"", b""))
        if self.max_qos < 2:
            made.append(props.Property(props.MAXIMUM_QOS, self.max_qos, b"", b""))
        if self.alias_max:
            made.append(props.Property(props.TOPIC_ALIAS_MAXIMUM, self.alias_max, b"", b""))
        if self.server_keep_alive_s:
            made.append(props.Property(props.SERVER_KEEP_ALIVE, self.server_keep_alive_s, b"", b""))
        if assigned:
            made.append(props.Property(props.ASSIGNED_CLIENT_ID, 0, assigned, b""))
        return props.encode_properties(made)

    def connack_fits(self, block: bytes) -> bool:
        """True if the client takes a CONNACK with these properties [MQTT-3.1.2-24]."""
        rest: i64 = 2 + props.varint_octets(len(block)) + len(block)  # flags and code, then the block
        return 1 + props.varint_octets(rest) + rest <= self.packet_octets_max


def credentials(packet: Connect) -> tuple[str, str]:
    """Return the user name and password of a CONNECT, those of the anonymous user if it has neither."""
    if packet.user == b"" and not packet.password:
        packet.user = packet.password = None  # clients that always set the flag: nobody has an empty name
    if packet.user is None and packet.password is None:
        return ANONYMOUS, ANONYMOUS
    user = "" if packet.user is None else packet.user.decode("utf-8")
    password = "" if packet.password is None else packet.password.decode("utf-8", "surrogateescape")
    return user, password


def will_of(packet: Connect) -> Will | None:
    """The will in a CONNECT."""
    if not packet.has_will:
        return None
    delay_s = props.number_of(packet.will_properties, props.WILL_DELAY, 0)
    return Will(
        packet.will_topic, packet.will_body, packet.will_properties, packet.will_qos, packet.will_retain, delay_s
    )


def changed_expiry(client: ClientSession, terms: Terms, block: bytes) -> i64:
    """The session expiry interval after a DISCONNECT with these properties; negative where it may not say so.

    A session that was to end with its connection does [MQTT-3.14.2-2].
    """
    expiry_s = props.number_of(block, props.SESSION_EXPIRY, -1)
    if expiry_s < 0:
        return client.expiry_s
    if expiry_s and terms.asked_expiry_s == 0:
        return -1
    return min(terms.limit_expiry(expiry_s), i64(NEVER))


def check_begun(data: bytes) -> None:
    """Refuse with PeerError if the first octets of a connection, one at least, can begin no CONNECT."""
    if data[0] != CONNECT << 4:
        raise unexpected(f"first packet of type {data[0] >> 4}: must be CONNECT")
    at: i64 = 1
    size: i64 = len(data)
    while at < size and data[at] > 127:
        at += 1
    name = data[at + 1 : at + 1 + len(OLD_PROTOCOL_NAME)]
    if not PROTOCOL_NAME.startswith(name[: len(PROTOCOL_NAME)]) and not OLD_PROTOCOL_NAME.startswith(name):
        raise malformed("CONNECT: protocol name: not MQTT")


def begins_v5(data: bytes) -> bool:
    """True if a whole CONNECT is of version 5: see `is_v5`."""
    at: i64 = 1
    size: i64 = len(data)
    while at < size and data[at] > 127:
        at += 1
    return is_v5(data, at + 1)


def is_v5(data: bytes, at: i64) -> bool:
    """True if a CONNECT's body begins as one of version 5, which tells how to answer even where the rest is broken."""
    return data[at : at + 7] == PROTOCOL_NAME + bytes([V5])
