"""MQTT packets: the octets of the specification, and every cut of them."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from forebay.core.errors import TOO_LARGE, UNSUPPORTED_VERSION, PeerError
from forebay.wire.mqtt import codes
from forebay.wire.mqtt.codes import V5, V311, check_topic_name, filter_error
from forebay.wire.mqtt.encoding import encode_packet, write_ack, write_publish
from forebay.wire.mqtt.packets import (
    Ack,
    Publish,
    Suback,
    Subscribe,
    decode_connect,
    decode_packet,
    decode_publish,
    frame,
    frame_octets,
)


def body(octets: bytes) -> tuple[int, int, int]:
    """Header octets, end, first octet."""
    found = frame(octets, 0, len(octets), 1 << 20)
    return found & 7, found >> 3, octets[0]


def test_a_connect_with_everything() -> None:
    octets = (
        b"\x10\x36\x00\x04MQTT\x05\xee\x00\x3c"
        b"\x05\x11\x00\x00\x00\x0a"
        b"\x00\x02id"
        b"\x05\x18\x00\x00\x00\x05\x00\x01w\x00\x03bye"
        b"\x00\x05guest\x00\x06secret"
    )
    octets = octets[:1] + bytes([len(octets) - 2]) + octets[2:]
    start, end, _ = body(octets)
    packet = decode_connect(octets, 0, start, end)
    assert (packet.version, packet.clean, packet.keep_alive_s, packet.client_id) == (V5, True, 60, b"id")
    assert (packet.will_topic, packet.will_body, packet.will_qos, packet.will_retain) == (b"w", b"bye", 1, True)
    assert (packet.properties, packet.will_properties) == (b"\x11\0\0\0\x0a", b"\x18\0\0\0\x05")
    assert (packet.user, packet.password) == (b"guest", b"secret")
    assert encode_packet(packet, V5) == octets
    for cut in range(start, end):
        with pytest.raises(PeerError):
            decode_connect(octets, 0, start, cut)


@pytest.mark.parametrize(
    ("packet", "version", "octets"),
    [
        (Ack(codes.PUBACK, 0x1234, 0, b""), V311, b"\x40\x02\x12\x34"),
        (Ack(codes.PUBREL, 0xFFFF, 0, b""), V5, b"\x62\x02\xff\xff"),
        (Ack(codes.PUBREC, 1, 0x97, b""), V5, b"\x50\x03\x00\x01\x97"),
        (Ack(codes.PUBCOMP, 1, 0x92, b"\x1f\x00\x01x"), V5, b"\x70\x08\x00\x01\x92\x04\x1f\x00\x01x"),
        (Ack(codes.PINGREQ, 0, 0, b""), V311, b"\xc0\x00"),
        (Ack(codes.DISCONNECT, 0, 0, b""), V5, b"\xe0\x00"),
        (Ack(codes.DISCONNECT, 0, 0x8E, b""), V5, b"\xe0\x01\x8e"),
        (Suback(codes.SUBACK, 1, b"\x00\x80", b""), V311, b"\x90\x04\x00\x01\x00\x80"),
        (Suback(codes.SUBACK, 1, b"\x00", b""), V5, b"\x90\x04\x00\x01\x00\x00"),
        (Suback(codes.UNSUBACK, 1, b"", b""), V311, b"\xb0\x02\x00\x01"),
    ],
)
def test_octets_of_packets(packet: Ack | Suback, version: int, octets: bytes) -> None:
    assert encode_packet(packet, version) == octets
    start, end, first = body(octets)
    assert encode_packet(decode_packet(octets, first, start, end, version), version) == octets


def test_octets_of_a_publish() -> None:
    out = BytesWriter()
    write_publish(out, 0x32, b"a/b", 10, b"", b"hi", V311)
    write_publish(out, 0x30, b"a/b", 0, b"\x01\x01", b"hi", V5)
    assert out.getvalue() == b"\x32\x09\x00\x03a/b\x00\x0ahi" + b"\x30\x0a\x00\x03a/b\x02\x01\x01hi"


def test_a_publish_is_reused() -> None:
    packet = Publish()
    decode_publish(packet, b"\x00\x01a\x00\x07xyz", 0x0B, 0, 8, V311)
    assert (packet.dup, packet.qos, packet.retain, packet.packet_id, packet.body()) == (True, 1, True, 7, b"xyz")
    decode_publish(packet, b"\x00\x02ab\x00z", 0, 0, 6, V5)
    assert (packet.dup, packet.qos, packet.retain, packet.packet_id) == (False, 0, False, 0)
    assert (packet.topic(), packet.properties(), packet.body()) == (b"ab", b"", b"z")


def test_where_a_packet_ends() -> None:
    octets = b"\xc0\x00\x30\x80\x01" + bytes(128) + b"\xc0"
    assert frame(octets, 0, len(octets), 1000) == 2 << 3 | 2
    assert frame(octets, 2, len(octets), 1000) == 133 << 3 | 3
    assert frame(octets, 133, len(octets), 1000) == 0
    assert frame(octets, 2, 132, 1000) == 0
    assert [frame_octets(octets[2:size]) for size in (3, 4, 5, 9)] == [0, 0, 131, 131]


def test_a_packet_is_refused_by_its_length_alone() -> None:
    with pytest.raises(PeerError) as caught:
        frame(b"\x30\x80\x01", 0, 3, 130)
    assert caught.value.reason == TOO_LARGE
    with pytest.raises(PeerError):
        frame(b"\x30\xff\xff\xff\xff", 0, 5, 1 << 30)


@pytest.mark.parametrize(("name", "level"), [(b"MQIsdp", 3), (b"MQTT", 3), (b"MQTT", 6)])
def test_versions_that_we_do_not_speak(name: bytes, level: int) -> None:
    octets = len(name).to_bytes(2, "big") + name + bytes([level, 2, 0, 0, 0, 0])
    with pytest.raises(PeerError) as caught:
        decode_connect(octets, 0, 0, len(octets))
    assert caught.value.reason == UNSUPPORTED_VERSION


def test_a_subscribe_and_an_unsubscribe() -> None:
    packet = Subscribe(codes.SUBSCRIBE, 10)
    packet.filters = [b"a/b", b"#"]
    packet.options = [1, 2]
    octets = encode_packet(packet, V311)
    assert octets == b"\x82\x0c\x00\x0a\x00\x03a/b\x01\x00\x01#\x02"
    for cut in (*range(2, 10), 11, 12, 13):  # behind the first filter a shorter packet is one too
        with pytest.raises(PeerError):
            decode_packet(octets, 0x82, 2, cut, V311)
    packet = Subscribe(codes.UNSUBSCRIBE, 10)
    packet.filters = [b"a/b"]
    assert encode_packet(packet, V5) == b"\xa2\x08\x00\x0a\x00\x00\x03a/b"


@pytest.mark.parametrize("topic", [b"", b"a\0", b"\xc0\x80", b"\xed\xa0\x80", b"a/+/b", b"#", b"1/2/3/4/5"])
def test_topics_that_are_none(topic: bytes) -> None:
    with pytest.raises(PeerError):
        check_topic_name(topic, "topic", 4)


@pytest.mark.parametrize("filter", [b"#", b"+", b"a/#", b"+/+/#", b"/", b"a//b", b"$queue/q/#", b"1/2/3/4"])
def test_filters(filter: bytes) -> None:
    assert filter_error(filter, 4) == ""


@pytest.mark.parametrize("filter", [b"", b"a#", b"#/", b"a/#/b", b"+a", b"a/b+", b"##", b"1/2/3/4/5"])
def test_filters_that_are_none(filter: bytes) -> None:
    assert filter_error(filter, 4) != ""


def test_an_acknowledgement_of_any_identifier() -> None:
    for id in (1, 255, 256, 32_767, 32_768, 65_535):
        out = BytesWriter()
        write_ack(out, codes.PUBACK, id, 0, b"")
        assert out.getvalue() == b"\x40\x02" + id.to_bytes(2, "big")
