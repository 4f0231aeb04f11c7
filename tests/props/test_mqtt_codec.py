"""MQTT codecs: what is written is read back, any split gives the same packets, any octets packets or PeerError."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from forebay.core.errors import PeerError
from forebay.core.message import Properties
from forebay.wire.mqtt import codes
from forebay.wire.mqtt import properties as props
from forebay.wire.mqtt.codes import V5, V311
from forebay.wire.mqtt.encoding import encode_packet, write_publish
from forebay.wire.mqtt.packets import (
    Ack,
    Connack,
    Connect,
    Packet,
    Publish,
    Suback,
    Subscribe,
    decode_packet,
    decode_publish,
    frame,
    frame_octets,
)
from tests.conformance.mqtt import raw

OCTETS_MAX = 4096
VERSION = st.sampled_from([V311, V5])
PACKET_ID = st.integers(1, 65_535)
LONE = st.characters(codec="utf-8", exclude_characters="\0")
TEXT = st.text(LONE, max_size=30).map(str.encode)
TOPIC = st.text(st.characters(codec="utf-8", exclude_characters="\0+#"), min_size=1, max_size=30).map(str.encode)
FILTER = st.one_of(TEXT, st.sampled_from([b"$share/g/a/+", b"$queue/q/#", b"#"]))
BITS = {props.FLAG: 1, props.SHORT: 16, props.LONG: 32, props.VARINT: 28}


def one_property(id: int) -> st.SearchStrategy[props.Property]:
    """A property of that identifier with any value that it may have."""
    kind = props.KINDS[id]
    if kind == props.PAIR:
        return st.builds(lambda name, value: props.Property(id, 0, name, value), TEXT, TEXT)
    if kind == props.BINARY:
        return st.binary(max_size=30).map(lambda octets: props.Property(id, 0, octets, b""))
    if kind == props.TEXT:
        return (TOPIC if id == props.RESPONSE_TOPIC else TEXT).map(lambda text: props.Property(id, 0, text, b""))
    least = 1 if (1 << id) & props.NOT_ZERO else 0
    return st.integers(least, (1 << BITS[kind]) - 1).map(lambda number: props.Property(id, number, b"", b""))


@st.composite
def block(draw: st.DrawFn, packet: int, version: int) -> bytes:
    """A property block that this packet may carry."""
    if version == V311 or not props.CARRIERS[packet]:
        return b""
    allowed = [id for id in range(props.IDS) if props.KINDS[id] and (1 << id) & props.CARRIERS[packet]]
    chosen = draw(st.lists(st.sampled_from(allowed), max_size=5))
    repeated = {props.USER_PROPERTY} | ({props.SUBSCRIPTION_ID} if packet == codes.PUBLISH else set())
    once = [id for place, id in enumerate(chosen) if id in repeated or id not in chosen[:place]]
    return props.encode_properties([draw(one_property(id)) for id in once])


def subscription_options(version: int, filter: bytes) -> st.SearchStrategy[int]:
    """QoS and, of version 5, no-local, retain-as-published and retain handling."""
    if version == V311:
        return st.integers(0, 2)
    no_local = st.just(0) if filter.startswith(b"$share/") else st.sampled_from([0, 4])
    return st.builds(
        lambda qos, local, published, handling: qos | local | published | handling,
        st.integers(0, 2), no_local, st.sampled_from([0, 8]), st.sampled_from([0, 0x10, 0x20]),
    )  # fmt: skip


@st.composite
def connect(draw: st.DrawFn, version: int) -> Connect:
    packet = Connect()
    packet.version = version
    packet.properties = draw(block(codes.CONNECT, version))
    packet.clean = draw(st.booleans())
    packet.keep_alive_s = draw(st.integers(0, 65_535))
    packet.client_id = draw(TEXT)
    packet.has_will = draw(st.booleans())
    if packet.has_will:
        packet.will_topic = draw(TOPIC)
        packet.will_body = draw(st.binary(max_size=30))
        packet.will_properties = draw(block(codes.WILL, version))
        packet.will_qos = draw(st.integers(0, 2))
        packet.will_retain = draw(st.booleans())
    packet.user = draw(st.one_of(st.none(), TEXT))
    if version == V5 or packet.user is not None:
        packet.password = draw(st.one_of(st.none(), st.binary(max_size=30)))
    return packet


@st.composite
def any_packet(draw: st.DrawFn, version: int) -> Packet:
    """Any packet but PUBLISH."""
    kinds = [kind for kind in range(1, 16) if kind != codes.PUBLISH and (version == V5 or kind != codes.AUTH)]
    kind = draw(st.sampled_from(kinds))
    if kind == codes.CONNECT:
        return draw(connect(version))
    code = draw(st.integers(0, 255))
    properties = draw(block(kind, version))
    if kind == codes.CONNACK:
        return Connack(draw(st.booleans()), code, properties)
    if kind in {codes.SUBSCRIBE, codes.UNSUBSCRIBE}:
        packet = Subscribe(kind, draw(PACKET_ID))
        packet.properties = properties
        packet.filters = draw(st.lists(FILTER, min_size=1, max_size=4))
        if kind == codes.SUBSCRIBE:
            packet.options = [draw(subscription_options(version, filter)) for filter in packet.filters]
        return packet
    if kind in {codes.SUBACK, codes.UNSUBACK}:
        least = 0 if kind == codes.UNSUBACK and version == V311 else 1
        return Suback(kind, draw(PACKET_ID), draw(st.binary(min_size=least, max_size=4 * least)), properties)
    if kind in {codes.PINGREQ, codes.PINGRESP}:
        return Ack(kind, 0, 0, b"")
    code = draw(st.sampled_from([0, *sorted(codes.REASON_CODES[kind])]))
    id = draw(PACKET_ID) if kind <= codes.PUBCOMP else 0
    return Ack(kind, id, code if version == V5 else 0, properties)


def facts(packet: Packet) -> dict[str, object]:
    """All fields of a packet."""
    names = [
        "kind", "properties", "version", "clean", "keep_alive_s", "client_id", "user", "password", "has_will",
        "will_topic", "will_body", "will_properties", "will_qos", "will_retain", "session_present", "code", "packet_id",
        "filters", "options", "answers",
    ]  # fmt: skip
    return {name: getattr(packet, name) for name in names if hasattr(packet, name)}


def parts(octets: bytes) -> tuple[int, int, int]:
    """Header octets, end and first octet of the one packet that this is."""
    found = frame(octets, 0, len(octets), len(octets))
    assert found >> 3 == len(octets) == frame_octets(octets)
    return found & 7, found >> 3, octets[0]


@given(st.data(), VERSION)
def test_any_packet_is_read_back(data: st.DataObject, version: int) -> None:
    packet = data.draw(any_packet(version))
    octets = encode_packet(packet, version)
    start, end, first = parts(octets)
    assert facts(decode_packet(octets, first, start, end, version)) == facts(packet)


@given(st.data(), VERSION, st.integers(0, 2), st.binary(max_size=300))
def test_a_publish_is_read_back(data: st.DataObject, version: int, qos: int, body: bytes) -> None:
    topic = data.draw(TOPIC)
    properties = data.draw(block(codes.PUBLISH, version))
    id = data.draw(PACKET_ID) if qos else 0
    out = BytesWriter()
    write_publish(out, 0x30 | qos << 1, topic, id, properties, body, version)
    octets = out.getvalue()
    start, end, first = parts(octets)
    packet = Publish()
    decode_publish(packet, octets, first & 15, start, end, version)
    assert (packet.qos, packet.packet_id, packet.topic(), packet.properties(), packet.body()) == (
        qos, id, topic, properties, body,
    )  # fmt: skip
    props.check_properties(octets, packet.properties_at, packet.properties_end, codes.PUBLISH)


@given(st.data(), VERSION)
def test_any_cut_is_an_error_or_a_shorter_packet(data: st.DataObject, version: int) -> None:
    """The remaining length says where a packet ends: no part of it may be read beyond."""
    packet = data.draw(any_packet(version))
    octets = encode_packet(packet, version)
    start, end, first = parts(octets)
    for cut in range(start, end):
        # What follows the cut is there, as another packet's octets would be.
        try:
            decode_packet(octets, first, start, cut, version)
        except PeerError:
            continue


def values(block: bytes) -> list[tuple[int, object]]:
    """Identifier and value of each property, as the raw client says it."""
    found: list[tuple[int, object]] = []
    for one in props.decode_properties(block):
        kind = props.KINDS[one.id]
        if kind == props.PAIR:
            found.append((int(one.id), (one.text.decode(), one.value.decode())))
        else:
            found.append((int(one.id), int(one.number) if kind < props.TEXT else one.text))
    return found


@given(st.data(), st.sampled_from([packet for packet, allowed in enumerate(props.CARRIERS) if allowed]))
def test_a_client_that_shares_no_code_reads_the_same_properties(data: st.DataObject, packet: int) -> None:
    octets = data.draw(block(packet, V5))
    assert raw.properties_of(octets) == values(octets)


@given(st.data(), VERSION)
def test_a_connect_of_a_client_that_shares_no_code_is_understood(data: st.DataObject, version: int) -> None:
    properties, will_properties = data.draw(block(codes.CONNECT, version)), data.draw(block(codes.WILL, version))
    client, topic, body = data.draw(TEXT), data.draw(TOPIC), data.draw(st.binary(max_size=30))
    login = (data.draw(TEXT).decode(), data.draw(TEXT).decode())
    qos, retain, clean, beat = data.draw(
        st.tuples(st.integers(0, 2), st.booleans(), st.booleans(), st.integers(0, 65_535))
    )
    octets = raw.connect(
        client.decode(), version, properties, beat, raw.will(topic.decode(), body, version, will_properties),
        4 | qos << 3 | retain << 5, login, clean,
    )  # fmt: skip
    start, end, first = parts(octets)
    found = decode_packet(octets, first, start, end, version)
    assert isinstance(found, Connect)
    assert encode_packet(found, version) == octets
    assert (found.version, found.client_id, found.clean, found.keep_alive_s) == (version, client, clean, beat)
    assert (found.will_topic, found.will_body, found.will_qos, found.will_retain) == (topic, body, qos, retain)
    assert (found.properties, found.will_properties) == (properties, will_properties)
    assert (found.user, found.password) == (login[0].encode(), login[1].encode())


@given(st.data(), VERSION, PACKET_ID)
def test_a_subscribe_of_a_client_that_shares_no_code_is_understood(data: st.DataObject, version: int, id: int) -> None:
    properties = data.draw(block(codes.SUBSCRIBE, version))
    filters = [
        (filter, data.draw(subscription_options(version, filter)))
        for filter in data.draw(st.lists(FILTER, min_size=1, max_size=4))
    ]
    octets = raw.subscribe(id, *filters, version=version, properties=properties)
    start, end, first = parts(octets)
    found = decode_packet(octets, first, start, end, version)
    assert isinstance(found, Subscribe)
    assert (found.packet_id, found.properties) == (id, properties)
    assert list(zip(found.filters, found.options, strict=True)) == filters


@given(st.data(), st.sampled_from([codes.PUBACK, codes.PUBREC, codes.PUBREL, codes.PUBCOMP]), PACKET_ID)
def test_an_acknowledgement_is_as_short_as_may_be(data: st.DataObject, kind: int, id: int) -> None:
    """Reason code and property length are left out where they say nothing (3.4.2.1, 3.4.2.2.1); both forms are read."""
    code = data.draw(st.sampled_from([0, *sorted(codes.REASON_CODES[kind])]))
    properties = data.draw(block(kind, V5))
    octets = encode_packet(Ack(kind, id, code, properties), V5)
    start, end, first = parts(octets)
    if properties:
        assert octets[start:] == raw.number(id) + bytes([code]) + raw.block(V5, properties)
    else:
        assert octets[start:] == raw.number(id) + (bytes([code]) if code else b"")
    full = raw.packet(first, raw.number(id) + bytes([code]) + raw.block(V5, properties))
    for form in (octets, full):
        start, end, first = parts(form)
        found = decode_packet(form, first, start, end, V5)
        assert facts(found) == facts(Ack(kind, id, code, properties))


@given(st.integers(0, 255), VERSION, FILTER)
def test_subscription_options_are_read_back_or_refused(options: int, version: int, filter: bytes) -> None:
    allowed = options & 3 < 3 and (
        options < 4
        if version == V311
        else options < 0x40 and options & 0x30 < 0x30 and not (options & 4 and filter.startswith(b"$share/"))
    )
    octets = raw.subscribe(1, (filter, options), version=version)
    start, end, first = parts(octets)
    assert (reason(octets, first, start, end, version) == "") == allowed


@given(st.data(), st.sampled_from([packet for packet, allowed in enumerate(props.CARRIERS) if allowed]))
def test_a_property_that_may_occur_once_occurs_once(data: st.DataObject, packet: int) -> None:
    octets = data.draw(block(packet, V5).filter(bool))
    one = data.draw(st.sampled_from(props.decode_properties(octets)))
    twice = octets + props.encode_properties([one])
    if one.id == props.USER_PROPERTY or (one.id == props.SUBSCRIPTION_ID and packet == codes.PUBLISH):
        assert props.check_properties(twice, 0, len(twice), packet)
    else:
        with pytest.raises(PeerError):
            props.check_properties(twice, 0, len(twice), packet)


@given(st.integers(0, 255), st.sampled_from([packet for packet, allowed in enumerate(props.CARRIERS) if allowed]))
def test_a_property_of_another_packet_is_refused(id: int, packet: int) -> None:
    known = id < props.IDS and props.KINDS[id]
    if known and props.CARRIERS[packet] >> id & 1:
        return
    octets = bytes([id]) + bytes(8)
    with pytest.raises(PeerError):
        props.check_properties(octets, 0, len(octets), packet)


def packets_of(reads: list[bytes], octets_max: int) -> tuple[list[bytes], bool, bytes]:
    """The packets that these reads hold, whether an error ended them, and what is left."""
    found: list[bytes] = []
    rest = b""
    for read in reads:
        rest += read
        at = 0
        try:
            while at < len(rest):
                end = frame(rest, at, len(rest), octets_max) >> 3
                if end == 0:
                    break
                found.append(rest[at:end])
                at = end
        except PeerError:
            return found, True, b""
        rest = rest[at:]
    return found, False, rest


@given(st.data(), VERSION)
def test_any_split_gives_the_same_packets(data: st.DataObject, version: int) -> None:
    packets = [encode_packet(packet, version) for packet in data.draw(st.lists(any_packet(version), max_size=5))]
    octets = b"".join(packets)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(octets)), max_size=8)))
    reads = [octets[start:end] for start, end in pairwise([0, *cuts, len(octets)])]
    assert packets_of(reads, OCTETS_MAX) == (packets, False, b"")


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_any_octets_are_split_alike(octets: bytes, cuts: list[int]) -> None:
    ends = sorted(min(cut, len(octets)) for cut in cuts)
    reads = [octets[start:end] for start, end in pairwise([0, *ends, len(octets)])]
    assert packets_of(reads, 40) == packets_of([octets], 40)


def reason(octets: bytes, first: int, start: int, end: int, version: int) -> str:
    """Why these octets are no packet; empty where they are one."""
    publish = Publish()
    try:
        if first >> 4 == codes.PUBLISH:
            decode_publish(publish, octets, first & 15, start, end, version)
            assert start + 2 <= publish.topic_end <= publish.properties_at <= publish.properties_end <= publish.end
            props.check_properties(octets, publish.properties_at, publish.properties_end, codes.PUBLISH)
        else:
            assert decode_packet(octets, first, start, end, version).kind == first >> 4
    except PeerError as error:
        return error.reason
    return ""


@given(st.binary(max_size=80), st.integers(0, 255), VERSION)
def test_any_octets_are_a_packet_or_an_error(octets: bytes, first: int, version: int) -> None:
    assert reason(octets, first, 0, len(octets), version) in {"", *codes.PEER_CODES}


@given(st.data(), VERSION, st.integers(0, 255))
def test_a_damaged_packet_is_a_packet_or_an_error(data: st.DataObject, version: int, octet: int) -> None:
    octets = encode_packet(data.draw(any_packet(version)), version)
    start, end, first = parts(octets)
    place = data.draw(st.integers(0, len(octets) - 1))
    damaged = octets[:place] + bytes([octet]) + octets[place + 1 :]
    assert reason(damaged, first, start, end, version) in {"", *codes.PEER_CODES}


@given(st.data(), st.sampled_from(range(len(props.CARRIERS))))
def test_a_block_is_checked_and_read_back(data: st.DataObject, packet: int) -> None:
    if not props.CARRIERS[packet]:
        return
    octets = data.draw(block(packet, V5))
    seen = props.check_properties(octets, 0, len(octets), packet)
    found = props.decode_properties(octets)
    assert props.encode_properties(found) == octets
    assert seen == sum({1 << property.id for property in found})
    for id in {property.id for property in found}:
        kept = [property for property in found if property.id != id]
        assert props.without(octets, 1 << id) == props.encode_properties(kept)


HEADER = st.one_of(
    st.text(max_size=20),
    st.integers(),
    st.booleans(),
    st.none(),
    st.floats(),
    st.binary(max_size=20),
    st.lists(st.one_of(st.text(max_size=5), st.binary(max_size=5), st.none()), max_size=3),
    st.dictionaries(st.text(max_size=5), st.binary(max_size=5), max_size=3),
)
FIELD = st.one_of(st.none(), st.text(max_size=40))


@st.composite
def neutral(draw: st.DrawFn, header: st.SearchStrategy[object], field: st.SearchStrategy[str | None]) -> Properties:
    made = Properties()
    made.priority = draw(st.one_of(st.none(), st.integers(0, 255)))
    made.expiration_ms = draw(st.one_of(st.none(), st.integers(0, 10**17)))
    made.correlation_id = draw(st.one_of(st.none(), st.binary(max_size=40)))
    made.timestamp_s = draw(st.one_of(st.none(), st.integers(0, 10**17)))
    made.body_is_text = draw(st.booleans())
    for name in ("message_id", "reply_to", "content_type", "content_encoding", "type", "app_id", "cluster_id"):
        setattr(made, name, draw(field))
    made.user_id = draw(field)
    made.headers = draw(st.lists(st.tuples(st.text(max_size=20), header), max_size=4))
    return made


@given(neutral(HEADER, FIELD))
def test_any_neutral_properties_are_a_block_that_a_client_may_be_sent(properties: Properties) -> None:
    octets = props.encode_neutral(properties)
    props.check_properties(octets, 0, len(octets), codes.PUBLISH)
    assert props.encode_neutral(props.decode_neutral(octets)) == octets or properties.user_id is not None


CLEAN = st.one_of(st.none(), st.text(LONE, max_size=40))


@given(neutral(st.text(LONE, max_size=20), CLEAN))
def test_neutral_properties_come_back(properties: Properties) -> None:
    properties.user_id = None  # nobody vouches for it on the way back
    names = [f"h{place}" for place in range(len(properties.headers))]
    properties.headers = [(name, value) for name, (_, value) in zip(names, properties.headers, strict=True)]
    back = props.decode_neutral(props.encode_neutral(properties))
    if properties.expiration_ms is not None:  # whole seconds, rounded up, in 32 bits
        properties.expiration_ms = min((properties.expiration_ms + 999) // 1000, 0xFFFFFFFF) * 1000
    fields = [
        "priority", "expiration_ms", "message_id", "correlation_id", "reply_to", "content_type", "content_encoding",
        "timestamp_s", "type", "user_id", "app_id", "cluster_id", "body_is_text", "headers",
    ]  # fmt: skip
    assert {name: getattr(back, name) for name in fields} == {name: getattr(properties, name) for name in fields}
