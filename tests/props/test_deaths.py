"""`x-death` beside a list of what happened: any deaths, in any order, of any message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.message import AMQP091, Properties
from forebay.message.deaths import DEATH_HEADERS, FIRST_DEATH, LAST_DEATH, Death, deaths_of, with_deaths
from forebay.message.rendered import rendered
from forebay.wire.amqp091 import properties as amqp
from forebay.wire.amqp091.codec import TABLE_DEPTH_MAX

NAMES = st.sampled_from([b"a", b"b", b"", b"\xff\xfe", b"n" * 255])
REASONS = st.sampled_from([b"rejected", b"expired", b"maxlen", b"delivery_limit"])
OWN = {name.decode() for name in DEATH_HEADERS}
HEADER = st.text(max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(max_size=9) | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HEADER, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def messages(draw: st.DrawFn) -> Properties:
    said = Properties()
    headers = draw(st.dictionaries(HEADER | st.sampled_from(sorted(OWN)), VALUES, max_size=6))
    said.headers = list(headers.items())
    said.expiration_ms = draw(st.none() | st.integers(0, 10**12))
    said.message_id = draw(st.none() | st.text(max_size=20))
    said.content_type = draw(st.none() | st.text(max_size=20))
    said.priority = draw(st.none() | st.integers(0, 255))
    said.timestamp_s = draw(st.none() | st.integers(0, 1 << 40))
    return said


Told = tuple[int, int, bytes, list[bytes], bytes]  # count, time, exchange, keys and expiration of a death
DIED = st.lists(st.tuples(NAMES, REASONS, NAMES, st.lists(NAMES, min_size=1, max_size=3)), min_size=1, max_size=8)


@given(said=messages(), happened=DIED, sent_back=st.booleans())
def test_a_message_tells_its_deaths_and_keeps_all_else(
    said: Properties, happened: list[tuple[bytes, bytes, bytes, list[bytes]]], sent_back: bool
) -> None:
    before = amqp.encode_properties(said)
    left = before
    annotations = b""
    model: dict[tuple[bytes, bytes], Told] = {}
    for time_s, (queue, reason, exchange, keys) in enumerate(happened):
        expiration = amqp.expiration_digits(left, TABLE_DEPTH_MAX)
        left = amqp.without_expiration(left, TABLE_DEPTH_MAX)
        deaths = deaths_of(annotations)
        deaths.add(Death(queue, reason, time_s, exchange, keys, expiration))
        annotations = with_deaths(b"", deaths)
        known = model.pop((queue, reason), (0, time_s, exchange, keys, expiration))
        model = {(queue, reason): (known[0] + 1, *known[1:]), **model}
    if sent_back:
        deaths = deaths_of(annotations)
        deaths.redrive(b"dead", 9, b"x", b"k")
        annotations = with_deaths(b"", deaths)
        model = {(b"dead", b"redriven"): (1, 9, b"x", [b"k"], b""), **model}

    properties = rendered(AMQP091, left, annotations)
    amqp.check_properties(properties, TABLE_DEPTH_MAX)
    found = {
        (each.queue, each.reason): (each.count, each.time_s, each.exchange, each.keys, each.expiration)
        for each in deaths_of(annotations).deaths
    }
    assert list(found.items()) == list(model.items())
    after = amqp.decode_properties(properties, TABLE_DEPTH_MAX)
    kept = amqp.decode_properties(before, TABLE_DEPTH_MAX)
    kept.headers = [each for each in kept.headers if each[0] not in OWN]
    kept.expiration_ms = None
    headers = dict(after.headers)
    after.headers = [each for each in after.headers if each[0] not in OWN]
    assert vars_of(after) == vars_of(kept)
    for names, (queue, reason, exchange, _) in ((FIRST_DEATH, happened[0]), (LAST_DEATH, happened[-1])):
        told = [headers[name.decode()] for name in names]
        assert [each if isinstance(each, bytes) else str(each).encode() for each in told] == [exchange, queue, reason]


def vars_of(said: Properties) -> list[object]:
    names = ("durable", "priority", "expiration_ms", "message_id", "content_type", "timestamp_s", "headers")
    return [getattr(said, name) for name in names]
