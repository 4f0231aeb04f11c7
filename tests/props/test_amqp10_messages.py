"""Stored messages of AMQP 1.0: whatever the broker does to one, the bare message stays; conversions always succeed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.message import AMQP091, AMQP10, AMQP_SECTIONS, MQTT, PLAIN_BODY, Properties
from forebay.message.deaths import Death, DeathMarks, Deaths
from forebay.message.formats.conversion import convert_content
from forebay.message.formats.table import format_of
from forebay.wire.amqp10.sections import check_sections, split_sections
from tests.props.test_amqp091_codec import fields_of, properties
from tests.props.test_amqp10_codec import DEPTH, encoded, messages

FORMAT = format_of(AMQP10)


def columns(sections: list[tuple[int, object]]) -> tuple[bytes, bytes]:
    """The columns of a stored message: the sections before the body, and those from it on."""
    octets = encoded(sections)
    found = split_sections(octets, 0, len(octets))
    return octets[: found.body_at], octets[found.body_at :]


def bare(octets: bytes) -> bytes:
    return octets[split_sections(octets, 0, len(octets)).bare_at :]


def deaths() -> Deaths:
    made = Deaths()
    made.add(Death(b"q", b"expired", 1_700_000_000, b"x", [b"k"], b"5"))
    made.marks = DeathMarks(b"1-2-3", b"q", 3, b"", b"expired", 1, 1_700_000_000_500)
    return made


@given(messages())
def test_the_bare_message_stays_octet_for_octet(sections: list[tuple[int, object]]) -> None:
    head, body = columns(sections)
    kept = bare(head)
    edits = [
        FORMAT.with_deaths(head, deaths()),
        FORMAT.without_expiration(head),
        FORMAT.without_further_keys(head),
        FORMAT.aged(head, 1_000_000),
        FORMAT.edit(head, [b"x-b"], [("x-c", 1), ("dlq-id", "1")]),
    ]
    for made in edits:
        assert bare(made) == kept
        check_sections(made + body, 0, len(made + body), DEPTH)
    assert FORMAT.expiration_us(FORMAT.without_expiration(head)) == -1
    again = FORMAT.with_deaths(edits[0], deaths())
    assert again == edits[0]


@given(messages())
def test_any_message_is_read_and_converted(sections: list[tuple[int, object]]) -> None:
    head, body = columns(sections)
    FORMAT.priority(head)
    FORMAT.marks(head)
    FORMAT.requests(head)
    headers = FORMAT.headers(head)
    neutral = FORMAT.decode(head)
    for name, value in neutral.headers:
        assert neutral.header(name) == headers[name] or value != value  # noqa: PLR0124
    for target in (AMQP091, MQTT):
        there = convert_content(AMQP10, head, body, target)
        format_of(target).check(there.properties, user_of(neutral, target), 128)
        back = convert_content(target, there.properties, there.body, AMQP10)
        octets = back.properties + back.body
        check_sections(octets, 0, len(octets), 128)
        assert FORMAT.payload(back.body) == there.body
        assert FORMAT.body_kind(b"", back.body) in (PLAIN_BODY, AMQP_SECTIONS)


def user_of(neutral: Properties, target: int) -> bytes:
    """The user that a message names in AMQP 0.9.1: none if the name is too long for one."""
    if neutral.user_id is None:
        return b""
    return neutral.user_id.encode() if target == AMQP091 else b""


@given(properties(), st.binary(max_size=30))
def test_a_message_of_amqp091_comes_back(made: Properties, body: bytes) -> None:
    made.headers = [(name, value) for name, value in made.headers if not isinstance(value, list | dict)]
    for absent in ("cluster_id", "app_id", "user_id"):
        setattr(made, absent, None)
    stored = format_of(AMQP091).encode(made)
    there = convert_content(AMQP091, stored, body, AMQP10)
    octets = there.properties + there.body
    check_sections(octets, 0, len(octets), 128)
    back = format_of(AMQP091).decode(convert_content(AMQP10, there.properties, there.body, AMQP091).properties)
    kept = fields_of(back)
    for name, value in fields_of(format_of(AMQP091).decode(stored)).items():
        if name in ("durable", "priority", "type", "body_is_text"):
            assert kept[name] == value, name
    if made.correlation_id is None or made.correlation_id.decode("utf-8", "replace").encode() == made.correlation_id:
        assert back.correlation_id == made.correlation_id
    else:
        assert back.header("x-correlation-id") == made.correlation_id
    headers = dict(back.headers)
    for name, value in made.headers:
        assert headers[name] == value or name in ("x-message-id", "x-correlation-id", "CC", "BCC")
