"""The adapter of AMQP 1.0: single fields, requests, edits and deaths."""

from __future__ import annotations

import pytest

from forebay.core.errors import MALFORMED, PRECONDITION, REFUSED, PeerError, RequestError
from forebay.core.message import (
    AMQP10,
    EXPIRES,
    KEYED,
    Properties,
)
from forebay.message.deaths import Death, DeathMarks, Deaths
from forebay.message.formats.table import format_of
from forebay.message.requests import REQUESTS, UNKNOWN
from forebay.wire.amqp10.encoder import encode_value
from forebay.wire.amqp10.sections import (
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    Sections,
    split_sections,
    value_at,
)
from forebay.wire.amqp10.values import (
    STRING_32,
    Array,
    Described,
    Int,
    Map,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Uuid,
)

FORMAT = format_of(AMQP10)
ID = Uuid(bytes(range(16)))
ID_TEXT = "urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f"


def section(code: int, value: object) -> bytes:
    return encode_value(Described(Ulong(code), value))


def message(
    header: list[object] | None = None,
    annotations: list[tuple[object, object]] | None = None,
    fields: dict[int, object] | None = None,
    named: list[tuple[object, object]] | None = None,
) -> bytes:
    """The sections before a body."""
    octets = b""
    if header is not None:
        octets += section(HEADER, header)
    if annotations is not None:
        octets += section(MESSAGE_ANNOTATIONS, Map(annotations))
    if fields is not None:
        octets += section(PROPERTIES, [fields.get(index) for index in range(13)])
    if named is not None:
        octets += section(APPLICATION_PROPERTIES, Map(named))
    return octets


def split(octets: bytes) -> Sections:
    return split_sections(octets, 0, len(octets))


def annotations_of(octets: bytes) -> Map | None:
    found = split(octets)
    value = value_at(octets, found.message_annotations, found.end)
    assert value is None or isinstance(value, Map)
    return value


def neutral(**fields: object) -> Properties:
    made = Properties()
    made.durable = False
    for name, value in fields.items():
        assert hasattr(made, name)
        setattr(made, name, value)
    return made


# ---- single fields


def test_a_message_that_says_nothing_of_itself() -> None:
    for octets in (b"", message([]), message(None, [], {}, []), message([None, None, None])):
        assert FORMAT.priority(octets) == FORMAT.expiration_us(octets) == -1
        assert FORMAT.header(octets, b"a") is None
        assert FORMAT.headers(octets) == {}
        assert FORMAT.group_key(octets) == FORMAT.reply_to(octets) == b""
        assert FORMAT.marks(octets) == FORMAT.requests(octets) == FORMAT.check(octets, b"u", 8) == 0
        assert FORMAT.further_keys(octets) == []
        assert FORMAT.expiration_digits(octets) == b""


def test_single_fields() -> None:
    octets = message(
        [True, Ubyte(9), Uint(2500)],
        [(Symbol("x-a"), "annotation"), (Symbol("other"), 1), (Symbol("x-n"), Ulong(7))],
        {4: "/queues/re%2Fplies", 10: "group"},
        [("a", "é"), ("i", Int(-5)), ("u", ID), ("y", True), ("s", Symbol("sym")), ("x-a", "mine"), ("b", b"\xff")],
    )
    assert FORMAT.priority(octets) == 9
    assert FORMAT.expiration_us(octets) == 2_500_000
    assert FORMAT.expiration_digits(octets) == b"2500"
    assert FORMAT.reply_to(octets) == b"re/plies"
    assert FORMAT.group_key(octets) == b"group"
    found = [FORMAT.header(octets, name) for name in (b"a", b"i", b"u", b"y", b"s", b"x-a", b"b", b"x-n", b"other")]
    assert found == ["é".encode(), b"-5", ID_TEXT[9:].encode(), None, b"sym", b"annotation", b"\xff", b"7", None]
    assert FORMAT.headers(octets) == {
        "a": "é",
        "i": -5,
        "u": ID_TEXT[9:],
        "y": True,
        "s": "sym",
        "x-a": "annotation",
        "b": b"\xff",
        "x-n": 7,
    }
    assert FORMAT.marks(octets) == FORMAT.check(octets, b"", 8) == EXPIRES | KEYED


def test_the_group_of_a_message() -> None:
    for octets in (
        message(None, [(Symbol("x-group-id"), "g")], {10: "other"}),
        message(None, None, {10: "other"}, [("x-group-id", "g")]),
        message(None, None, {10: "g"}),
    ):
        assert FORMAT.group_key(octets) == b"g"
        assert FORMAT.marks(octets) == KEYED


def test_an_address_of_replies_that_is_no_queue() -> None:
    for address in ("/exchanges/amq.topic/a", "q", ""):
        assert FORMAT.reply_to(message(None, None, {4: address})) == b""


# ---- checks and requests


@pytest.mark.parametrize(
    "octets",
    [
        b"octets",
        section(DATA, b"body"),
        message([True]) + section(AMQP_VALUE, 1),
        message([True]) + section(FOOTER, Map([])),
        message([True])[:-1],
        section(APPLICATION_PROPERTIES, Map([(Symbol("s"), 1)])),
        section(PROPERTIES, [5]),
    ],
)
def test_what_other_clients_could_not_read_is_malformed(octets: bytes) -> None:
    with pytest.raises(PeerError) as caught:
        FORMAT.check(octets, b"u", 8)
    assert caught.value.reason == MALFORMED


def test_a_message_may_not_claim_another_user() -> None:
    octets = message(None, None, {1: b"bob"})
    FORMAT.check(octets, b"bob", 8)
    FORMAT.check(message(None, None, {1: b""}), b"bob", 8)
    with pytest.raises(RequestError, match="user-id is 'bob', but the authenticated user is 'eve'") as caught:
        FORMAT.check(octets, b"eve", 8)
    assert caught.value.reason == REFUSED


@pytest.mark.parametrize("place", ["annotation", "property"])
@pytest.mark.parametrize(
    "name", ["x-cc", "x-delay", "x-opt-delivery-delay", "x-producer-id", "x-sequence", "x-deduplication-key"]
)
def test_requests_are_seen(place: str, name: str) -> None:
    value: object = ["k"] if name == "x-cc" else Uint(5)
    if place == "annotation":
        octets = message([True], [(Symbol("y"), 1), (Symbol(name), value)])
    else:
        octets = message([True], None, None, [("y", 1), (name, value)])
    assert FORMAT.check(octets, b"u", 8) == REQUESTS
    FORMAT.read_requests(octets)


def test_requests_are_read() -> None:
    octets = message(
        None,
        [(Symbol("x-cc"), ["a", "b"]), (Symbol("x-opt-delivery-delay"), Uint(1500)), (Symbol("x-keep"), 1)],
        {0: "id"},
        [("x-delay-id", "d"), ("x-producer-id", "p"), ("x-sequence", Ulong(7)), ("x-deduplication-key", b"k")],
    )
    made = FORMAT.read_requests(octets)
    assert (made.keys, made.delay_us, made.due_us, made.delay_id) == ([b"a", b"b"], 1_500_000, 0, b"d")
    assert (made.producer, made.sequence, made.deduplication_key) == ("p", 7, b"k")
    assert made.properties == octets
    assert annotations_of(made.delayed) == Map([(Symbol("x-cc"), ["a", "b"]), (Symbol("x-keep"), 1)])
    assert made.delayed.endswith(octets[split(octets).bare_at :])
    assert FORMAT.further_keys(octets) == [b"a", b"b"]
    assert FORMAT.further_keys(FORMAT.without_further_keys(octets)) == []
    assert FORMAT.requests(made.delayed) == REQUESTS  # of CC, and of what is taken once


@pytest.mark.parametrize("value", [Timestamp(1_700_000_000_000), Ulong(1_700_000_000_000), 1_700_000_000_000])
def test_a_time_of_delivery_goes_before_a_delay(value: object) -> None:
    octets = message(None, [(Symbol("x-opt-delivery-time"), value), (Symbol("x-opt-delivery-delay"), 5)])
    made = FORMAT.read_requests(octets)
    assert (made.due_us, made.delay_us) == (1_700_000_000_000_000, 0)
    assert annotations_of(made.delayed) is None


def test_consumers_see_how_long_a_delay_was() -> None:
    made = FORMAT.read_requests(message(None, [(Symbol("x-delay"), Uint(50))]))
    assert annotations_of(made.delayed) == Map([(Symbol("x-delay"), Int(-50))])
    assert FORMAT.read_requests(made.delayed).delay_us == 0
    made = FORMAT.read_requests(message(None, None, None, [("x-delay", Uint(50)), ("a", 1)]))
    assert annotations_of(made.delayed) == Map([(Symbol("x-delay"), Int(-50))])
    assert FORMAT.headers(made.delayed) == {"x-delay": -50, "a": 1}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("x-opt-delivery-time", "soon", "x-opt-delivery-time: 'soon' is no time"),
        ("x-opt-delivery-time", True, "is no time"),
        ("x-opt-delivery-delay", "soon", "is no number of milliseconds"),
        ("x-delay", 1 << 60, "is no number of milliseconds"),
        ("x-cc", "key", "x-cc: 'key' is no list of strings"),
    ],
)
def test_a_request_that_is_impossible_is_refused(name: str, value: object, text: str) -> None:
    with pytest.raises(RequestError, match=text) as caught:
        FORMAT.read_requests(message(None, [(Symbol(name), value)]))
    assert caught.value.reason == PRECONDITION


def test_reserved_names_are_refused() -> None:
    octets = message(None, None, None, [("x-forebay-queue", "q")])
    assert FORMAT.check(octets, b"u", 8) == UNKNOWN
    with pytest.raises(RequestError, match="x-forebay-delya"):
        FORMAT.check(message(None, [(Symbol("x-forebay-delya"), 1)]), b"u", 8)


# ---- edits


def test_edits_leave_the_rest_as_it_is() -> None:
    octets = message([True, Ubyte(3)], [(Symbol("x-a"), 1), (Symbol("x-b"), 2)], {0: "id"}, [("a", 1), ("b", 2)])
    octets = octets.replace(b"\x00\x53\x73", b"\x00\x80\0\0\0\0\0\0\0\x73")  # an encoding that nobody here writes
    made = FORMAT.edit(octets, [b"x-a", b"b", b"dlq-id"], [("x-c", "new"), ("c", [1]), ("dlq-id", "1-2")])
    assert FORMAT.headers(made) == {"x-b": 2, "a": 1, "c": [1], "x-c": "new", "dlq-id": "1-2"}
    assert made.startswith(message([True, Ubyte(3)]))
    assert section(PROPERTIES, ["id"] + [None] * 12).replace(b"\x00\x53\x73", b"\x00\x80\0\0\0\0\0\0\0\x73") in made
    assert FORMAT.header(made, b"dlq-id") == b"1-2"
    assert FORMAT.edit(octets, [], []) == octets
    assert FORMAT.edit(octets, [b"x-z", b"z"], []) == octets
    bare = message(None, None, {0: "id"}, [("b", 2)])
    assert FORMAT.edit(bare, [b"b"], []) == message(None, None, {0: "id"})
    assert FORMAT.edit(b"", [], [("a", 1)]) == message(None, None, None, [("a", Int(1))])
    assert FORMAT.edit(b"", [], [("x-a", 1)]) == message(None, [(Symbol("x-a"), Int(1))])


def test_delivery_annotations_stay_in_their_place() -> None:
    hop = section(DELIVERY_ANNOTATIONS, Map([(Symbol("x-opt-hop"), 1)]))
    octets = message([True]) + hop + message(None, None, {0: "id"})
    made = FORMAT.edit(octets, [], [("x-a", 1)])
    assert made == message([True]) + hop + message(None, [(Symbol("x-a"), Int(1))], {0: "id"})
    assert FORMAT.without_expiration(octets) == octets


def test_an_expiration_is_taken_away_or_grows_less() -> None:
    rest = message(None, [(Symbol("x-a"), 1)], {0: "id"}, [("a", 1)])
    octets = message([True, Ubyte(3), Uint(5000), True, Uint(2)]) + rest
    assert FORMAT.without_expiration(octets) == message([True, Ubyte(3), None, True, Uint(2)]) + rest
    assert FORMAT.aged(octets, 1_000_001) == message([True, Ubyte(3), Uint(4000), True, Uint(2)]) + rest
    assert FORMAT.expiration_us(FORMAT.aged(octets, 9_000_000)) == 0
    assert FORMAT.without_expiration(rest) == FORMAT.aged(rest, 5) == rest
    assert FORMAT.without_expiration(message([None, None, Uint(1)])) == b""


# ---- deaths


DEATH_ANNOTATIONS = [
    "x-a",
    "x-opt-deaths",
    "x-first-death-exchange",
    "x-first-death-queue",
    "x-first-death-reason",
    "x-last-death-exchange",
    "x-last-death-queue",
    "x-last-death-reason",
    "x-opt-dlq-id",
    "x-opt-dlq-queue",
    "x-opt-dlq-offset",
    "x-opt-dlq-reason",
    "x-opt-dlq-deliveries",
    "x-opt-dlq-time-ms",
]
DEATH_MAPS = [
    Map(
        [
            (Symbol("queue"), "second"),
            (Symbol("reason"), Symbol("rejected")),
            (Symbol("count"), Ulong(1)),
            (Symbol("first-time"), Timestamp(1_700_000_005_000)),
            (Symbol("last-time"), Timestamp(1_700_000_007_250)),
            (Symbol("exchange"), ""),
            (Symbol("routing-keys"), Array(STRING_32, ["first"])),
        ]
    ),
    Map(
        [
            (Symbol("queue"), "first"),
            (Symbol("reason"), Symbol("expired")),
            (Symbol("count"), Ulong(1)),
            (Symbol("first-time"), Timestamp(1_700_000_000_000)),
            (Symbol("last-time"), Timestamp(1_700_000_000_000)),
            (Symbol("exchange"), "x"),
            (Symbol("routing-keys"), Array(STRING_32, ["k1", "k2"])),
            (Symbol("ttl"), Uint(5000)),
        ]
    ),
]
DEATH_TABLES = [
    {
        "queue": "second",
        "reason": "rejected",
        "count": 1,
        "time": 1_700_000_005,
        "exchange": "",
        "routing-keys": ["first"],
    },
    {
        "queue": "first",
        "reason": "expired",
        "count": 1,
        "time": 1_700_000_000,
        "exchange": "x",
        "routing-keys": ["k1", "k2"],
        "original-expiration": "5000",
    },
]


def test_deaths_are_annotations() -> None:
    deaths = Deaths()
    deaths.add(Death(b"first", b"expired", 1_700_000_000, b"x", [b"k1", b"k2"], b"5000"))
    deaths.add(Death(b"second", b"rejected", 1_700_000_005, b"", [b"first"], b""))
    deaths.marks = DeathMarks(b"1-2-3", b"second", 3, b"", b"rejected", 2, 1_700_000_007_250)
    bare = message(None, None, {0: "id"}, [("a", 1)])
    claimed: list[tuple[object, object]] = [(Symbol("x-opt-deaths"), 1), (Symbol("x-first-death-queue"), "lie")]
    octets = message([True], [*claimed, (Symbol("x-a"), 1)]) + bare
    made = FORMAT.with_deaths(octets, deaths)
    assert made.endswith(bare)
    found = annotations_of(made)
    assert found is not None
    assert [key.text for key, _ in found.pairs if isinstance(key, Symbol)] == DEATH_ANNOTATIONS
    tables = found.get(Symbol("x-opt-deaths"))
    assert isinstance(tables, Array)
    assert tables.items == DEATH_MAPS
    again = FORMAT.with_deaths(made, deaths)
    assert again == made
    seen = FORMAT.decode(made)
    assert seen.header("dlq-queue") == "second"
    assert seen.header("x-first-death-queue") == "first"
    assert seen.header("x-death") == DEATH_TABLES
