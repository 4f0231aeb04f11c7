"""Trace contexts in the properties of messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.admin.telemetry.spans import Context, context_of, made_number
from forebay.core.message import AMQP091, EXPIRES, MQTT, Properties
from forebay.message.formats.table import format_of

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
FORMATS = [AMQP091, MQTT, AMQP091 | EXPIRES]


def context(format: int, headers: list[tuple[str, object]]) -> Context | None:
    properties = Properties()
    properties.headers = headers
    return context_of(format_of(format).encode(properties), format)


@pytest.mark.parametrize("format", FORMATS)
def test_a_context_is_found_among_other_headers(format: int) -> None:
    found = context(format, [("a", "b"), ("traceparent", PARENT), ("tracestate", "x=1,y=2"), ("c", "d")])
    assert found is not None
    assert (f"{found.trace:032x}", f"{found.span:016x}") == (TRACE, SPAN)
    assert found.state is not None
    assert dict(found.state) == {"x": "1", "y": "2"}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "value",
    [
        f"00-{TRACE}-{SPAN}-00",  # not sampled
        f"01-{TRACE}-{SPAN}-01",  # of a version to come
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"{PARENT}-more",
        "traceparent",
        "",
    ],
)
def test_what_is_not_sampled_or_is_none_is_not_found(format: int, value: str) -> None:
    assert context(format, [("traceparent", value)]) is None
    assert context(format, [("a", value), ("b", f"traceparent{value}")]) is None


@pytest.mark.parametrize("format", FORMATS)
@given(value=st.text(max_size=600), name=st.sampled_from(["traceparent", "xtraceparent", "traceparents"]))
def test_any_text_is_read_without_an_error(format: int, value: str, name: str) -> None:
    assert context(format, [(name, value.replace("\0", ""))]) is None


def test_a_header_that_is_no_text_is_no_context() -> None:
    assert context(AMQP091, [("traceparent", 17)]) is None
    assert context(AMQP091, [("traceparent", {"traceparent": PARENT})]) is None


def test_numbers_are_made_alike_and_are_never_zero() -> None:
    assert made_number(8, "publish", 1, 2) == made_number(8, "publish", 1, 2)
    assert made_number(8, "publish", 1, 2) != made_number(8, "queued", 1, 2)
    assert 0 < made_number(8, "x") < 1 << 64
