"""The headers of a message that died: what RabbitMQ 4 writes, type by type, and what comes round in a circle."""

from __future__ import annotations

from forebay.core.message import Properties
from forebay.wire.amqp091 import properties as amqp
from forebay.wire.amqp091.codec import TABLE_DEPTH_MAX
from forebay.wire.amqp091.deaths import Death, deaths_of, died, is_cycle, keys_in_cc, marked, with_newest

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


def dead(properties: bytes, death: Death, again: bool = False, keep_cc: bool = True) -> bytes:
    deaths = with_newest(deaths_of(properties) if again else [], death)
    return died(properties, again, deaths, death, [], keep_cc)


def test_the_headers_are_those_of_rabbitmq_to_the_octet() -> None:
    after = dead(encoded(), Death(b"D.src", b"rejected", TIME_S, b"D.in", [b"a.b"], b""))
    flags, table = after[:2], after[6:]
    assert flags == amqp.HEADERS.to_bytes(2, "big")
    assert table.hex(" ") == RABBITMQ.hex(" ")


def test_an_expiration_goes_and_is_told() -> None:
    before = encoded(("colour", "red"), expiration_ms=50)
    after = dead(before, Death(b"q", b"expired", TIME_S, b"", [b"q"], b"50"))
    found = amqp.decode_properties(after, TABLE_DEPTH_MAX)
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
    once = dead(encoded(), first)
    twice = dead(once, Death(b"b", b"expired", TIME_S + 1, b"x", [b"k", b"l"], b""), again=True)
    thrice = dead(twice, Death(b"a", b"rejected", TIME_S + 2, b"y", [b"m"], b""), again=True)
    assert [(death.queue, death.reason, death.count, death.time_s) for death in deaths_of(thrice)] == [
        (b"a", b"rejected", 2, TIME_S),
        (b"b", b"expired", 1, TIME_S + 1),
    ]
    assert [(death.exchange, death.keys, death.expiration) for death in deaths_of(thrice)] == [
        (b"", [b"a"], b"9"),
        (b"x", [b"k", b"l"], b""),
    ]
    found = headers(thrice)
    assert [found[f"x-first-death-{part}"] for part in ("queue", "reason", "exchange")] == ["a", "rejected", ""]
    assert [found[f"x-last-death-{part}"] for part in ("queue", "reason", "exchange")] == ["a", "rejected", "y"]


def test_what_a_client_says_of_deaths_is_overwritten() -> None:
    lies = encoded(("x-death", "mine"), ("x-first-death-queue", "lie"), ("x-last-death-reason", 5), ("other", 1))
    found = headers(dead(lies, Death(b"q", b"maxlen", TIME_S, b"", [b"q"], b"")))
    assert found["other"] == 1
    assert (found["x-first-death-queue"], found["x-last-death-reason"]) == ("q", "maxlen")
    assert isinstance(found["x-death"], list)
    assert len(found) == 8


def test_names_that_are_no_utf8_stay_what_they_are() -> None:
    death = Death(b"q\xff", b"rejected", TIME_S, b"\xfe", [b"\xfd"], b"")
    again = deaths_of(dead(dead(encoded(), death), death, again=True))
    assert [(each.queue, each.exchange, each.keys, each.count) for each in again] == [(b"q\xff", b"\xfe", [b"\xfd"], 2)]


def test_the_keys_of_cc_go_where_asked() -> None:
    before = encoded(("CC", ["one", "two"]), ("colour", "red"))
    assert keys_in_cc(before) == [b"one", b"two"]
    death = Death(b"q", b"rejected", TIME_S, b"", [b"q", b"one", b"two"], b"")
    assert headers(dead(before, death))["CC"] == ["one", "two"]
    assert "CC" not in headers(dead(before, death, keep_cc=False))
    assert keys_in_cc(encoded(("CC", "no array"))) == []
    assert keys_in_cc(encoded()) == []


def test_a_circle_is_one_unless_somebody_rejected_the_message_in_it() -> None:
    def deaths(*pairs: tuple[bytes, bytes]) -> list[Death]:
        return [Death(queue, reason, TIME_S, b"", [b"k"], b"") for queue, reason in pairs]

    assert is_cycle(deaths((b"b", b"expired"), (b"a", b"maxlen")), b"a")
    assert is_cycle(deaths((b"a", b"expired")), b"a")
    assert not is_cycle(deaths((b"b", b"expired"), (b"a", b"maxlen")), b"c")
    assert not is_cycle(deaths((b"b", b"rejected"), (b"a", b"expired")), b"a")
    assert not is_cycle(deaths((b"b", b"expired"), (b"a", b"rejected")), b"a")
    assert is_cycle(deaths((b"b", b"expired"), (b"a", b"maxlen"), (b"c", b"rejected")), b"a")


def test_marks_replace_those_of_their_name_only() -> None:
    """A short number is no long one to every client: what is not replaced stays to the octet."""
    tail = b"\x02"  # delivery mode
    table = b"\x01as\x00\x07" + b"\x03arrA\x00\x00\x00\x02b\x01" + b"\x0adlq-offsetb\x09"
    flags = amqp.HEADERS | amqp.DELIVERY_MODE
    before = flags.to_bytes(2, "big") + len(table).to_bytes(4, "big") + table + tail
    after = marked(before, [("dlq-offset", 5), ("dlq-queue", "q")])
    assert amqp.check_properties(after, TABLE_DEPTH_MAX) == flags
    assert after[6:].startswith(table[:-13])
    assert after.endswith(tail)
    assert [value for name, value in amqp.headers_of(after, TABLE_DEPTH_MAX) if name == "dlq-offset"] == [5]
    assert marked(after, [("dlq-offset", 5), ("dlq-queue", "q")]) == after
