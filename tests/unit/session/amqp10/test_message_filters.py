"""Filters of a source that look at messages: how they are known, combined and refused."""

from __future__ import annotations

from typing import Any

import pytest

from forebay.core.errors import INVALID, RequestError
from forebay.filter.parser import parse
from forebay.session.amqp10.outgoing.consumer_arguments import arguments_in, filters_in_force
from forebay.wire.amqp10.values import Described, Map, Symbol, Timestamp, Ulong, Uuid


def named(descriptor: str | int, value: Any) -> Described:
    return Described(Symbol(descriptor) if isinstance(descriptor, str) else Ulong(descriptor), value)


def translated(value: object, key: str = "any") -> object:
    return arguments_in(None, {key: value}).get("x-filter")


@pytest.mark.parametrize(
    ("descriptor", "value", "written"),
    [
        ("apache.org:selector-filter:string", "x = 1", "header.x = 1"),
        (0x468C00000004, "x = 1", "header.x = 1"),
        ("amqp:sql-filter", "h.priority > 4", "COALESCE(priority, 4) > 4"),
        (0x120, "p.user_id = 'u'", "user_id = 'u'"),
        ("amqp:properties-filter", Map([(Symbol("message-id"), "m")]), "message_id = 'm'"),
        (
            0x173,
            Map([(Symbol("user-id"), b"u"), (Symbol("content-type"), Symbol("t"))]),
            "user_id = 'u' AND content_type = 't'",
        ),
        (
            0x173,
            Map([(Symbol("message-id"), Uuid(bytes(16)))]),
            "message_id = 'urn:uuid:00000000-0000-0000-0000-000000000000'",
        ),
        (0x173, Map([(Symbol("creation-time"), Timestamp(5000))]), "timestamp * 1000 = 5000"),
        ("amqp:application-properties-filter", Map([("x", 1)]), "header.x = 1"),
        (
            0x174,
            Map([("x", "&p:a"), ("y", "&s:b"), ("z", "&&c")]),
            "header.x BEGINS WITH 'a' AND header.y ENDS WITH 'b' AND header.z = '&c'",
        ),
        (
            0x174,
            Map([("x", True), ("y", -1.5), ("z", Ulong(7))]),
            "header.x = TRUE AND header.y = -1.5 AND header.z = 7",
        ),
        ("forebay:filter", "/qty>5 and USER() = 'u'", "/qty>5 and USER() = 'u'"),
        (0x174, Map([("x", None)]), None),
        (0x174, Map([]), None),
    ],
)
def test_a_filter_becomes_one_of_the_broker(descriptor: str | int, value: Any, written: str | None) -> None:
    filter = named(descriptor, value)
    assert translated(filter) == written
    assert filters_in_force({"any": filter, "other": named("unknown", 1)}) == {"any": filter}
    if written is not None:
        parse(written)


def test_sql_is_known_by_its_key_and_others_by_descriptor() -> None:
    assert translated("x = 1", "sql-filter") == "header.x = 1"
    assert translated("x = 1", "jms-selector") is None
    assert translated(named("other", "x = 1"), "selector") is None
    assert filters_in_force({"jms-selector": "x = 1"}) is None


def test_filters_hold_together() -> None:
    both: dict[str, object] = {"a": named(0x174, Map([("x", 1)])), "b": named(0x120, "y = 2 OR z = 3")}
    assert arguments_in(None, both) == {"x-filter": "(header.x = 1) AND (header.y = 2 OR header.z = 3)"}
    with_own = arguments_in({"x-filter": "/n = 1"}, both)["x-filter"]
    assert with_own == "(/n = 1) AND (header.x = 1) AND (header.y = 2 OR header.z = 3)"
    with pytest.raises(RequestError, match=r"^filter, position 7"):
        arguments_in({"x-filter": "/n = 1) OR (/n = 2"}, both)


@pytest.mark.parametrize(
    ("descriptor", "value", "message"),
    [
        (0x120, 5, "must be a string"),
        (0x468C00000004, "x = ", "'any': selector, position 5, the end"),
        (0x173, "x", "must be a map"),
        (0x174, Map([(str(each), 1) for each in range(17)]), "17 entries: at most 16"),
        (0x174, Map([(1, 1)]), "entry 1: 1 is no name"),
        (0x174, Map([("x", 1), ("y", "&x:a")]), "entry 2, 'y': .*behind '&'"),
        (0x174, Map([("x", "&")]), "behind '&'"),
        (0x174, Map([("x", "&p:")]), "empty text"),
        (0x174, Map([("x", "")]), "empty text"),
        (0x174, Map([("x", float("nan"))]), "cannot be compared"),
        (0x174, Map([("x", b"\xff")]), "no UTF-8"),
        (0x174, Map([("x", [1])]), "cannot be compared"),
        (0x173, Map([(Symbol("subject"), "x")]), "'subject': .*cannot ask"),
        (0x173, Map([(Symbol("creation-time"), Timestamp(5001))]), "whole seconds"),
    ],
)
def test_an_invalid_filter_is_refused(descriptor: str | int, value: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        translated(named(descriptor, value))
    assert caught.value.reason == INVALID


def test_the_own_language_needs_no_descriptor() -> None:
    assert translated("/qty > 5", "forebay:filter") == "/qty > 5"
    assert filters_in_force({"forebay:filter": "/qty > 5"}) == {"forebay:filter": "/qty > 5"}
    both = {"forebay:filter": "/a = 1 OR /b = 2", "sql-filter": "h.priority > 4"}
    assert arguments_in(None, dict(both))["x-filter"] == "(/a = 1 OR /b = 2) AND (COALESCE(priority, 4) > 4)"


@pytest.mark.parametrize(
    ("value", "text"), [("/qty >", "filter, position 7"), (5, "5 must be a string"), ("priority", "a condition is due")]
)
def test_an_invalid_filter_of_the_own_language_is_refused(value: object, text: str) -> None:
    with pytest.raises(RequestError, match=text) as refused:
        translated(value, "forebay:filter")
    assert refused.value.reason == INVALID
    assert refused.value.text.startswith("attach: source: filter 'forebay:filter': ")
