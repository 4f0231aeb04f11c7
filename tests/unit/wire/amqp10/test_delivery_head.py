"""The sections before the body of a delivery: the header and the annotations are the broker's, the rest stays."""

from __future__ import annotations

from librt.strings import BytesWriter

from forebay.wire.amqp10.delivery_head import DeliveryHead, put_annotation
from forebay.wire.amqp10.sections import (
    DELIVERY_ANNOTATIONS,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    check_sections,
    value_at,
)
from forebay.wire.amqp10.values import Map, Symbol, Ubyte, Uint, Ulong
from tests.unit.wire.amqp10.test_sections import section

REPLACED = [b"x-exchange", b"x-routing-key"]
BARE = b"\x00\x80\0\0\0\0\0\0\0\x73\xd0\0\0\0\x05\0\0\0\x01\x40" + b"\x00\x53\x74\xc1\x06\x02\xa1\x01a\x56\x01"


def added(*pairs: tuple[str, object]) -> tuple[bytes, int]:
    out = BytesWriter()
    for name, value in pairs:
        put_annotation(out, name, value)
    return out.getvalue(), len(pairs)


def test_a_header_is_written_and_annotations_are_added() -> None:
    hop = section(DELIVERY_ANNOTATIONS, Map([(Symbol("x-opt-hop"), 1)]))
    own = section(MESSAGE_ANNOTATIONS, Map([(Symbol("x-exchange"), "lie"), (Symbol("x-a"), [1]), (Ulong(3), 4)]))
    properties = section(HEADER, [True, Ubyte(7), Uint(5000), True, Uint(9)]) + hop + own + BARE
    head = DeliveryHead(REPLACED)
    head.prepare(properties)
    assert (head.durable, head.priority, head.ttl_ms) == (True, 7, 5000)
    octets = head.sections(4000, False, 2, *added(("x-exchange", "x"), ("x-routing-key", "k")))
    pairs: list[tuple[object, object]] = [(Symbol("x-a"), [1]), (Ulong(3), 4)]
    pairs += [(Symbol("x-exchange"), "x"), (Symbol("x-routing-key"), "k")]
    header = section(HEADER, [True, Ubyte(7), Uint(4000), False, Uint(2)])
    assert octets == header + section(MESSAGE_ANNOTATIONS, Map(pairs)) + BARE
    check_sections(octets, 0, len(octets), 8)
    head.prepare(properties)
    assert head.sections(-1, True, 0, b"", 0).startswith(section(HEADER, [True, Ubyte(7), None, True]))


def test_what_is_absent_stays_absent() -> None:
    head = DeliveryHead(REPLACED)
    for properties in (b"", BARE):
        head.prepare(properties)
        assert (head.durable, head.priority, head.ttl_ms) == (False, -1, -1)
        assert head.sections(-1, False, 0, b"", 0) == properties
        octets = head.sections(-1, False, 0, *added(("x-exchange", "x")))
        assert octets == section(MESSAGE_ANNOTATIONS, Map([(Symbol("x-exchange"), "x")])) + properties


def test_another_message_leaves_nothing_of_the_last_one() -> None:
    head = DeliveryHead([])
    head.prepare(section(HEADER, [True, Ubyte(1), Uint(1)]) + section(MESSAGE_ANNOTATIONS, Map([(Symbol("x"), 1)])))
    head.prepare(section(PROPERTIES, ["id"]))
    assert head.sections(-1, False, 0, b"", 0) == section(PROPERTIES, ["id"])


def test_more_annotations_than_a_short_map_holds() -> None:
    own = section(MESSAGE_ANNOTATIONS, Map([(Symbol(f"x-{index}"), "v" * 50) for index in range(200)]))
    head = DeliveryHead([])
    head.prepare(own + BARE)
    octets = head.sections(-1, False, 0, *added(("x-exchange", "x")))
    found = check_sections(octets, 0, len(octets), 8)
    annotations = value_at(octets, found.message_annotations, found.end)
    assert isinstance(annotations, Map)
    assert len(annotations.pairs) == 201
    assert octets.endswith(BARE)
