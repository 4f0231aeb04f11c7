"""AMQP 1.0: octets that a decoder may meet, good and hostile, and inputs of a codec that grow.

Every seed was made here, after the rules of the standard and what broke other implementations: sizes and counts that
lie, values that nest, items without octets, sections out of order, lists with too many fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from librt.strings import BytesWriter

from forebay.wire.amqp10.encoder import encode_value
from forebay.wire.amqp10.frames import AMQP_FRAME, SASL_FRAME, encode_frame
from forebay.wire.amqp10.outgoing import ACCEPTED_STATE, put_delivery, put_disposition, put_flow
from forebay.wire.amqp10.performatives import Attach, Begin, Close, Detach, End, Flow, Open
from forebay.wire.amqp10.sasl import SaslInit, SaslMechanisms, SaslOutcome, SaslResponse
from forebay.wire.amqp10.sections import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
)
from forebay.wire.amqp10.states import Error, Modified, Rejected, TransactionalState
from forebay.wire.amqp10.termini import Coordinator, LinkSource, LinkTarget
from forebay.wire.amqp10.values import (
    ARRAY_32,
    UBYTE,
    Array,
    Composite,
    Described,
    Map,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Uuid,
)


def u32(number: int) -> bytes:
    return number.to_bytes(4, "big")


def frame(body: bytes, kind: int = AMQP_FRAME, size: int | None = None, offset: int = 2) -> bytes:
    """A frame around any octets; its size may lie."""
    return u32(8 + len(body) if size is None else size) + bytes([offset, kind, 0, 0]) + body


def section(code: int, value: object) -> bytes:
    return encode_value(Described(Ulong(code), value))


def list_32(items: bytes, count: int, size: int | None = None) -> bytes:
    """A list whose size and count may lie."""
    return b"\xd0" + u32(4 + len(items) if size is None else size) + u32(count) + items


def array_32(constructor: bytes, count: int, items: bytes = b"") -> bytes:
    return b"\xf0" + u32(4 + len(constructor) + len(items)) + u32(count) + constructor + items


def performative(code: int, body: bytes) -> bytes:
    return b"\x00\x53" + bytes([code]) + body


def conversation() -> list[bytes]:
    """Frames as clients send them."""
    opened = Open("client")
    opened.hostname = "vhost:/"
    opened.idle_time_out_ms = 30_000
    opened.properties = {"product": "fuzz", "n": Uint(1)}
    attached = Attach("link", 0, True)
    attached.source = LinkSource("/queues/q")
    attached.source.filter = {"selector": Described(Symbol("apache.org:selector-filter:string"), "a = 1")}
    attached.source.outcomes = ["amqp:accepted:list", "amqp:released:list"]
    attached.source.default_outcome = Modified(delivery_failed=True)
    attached.target = LinkTarget()
    control = Attach("txn", 1, False)
    control.target = Coordinator(["amqp:local-transactions"])
    flow = Flow()
    flow.next_incoming_id, flow.incoming_window, flow.outgoing_window = 0, 2048, 0xFFFFFFFF
    flow.handle, flow.delivery_count, flow.link_credit = 0, 0, 100
    out = BytesWriter()
    put_flow(out, 0, flow)
    put_delivery(out, 0, 1, 0, b"\x01", False, section(HEADER, [True]), section(DATA, b"x" * 900), 512)
    put_delivery(
        out, 0, 1, 1, b"\x02", True, b"", section(AMQP_VALUE, "v"), 512, encode_value(TransactionalState(b"t"))
    )
    put_disposition(out, 0, True, 0, 1, True, ACCEPTED_STATE)
    put_disposition(out, 0, True, 2, 0xFFFFFFFF, False, encode_value(Rejected(Error("amqp:not-found"))))
    bodies: list[Composite] = [opened, Begin(0, 400, 400), attached, control, Detach(0, True), End(), Close(Error("c"))]
    logins: list[Composite] = [
        SaslMechanisms(["PLAIN", "ANONYMOUS"]),
        SaslInit("PLAIN", b"\0u\0p", "h"),
        SaslResponse(b"r"),
        SaslOutcome(0),
    ]
    frames = [encode_frame(0, each) for each in bodies] + [encode_frame(0, each, SASL_FRAME) for each in logins]
    return [*frames, out.getvalue()]


def messages() -> list[bytes]:
    """Messages as clients send them."""
    fields: list[object] = ["id", b"u", "to", "s", "/queues/r", Uuid(bytes(16)), Symbol("t/p"), None, Timestamp(1)]
    values = Map([("a", 1), ("b", "two"), ("c", Uint(3)), ("d", None), ("e", 1.5)])
    annotations = Map([(Symbol("x-opt-a"), [1, Map([("k", b"v")])]), (Symbol("x-cc"), ["k"]), (Ulong(1), Ubyte(2))])
    head = section(HEADER, [True, Ubyte(7), Uint(5000), False, Uint(1)])
    return [
        section(DATA, b"octets"),
        head + section(PROPERTIES, fields) + section(APPLICATION_PROPERTIES, values) + section(DATA, b"a") * 3,
        section(DELIVERY_ANNOTATIONS, annotations)
        + section(MESSAGE_ANNOTATIONS, annotations)
        + section(AMQP_VALUE, values),
        section(AMQP_SEQUENCE, [1, [2, [3]]]) * 2 + section(FOOTER, Map([(Symbol("x"), b"1")])),
        section(AMQP_VALUE, Array(ARRAY_32, [Array(UBYTE, [Ubyte(1)])])),
    ]


HOSTILE_VALUES: Final[dict[str, bytes]] = {
    "size of nothing": list_32(b"", 0, 0),
    "size before the count": list_32(b"", 0, 3),
    "size beyond all": list_32(b"\x40", 1, 0xFFFFFFFF),
    "size with a sign": list_32(b"\x40", 1, 0x80000000),
    "count beyond all": list_32(b"\x40", 0xFFFFFFFF),
    "count with a sign": list_32(b"\x40", 0x80000000),
    "count of one too few": list_32(b"\x40\x40", 1),
    "an item over the end": list_32(b"\xa0\x05ab", 1),
    "an inner list over the end of the outer": list_32(b"\xc0\x05\x02\x40", 1) + b"\x40\x40",
    "an odd map": b"\xc1\x02\x01\x40",
    "a key twice": b"\xc1\x05\x04\x40\x40\x40\x40",
    "a string of 255 in the short form": b"\xa1\xff" + b"x" * 255,
    "a string of 256 in the short form": b"\xa1\x00" + b"x" * 256,
    "a string beyond all": b"\xb1\xff\xff\xff\xff",
    "a binary with a sign": b"\xb0\x80\x00\x00\x00",
    "items without octets": array_32(b"\x40", 0xFFFFFFFF),
    "arrays of items without octets": array_32(b"\xf0", 100, (u32(5) + u32(65_536) + b"\x43") * 100),
    "an array without a constructor": b"\xe0\x01\x05",
    "an array of an unknown type": array_32(b"\x99", 1, b"\x00"),
    "an array of described items": array_32(b"\x00" * 50 + b"\x53\x01\x40", 1),
    "an array of booleans that are none": array_32(b"\x56", 3, b"\x00\x01\x02"),
    "a descriptor of a descriptor": b"\x00" * 500 + b"\x40",
    "descriptors on descriptors": b"\x00\x40" * 500 + b"\x40",
    "a descriptor without a value": b"\x00\x53\x10",
    "lists in lists": b"\xc0\xff\x01" * 500,
    "maps in keys": b"\xc1\xff\x02" * 500,
    "arrays in arrays": b"\xf0\x00\x00\xff\xff\x00\x00\x00\x01" * 300,
    "a surrogate": b"\x73\x00\x00\xd8\x00",
    "a character beyond all": b"\x73\x7f\xff\xff\xff",
    "a string that is no text": b"\xa1\x02\xc3\x28",
    "a text of surrogates": b"\xa1\x03\xed\xa0\x80",
    "a symbol that is no ASCII": b"\xa3\x02\xc3\xa9",
    "a boolean of two": b"\x56\x02",
    "every class without octets": bytes(range(0x40, 0x50)),
}
HOSTILE_FRAMES: Final[dict[str, bytes]] = {
    "a size of nothing": frame(b"", size=0),
    "a size within the head": frame(b"", size=7),
    "a size beyond all": frame(b"", size=0xFFFFFFFF),
    "a body within the head": frame(b"\x45", offset=1),
    "a body beyond the frame": frame(b"\x45", offset=200),
    "an unknown type": frame(performative(0x18, b"\x45"), kind=9),
    "no performative": frame(b"\x40"),
    "an unknown performative": frame(performative(0x19, b"\x45")),
    "a body behind a close": frame(performative(0x18, b"\x45") + b"rest"),
    "an open of nothing": frame(performative(0x10, b"\x45")),
    "a performative that is a map": frame(performative(0x10, b"\xc1\x01\x00")),
    "too many fields": frame(performative(0x18, list_32(b"\x40" * 300, 300))),
    "a transfer of nothing": frame(performative(0x14, b"\x45")),
    "a tag beyond the list": frame(performative(0x14, b"\xc0\x06\x03\x43\x43\xa0\xff\x01")),
    "a tag of a megabyte": frame(performative(0x14, list_32(b"\x43\x43\xb0\x00\x10\x00\x00", 3))),
    "a state within a state": frame(
        performative(0x15, b"\xc0\xff\x05\x41\x43\x40\x40" + b"\x00\x53\x34\xc0\xff\x02\x40" * 30)
    ),
    "a disposition of all": frame(performative(0x15, b"\xc0\x0a\x05\x41\x43\x70\xff\xff\xff\xff\x40\x40")),
    "a credit beyond all": frame(performative(0x13, b"\xc0\x0c\x07\x40\x43\x43\x43\x43\x43\x70\xff\xff\xff\xff")),
    "a handle with a sign": frame(performative(0x16, b"\xc0\x06\x01\x71\xff\xff\xff\xff")),
    "mechanisms without octets": frame(performative(0x40, b"\xc0\x05\x01" + array_32(b"\x40", 60_000)), SASL_FRAME),
    "a filter that nests": frame(performative(0x12, b"\xc0\xff\x0e" + b"\xc1\xff\x02" * 80)),
}
HOSTILE_MESSAGES: Final[dict[str, bytes]] = {
    "no body": section(HEADER, [True]),
    "out of order": section(DATA, b"") + section(HEADER, []),
    "twice": section(PROPERTIES, []) * 2,
    "two kinds of bodies": section(DATA, b"") + section(AMQP_VALUE, None),
    "two values": section(AMQP_VALUE, None) * 2,
    "an unknown section": section(0x79, None),
    "a header that is a map": section(HEADER, Map([])),
    "data that is a text": section(DATA, "text"),
    "a footer before the body": section(FOOTER, Map([])) + section(DATA, b""),
    "a described section": b"\x00" + section(DATA, b""),
    "a ttl that is a text": section(HEADER, [None, None, "5"]) + section(DATA, b""),
    "fields beyond the last": section(PROPERTIES, [None] * 99),
    "a list of fields that lies": b"\x00\x53\x73" + list_32(b"\x40", 13),
    "a map of annotations that lies": b"\x00\x53\x72\xc1\x03\x7e\x40\x40",
    "annotations that nest": b"\x00\x53\x72" + b"\xc1\xff\x02\xa3\x01x" * 60,
    "a name of a section that nearly is": encode_value(Described(Symbol("amqp:data:binar"), b"")),
    "sections of nothing": section(DATA, b"") * 10_001,
}
SEEDS: Final[list[bytes]] = [
    *conversation(),
    *messages(),
    *HOSTILE_VALUES.values(),
    *HOSTILE_FRAMES.values(),
    *HOSTILE_MESSAGES.values(),
]

# Octets that grow with a number.
GROWING: Final[dict[str, Callable[[int], bytes]]] = {
    "nulls in a list": lambda count: list_32(b"\x40" * count, count),
    "lists in a list": lambda count: list_32(b"\xc0\x02\x01\x40" * count, count),
    "lists as deep as they may be": lambda count: list_32(deep(30) * count, count),
    "keys of a map": lambda count: encode_value(Map([(f"{index:06}", None) for index in range(count)])),
    "a key twice": lambda count: encode_value(Map([(Uint(index // 2), None) for index in range(count)])),
    "maps as keys": lambda count: encode_value(Map([(Map([(index, 1)]), None) for index in range(count)])),
    "items of an array": lambda count: array_32(b"\x50", count, bytes(count)),
    "strings of an array": lambda count: array_32(b"\xa1", count, b"\x01x" * count),
    "arrays in an array": lambda count: array_32(b"\xe0", count, b"\x04\x02\x50\x01\x02" * count),
    "described values": lambda count: list_32(b"\x00\x53\x01\xa1\x01x" * count, count),
    "a long string": lambda count: encode_value("x" * count),
    "a long text beyond ASCII": lambda count: encode_value("é" * count),
    "data sections": lambda count: section(DATA, b"x") * count,
    "sequences": lambda count: section(AMQP_SEQUENCE, [1]) * count,
    "application properties": lambda count: section(
        APPLICATION_PROPERTIES, Map([(f"x-{index:06}", "v") for index in range(count)])
    ),
    "annotations": lambda count: section(
        MESSAGE_ANNOTATIONS, Map([(Symbol(f"x-{index:06}"), [1]) for index in range(count)])
    ),
    "heartbeats": lambda count: frame(b"") * count,
    "ends": lambda count: frame(performative(0x17, b"\x45")) * count,
    "transfers of one octet": lambda count: (
        frame(performative(0x14, b"\xc0\x07\x06\x43\x40\x40\x40\x40\x41") + b"x") * count
    ),
    "dispositions": lambda count: frame(performative(0x15, b"\xc0\x09\x05\x41\x43\x40\x41\x00\x53\x24\x45")) * count,
    "flows": lambda count: frame(performative(0x13, b"\xc0\x05\x04\x43\x43\x43\x43")) * count,
}


def deep(levels: int) -> bytes:
    """A list within lists."""
    value: object = []
    for _ in range(levels):
        value = [value]
    return encode_value(value)
