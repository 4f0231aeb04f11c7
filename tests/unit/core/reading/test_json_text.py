"""The one reader of JSON: what it returns can be kept, and what cannot is named with its field."""

from __future__ import annotations

import json

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.reading.json_text import NESTING_MAX, JsonError, NotJson, check_value, read_json


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"name": "\\ud83d"}', r"body.name: '\ud83d' has half a character"),
        ('{"a": [1, {"b c": "x\\udc00y"}]}', r"body.a[1].'b c': 'x\udc00y' has half a character"),
        ('{"a": {"\\ud83d": 1}}', r"body.a: the name '\ud83d' has half a character"),
        (b'{"name": "\xed\xa0\xbd"}', r"body.name: '\ud83d' has half a character"),
        ('{"a": NaN}', "body.a: nan is not finite"),
        ("[0, -Infinity]", "body[1]: -inf is not finite"),
        ('{"a": 1e999}', "body.a: inf is not finite"),
        ('{"a": 9223372036854775808}', "body.a: 9223372036854775808 has more than 64 bits"),
        ('{"a": -9223372036854775809}', "body.a: -9223372036854775809 has more than 64 bits"),
        (f'{{"a": {"9" * 5000}}}', f"body.a: {'9' * 40} has more than 64 bits"),
        ('{"a": "' + "\\ud83d" * 500 + '"}', "body.a: '" + "\\ud83d" * 13 + "\\... has half a character"),
    ],
)
def test_a_value_that_nothing_can_keep_is_named_with_its_field(text: str | bytes, said: str) -> None:
    with pytest.raises(JsonError) as refused:
        read_json(text, "body")
    assert not isinstance(refused.value, NotJson)
    assert str(refused.value) == said


@pytest.mark.parametrize("text", ["", "{", "[1,]", "{]", b"\xff", b'"\xff"', b'{"a": "\xc3"}', "\ufeff1", "'a'", "01"])
def test_a_text_that_is_no_json_is_said_to_be_none(text: str | bytes) -> None:
    with pytest.raises(NotJson):
        read_json(text)


@pytest.mark.parametrize("depth", [NESTING_MAX + 1, 1_000, 100_000])
@pytest.mark.parametrize("ends", [("[", "]"), ('{"a":', "}")])
def test_nesting_has_an_end(depth: int, ends: tuple[str, str]) -> None:
    begin, end = ends
    with pytest.raises(JsonError, match=f"nested deeper than {NESTING_MAX}"):
        read_json(begin * depth + "1" + end * depth, "body")


def test_what_is_nested_as_deep_as_it_may_is_read_and_written() -> None:
    value = read_json("[" * NESTING_MAX + "]" * NESTING_MAX)
    assert read_json(orjson.dumps({"in": {"an": [{"answer": value}]}}["in"]["an"][0]["answer"])) == value
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(value)) == value


def test_whole_pairs_and_the_ends_of_64_bits_are_read() -> None:
    text = '{"a": "\\ud83d\\ude00é🔑", "b": [-9223372036854775808, 9223372036854775807, 1.5e308, "\\u0000"]}'
    assert read_json(text) == json.loads(text)


def test_a_value_that_is_no_text_of_json_is_checked_alike() -> None:
    check_value({"a": [1, b"\xff", None, True, 2.5]})
    with pytest.raises(JsonError, match=r"arguments\.a\[0\]: nan is not finite"):
        check_value({"a": [float("nan")]}, "arguments")


numbers = st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_whatever_can_be_kept_is_read_as_it_was_written(value: object) -> None:
    assert read_json(json.dumps(value)) == read_json(orjson.dumps(value)) == value
