"""The type system of AMQP 1.0 on the wire (part 1 of the standard): values are decoded or skipped.

    value      constructor, then the data of the type
               constructor: one octet, or 0x00 descriptor constructor
    fixed      0x4. to 0x9.: 0, 1, 2, 4, 8 or 16 octets
    variable   0xA. size u8, 0xB. size u32; then the octets
    compound   0xC. size u8, count u8, 0xD. size u32, count u32; then `count` values. The size includes the count
    array      0xE. and 0xF. likewise; then one constructor, and the data of `count` items

All numbers are big-endian. Time and memory are linear in the octets read. `EMPTY_ITEMS_MAX` bounds the array items
that take no octets.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import read_f64_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from forebay.core.errors import MALFORMED, PeerError
from forebay.wire.amqp10.encoder import WIDE, encode_value, fixed_width, widest
from forebay.wire.amqp10.values import (
    BOOLEAN,
    BYTE,
    CHAR,
    DECIMAL32,
    DECIMAL64,
    DECIMAL128,
    DESCRIBED,
    DOUBLE,
    FALSE,
    FLOAT,
    INT,
    INT_SMALL,
    LIST_0,
    LONG,
    LONG_SMALL,
    NULL,
    SHORT,
    TIMESTAMP,
    TRUE,
    UBYTE,
    UINT,
    UINT_0,
    UINT_SMALL,
    ULONG,
    ULONG_0,
    ULONG_SMALL,
    USHORT,
    UUID,
    Array,
    Byte,
    Char,
    Decimal,
    Described,
    FixedOctets,
    Float,
    Int,
    Map,
    Number,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
    Uuid,
)

DEPTH_MAX: Final = 128  # upper bound of the configured depth, because the decoder recurses
EMPTY_ITEMS_MAX: Final = 65_536  # items of zero octets in all arrays of one value together


def malformed(at: i64, text: str) -> PeerError:
    """Return the PeerError for a value at octet `at` that cannot be decoded."""
    return PeerError(MALFORMED, f"value at octet {at}: {text}")


# ---- reading


def read_u32(data: bytes, at: i64) -> i64:
    """Return the unsigned 32-bit number at `at`."""
    return i64(read_i32_be(data, at)) & 0xFFFFFFFF


def is_known(code: i64) -> bool:
    """Return whether `code` is the constructor of a primitive type of the standard."""
    if code < 0x50:
        return NULL <= code <= LIST_0
    if code < 0x60:
        return code <= BOOLEAN
    if code < 0x80:
        return code in (USHORT, SHORT) or UINT <= code <= DECIMAL32
    if code < 0xA0:
        return code <= DECIMAL64 or code in (DECIMAL128, UUID)
    low = code & 15
    if code < 0xC0:
        return low in (0, 1, 3)
    return low == 0 or (low == 1 and code < 0xE0)


def value_end(data: bytes, at: i64, end: i64, depth: i64 = DEPTH_MAX) -> i64:
    """Return the position after the value at `at`. Raises PeerError(MALFORMED) if the value runs over `end`.

    Reads only the size of the value. Its contents are not checked.
    """
    while True:
        if at >= end:
            raise malformed(at, "runs over the end")
        code = i64(data[at])
        at += 1
        if code != DESCRIBED:
            return data_end(data, at, end, code)
        if depth <= 0:
            raise malformed(at - 1, "nests too deep")
        depth -= 1
        at = value_end(data, at, end, depth)


def data_end(data: bytes, at: i64, end: i64, code: i64) -> i64:
    """Return the position after the data at `at`, which belongs to constructor `code`. Raises as `value_end` does."""
    if not is_known(code):
        raise malformed(at - 1, f"constructor 0x{code:02x} is unknown")
    octets = fixed_width(code)
    if octets < 0:
        if code & WIDE:
            if at + 4 > end:
                raise malformed(at - 1, "runs over the end")
            octets = 4 + read_u32(data, at)
        else:
            if at >= end:
                raise malformed(at - 1, "runs over the end")
            octets = 1 + i64(data[at])
    if octets > end - at:
        raise malformed(at - 1, "runs over the end")
    return at + octets


@final
class ValueReader:
    """A cursor that decodes values from the octets [pos, end) of `data`.

    Its methods raise PeerError(MALFORMED) for malformed values.
    depth        levels of lists, maps, arrays and descriptors that may still follow
    empty_items  array items of zero octets that may still follow
    """

    def __init__(self, data: bytes, pos: i64, end: i64, depth_max: i64 = DEPTH_MAX) -> None:
        self.data = data
        self.pos: i64 = pos
        self.end: i64 = end
        self.depth: i64 = min(depth_max, DEPTH_MAX)
        self.empty_items: i64 = EMPTY_ITEMS_MAX

    def advance(self, octets: i64) -> i64:
        """Advance by `octets`, and return the position of the first of them."""
        at = self.pos
        if octets > self.end - at:
            raise malformed(at, "runs over the end")
        self.pos = at + octets
        return at

    def take(self, octets: i64) -> bytes:
        """Return the next `octets` octets."""
        at = self.advance(octets)
        return self.data[at : at + octets]

    def octet(self) -> i64:
        """Return the next octet as a number."""
        return i64(self.data[self.advance(1)])

    def size(self, code: i64) -> i64:
        """Return the next size or count, of 8 or 32 bits depending on constructor `code`."""
        return read_u32(self.data, self.advance(4)) if code & WIDE else self.octet()

    def descend(self) -> None:
        self.depth -= 1
        if self.depth < 0:
            raise malformed(self.pos, "nests too deep")

    def value(self) -> object:
        """Return the next value, decoded."""
        code = self.octet()
        if code != DESCRIBED:
            return self.data_of(code)
        self.descend()
        descriptor = self.value()
        made = Described(descriptor, self.value())
        self.depth += 1
        return made

    def data_of(self, code: i64) -> object:
        """Return the value whose constructor `code` was just read."""
        high = code >> 4
        if high in (0xA, 0xB):
            return self.variable(code)
        if high == 4:
            return empty_value(code, self.pos)
        if high == 5:
            return one_octet_value(code, self.octet(), self.pos)
        if high in (0xC, 0xD):
            return self.list_items(code) if code & 15 == 0 else self.map_of(code)
        if high in (0xE, 0xF):
            return self.array(code)
        if code == UINT:
            return Uint(int(read_u32(self.data, self.advance(4))))
        if code == LONG:
            return int(read_i64_be(self.data, self.advance(8)))
        if code == DOUBLE:
            return read_f64_be(self.data, self.advance(8))
        return self.rare_value(code)

    def rare_value(self, code: i64) -> object:
        data = self.data
        if code == INT:
            return Int(int(read_i32_be(data, self.advance(4))))
        if code == ULONG:
            number: int = int(read_i64_be(data, self.advance(8)))
            return Ulong(number + (1 << 64) if number < 0 else number)
        if code == TIMESTAMP:
            return Timestamp(int(read_i64_be(data, self.advance(8))))
        if code in (USHORT, SHORT):
            at = self.advance(2)
            short = i64(data[at]) << 8 | i64(data[at + 1])
            if code == USHORT:
                return Ushort(int(short))
            return Short(int(short - 65536 if short > 32767 else short))
        if code == CHAR:
            try:
                return Char(int(read_u32(data, self.advance(4))))
            except ValueError as error:
                raise malformed(self.pos - 4, str(error)) from None
        if code == FLOAT:
            return Float(self.take(4))
        if code == UUID:
            return Uuid(self.take(16))
        if code in (DECIMAL32, DECIMAL64, DECIMAL128):
            return Decimal(self.take(fixed_width(code)))
        raise malformed(self.pos - 1, f"constructor 0x{code:02x} is unknown")

    def variable(self, code: i64) -> object:
        """Return a string, symbol or binary whose constructor `code` was just read."""
        octets = self.take(self.size(code))
        low = code & 15
        if low == 1:
            try:
                return octets.decode()
            except UnicodeDecodeError:
                raise malformed(self.pos - len(octets), "a string is not UTF-8") from None
        if low == 3:
            if not octets.isascii():
                raise malformed(self.pos - len(octets), "a symbol is not ASCII")
            return Symbol(octets.decode())
        if low != 0:
            raise malformed(self.pos - len(octets), f"constructor 0x{code:02x} is unknown")
        return octets

    def limit(self, code: i64) -> i64:
        """Read the size of a list, map or array, and return the position where it ends."""
        octets = self.size(code)
        if octets > self.end - self.pos:
            raise malformed(self.pos, "runs over the end")
        return self.pos + octets

    def close(self, at: i64, stop: i64) -> None:
        """End a list, map or array that began at `at`. Raises PeerError(MALFORMED) unless its items end at `stop`."""
        if self.pos != stop:
            raise malformed(at, f"{stop - self.pos} octets more than its items take")
        self.depth += 1

    def list_items(self, code: i64) -> list[object]:
        """Return the items of a list whose constructor `code` was just read."""
        items: list[object] = []
        self.items(code, items)
        return items

    def items(self, code: i64, items: list[object]) -> None:
        """Decode a list or map whose constructor `code` was just read, and append its values to `items`."""
        at = self.pos
        stop = self.limit(code)
        self.descend()
        outer = self.end
        self.end = stop
        count = self.size(code)
        if count > stop - self.pos:
            raise malformed(at, f"{count} items do not fit into {stop - self.pos} octets")
        for _ in range(count):
            items.append(self.value())
        self.end = outer
        self.close(at, stop)

    def map_of(self, code: i64) -> Map:
        """Return a map whose constructor `code` was just read. Raises PeerError(MALFORMED) for a duplicate key."""
        at = self.pos
        if code & 15 != 1:
            raise malformed(at - 1, f"constructor 0x{code:02x} is unknown")
        items: list[object] = []
        self.items(code, items)
        if len(items) & 1:
            raise malformed(at, f"a map of {len(items)} keys and values")
        pairs: list[tuple[object, object]] = []
        keys: set[object] = set()
        for index in range(0, len(items), 2):
            key = items[index]
            keys.add(key_identity(key))
            pairs.append((key, items[index + 1]))
            if len(keys) != len(pairs):
                raise malformed(at, f"key {key!r:.100} comes twice")
        return Map(pairs)

    def array(self, code: i64) -> Array:
        """Return an array whose constructor `code` was just read."""
        at = self.pos
        if code & 15:
            raise malformed(at - 1, f"constructor 0x{code:02x} is unknown")
        stop = self.limit(code)
        self.descend()
        outer = self.end
        self.end = stop
        count = self.size(code)
        descriptors: list[object] = []
        item = self.octet()
        while item == DESCRIBED:
            descriptors.append(self.value())
            item = self.octet()
            if len(descriptors) > self.depth:
                raise malformed(at, "nests too deep")
        if not is_known(item):
            raise malformed(self.pos - 1, f"constructor 0x{item:02x} is unknown")
        width = fixed_width(item)
        if width == 0:
            self.empty_items -= count
            if self.empty_items < 0:
                raise malformed(at, f"more than {EMPTY_ITEMS_MAX} items without octets")
        elif count > stop - self.pos:
            raise malformed(at, f"{count} items do not fit into {stop - self.pos} octets")
        items: list[object] = []
        for _ in range(count):
            items.append(self.data_of(item))
        self.end = outer
        self.close(at, stop)
        return Array(widest(item), items, descriptors)


def empty_value(code: i64, at: i64) -> object:
    """Return the value of a constructor without data. `at` is the position after the constructor, for errors."""
    if code == NULL:
        return None
    if code == TRUE:
        return True
    if code == FALSE:
        return False
    if code == UINT_0:
        return Uint(0)
    if code == ULONG_0:
        return Ulong(0)
    if code == LIST_0:
        empty: list[object] = []
        return empty
    raise malformed(at - 1, f"constructor 0x{code:02x} is unknown")


def one_octet_value(code: i64, octet: i64, at: i64) -> object:
    """Return the value of a constructor with one octet of data. `at` is the position after that octet, for errors."""
    if code == UINT_SMALL:
        return Uint(int(octet))
    if code == ULONG_SMALL:
        return Ulong(int(octet))
    if code == UBYTE:
        return Ubyte(int(octet))
    if code == BOOLEAN:
        if octet > 1:
            raise malformed(at - 1, f"a boolean is 0 or 1, not {octet}")
        return octet == 1
    signed: int = int(octet - 256 if octet > 127 else octet)
    if code == LONG_SMALL:
        return signed
    if code == INT_SMALL:
        return Int(signed)
    if code == BYTE:
        return Byte(signed)
    raise malformed(at - 2, f"constructor 0x{code:02x} is unknown")


def key_identity(key: object) -> object:
    """Return a hashable identity of a map key that keeps 1, 1.0 and True apart, which are equal in Python."""
    if isinstance(key, (str, Symbol, bytes)):
        return key
    if isinstance(key, (bool, float)) or key is None:
        return (encode_value(key),)
    if isinstance(key, (int, Number, FixedOctets)):
        return key
    return (encode_value(key),)


def decode_value(data: bytes, at: i64, end: i64, depth_max: i64 = DEPTH_MAX) -> object:
    """Return the value in the octets [at, end). Raises PeerError(MALFORMED) unless they hold exactly one value."""
    reader = ValueReader(data, at, end, depth_max)
    value = reader.value()
    if reader.pos != end:
        raise malformed(at, f"{end - reader.pos} octets after it")
    return value
