"""Typed access to the fields of a described list of the standard. Errors name the field and the value."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import MALFORMED, PeerError
from forebay.wire.amqp10.values import (
    UBYTE,
    UINT,
    ULONG,
    USHORT,
    Array,
    Described,
    Map,
    Number,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
    type_name,
)

ABSENT: Final = -1  # value of a number field that is absent
NUMBER_NAMES: Final = {UBYTE: "ubyte", USHORT: "ushort", UINT: "uint", ULONG: "ulong"}


@final
class FieldReader:
    """The fields of one described list. Each method raises PeerError(MALFORMED) if the field has another type.

    owner         name of the described list, for errors
    index, field  in each method: position of the field in the list, and its name for errors
    """

    def __init__(self, owner: str, value: object, count_max: i64) -> None:
        if not isinstance(value, list):
            raise PeerError(MALFORMED, f"{owner}: a list is expected, not {describe(value)}")
        if len(value) > count_max:
            raise PeerError(MALFORMED, f"{owner}: {len(value)} fields, at most {count_max} are known")
        self.owner = owner
        self.values: list[object] = value

    def value(self, index: i64) -> object:
        """Return the field at `index`, or None if it is absent."""
        return self.values[index] if index < len(self.values) else None

    def wrong(self, field: str, expected: str, value: object) -> PeerError:
        """Return the PeerError for a field that is absent, or that has another type than `expected`."""
        if value is None:
            return PeerError(MALFORMED, f"{self.owner}: {field} is absent")
        return PeerError(MALFORMED, f"{self.owner}: {field} is expected to be {expected}, not {describe(value)}")

    def number(self, index: i64, field: str, code: i64, absent: i64) -> i64:
        """Return a number of the type with constructor `code`, or `absent` if absent. A ulong must fit into 63 bits."""
        value = self.value(index)
        if value is None:
            return absent
        if not isinstance(value, Number) or value.code != code or value.value >> 63:
            raise self.wrong(field, NUMBER_NAMES[int(code)], value)
        return i64(value.value)

    def uint(self, index: i64, field: str, absent: i64 = ABSENT) -> i64:
        """Return a uint field, or `absent` if it is absent."""
        return self.number(index, field, UINT, absent)

    def required_uint(self, index: i64, field: str) -> i64:
        """Return a uint field. Raises PeerError if it is absent."""
        found = self.number(index, field, UINT, ABSENT)
        if found < 0:
            raise self.wrong(field, "uint", None)
        return found

    def required_ulong(self, index: i64, field: str) -> i64:
        """Return a ulong field. Raises PeerError if it is absent."""
        found = self.number(index, field, ULONG, ABSENT)
        if found < 0:
            raise self.wrong(field, "ulong", None)
        return found

    def size(self, index: i64, field: str) -> i64:
        """Return a ulong field that is a size in octets. Returns 0 (no limit) if it is absent, or 2^62 or more."""
        value = self.value(index)
        if value is None:
            return 0
        if not isinstance(value, Ulong):
            raise self.wrong(field, "ulong", value)
        return i64(value.value) if value.value < 1 << 62 else 0

    def ushort(self, index: i64, field: str, absent: i64 = ABSENT) -> i64:
        """Return a ushort field, or `absent` if it is absent."""
        return self.number(index, field, USHORT, absent)

    def ubyte(self, index: i64, field: str, most: i64, absent: i64) -> i64:
        """Return a ubyte field, or `absent` if it is absent. Raises PeerError if it is greater than `most`."""
        found = self.number(index, field, UBYTE, absent)
        if found > most:
            raise PeerError(MALFORMED, f"{self.owner}: {field} is {found}, at most {most} is known")
        return found

    def required_ubyte(self, index: i64, field: str, most: i64) -> i64:
        """Return a ubyte field. Raises PeerError if it is absent or greater than `most`."""
        found = self.ubyte(index, field, most, ABSENT)
        if found < 0:
            raise self.wrong(field, "ubyte", None)
        return found

    def boolean(self, index: i64, field: str) -> bool:
        """Return a boolean field, or False if it is absent."""
        value = self.value(index)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.wrong(field, "boolean", value)
        return value

    def required_boolean(self, index: i64, field: str) -> bool:
        """Return a boolean field. Raises PeerError if it is absent."""
        value = self.value(index)
        if not isinstance(value, bool):
            raise self.wrong(field, "boolean", value)
        return value

    def string(self, index: i64, field: str) -> str | None:
        """Return a string field, or None if it is absent."""
        value = self.value(index)
        if value is None or isinstance(value, str):
            return value
        raise self.wrong(field, "string", value)

    def required_string(self, index: i64, field: str) -> str:
        """Return a string field. Raises PeerError if it is absent."""
        value = self.value(index)
        if not isinstance(value, str):
            raise self.wrong(field, "string", value)
        return value

    def symbol(self, index: i64, field: str) -> str | None:
        """Return the text of a symbol field, or None if it is absent."""
        value = self.value(index)
        if value is None:
            return None
        if not isinstance(value, Symbol):
            raise self.wrong(field, "symbol", value)
        return value.text

    def required_symbol(self, index: i64, field: str) -> str:
        """Return the text of a symbol field. Raises PeerError if it is absent."""
        value = self.value(index)
        if not isinstance(value, Symbol):
            raise self.wrong(field, "symbol", value)
        return value.text

    def required_binary(self, index: i64, field: str) -> bytes:
        """Return a binary field. Raises PeerError if it is absent."""
        value = self.value(index)
        if not isinstance(value, bytes):
            raise self.wrong(field, "binary", value)
        return value

    def binary(self, index: i64, field: str) -> bytes | None:
        """Return a binary field, or None if it is absent."""
        value = self.value(index)
        if value is None or isinstance(value, bytes):
            return value
        raise self.wrong(field, "binary", value)

    def symbols(self, index: i64, field: str) -> list[str]:
        """Return the texts of a field of several symbols, empty if absent. Accepts one symbol, an array, or a list."""
        value = self.value(index)
        found: list[str] = []
        if value is None:
            return found
        items: list[object] = [value]
        if isinstance(value, Array) and not value.descriptors:
            items = value.items
        elif isinstance(value, list):
            items = value
        for item in items:
            if not isinstance(item, Symbol):
                raise self.wrong(field, "symbol", item if item is not None else value)
            found.append(item.text)
        return found

    def symbol_map(self, index: i64, field: str) -> dict[str, object] | None:
        """Return a map field with symbols as keys, or None if it is absent."""
        value = self.value(index)
        if value is None:
            return None
        if not isinstance(value, Map):
            raise self.wrong(field, "map", value)
        found: dict[str, object] = {}
        for key, each in value.pairs:
            if not isinstance(key, Symbol):
                raise self.wrong(f"a key of {field}", "symbol", key)
            found[key.text] = each
        return found

    def name_map(self, index: i64, field: str) -> dict[str, object] | None:
        """Return a map with symbols or strings as keys, or None if absent. rhea writes strings in an error's info."""
        value = self.map(index, field)
        if value is None:
            return None
        found: dict[str, object] = {}
        for key, each in value.pairs:
            if not isinstance(key, (Symbol, str)):
                raise self.wrong(f"a key of {field}", "symbol", key)
            found[key if isinstance(key, str) else key.text] = each
        return found

    def map(self, index: i64, field: str) -> Map | None:
        """Return a map field, or None if it is absent."""
        value = self.value(index)
        if value is None or isinstance(value, Map):
            return value
        raise self.wrong(field, "map", value)


def describe(value: object) -> str:
    """Return the type and the value, truncated, for an error message."""
    return f"{type_name(value)} {value!r:.100}"


def code_of(value: Described, names: dict[str, int]) -> int:
    """Return the numeric descriptor of a value. Looks a symbolic descriptor up in `names`. Returns -1 if unknown."""
    descriptor = value.descriptor
    if isinstance(descriptor, Ulong):
        return descriptor.value
    if isinstance(descriptor, Symbol):
        return names.get(descriptor.text, -1)
    return -1


def uint_or_none(number: i64) -> Uint | None:
    """Return a number as a uint, or None if it is ABSENT."""
    return Uint(int(number)) if number >= 0 else None


def ushort_or_none(number: i64) -> Ushort | None:
    """Return a number as a ushort, or None if it is ABSENT."""
    return Ushort(int(number)) if number >= 0 else None


def ubyte_or_none(number: i64) -> Ubyte | None:
    """Return a number as a ubyte, or None if it is ABSENT."""
    return Ubyte(int(number)) if number >= 0 else None


def timestamp_or_none(number: int | None) -> Timestamp | None:
    """Return a time in milliseconds as a timestamp, or None for None."""
    return Timestamp(number) if number is not None else None


def symbol_or_none(text: str | None) -> Symbol | None:
    """Return a text as a symbol, or None for None."""
    return Symbol(text) if text is not None else None


def true_or_none(flag: bool) -> bool | None:
    """Return True, or None for False. For a field whose default is false."""
    return True if flag else None
