"""CONNECT: what the client wants, what it may have, and what its CONNACK says."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.broker.mqtt.client_session import NEVER, ClientSession
from forebay.core.errors import PeerError
from forebay.core.options import Options
from forebay.session.login import MqttLogin, MqttTerms, MqttWill
from forebay.session.mqtt.outgoing.encode import PACKET_OCTETS_MAX
from forebay.session.mqtt.outgoing.window import IDS_MAX
from forebay.wire.mqtt import codes
from forebay.wire.mqtt import properties as props
from forebay.wire.mqtt.codes import CONNECT, V5, V311, check_topic_name, malformed, unexpected
from forebay.wire.mqtt.packets import Connect

ANONYMOUS: Final = "guest"  # the user of a client that gives none, with the password of the same name
GRACE_US: Final = 1_500_000  # of silence a second of keep alive: one and a half times [MQTT-3.1.2-22]
PROTOCOL_NAME: Final = b"\x00\x04MQTT"
OLD_PROTOCOL_NAME: Final = b"\x00\x06MQIsdp"  # of 3.1, whose clients are told that they are too old


def agreed_terms(packet: Connect, options: Options) -> MqttTerms:
    """Return the limits that follow from a CONNECT and the options of the broker."""
    window: i64 = options.mqtt_max_inflight or IDS_MAX
    if packet.version == V311:  # the client cannot be told another keep alive interval
        return MqttTerms(
            window=int(window),
            packet_octets_max=PACKET_OCTETS_MAX,
            alias_max=0,
            keep_alive_us=int(packet.keep_alive_s * GRACE_US),
            expiry_s=0 if packet.clean else options.mqtt_session_expiry_s,
            asked_expiry_s=0,
            problem_information=True,
        )
    block = packet.properties
    keep_alive_s: i64 = options.mqtt_server_keep_alive_s or packet.keep_alive_s
    asked_expiry_s = props.number_of(block, props.SESSION_EXPIRY, 0)
    return MqttTerms(
        window=int(min(window, props.number_of(block, props.RECEIVE_MAXIMUM, 65_535))),
        packet_octets_max=min(
            int(props.number_of(block, props.MAXIMUM_PACKET_SIZE, PACKET_OCTETS_MAX)), PACKET_OCTETS_MAX
        ),
        alias_max=min(int(props.number_of(block, props.TOPIC_ALIAS_MAXIMUM, 0)), options.mqtt_topic_alias_max),
        keep_alive_us=int(keep_alive_s * GRACE_US),
        expiry_s=int(limited_expiry(asked_expiry_s, options)),
        asked_expiry_s=int(asked_expiry_s),
        problem_information=props.number_of(block, props.REQUEST_PROBLEM_INFORMATION, 1) == 1,
    )


def limited_expiry(expiry_s: i64, options: Options) -> i64:
    """Return the session expiry interval that a client of version 5 gets when it asks for this one."""
    most: i64 = options.mqtt_session_expiry_max_s
    return min(expiry_s, most) if most else expiry_s


def check_will(packet: Connect, options: Options) -> None:
    """Refuse with PeerError if the will of a CONNECT cannot be published."""
    if not packet.has_will:
        return
    check_topic_name(packet.will_topic, "CONNECT: will topic", options.mqtt_topic_levels_max)
    most: i64 = options.mqtt_max_qos
    if packet.version == V311:
        packet.will_qos = min(packet.will_qos, most)  # as of its messages: it cannot know
    if packet.will_qos > most:
        raise PeerError(codes.QOS, f"CONNECT: will QoS {packet.will_qos}: the maximum is {most}")


def connack_block(login: MqttLogin, assigned: bytes, options: Options) -> bytes:
    """Return the properties of a CONNACK of version 5; only what differs from what the client takes for granted.

    assigned  client identifier that the broker has made; empty for none
    """
    terms = login.terms
    made = [
        props.Property(props.RECEIVE_MAXIMUM, options.mqtt_receive_max, b"", b""),
        props.Property(props.MAXIMUM_PACKET_SIZE, options.mqtt_packet_octets_max, b"", b""),
    ]
    if terms.expiry_s != terms.asked_expiry_s:
        made.append(props.Property(props.SESSION_EXPIRY, terms.expiry_s, b"", b""))
    if options.mqtt_max_qos < 2:
        made.append(props.Property(props.MAXIMUM_QOS, options.mqtt_max_qos, b"", b""))
    if options.mqtt_topic_alias_max:
        made.append(props.Property(props.TOPIC_ALIAS_MAXIMUM, options.mqtt_topic_alias_max, b"", b""))
    if options.mqtt_server_keep_alive_s:
        made.append(props.Property(props.SERVER_KEEP_ALIVE, options.mqtt_server_keep_alive_s, b"", b""))
    if assigned:
        made.append(props.Property(props.ASSIGNED_CLIENT_ID, 0, assigned, b""))
    return props.encode_properties(made) + login.auth_block


def connack_fits(block: bytes, packet_octets_max: i64) -> bool:
    """Return whether the client takes a CONNACK with these properties [MQTT-3.1.2-24]."""
    rest: i64 = 2 + props.varint_octets(len(block)) + len(block)  # flags and code, then the block
    return 1 + props.varint_octets(rest) + rest <= packet_octets_max


def credentials(packet: Connect) -> tuple[str, str]:
    """Return the user name and password of a CONNECT, those of the anonymous user if it has neither."""
    if packet.user == b"" and not packet.password:
        packet.user = packet.password = None  # clients that always set the flag: nobody has an empty name
    if packet.user is None and packet.password is None:
        return ANONYMOUS, ANONYMOUS
    user = "" if packet.user is None else packet.user.decode("utf-8")
    password = "" if packet.password is None else packet.password.decode("utf-8", "surrogateescape")
    return user, password


def will_in(packet: Connect) -> MqttWill | None:
    """Return the will of a CONNECT; None if it has none."""
    if not packet.has_will:
        return None
    return MqttWill(
        topic=packet.will_topic,
        body=packet.will_body,
        properties=packet.will_properties,
        qos=int(packet.will_qos),
        retain=packet.will_retain,
        delay_s=int(props.number_of(packet.will_properties, props.WILL_DELAY, 0)),
    )


def changed_expiry(client: ClientSession, terms: MqttTerms, options: Options, block: bytes) -> i64:
    """The session expiry interval after a DISCONNECT with these properties; negative where it may not say so.

    A session that was to end with its connection does [MQTT-3.14.2-2].
    """
    expiry_s = props.number_of(block, props.SESSION_EXPIRY, -1)
    if expiry_s < 0:
        return client.expiry_s
    if expiry_s and terms.asked_expiry_s == 0:
        return -1
    return min(limited_expiry(expiry_s, options), i64(NEVER))


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
