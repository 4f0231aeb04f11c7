"""Keys of bindings in paths."""

from __future__ import annotations

from urllib.parse import quote, unquote

from hypothesis import given
from hypothesis import strategies as st

from forebay.admin.rabbitmq.exchanges.binding_keys import names_key, properties_key

KEYS = st.text(max_size=30).map(lambda text: text.encode("utf-8", "replace"))
ARGUMENTS = st.dictionaries(
    st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=5), st.booleans()), max_size=3
)


@given(KEYS, ARGUMENTS)
def test_a_key_is_found_encoded_and_as_it_stands(routing_key: bytes, arguments: dict[str, object]) -> None:
    key = properties_key(routing_key, arguments)
    assert names_key(unquote(quote(key, safe="")), key)
    assert names_key(unquote(key), key)


def test_as_rabbitmq_writes_them() -> None:
    assert properties_key(b"a b/\xc3\xbc%#", {}) == "a+b%2F%C3%BC%25%23"
    assert properties_key(b"", {}) == "~"
    assert properties_key(b"a.b", {}) == "a.b"
    assert properties_key(b"~", {}) == "%7E"
    assert properties_key(b"", {"x": 1}).startswith("~")


@given(ARGUMENTS, ARGUMENTS)
def test_other_arguments_are_another_key(one: dict[str, object], other: dict[str, object]) -> None:
    alike = properties_key(b"k", one) == properties_key(b"k", other)
    same = [(key, type(value), value) for key, value in sorted(one.items())] == [
        (key, type(value), value) for key, value in sorted(other.items())
    ]
    assert alike == same
