"""Values that come back from msgpack, with the types that they had; anything else is our own mistake."""

from __future__ import annotations


def octets(value: object) -> bytes:
    """The value as bytes."""
    assert isinstance(value, bytes)
    return value


def whole(value: object) -> int:
    """The value as an integer."""
    assert isinstance(value, int)
    return value


def table(value: object) -> dict[str, object]:
    """The value as a table with text keys."""
    assert isinstance(value, dict)
    return value


def sequence(value: object) -> list[object]:
    """The value as a list."""
    assert isinstance(value, list)
    return value


def numbers(value: object) -> list[int]:
    """The value as a list of integers."""
    return [whole(each) for each in sequence(value)]
