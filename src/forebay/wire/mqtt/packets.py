"""Decoders for the packets of MQTT 3.1.1 and 5.0, which work on positions in one `bytes` and do no I/O.

A packet is a byte of type and flags, the remaining length as a variable byte integer, and that many bytes. `frame`
finds its end. `decode_<packet>` takes the whole `data` and the positions [at, end) of what follows the fixed header.
Every length is checked against `end` before use. An invalid packet raises a PeerError that names packet and field.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import TOO_LARGE, UNSUPPORTED_VERSION, PeerError
from forebay.wire.mqtt.codes import (
    AUTH,
    CONNACK,
    CONNECT,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBREL,
    REASON_CODES,
    SHARE_PREFIX,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    V5,
    V311,
    WILL,
    check_utf8,
    malformed,
    unexpected,
)
from forebay.wire.mqtt.properties import (
    USER_PROPERTIES_MAX,
    check_properties,
    read_u16,
    read_varint,
    string_end,
)

HEAD_OCTETS_MAX: Final = 5  # type, flags and remaining length


def frame(data: bytes, at: i64, size: i64, octets_max: i64) -> i64:
    """Return the end of the packet at `at` and the length of its fixed header, as end << 3 | header bytes.

    Returns 0 if the packet is incomplete: see `frame_octets`.
    Raises PeerError if the remaining length is invalid, or the packet is longer than `octets_max`.
    """
    start = at + 1
    length: i64 = 0
    shift: i64 = 0
    while start < size:
        octet = i64(data[start])
        length |= (octet & 127) << shift
        start += 1
        if octet < 128:
            end = start + length
            if end - at > octets_max:
                raise PeerError(TOO_LARGE, f"packet of {end - at} octets, the limit is {octets_max}")
            return end << 3 | (start - at) if end <= size else 0
        shift += 7
        if shift == 28:
            raise malformed("remaining length: more than four octets")
    return 0


def frame_octets(data: bytes) -> i64:
    """Return the length in bytes of the packet at the start of `data`, or 0 if its remaining length is incomplete."""
    length: i64 = 0
    shift: i64 = 0
    at: i64 = 1
    size: i64 = len(data)
    while at < size and shift < 28:
        octet = i64(data[at])
        length |= (octet & 127) << shift
        at += 1
        if octet < 128:
            return at + length
        shift += 7
    return 0


@final
class Publish:
    """The positions of the parts of a PUBLISH. A connection reuses one object, which `decode_publish` fills."""

    def __init__(self) -> None:
        self.data = b""
        self.dup = False
        self.retain = False
        self.qos: i64 = 0
        self.packet_id: i64 = 0
        self.topic_at: i64 = 0
        self.topic_end: i64 = 0
        self.properties_at: i64 = 0
        self.properties_end: i64 = 0
        self.end: i64 = 0

    def topic(self) -> bytes:
        return self.data[self.topic_at : self.topic_end]

    def properties(self) -> bytes:
        return self.data[self.properties_at : self.properties_end]

    def body(self) -> bytes:
        return self.data[self.properties_end : self.end]


def decode_publish(packet: Publish, data: bytes, flags: i64, at: i64, end: i64, version: i64) -> None:
    """Set `packet` to the positions of the parts of a PUBLISH. Topic and properties are not validated."""
    qos: i64 = flags >> 1 & 3
    if qos == 3 or (qos == 0 and flags & 8):
        raise malformed("PUBLISH: QoS 3" if qos == 3 else "PUBLISH: DUP with QoS 0")
    if at + 2 > end:
        raise malformed("PUBLISH: topic: cut off by the end of the packet")
    cut = at + 2 + (i64(data[at]) << 8 | i64(data[at + 1]))
    packet.data = data
    packet.dup = flags & 8 != 0
    packet.retain = flags & 1 != 0
    packet.qos = qos
    packet.topic_at = at + 2
    packet.topic_end = cut
    packet.packet_id = 0
    if qos:
        if cut + 2 > end:
            raise malformed("PUBLISH: topic or packet identifier: cut off by the end of the packet")
        packet.packet_id = i64(data[cut]) << 8 | i64(data[cut + 1])
        if packet.packet_id == 0:
            raise unexpected("PUBLISH: packet identifier: 0")
        cut += 2
    elif cut > end:
        raise malformed("PUBLISH: topic: cut off by the end of the packet")
    if version == V5:
        length = read_varint(data, cut, end)
        cut += length & 7
        packet.properties_at = cut
        cut += length >> 3
        if cut > end:
            raise malformed("PUBLISH: properties: cut off by the end of the packet")
    else:
        packet.properties_at = cut
    packet.properties_end = cut
    packet.end = end


class Packet:
    """A decoded packet of any type except PUBLISH.

    properties  property block without its length, empty in 3.1.1
    """

    def __init__(self, kind: i64) -> None:
        self.kind: i64 = kind
        self.properties = b""


@final
class Connect(Packet):
    """A CONNECT packet. `user` and `password` are None if absent, and `will_topic` is empty without a will."""

    def __init__(self) -> None:
        super().__init__(CONNECT)
        self.version: i64 = V311
        self.clean = False
        self.keep_alive_s: i64 = 0
        self.client_id = b""
        self.user: bytes | None = None
        self.password: bytes | None = None
        self.has_will = False
        self.will_topic = b""
        self.will_body = b""
        self.will_properties = b""
        self.will_qos: i64 = 0
        self.will_retain = False


@final
class Connack(Packet):
    """A CONNACK packet: the session-present flag, and the return code (3.1.1) or reason code (5.0)."""

    def __init__(self, session_present: bool, code: i64, properties: bytes) -> None:
        super().__init__(CONNACK)
        self.session_present = session_present
        self.code: i64 = code
        self.properties = properties


@final
class Ack(Packet):
    """A PUBACK, PUBREC, PUBREL or PUBCOMP packet, or a DISCONNECT, AUTH or ping, whose `packet_id` is 0."""

    def __init__(self, kind: i64, packet_id: i64, code: i64, properties: bytes) -> None:
        super().__init__(kind)
        self.packet_id: i64 = packet_id
        self.code: i64 = code
        self.properties = properties


@final
class Subscribe(Packet):
    """A SUBSCRIBE packet with one byte of `options` for each filter, or an UNSUBSCRIBE packet without options."""

    def __init__(self, kind: i64, packet_id: i64) -> None:
        super().__init__(kind)
        self.packet_id: i64 = packet_id
        self.filters: list[bytes] = []
        self.options: list[int] = []


@final
class Suback(Packet):
    """A SUBACK or UNSUBACK packet with one code for each filter. An UNSUBACK of 3.1.1 has no codes."""

    def __init__(self, kind: i64, packet_id: i64, answers: bytes, properties: bytes) -> None:
        super().__init__(kind)
        self.packet_id: i64 = packet_id
        self.answers = answers
        self.properties = properties


def decode_block(data: bytes, at: i64, end: i64, kind: i64, users_max: i64 = USER_PROPERTIES_MAX) -> bytes:
    """Return the property block at `at`, without its length, after checking it for packet type `kind`."""
    length = read_varint(data, at, end)
    start = at + (length & 7)
    stop = start + (length >> 3)
    if stop > end:
        raise malformed(f"properties: {length >> 3} octets announced, {end - start} there")
    if start == stop:
        return b""
    check_properties(data, start, stop, kind, users_max)
    return data[start:stop]


def block_end(data: bytes, at: i64, end: i64) -> i64:
    """Return the end of the property block whose length is at `at`."""
    length = read_varint(data, at, end)
    return at + (length & 7) + (length >> 3)


def decode_connect(data: bytes, flags: i64, at: i64, end: i64, users_max: i64 = USER_PROPERTIES_MAX) -> Connect:
    """Decode a CONNECT (3.1). Raises PeerError, with reason UNSUPPORTED_VERSION for an unsupported protocol level."""
    if flags:
        raise malformed("CONNECT: the flags of the fixed header are not 0")
    packet = Connect()
    cut = string_end(data, at, end, "CONNECT: protocol name")
    name = data[at + 2 : cut]
    if name == b"MQIsdp":
        raise PeerError(UNSUPPORTED_VERSION, "CONNECT: protocol MQIsdp (3.1)")
    if name != b"MQTT":
        raise malformed("CONNECT: protocol name: not MQTT")
    if cut + 4 > end:
        raise malformed("CONNECT: cut off by the end of the packet")
    level = i64(data[cut])
    if level not in (V311, V5):
        raise PeerError(UNSUPPORTED_VERSION, f"CONNECT: protocol level {level}")
    packet.version = level
    bits = i64(data[cut + 1])
    packet.keep_alive_s = read_u16(data, cut + 2)
    at = cut + 4
    packet.clean = bits & 2 != 0
    packet.has_will = bits & 4 != 0
    packet.will_qos = bits >> 3 & 3
    packet.will_retain = bits & 0x20 != 0
    check_connect_flags(bits, level)
    if level == V5:
        packet.properties = decode_block(data, at, end, CONNECT, users_max)
        at = block_end(data, at, end)
    return decode_connect_payload(packet, data, at, end, bits, users_max)


def check_connect_flags(bits: i64, level: i64) -> None:
    if bits & 1:
        raise malformed("CONNECT: the reserved flag is set")
    if bits & 4:
        if bits & 0x18 == 0x18:
            raise malformed("CONNECT: will QoS 3")
    elif bits & 0x38:
        raise malformed("CONNECT: will QoS or will retain without a will")
    if level == V311 and bits & 0xC0 == 0x40:
        raise malformed("CONNECT: password without user name")


def decode_connect_payload(packet: Connect, data: bytes, at: i64, end: i64, bits: i64, users_max: i64) -> Connect:
    cut = string_end(data, at, end, "CONNECT: client identifier")
    packet.client_id = data[at + 2 : cut]
    check_utf8(packet.client_id, "CONNECT: client identifier")
    if packet.has_will:
        if packet.version == V5:
            packet.will_properties = decode_block(data, cut, end, WILL, users_max)
            cut = block_end(data, cut, end)
        at = cut
        cut = string_end(data, at, end, "CONNECT: will topic")
        packet.will_topic = data[at + 2 : cut]
        check_utf8(packet.will_topic, "CONNECT: will topic")
        at = cut
        cut = string_end(data, at, end, "CONNECT: will payload")
        packet.will_body = data[at + 2 : cut]
    if bits & 0x80:
        at = cut
        cut = string_end(data, at, end, "CONNECT: user name")
        packet.user = data[at + 2 : cut]
        check_utf8(data[at + 2 : cut], "CONNECT: user name")
    if bits & 0x40:
        at = cut
        cut = string_end(data, at, end, "CONNECT: password")
        packet.password = data[at + 2 : cut]
    if cut != end:
        raise malformed(f"CONNECT: {end - cut} octets behind the payload")
    return packet


def decode_ack(data: bytes, kind: i64, flags: i64, at: i64, end: i64, version: i64, users_max: i64) -> Ack:
    """Decode a PUBACK, PUBREC, PUBREL or PUBCOMP (3.4 to 3.7)."""
    if flags != (2 if kind == PUBREL else 0):
        raise malformed(f"packet type {kind}: flags {flags}")
    if at + 2 > end:
        raise malformed(f"packet type {kind}: packet identifier: cut off by the end of the packet")
    packet = Ack(kind, read_u16(data, at), 0, b"")
    if packet.packet_id == 0:
        raise unexpected(f"packet type {kind}: packet identifier: 0")
    at += 2
    if at < end:
        if version != V5:
            raise malformed(f"packet type {kind}: {end - at} octets too many")
        decode_code(packet, data, at, end, users_max)
    return packet


def decode_code(packet: Ack, data: bytes, at: i64, end: i64, users_max: i64) -> None:
    """Decode reason code and properties into `packet`. The properties are optional."""
    packet.code = i64(data[at])
    if packet.code and packet.code not in REASON_CODES[int(packet.kind)]:
        raise malformed(f"packet type {packet.kind}: reason code {packet.code:#04x}: there is none such")
    at += 1
    if at < end:
        packet.properties = decode_block(data, at, end, packet.kind, users_max)
        if block_end(data, at, end) != end:
            raise malformed(f"packet type {packet.kind}: octets behind the properties")


def decode_bare(
    data: bytes, kind: i64, flags: i64, at: i64, end: i64, version: i64, users_max: i64 = USER_PROPERTIES_MAX
) -> Ack:
    """Decode a PINGREQ, PINGRESP, DISCONNECT or AUTH (3.12 to 3.15)."""
    if flags:
        raise malformed(f"packet type {kind}: flags {flags}")
    if kind == AUTH and version != V5:
        raise malformed("packet type 15: there is none in MQTT 3.1.1")
    packet = Ack(kind, 0, 0, b"")
    if at < end:
        if version != V5 or kind in (PINGREQ, PINGRESP):
            raise malformed(f"packet type {kind}: {end - at} octets too many")
        decode_code(packet, data, at, end, users_max)
    return packet


@final
class SubscribeReader:
    """A cursor over the topic filters of a SUBSCRIBE or UNSUBSCRIBE (3.8, 3.10).

    Filters are well-formed UTF-8. Their syntax as topic filters is not checked here.

    data        bytes that contain the packet, which ends at `end`
    at          position of the next filter
    first       position of the first filter
    properties  the packet's property block
    filter      the filter read last
    options     the subscription options of `filter`; 0 in UNSUBSCRIBE
    """

    def __init__(self, data: bytes, first: i64, at: i64, end: i64, version: i64, users_max: i64) -> None:
        kind = first >> 4
        if first & 15 != 2:
            raise malformed(f"packet type {kind}: flags {first & 15}")
        if at + 2 > end:
            raise malformed(f"packet type {kind}: packet identifier: cut off by the end of the packet")
        self.data = data
        self.kind: i64 = kind
        self.version: i64 = version
        self.packet_id: i64 = read_u16(data, at)
        if self.packet_id == 0:
            raise unexpected(f"packet type {kind}: packet identifier: 0")
        at += 2
        self.properties = b""
        if version == V5:
            self.properties = decode_block(data, at, end, kind, users_max)
            at = block_end(data, at, end)
        if at == end:
            raise unexpected(f"packet type {kind}: no topic filter")
        self.first: i64 = at
        self.at: i64 = at
        self.end: i64 = end
        self.filter = b""
        self.options: i64 = 0

    def read(self) -> bool:
        """Read the next filter into `filter` and `options`. Return False if no filter is left."""
        if self.at >= self.end:
            return False
        data = self.data
        cut = string_end(data, self.at, self.end, "topic filter")
        self.filter = data[self.at + 2 : cut]
        check_utf8(self.filter, "topic filter")
        if self.kind == SUBSCRIBE:
            if cut == self.end:
                raise malformed("SUBSCRIBE: subscription options: cut off by the end of the packet")
            self.options = i64(data[cut])
            check_subscription_options(self.options, self.filter, self.version)
            cut += 1
        self.at = cut
        return True

    def rewind(self) -> None:
        """Return to the first filter."""
        self.at = self.first

    def move(self, data: bytes, end: i64) -> None:
        """Continue with a copy of the packet in another buffer: the copy ends at `end` of `data`."""
        shift = end - self.end
        self.data = data
        self.first += shift
        self.at += shift
        self.end = end


def decode_subscribe(data: bytes, first: i64, at: i64, end: i64, version: i64, users_max: i64) -> Subscribe:
    """Decode a whole SUBSCRIBE or UNSUBSCRIBE (3.8, 3.10). `first` is the packet's first byte."""
    reader = SubscribeReader(data, first, at, end, version, users_max)
    packet = Subscribe(reader.kind, reader.packet_id)
    packet.properties = reader.properties
    while reader.read():
        packet.filters.append(reader.filter)
        if packet.kind == SUBSCRIBE:
            packet.options.append(int(reader.options))
    return packet


def check_subscription_options(options: i64, filter: bytes, version: i64) -> None:
    if options & 3 == 3:
        raise malformed("SUBSCRIBE: QoS 3")
    if options & (0xFC if version == V311 else 0xC0):
        raise malformed(f"SUBSCRIBE: subscription options {options:#04x}: reserved bits are set")
    if options & 0x30 == 0x30:
        raise unexpected("SUBSCRIBE: retain handling 3")
    if options & 4 and filter.startswith(SHARE_PREFIX):
        raise unexpected("SUBSCRIBE: no-local on a shared subscription")


def decode_connack(data: bytes, flags: i64, at: i64, end: i64, version: i64) -> Connack:
    """Decode a CONNACK (3.2). Used by clients."""
    if flags or at + 2 > end or data[at] > 1:
        raise malformed("CONNACK: flags, length or acknowledge flags")
    packet = Connack(data[at] == 1, i64(data[at + 1]), b"")
    at += 2
    if version == V5:
        packet.properties = decode_block(data, at, end, CONNACK)
        at = block_end(data, at, end)
    if at != end:
        raise malformed(f"CONNACK: {end - at} octets too many")
    return packet


def decode_suback(data: bytes, kind: i64, flags: i64, at: i64, end: i64, version: i64) -> Suback:
    """Decode a SUBACK or UNSUBACK (3.9, 3.11). Used by clients."""
    if flags or at + 2 > end:
        raise malformed(f"packet type {kind}: flags or length")
    packet = Suback(kind, read_u16(data, at), b"", b"")
    at += 2
    if version == V5:
        packet.properties = decode_block(data, at, end, kind)
        at = block_end(data, at, end)
    packet.answers = data[at:end]
    if (len(packet.answers) == 0) != (kind == UNSUBACK and version == V311):
        raise malformed(f"packet type {kind}: {len(packet.answers)} codes")
    return packet


def decode_packet(
    data: bytes,
    first: i64,
    at: i64,
    end: i64,
    version: i64,
    users_max: i64 = USER_PROPERTIES_MAX,
) -> Packet:
    """Decode any packet except PUBLISH. `first` is the packet's first byte."""
    kind = first >> 4
    flags = first & 15
    if PUBACK <= kind <= PUBCOMP:
        return decode_ack(data, kind, flags, at, end, version, users_max)
    if kind in (SUBSCRIBE, UNSUBSCRIBE):
        return decode_subscribe(data, first, at, end, version, users_max)
    if kind == CONNECT:
        return decode_connect(data, flags, at, end, users_max)
    if kind >= PINGREQ:
        return decode_bare(data, kind, flags, at, end, version, users_max)
    if kind == CONNACK:
        return decode_connack(data, flags, at, end, version)
    if kind in (SUBACK, UNSUBACK):
        return decode_suback(data, kind, flags, at, end, version)
    raise malformed(f"packet type {kind}: there is none")
