"""Encoders for AMQP 1.0 values. `decoder.py` describes the octets of each type."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_f64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from forebay.wire.amqp10.values import (
    ARRAY_8,
    ARRAY_32,
    BINARY_8,
    BINARY_32,
    BOOLEAN,
    DESCRIBED,
    DOUBLE,
    FALSE,
    INT,
    INT_SMALL,
    LIST_0,
    LIST_8,
    LIST_32,
    LONG,
    LONG_SMALL,
    MAP_8,
    MAP_32,
    NULL,
    STRING_8,
    STRING_32,
    SYMBOL_8,
    SYMBOL_32,
    TRUE,
    UINT,
    UINT_0,
    UINT_SMALL,
    ULONG,
    ULONG_0,
    ULONG_SMALL,
    Array,
    Composite,
    Described,
    FixedOctets,
    Map,
    Number,
    Symbol,
    trim,
)

ERROR_CODE: Final = 0x1D
WIDE: Final = 0x10  # the bit that tells a constructor with 32-bit sizes from the one with 8-bit sizes


def fixed_width(code: i64) -> i64:
    """Return the number of data octets of a fixed-width constructor, or -1 for a constructor of variable width."""
    high = code >> 4
    if high == 4:
        return 0
    if high == 5:
        return 1
    if high == 6:
        return 2
    if high == 7:
        return 4
    if high == 8:
        return 8
    return 16 if high == 9 else -1


def widest(code: i64) -> i64:
    """Return the constructor of the same type that can encode every value of the type."""
    if code in (UINT_0, UINT_SMALL):
        return UINT
    if code in (ULONG_0, ULONG_SMALL):
        return ULONG
    if code == INT_SMALL:
        return INT
    if code == LONG_SMALL:
        return LONG
    if code in (TRUE, FALSE):
        return BOOLEAN
    if code == LIST_0:
        return LIST_32
    return code | WIDE if code >= BINARY_8 else code


def put_u32(out: BytesWriter, number: i64) -> None:
    """Append an unsigned 32-bit number."""
    assert 0 <= number <= 0xFFFFFFFF
    write_i32_be(out, i32(number - ((number >> 31) << 32)))


def put_value(out: BytesWriter, value: object) -> None:
    """Append a value in the shortest encoding of its type. Raises ValueError for a Python type without an encoding."""
    if value is None:
        out.append(NULL)
    elif isinstance(value, str):
        put_octets(out, STRING_8, value.encode("utf-8", "replace"))
    elif isinstance(value, Symbol):
        put_symbol(out, value.text)
    elif isinstance(value, Number):
        put_number(out, value)
    elif isinstance(value, bool):
        out.append(TRUE if value else FALSE)
    elif isinstance(value, int):
        put_long(out, value)
    elif isinstance(value, bytes):
        put_octets(out, BINARY_8, value)
    elif isinstance(value, Composite):
        put_composite(out, value.code, value.fields())
    elif isinstance(value, list):
        put_list(out, value)
    elif isinstance(value, Map):
        put_map(out, value.pairs)
    elif isinstance(value, Described):
        out.append(DESCRIBED)
        put_value(out, value.descriptor)
        put_value(out, value.value)
    elif isinstance(value, float):
        out.append(DOUBLE)
        write_f64_be(out, value)
    elif isinstance(value, FixedOctets):
        out.append(int(value.code))
        out.write(value.octets)
    elif isinstance(value, Array):
        put_array(out, value)
    else:
        raise ValueError(f"{type(value).__name__} is no type of AMQP 1.0")


def put_octets(out: BytesWriter, code: i64, octets: bytes) -> None:
    """Append a string, symbol or binary. `code` is its constructor for 8-bit sizes."""
    size = i64(len(octets))
    if size <= 255:
        out.append(int(code))
        out.append(int(size))
    else:
        out.append(int(code | WIDE))
        put_u32(out, size)
    out.write(octets)


def put_symbol(out: BytesWriter, text: str) -> None:
    """Append a symbol. Each character outside ASCII becomes a question mark."""
    put_octets(out, SYMBOL_8, text.encode("ascii", "replace"))


def put_long(out: BytesWriter, value: int) -> None:
    """Append a long. Raises ValueError if the value exceeds 64 bits."""
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} is too large for a long")
    if -128 <= value <= 127:
        out.append(LONG_SMALL)
        out.append(value & 255)
    else:
        out.append(LONG)
        write_i64_be(out, i64(value))


def put_number(out: BytesWriter, number: Number) -> None:
    """Append an integer of a type other than long, with its constructor."""
    code = number.code
    value = number.value
    if code in (UINT, ULONG):
        small: i64 = 1 if code == ULONG else 0
        if value == 0:
            out.append(int(UINT_0 + small))
            return
        if value <= 255:
            out.append(int(UINT_SMALL + small))
            out.append(value)
            return
    elif code == INT and -128 <= value <= 127:
        out.append(INT_SMALL)
        out.append(value & 255)
        return
    out.append(int(code))
    put_number_data(out, code, value)


def put_number_data(out: BytesWriter, code: i64, value: int) -> None:
    """Append an integer without a constructor, in the width of constructor `code`."""
    width = fixed_width(code)
    if width == 1:
        out.append(value & 255)
    elif width == 2:
        out.append(value >> 8 & 255)
        out.append(value & 255)
    elif width == 4:
        put_u32(out, i64(value & 0xFFFFFFFF))
    else:
        write_i64_be(out, i64(value - (1 << 64) if value >> 63 > 0 else value))


def put_list(out: BytesWriter, items: list[object]) -> None:
    """Append a list."""
    if not items:
        out.append(LIST_0)
        return
    inner = BytesWriter()
    for item in items:
        put_value(inner, item)
    put_compound(out, LIST_8, len(items), inner.getvalue())


def put_map(out: BytesWriter, pairs: list[tuple[object, object]]) -> None:
    """Append a map."""
    inner = BytesWriter()
    for key, value in pairs:
        put_value(inner, key)
        put_value(inner, value)
    put_compound(out, MAP_8, 2 * len(pairs), inner.getvalue())


def put_compound(out: BytesWriter, code: i64, count: i64, items: bytes) -> None:
    """Append a list, map or array with its encoded items. `code` is its constructor for 8-bit sizes."""
    size = i64(len(items))
    if size <= 254 and count <= 255:
        out.append(int(code))
        out.append(int(size + 1))
        out.append(int(count))
    else:
        out.append(int(code | WIDE))
        put_u32(out, size + 4)
        put_u32(out, count)
    out.write(items)


def put_composite(out: BytesWriter, code: i64, fields: list[object]) -> None:
    """Append a described list of the standard. Absent fields at its end are left out.

    An error always has all of its fields, because Azure's clients read the third.
    """
    put_descriptor(out, code)
    put_list(out, fields if code == ERROR_CODE else trim(fields))


def put_descriptor(out: BytesWriter, code: i64) -> None:
    """Append the descriptor of a type of the standard, in its numeric form."""
    assert 0 <= code <= 255
    out.append(DESCRIBED)
    out.append(ULONG_SMALL)
    out.append(int(code))


def put_array(out: BytesWriter, array: Array) -> None:
    """Append an array: one constructor, then the items without constructors of their own."""
    code = widest(array.code)
    items = array.items
    if STRING_32 <= code <= SYMBOL_32 or code == BINARY_32:
        code -= WIDE
        for item in items:
            if len(item_octets(item)) > 255:
                code |= WIDE
                break
    inner = BytesWriter()
    for descriptor in array.descriptors:
        inner.append(DESCRIBED)
        put_value(inner, descriptor)
    inner.append(int(code))
    for item in items:
        put_item(inner, code, item)
    put_compound(out, ARRAY_8, len(items), inner.getvalue())


def item_octets(item: object) -> bytes:
    """Return a string, symbol or binary as octets, without its constructor and size."""
    if isinstance(item, str):
        return item.encode("utf-8", "replace")
    if isinstance(item, Symbol):
        return item.text.encode("ascii", "replace")
    assert isinstance(item, bytes), type(item).__name__
    return item


def put_item(out: BytesWriter, code: i64, item: object) -> None:
    """Append an array item without its constructor. Raises ValueError if the item's type differs from the array's."""
    if BINARY_8 <= code <= SYMBOL_32:
        octets = item_octets(item)
        if code & WIDE:
            put_u32(out, len(octets))
        else:
            out.append(len(octets))
        out.write(octets)
    elif isinstance(item, Number) and item.code == code:
        put_number_data(out, code, item.value)
    elif isinstance(item, FixedOctets) and item.code == code:
        out.write(item.octets)
    elif isinstance(item, bool) and code == BOOLEAN:
        out.append(1 if item else 0)
    elif isinstance(item, int) and code == LONG:
        write_i64_be(out, i64(item))
    elif isinstance(item, float) and code == DOUBLE:
        write_f64_be(out, item)
    elif code in (LIST_32, MAP_32, ARRAY_32):
        put_wide_item(out, code, item)
    elif item is not None or code != NULL:
        raise ValueError(f"an item of type {type(item).__name__} in an array of 0x{code:02x}")


def put_wide_item(out: BytesWriter, code: i64, item: object) -> None:
    """Append a list, map or array as an array item, without its constructor and with 32-bit sizes."""
    inner = BytesWriter()
    if isinstance(item, list) and code == LIST_32:
        for each in item:
            put_value(inner, each)
        put_wide(out, len(item), inner.getvalue())
    elif isinstance(item, Map) and code == MAP_32:
        for key, value in item.pairs:
            put_value(inner, key)
            put_value(inner, value)
        put_wide(out, 2 * len(item.pairs), inner.getvalue())
    elif isinstance(item, Array) and code == ARRAY_32:
        put_array(inner, item)
        encoded = inner.getvalue()
        if encoded[0] == ARRAY_32:
            out.write(encoded[1:])
        else:
            put_wide(out, i64(encoded[2]), encoded[3:])
    else:
        raise ValueError(f"an item of type {type(item).__name__} in an array of 0x{code:02x}")


def put_wide(out: BytesWriter, count: i64, items: bytes) -> None:
    """Append size and count, of 32 bits each, and the encoded items."""
    put_u32(out, 4 + len(items))
    put_u32(out, count)
    out.write(items)


def encode_value(value: object) -> bytes:
    """Return a value in the shortest encoding of its type. Raises ValueError for a Python type without an encoding."""
    out = BytesWriter()
    put_value(out, value)
    return out.getvalue()
