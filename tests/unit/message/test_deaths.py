"""The deaths of a message: the headers that RabbitMQ 4 writes, type by type, and what comes round in a circle."""

from __future__ import annotations

from forebay.core.message import AMQP091, MQTT, Properties
from forebay.message.annotations import PUBLISHER, annotation, with_annotation
from forebay.message.deaths import Death, DeathMarks, Deaths, deaths_of, with_deaths, without_deaths
from forebay.message.formats.table import format_of
from forebay.message.rendered import rendered
from forebay.wire.amqp091 import properties as amqp
from forebay.wire.amqp091.codec import TABLE_DEPTH_MAX
from forebay.wire.mqtt.properties import USER_PROPERTY, Property, decode_properties, encode_properties

TIME_S = 1_795_258_458
# The header table that RabbitMQ 4.0 gave a message published without properties to the exchange `D.in` with the key
# `a.b`, rejected from the queue `D.src`; the time apart.
RABBITMQ = (
    b"\x07x-deathA\x00\x00\x00\x72F\x00\x00\x00\x6d"
    b"\x05countl\x00\x00\x00\x00\x00\x00\x00\x01"
    b"\x06reasonS\x00\x00\x00\x08rejected"
    b"\x05queueS\x00\x00\x00\x05D.src"
    b"\x04timeT" + TIME_S.to_bytes(8, "big") + b"\x08exchangeS\x00\x00\x00\x04D.in"
    b"\x0crouting-keysA\x00\x00\x00\x08S\x00\x00\x00\x03a.b"
    b"\x16x-first-death-exchangeS\x00\x00\x00\x04D.in"
    b"\x13x-first-death-queueS\x00\x00\x00\x05D.src"
    b"\x14x-first-death-reasonS\x00\x00\x00\x08rejected"
    b"\x15x-last-death-exchangeS\x00\x00\x00\x04D.in"
    b"\x12x-last-death-queueS\x00\x00\x00\x05D.src"
    b"\x13x-last-death-reasonS\x00\x00\x00\x08rejected"
)


def encoded(*headers: tuple[str, object], expiration_ms: int | None = None) -> bytes:
    said = Properties()
    said.durable = False
    said.headers = list(headers)
    said.expiration_ms = expiration_ms
    return amqp.encode_properties(said)


def headers(properties: bytes) -> dict[str, object]:
    amqp.check_properties(properties, TABLE_DEPTH_MAX)
    return dict(amqp.headers_of(properties, TABLE_DEPTH_MAX))


def after(annotations: bytes, death: Death) -> bytes:
    """The annotations after one more death."""
    deaths = deaths_of(annotations)
    deaths.add(death)
    return with_deaths(annotations, deaths)


def marked(annotations: bytes, marks: DeathMarks) -> bytes:
    deaths = deaths_of(annotations)
    deaths.marks = marks
    return with_deaths(annotations, deaths)


def test_the_headers_are_those_of_rabbitmq_to_the_octet() -> None:
    died = after(b"", Death(b"D.src", b"rejected", TIME_S, b"D.in", [b"a.b"], b""))
    seen = rendered(AMQP091, encoded(), died)
    flags, table = seen[:2], seen[6:]
    assert flags == amqp.HEADERS.to_bytes(2, "big")
    assert table.hex(" ") == RABBITMQ.hex(" ")


def test_an_expiration_goes_and_is_told() -> None:
    before = encoded(("colour", "red"), expiration_ms=50)
    assert amqp.expiration_digits(before, TABLE_DEPTH_MAX) == b"50"
    died = after(b"", Death(b"q", b"expired", TIME_S, b"", [b"q"], b"50"))
    left = amqp.without_expiration(before, TABLE_DEPTH_MAX)
    assert amqp.expiration_digits(left, TABLE_DEPTH_MAX) == b""
    found = amqp.decode_properties(rendered(AMQP091, left, died), TABLE_DEPTH_MAX)
    assert (found.expiration_ms, found.header("colour")) == (None, "red")
    assert found.header("x-death") == [
        {
            "original-expiration": "50",
            "count": 1,
            "reason": "expired",
            "queue": "q",
            "time": TIME_S,
            "exchange": "",
            "routing-keys": ["q"],
        }
    ]


def test_a_second_death_of_one_kind_counts_and_keeps_the_time_of_the_first() -> None:
    first = Death(b"a", b"rejected", TIME_S, b"", [b"a"], b"9")
    once = after(b"", first)
    twice = after(once, Death(b"b", b"expired", TIME_S + 1, b"x", [b"k", b"l"], b""))
    thrice = after(twice, Death(b"a", b"rejected", TIME_S + 2, b"y", [b"m"], b""))
    told = deaths_of(thrice).deaths
    assert [(death.queue, death.reason, death.count, death.time_s) for death in told] == [
        (b"a", b"rejected", 2, TIME_S),
        (b"b", b"expired", 1, TIME_S + 1),
    ]
    assert [(death.exchange, death.keys, death.expiration) for death in told] == [
        (b"", [b"a"], b"9"),
        (b"x", [b"k", b"l"], b""),
    ]
    found = headers(rendered(AMQP091, encoded(), thrice))
    assert [found[f"x-first-death-{part}"] for part in ("queue", "reason", "exchange")] == ["a", "rejected", ""]
    assert [found[f"x-last-death-{part}"] for part in ("queue", "reason", "exchange")] == ["a", "rejected", "y"]


def test_what_a_client_says_of_deaths_is_overwritten() -> None:
    lies = encoded(("x-death", "mine"), ("x-first-death-queue", "lie"), ("x-last-death-reason", 5), ("other", 1))
    found = headers(rendered(AMQP091, lies, after(b"", Death(b"q", b"maxlen", TIME_S, b"", [b"q"], b""))))
    assert found["other"] == 1
    assert (found["x-first-death-queue"], found["x-last-death-reason"]) == ("q", "maxlen")
    assert isinstance(found["x-death"], list)
    assert len(found) == 8


def test_names_that_are_no_utf8_stay_what_they_are() -> None:
    death = Death(b"q\xff", b"rejected", TIME_S, b"\xfe", [b"\xfd"], b"")
    again = deaths_of(after(after(b"", death), death)).deaths
    assert [(each.queue, each.exchange, each.keys, each.count) for each in again] == [(b"q\xff", b"\xfe", [b"\xfd"], 2)]


def test_the_keys_of_cc() -> None:
    assert format_of(AMQP091).further_keys(encoded(("CC", ["one", "two"]), ("colour", "red"))) == [b"one", b"two"]
    assert format_of(AMQP091).further_keys(encoded(("CC", "no array"))) == []
    assert format_of(AMQP091).further_keys(encoded()) == []


def test_a_circle_is_one_unless_somebody_rejected_the_message_in_it() -> None:
    def deaths(*pairs: tuple[bytes, bytes]) -> Deaths:
        said = Deaths()
        for queue, reason in reversed(pairs):
            said.add(Death(queue, reason, TIME_S, b"", [b"k"], b""))
        return said

    assert deaths((b"b", b"expired"), (b"a", b"maxlen")).is_cycle(b"a")
    assert deaths((b"a", b"expired")).is_cycle(b"a")
    assert not deaths((b"b", b"expired"), (b"a", b"maxlen")).is_cycle(b"c")
    assert not deaths((b"b", b"rejected"), (b"a", b"expired")).is_cycle(b"a")
    assert not deaths((b"b", b"expired"), (b"a", b"rejected")).is_cycle(b"a")
    assert deaths((b"b", b"expired"), (b"a", b"maxlen"), (b"c", b"rejected")).is_cycle(b"a")


MARKS = DeathMarks(b"1-1-5", b"q", 5, b"g", b"rejected", 1, TIME_S * 1000)
MARKED = {
    "dlq-id": "1-1-5",
    "dlq-queue": "q",
    "dlq-offset": 5,
    "dlq-reason": "rejected",
    "dlq-deliveries": 1,
    "dlq-time-ms": TIME_S * 1000,
    "dlq-group": "g",
}
REFUSED = DeathMarks(b"", b"full", -1, b"", b"maxlen", 0, TIME_S * 1000)  # which no queue ever had


def test_marks_replace_those_of_their_name_only() -> None:
    """A short number is no long one to every client: what is not replaced stays to the octet."""
    tail = b"\x02"  # delivery mode
    table = b"\x01as\x00\x07" + b"\x03arrA\x00\x00\x00\x02b\x01" + b"\x0adlq-offsetb\x09"
    flags = amqp.HEADERS | amqp.DELIVERY_MODE
    before = flags.to_bytes(2, "big") + len(table).to_bytes(4, "big") + table + tail
    seen = rendered(AMQP091, before, marked(b"", MARKS))
    assert amqp.check_properties(seen, TABLE_DEPTH_MAX) == flags
    assert seen[6:].startswith(table[:-13])
    assert seen.endswith(tail)
    assert [each for each in amqp.headers_of(seen, TABLE_DEPTH_MAX) if each[0] in MARKED] == list(MARKED.items())


def test_marks_of_an_earlier_death_are_replaced() -> None:
    twice = marked(marked(b"", MARKS), REFUSED)
    seen = headers(rendered(AMQP091, encoded(("colour", "red")), twice))
    assert seen == {"colour": "red", "dlq-queue": "full", "dlq-reason": "maxlen", "dlq-time-ms": TIME_S * 1000}


def user_properties(block: bytes) -> dict[str, str]:
    return {each.text.decode(): each.value.decode() for each in decode_properties(block) if each.id == USER_PROPERTY}


def test_mqtt_gets_them_as_user_properties() -> None:
    before = encode_properties(
        [Property(USER_PROPERTY, 0, b"colour", b"red"), Property(USER_PROPERTY, 0, b"dlq-id", b"lie")]
    )
    annotations = marked(b"", MARKS)
    seen = user_properties(rendered(MQTT | 16, before, annotations))
    assert seen == {"colour": "red"} | {name: str(value) for name, value in MARKED.items()}
    annotations = after(annotations, Death(b"q", b"expired", TIME_S, b"x", [b"k"], b"50"))
    seen = user_properties(rendered(MQTT, before, annotations))
    assert seen["x-death"] == (
        f'[{{"original-expiration": "50", "count": 1, "reason": "expired", "queue": "q", "time": {TIME_S}, '
        '"exchange": "x", "routing-keys": ["k"]}]'
    )
    names = ("x-first-death-exchange", "x-first-death-queue", "x-last-death-reason", "dlq-id")
    assert [seen[name] for name in names] == ["x", "q", "expired", "1-1-5"]


def test_other_annotations_stay_and_stand_for_no_header() -> None:
    other = with_annotation(b"", PUBLISHER, b"me")
    both = marked(other, MARKS)
    assert annotation(both, PUBLISHER) == b"me"
    assert without_deaths(both) == other
    before = encoded(("colour", "red"))
    assert rendered(AMQP091, before, other) is before
    assert deaths_of(other).deaths == [] and deaths_of(other).marks is None


def test_a_redrive_stands_in_front_and_is_no_death() -> None:
    deaths = deaths_of(after(b"", Death(b"q", b"expired", TIME_S, b"x", [b"k"], b"")))
    deaths.redrive(b"dead", TIME_S + 1, b"dlx", b"d")
    told = deaths_of(with_deaths(b"", deaths))
    assert [(each.queue, each.reason) for each in told.deaths] == [(b"dead", b"redriven"), (b"q", b"expired")]
    assert told.first is told.last is told.deaths[1]
    assert not told.is_cycle(b"q")
    seen = headers(rendered(AMQP091, encoded(), with_deaths(b"", deaths)))
    assert (seen["x-last-death-reason"], seen["x-first-death-queue"]) == ("expired", "q")
