"""The values of AMQP 1.0 as Python objects (part 1 of the standard).

The types that Python distinguishes are Python's own: None, bool, str (string), bytes (binary), int (long), float
(double) and list. Every other type has a class here, so that a value is encoded with the type it was decoded from.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_f32_be, write_f32_be
from mypy_extensions import i64

# Constructors (section 1.2): the class is in the upper four bits.
DESCRIBED: Final = 0x00
NULL: Final = 0x40
TRUE: Final = 0x41
FALSE: Final = 0x42
UINT_0: Final = 0x43
ULONG_0: Final = 0x44
LIST_0: Final = 0x45
UBYTE: Final = 0x50
BYTE: Final = 0x51
UINT_SMALL: Final = 0x52
ULONG_SMALL: Final = 0x53
INT_SMALL: Final = 0x54
LONG_SMALL: Final = 0x55
BOOLEAN: Final = 0x56
USHORT: Final = 0x60
SHORT: Final = 0x61
UINT: Final = 0x70
INT: Final = 0x71
FLOAT: Final = 0x72
CHAR: Final = 0x73
DECIMAL32: Final = 0x74
ULONG: Final = 0x80
LONG: Final = 0x81
DOUBLE: Final = 0x82
TIMESTAMP: Final = 0x83
DECIMAL64: Final = 0x84
DECIMAL128: Final = 0x94
UUID: Final = 0x98
BINARY_8: Final = 0xA0
STRING_8: Final = 0xA1
SYMBOL_8: Final = 0xA3
BINARY_32: Final = 0xB0
STRING_32: Final = 0xB1
SYMBOL_32: Final = 0xB3
LIST_8: Final = 0xC0
MAP_8: Final = 0xC1
LIST_32: Final = 0xD0
MAP_32: Final = 0xD1
ARRAY_8: Final = 0xE0
ARRAY_32: Final = 0xF0

CHAR_MAX: Final = 0x10FFFF
SURROGATES: Final = 0xD800, 0xDFFF
DECIMAL_WIDTHS: Final = (4, 8, 16)
UUID_OCTETS: Final = 16


class Number:
    """An integer of one AMQP type.

    Not an abstract class: a compiled instance of one could have further attributes, and weak references to it would be
    unsafe.

    code       constructor of the type's widest encoding
    type_name  name of the type in the standard
    value      the number, within the range of the type
    """

    def __init__(self, code: i64, type_name: str, value: int, least: int, most: int) -> None:
        if not least <= value <= most:
            raise ValueError(f"{type_name}: {value} is not between {least} and {most}")
        self.code: i64 = code
        self.type_name = type_name
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and self.code == other.code and self.value == other.value

    def __hash__(self) -> int:
        return hash((int(self.code), self.value))

    def __repr__(self) -> str:
        return f"{self.type_name}({self.value})"


@final
class Ubyte(Number):
    """An unsigned 8-bit number."""

    def __init__(self, value: int) -> None:
        super().__init__(UBYTE, "ubyte", value, 0, 0xFF)


@final
class Ushort(Number):
    """An unsigned 16-bit number."""

    def __init__(self, value: int) -> None:
        super().__init__(USHORT, "ushort", value, 0, 0xFFFF)


@final
class Uint(Number):
    """An unsigned 32-bit number."""

    def __init__(self, value: int) -> None:
        super().__init__(UINT, "uint", value, 0, 0xFFFFFFFF)


@final
class Ulong(Number):
    """An unsigned 64-bit number."""

    def __init__(self, value: int) -> None:
        super().__init__(ULONG, "ulong", value, 0, (1 << 64) - 1)


@final
class Byte(Number):
    """A signed 8-bit number."""

    def __init__(self, value: int) -> None:
        super().__init__(BYTE, "byte", value, -(1 << 7), (1 << 7) - 1)


@final
class Short(Number):
    """A signed 16-bit number."""

    def __init__(self, value: int) -> None:
        super().__init__(SHORT, "short", value, -(1 << 15), (1 << 15) - 1)


@final
class Int(Number):
    """A signed 32-bit number."""

    def __init__(self, value: int) -> None:
        super().__init__(INT, "int", value, -(1 << 31), (1 << 31) - 1)


@final
class Char(Number):
    """A character, as its Unicode code point."""

    def __init__(self, value: int) -> None:
        super().__init__(CHAR, "char", value, 0, CHAR_MAX)
        if SURROGATES[0] <= value <= SURROGATES[1]:
            raise ValueError(f"char: {value} is half of a surrogate pair")


@final
class Timestamp(Number):
    """A time in milliseconds since 1970. It may lie outside the years that Python's datetime supports."""

    def __init__(self, value: int) -> None:
        super().__init__(TIMESTAMP, "timestamp", value, -(1 << 63), (1 << 63) - 1)


class FixedOctets:
    """A value of fixed width that is kept as its encoded octets, without the constructor."""

    def __init__(self, code: i64, type_name: str, octets: bytes) -> None:
        self.code: i64 = code
        self.type_name = type_name
        self.octets = octets

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FixedOctets) and self.code == other.code and self.octets == other.octets

    def __hash__(self) -> int:
        return hash((int(self.code), self.octets))

    def __repr__(self) -> str:
        return f"{self.type_name}({self.octets.hex()})"


@final
class Float(FixedOctets):
    """A 32-bit floating point number. Kept as octets, so that different NaNs stay different."""

    def __init__(self, octets: bytes) -> None:
        if len(octets) != 4:
            raise ValueError(f"float: {len(octets)} octets, not 4")
        super().__init__(FLOAT, "float", octets)

    def number(self) -> float:
        """Return the number as a Python float."""
        return read_f32_be(self.octets, 0)


@final
class Decimal(FixedOctets):
    """A decimal number of 32, 64 or 128 bits (IEEE 754-2008). It is passed on, and never calculated with."""

    def __init__(self, octets: bytes) -> None:
        if len(octets) not in DECIMAL_WIDTHS:
            raise ValueError(f"decimal: {len(octets)} octets, not 4, 8 or 16")
        code: i64 = DECIMAL32
        if len(octets) == 8:
            code = DECIMAL64
        elif len(octets) == 16:
            code = DECIMAL128
        super().__init__(code, f"decimal{8 * len(octets)}", octets)


@final
class Uuid(FixedOctets):
    """A universally unique identifier, its octets in network order."""

    def __init__(self, octets: bytes) -> None:
        if len(octets) != UUID_OCTETS:
            raise ValueError(f"uuid: {len(octets)} octets, not 16")
        super().__init__(UUID, "uuid", octets)

    def text(self) -> str:
        """Return the identifier in its usual text form of 36 characters."""
        digits = self.octets.hex()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


@final
class Symbol:
    """A name in ASCII. A symbol is never equal to a string."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Symbol) and self.text == other.text

    def __hash__(self) -> int:
        return hash((SYMBOL_8, self.text))

    def __repr__(self) -> str:
        return f"symbol({self.text!r})"


@final
class Map:
    """Pairs of key and value. Their order is significant."""

    def __init__(self, pairs: list[tuple[object, object]]) -> None:
        self.pairs = pairs

    def get(self, key: object) -> object:
        """Return the value of a key, None if the map has no such key."""
        for each, value in self.pairs:
            if type(each) is type(key) and each == key:
                return value
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Map) and self.pairs == other.pairs

    def __hash__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        return f"map({self.pairs!r})"


@final
class Described:
    """A value with a descriptor, which tells the meaning of the value."""

    def __init__(self, descriptor: object, value: object) -> None:
        self.descriptor = descriptor
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Described) and self.descriptor == other.descriptor and self.value == other.value

    def __hash__(self) -> int:
        return hash(type(self.value))

    def __repr__(self) -> str:
        return f"described({self.descriptor!r}, {self.value!r})"


@final
class Array:
    """Values of one type.

    code         constructor of all items
    items        values without their descriptors
    descriptors  descriptors that apply to each item, outermost first
    """

    def __init__(self, code: i64, items: list[object], descriptors: list[object] | None = None) -> None:
        self.code: i64 = code
        self.items = items
        self.descriptors: list[object] = descriptors if descriptors is not None else []

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Array)
            and self.code == other.code
            and self.descriptors == other.descriptors
            and self.items == other.items
        )

    def __hash__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"array(0x{int(self.code):02x}, {self.items!r}, {self.descriptors!r})"


class Composite:
    """A described list whose descriptor and fields the standard defines. Each subclass defines its own `fields`.

    code  the descriptor
    """

    def __init__(self, code: i64) -> None:
        self.code: i64 = code

    def fields(self) -> list[object]:
        """Return the fields in the order of the standard, with None for a field that is absent or has its default."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Composite) and self.code == other.code and trim(self.fields()) == trim(other.fields())

    def __hash__(self) -> int:
        return int(self.code)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({trim(self.fields())!r})"


def trim(fields: list[object]) -> list[object]:
    """Return the fields without the absent ones (None) at the end."""
    count = len(fields)
    while count and fields[count - 1] is None:
        count -= 1
    return fields[:count]


def float_of(number: float) -> Float:
    """Return a number as a 32-bit float. Raises OverflowError if the number is too large."""
    out = BytesWriter()
    write_f32_be(out, number)
    return Float(out.getvalue())


def symbol_array(names: list[str]) -> Array | None:
    """Return names as the value of a field of several symbols, or None if there are none."""
    if not names:
        return None
    items: list[object] = []
    for name in names:
        items.append(Symbol(name))
    return Array(SYMBOL_32, items)


def symbol_map(values: dict[str, object] | None) -> Map | None:
    """Return named values as a map with symbols as keys, or None for None."""
    if values is None:
        return None
    pairs: list[tuple[object, object]] = []
    for name, value in values.items():
        pairs.append((Symbol(name), value))
    return Map(pairs)


def type_name(value: object) -> str:
    """Return the standard's name for the type of a value."""
    if isinstance(value, Number):
        return value.type_name
    if isinstance(value, FixedOctets):
        return value.type_name
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "long"
    if isinstance(value, str):
        return "string"
    if isinstance(value, bytes):
        return "binary"
    if isinstance(value, float):
        return "double"
    if isinstance(value, Symbol):
        return "symbol"
    if isinstance(value, list):
        return "list"
    if isinstance(value, Map):
        return "map"
    if isinstance(value, Array):
        return "array"
    return "described"
