"""The fields of a described list of the standard, each read with its type: errors name the field and the value."""

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

ABSENT: Final = -1  # a number that the peer did not give
NUMBER_NAMES: Final = {UBYTE: "ubyte", USHORT: "ushort", UINT: "uint", ULONG: "ulong"}


@final
class FieldReader:
    """The fields of one described list. Each method raises PeerError(MALFORMED) for a value of another type.

    owner  name of the described list, for errors
    """

    def __init__(self, owner: str, value: object, count_max: i64) -> None:
        if not isinstance(value, list):
            raise PeerError(MALFORMED, f"{owner}: a list is expected, not {describe(value)}")
        if len(value) > count_max:
            raise PeerError(MALFORMED, f"{owner}: {len(value)} fields, at most {count_max} are known")
        self.owner = owner
        self.values: list[object] = value

    def value(self, index: i64) -> object:
        """Return a field, None if it is absent."""
        return self.values[index] if index < len(self.values) else None

    def wrong(self, field: str, expected: str, value: object) -> PeerError:
        """Return the error of a field whose value is of another type."""
        if value is None:
            return PeerError(MALFORMED, f"{self.owner}: {field} is absent")
        return PeerError(MALFORMED, f"{self.owner}: {field} is expected to be {expected}, not {describe(value)}")

    def number(self, index: i64, field: str, code: i64, absent: i64) -> i64:
        """Return a number of the type with this constructor, `absent` if there is none. A ulong has to fit 63 bits."""
        value = self.value(index)
        if value is None:
            return absent
        if not isinstance(value, Number) or value.code != code or value.value >> 63:
            raise self.wrong(field, NUMBER_NAMES[int(code)], value)
        return i64(value.value)

    def uint(self, index: i64, field: str, absent: i64 = ABSENT) -> i64:
        """Return a uint, `absent` if there is none."""
        return self.number(index, field, UINT, absent)

    def required_uint(self, index: i64, field: str) -> i64:
        """Return a uint that has to be there."""
        found = self.number(index, field, UINT, ABSENT)
        if found < 0:
            raise self.wrong(field, "uint", None)
        return found

    def required_ulong(self, index: i64, field: str) -> i64:
        """Return a ulong that has to be there."""
        found = self.number(index, field, ULONG, ABSENT)
        if found < 0:
            raise self.wrong(field, "ulong", None)
        return found

    def size(self, index: i64, field: str) -> i64:
        """Return a ulong that is a number of octets, 0 if there is none, or if it is beyond every size."""
        value = self.value(index)
        if value is None:
            return 0
        if not isinstance(value, Ulong):
            raise self.wrong(field, "ulong", value)
        return i64(value.value) if value.value < 1 << 62 else 0

    def ushort(self, index: i64, field: str, absent: i64 = ABSENT) -> i64:
        """Return a ushort, `absent` if there is none."""
        return self.number(index, field, USHORT, absent)

    def ubyte(self, index: i64, field: str, most: i64, absent: i64) -> i64:
        """Return a ubyte that is at most `most`, `absent` if there is none."""
        found = self.number(index, field, UBYTE, absent)
        if found > most:
            raise PeerError(MALFORMED, f"{self.owner}: {field} is {found}, at most {most} is known")
        return found

    def required_ubyte(self, index: i64, field: str, most: i64) -> i64:
        """Return a ubyte that has to be there, and that is at most `most`."""
        found = self.ubyte(index, field, most, ABSENT)
        if found < 0:
            raise self.wrong(field, "ubyte", None)
        return found

    def boolean(self, index: i64, field: str) -> bool:
        """Return a boolean, False if there is none."""
        value = self.value(index)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.wrong(field, "boolean", value)
        return value

    def required_boolean(self, index: i64, field: str) -> bool:
        """Return a boolean that has to be there."""
        value = self.value(index)
        if not isinstance(value, bool):
            raise self.wrong(field, "boolean", value)
        return value

    def string(self, index: i64, field: str) -> str | None:
        """Return a string, None if there is none."""
        value = self.value(index)
        if value is None or isinstance(value, str):
            return value
        raise self.wrong(field, "string", value)

    def required_string(self, index: i64, field: str) -> str:
        """Return a string that has to be there."""
        value = self.value(index)
        if not isinstance(value, str):
            raise self.wrong(field, "string", value)
        return value

    def symbol(self, index: i64, field: str) -> str | None:
        """Return the text of a symbol, None if there is none."""
        value = self.value(index)
        if value is None:
            return None
        if not isinstance(value, Symbol):
            raise self.wrong(field, "symbol", value)
        return value.text

    def required_symbol(self, index: i64, field: str) -> str:
        """Return the text of a symbol that has to be there."""
        value = self.value(index)
        if not isinstance(value, Symbol):
            raise self.wrong(field, "symbol", value)
        return value.text

    def required_binary(self, index: i64, field: str) -> bytes:
        """Return a binary that has to be there."""
        value = self.value(index)
        if not isinstance(value, bytes):
            raise self.wrong(field, "binary", value)
        return value

    def binary(self, index: i64, field: str) -> bytes | None:
        """Return a binary, None if there is none."""
        value = self.value(index)
        if value is None or isinstance(value, bytes):
            return value
        raise self.wrong(field, "binary", value)

    def symbols(self, index: i64, field: str) -> list[str]:
        """Return the texts of a field with several symbols. Clients send one symbol, an array, or a list."""
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
        """Return a map whose keys are symbols, None if there is none."""
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
        """Return a map whose keys are symbols, or strings as rhea writes those of an error's info; None for none."""
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
        """Return a map, None if there is none."""
        value = self.value(index)
        if value is None or isinstance(value, Map):
            return value
        raise self.wrong(field, "map", value)


def describe(value: object) -> str:
    """Return type and value as an error names them."""
    return f"{type_name(value)} {value!r:.100}"


def code_of(value: Described, names: dict[str, int]) -> int:
    """Return the numeric descriptor of a described value, -1 if neither number nor name is of the standard."""
    descriptor = value.descriptor
    if isinstance(descriptor, Ulong):
        return descriptor.value
    if isinstance(descriptor, Symbol):
        return names.get(descriptor.text, -1)
    return -1


def uint_or_none(number: i64) -> Uint | None:
    """Return a number as a uint, None if it is ABSENT."""
    return Uint(int(number)) if number >= 0 else None


def ushort_or_none(number: i64) -> Ushort | None:
    """Return a number as a ushort, None if it is ABSENT."""
    return Ushort(int(number)) if number >= 0 else None


def ubyte_or_none(number: i64) -> Ubyte | None:
    """Return a number as a ubyte, None if it is ABSENT."""
    return Ubyte(int(number)) if number >= 0 else None


def timestamp_or_none(number: int | None) -> Timestamp | None:
    """Return a time in milliseconds as a timestamp."""
    return Timestamp(number) if number is not None else None


def symbol_or_none(text: str | None) -> Symbol | None:
    """Return a text as a symbol."""
    return Symbol(text) if text is not None else None


def true_or_none(flag: bool) -> bool | None:
    """Return a flag as a field whose default is false."""
    return True if flag else None
