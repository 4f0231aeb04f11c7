"""Encoders for MQTT packets. The frequent packets are written without a packet object."""

from __future__ import annotations

from librt.strings import BytesWriter, write_i16_be
from mypy_extensions import i64, u8

from forebay.wire.mqtt.codes import (
    CONNACK,
    CONNECT,
    PUBACK,
    PUBCOMP,
    PUBREL,
    SUBSCRIBE,
    V5,
)
from forebay.wire.mqtt.packets import Ack, Connack, Connect, Packet, Suback, Subscribe
from forebay.wire.mqtt.properties import (
    STRING_OCTETS_MAX,
    i16_of,
    write_string,
    write_varint,
)


def write_packet(out: BytesWriter, first: i64, rest: bytes) -> None:
    """Append a packet.

    first  the first byte: packet type and flags
    rest   everything after the remaining length
    """
    out.append(u8(first))
    write_varint(out, len(rest))
    out.write(rest)


def write_block(out: BytesWriter, properties: bytes) -> None:
    """Append a property block, preceded by its length."""
    write_varint(out, len(properties))
    out.write(properties)


def write_ack(out: BytesWriter, kind: i64, packet_id: i64, code: i64, properties: bytes) -> None:
    """Append PUBACK, PUBREC, PUBREL or PUBCOMP. In MQTT 3.1.1 `code` must be 0 and `properties` empty."""
    first = kind << 4 | (2 if kind == PUBREL else 0)
    out.append(u8(first))
    if code == 0 and not properties:
        out.append(2)
        write_i16_be(out, i16_of(packet_id))
        return
    rest = BytesWriter()
    write_i16_be(rest, i16_of(packet_id))
    rest.append(u8(code))
    if properties:
        write_block(rest, properties)
    write_varint(out, len(rest))
    out.write(rest.getvalue())


def write_connack(out: BytesWriter, packet: Connack, version: i64) -> None:
    """Append a CONNACK."""
    rest = BytesWriter()
    rest.append(1 if packet.session_present else 0)
    rest.append(u8(packet.code))
    if version == V5:
        write_block(rest, packet.properties)
    write_packet(out, CONNACK << 4, rest.getvalue())


def write_suback(out: BytesWriter, packet: Suback, version: i64) -> None:
    """Append a SUBACK or UNSUBACK."""
    rest = BytesWriter()
    write_i16_be(rest, i16_of(packet.packet_id))
    if version == V5:
        write_block(rest, packet.properties)
    rest.write(packet.answers)
    write_packet(out, packet.kind << 4, rest.getvalue())


def write_bare(out: BytesWriter, kind: i64, code: i64, properties: bytes) -> None:
    """Append a PINGREQ, PINGRESP, DISCONNECT or AUTH, without the code if `code` is 0 and `properties` are empty."""
    rest = BytesWriter()
    if code or properties:
        rest.append(u8(code))
        if properties:
            write_block(rest, properties)
    write_packet(out, kind << 4, rest.getvalue())


def write_connect(out: BytesWriter, packet: Connect) -> None:
    """Append a CONNECT."""
    bits = packet.will_qos << 3 | (0x20 if packet.will_retain else 0) | (4 if packet.has_will else 0)
    bits |= (2 if packet.clean else 0) | (0 if packet.user is None else 0x80) | (0 if packet.password is None else 0x40)
    rest = BytesWriter()
    write_string(rest, b"MQTT")
    rest.append(u8(packet.version))
    rest.append(u8(bits))
    write_i16_be(rest, i16_of(packet.keep_alive_s))
    if packet.version == V5:
        write_block(rest, packet.properties)
    write_string(rest, packet.client_id)
    if packet.has_will:
        if packet.version == V5:
            write_block(rest, packet.will_properties)
        write_string(rest, packet.will_topic)
        write_string(rest, packet.will_body)
    if packet.user is not None:
        write_string(rest, packet.user)
    if packet.password is not None:
        write_string(rest, packet.password)
    write_packet(out, CONNECT << 4, rest.getvalue())


def write_subscribe(out: BytesWriter, packet: Subscribe, version: i64) -> None:
    """Append a SUBSCRIBE or UNSUBSCRIBE."""
    rest = BytesWriter()
    write_i16_be(rest, i16_of(packet.packet_id))
    if version == V5:
        write_block(rest, packet.properties)
    for index, filter in enumerate(packet.filters):
        write_string(rest, filter)
        if packet.kind == SUBSCRIBE:
            rest.append(u8(packet.options[index]))
    write_packet(out, packet.kind << 4 | 2, rest.getvalue())


def write_publish(
    out: BytesWriter, first: i64, topic: bytes, packet_id: i64, properties: bytes, body: bytes, version: i64
) -> None:
    """Append a PUBLISH. `packet_id` is 0 for QoS 0. The caller keeps topic and packet within MQTT's limits."""
    assert len(topic) <= STRING_OCTETS_MAX
    rest = BytesWriter()
    write_string(rest, topic)
    if packet_id:
        write_i16_be(rest, i16_of(packet_id))
    if version == V5:
        write_block(rest, properties)
    rest.write(body)
    write_packet(out, first, rest.getvalue())


def encode_packet(packet: Packet, version: i64) -> bytes:
    """Return the encoded form of any packet except PUBLISH."""
    out = BytesWriter()
    if isinstance(packet, Connect):
        write_connect(out, packet)
    elif isinstance(packet, Connack):
        write_connack(out, packet, version)
    elif isinstance(packet, Subscribe):
        write_subscribe(out, packet, version)
    elif isinstance(packet, Suback):
        write_suback(out, packet, version)
    else:
        assert isinstance(packet, Ack)
        if PUBACK <= packet.kind <= PUBCOMP:
            write_ack(out, packet.kind, packet.packet_id, packet.code, packet.properties)
        else:
            write_bare(out, packet.kind, packet.code, packet.properties)
    return out.getvalue()
