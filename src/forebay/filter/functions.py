"""The functions of the filter language.

Each is asked of the first element where a value is a list, and is None where a value that it needs is. A number where
a text is due is its digits; a text where a number is due must be one.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Final, final

from forebay.filter.checksums import crc64
from forebay.filter.numeric import NUMERIC, of_numbers
from forebay.filter.times import read_time, written_time
from forebay.filter.values import (
    GREATER,
    LESS,
    OPAQUE,
    arithmetic,
    compare_single,
    elements,
    first,
    number,
    text,
    whole,
)

MANY: Final = 32  # arguments that a function without a fixed number may have
TEXT_CHARACTERS_MAX: Final = 1 << 20  # of what CONCAT and REPLACE make; beyond it nobody knows
PLACES_MAX: Final = 15  # decimal places that ROUND can keep


@final
class FunctionSignature:
    """The signature of a function.

    least, most  number of arguments
    conditions   how many of the first are conditions
    gives        what it is itself: "value", "condition", or "either"
    """

    def __init__(self, least: int, most: int, gives: str, conditions: int, meaning: str) -> None:
        self.least = least
        self.most = most
        self.gives = gives
        self.conditions = conditions
        self.meaning = meaning


FUNCTIONS: Final = {
    "IF": FunctionSignature(
        3, 3, "either", 1, "the second value if the first, a condition, is true; otherwise the third"
    ),
    "COALESCE": FunctionSignature(1, MANY, "either", 0, "the first value that is not NULL"),
    "CONCAT": FunctionSignature(1, MANY, "value", 0, "all values joined to one text; those that are NULL are left out"),
    "LENGTH": FunctionSignature(1, 1, "value", 0, "number of characters of a text"),
    "LOWER": FunctionSignature(1, 1, "value", 0, "a text in lower case"),
    "UPPER": FunctionSignature(1, 1, "value", 0, "a text in upper case"),
    "TRIM": FunctionSignature(1, 1, "value", 0, "a text without the white space at both ends"),
    "LTRIM": FunctionSignature(1, 1, "value", 0, "a text without the white space at its start"),
    "RTRIM": FunctionSignature(1, 1, "value", 0, "a text without the white space at its end"),
    "SUBSTR": FunctionSignature(
        2,
        3,
        "value",
        0,
        "characters of the first value from the one at the second on (1 is the first); the third says how many",
    ),
    "LEFT": FunctionSignature(2, 2, "value", 0, "the first characters of a text; the second value says how many"),
    "RIGHT": FunctionSignature(2, 2, "value", 0, "the last characters of a text; the second value says how many"),
    "REPLACE": FunctionSignature(
        3, 3, "value", 0, "the first value with every occurrence of the second replaced by the third"
    ),
    "REGEXP_REPLACE": FunctionSignature(
        3,
        3,
        "value",
        0,
        "the first value with every match of a [pattern](filters.md#patterns) replaced by the third",
    ),
    "REVERSE": FunctionSignature(1, 1, "value", 0, "the characters of a text in reverse order"),
    "INSTR": FunctionSignature(
        2,
        2,
        "value",
        0,
        "position of the second value within the first (1 is the first character); 0 if it is not in it",
    ),
    "INSTR_I": FunctionSignature(2, 2, "value", 0, "as `INSTR`, but upper and lower case are the same"),
    "STREQUAL_I": FunctionSignature(
        2, 2, "condition", 0, "whether two texts are equal if upper and lower case are the same"
    ),
    "ABS": FunctionSignature(1, 1, "value", 0, "the absolute value of a number"),
    "CEILING": FunctionSignature(1, 1, "value", 0, "the least integer that is not below a number"),
    "FLOOR": FunctionSignature(1, 1, "value", 0, "the greatest integer that is not above a number"),
    "ROUND": FunctionSignature(
        1,
        2,
        "value",
        0,
        "the first value rounded to as many decimal places as the second says; without it to an integer",
    ),
    "SIGN": FunctionSignature(1, 1, "value", 0, "-1 for a number below 0, 0 for 0, 1 for a number above 0"),
    "MOD": FunctionSignature(
        2, 2, "value", 0, "the remainder of the first value divided by the second, with the sign of the first"
    ),
    "SQRT": FunctionSignature(1, 1, "value", 0, "the square root of a number"),
    "POWER": FunctionSignature(2, 2, "value", 0, "the first value to the power of the second"),
    "EXP": FunctionSignature(1, 1, "value", 0, "e to the power of a number"),
    "LN": FunctionSignature(1, 1, "value", 0, "the natural logarithm of a number"),
    "LOG2": FunctionSignature(1, 1, "value", 0, "the logarithm of a number to the base 2"),
    "LOG10": FunctionSignature(1, 1, "value", 0, "the logarithm of a number to the base 10"),
    "SIN": FunctionSignature(1, 1, "value", 0, "the sine of an angle in radians"),
    "COS": FunctionSignature(1, 1, "value", 0, "the cosine of an angle in radians"),
    "TAN": FunctionSignature(1, 1, "value", 0, "the tangent of an angle in radians"),
    "ASIN": FunctionSignature(1, 1, "value", 0, "the angle in radians whose sine is the value"),
    "ACOS": FunctionSignature(1, 1, "value", 0, "the angle in radians whose cosine is the value"),
    "ATAN": FunctionSignature(1, 1, "value", 0, "the angle in radians whose tangent is the value"),
    "ATAN2": FunctionSignature(
        2, 2, "value", 0, "the angle in radians of the point whose y is the first value and whose x is the second"
    ),
    "DEGREES": FunctionSignature(1, 1, "value", 0, "an angle in radians, converted to degrees"),
    "RADIANS": FunctionSignature(1, 1, "value", 0, "an angle in degrees, converted to radians"),
    "WIDTH_BUCKET": FunctionSignature(
        4,
        4,
        "value",
        0,
        "number of the first value's bucket, if the range from the second to the third has as many as the fourth",
    ),
    "GEO_DISTANCE": FunctionSignature(
        4,
        4,
        "value",
        0,
        "distance in metres between two points: latitude and longitude of the first, then of the second, in degrees",
    ),
    "CRC32": FunctionSignature(1, 1, "value", 0, "the CRC-32 checksum of a text in UTF-8, as in zip files"),
    "CRC64": FunctionSignature(
        1, 1, "value", 0, "the CRC-64 checksum of a text in UTF-8, as in xz files: an integer from 0 to 2^64 - 1"
    ),
    "MD5": FunctionSignature(1, 1, "value", 0, "the MD5 digest of a text in UTF-8, in hexadecimal digits"),
    "STRFTIME": FunctionSignature(
        2,
        2,
        "value",
        0,
        "a time as text: the first value is its [format](filters.md#times), the second the seconds since 1970",
    ),
    "STRPTIME": FunctionSignature(
        2,
        2,
        "value",
        0,
        "seconds since 1970 of the time in the first value, whose [format](filters.md#times) is the second",
    ),
    "GREATEST": FunctionSignature(1, MANY, "value", 0, "the greatest value; NULL if any is NULL"),
    "LEAST": FunctionSignature(1, MANY, "value", 0, "the least value; NULL if any is NULL"),
    "ARRAY_COUNT": FunctionSignature(1, 1, "value", 0, "number of elements of a list"),
    "ARRAY_MIN": FunctionSignature(1, 1, "value", 0, "the least element of a list that is not NULL"),
    "ARRAY_MAX": FunctionSignature(1, 1, "value", 0, "the greatest element of a list that is not NULL"),
    "ARRAY_SUM": FunctionSignature(1, 1, "value", 0, "the sum of those elements of a list that are numbers"),
}

# Functions without values, under AMPS's names: each is a property of the message by another name.
PROPERTY_FUNCTIONS: Final = {
    "TOPIC_NAME": "topic",
    "BOOKMARK": "offset",
    "LEASE_COUNT": "deliveries",
    "USER": "user_id",
}


def call(name: str, values: list[object]) -> object:
    """Return the result of a function for these arguments. The parser makes a node of its own for REGEXP_REPLACE, and
    IF and COALESCE look only at the values that they need: none of the three comes here."""
    if name.startswith("ARRAY_"):
        return of_list(name, values[0])
    singles = [first(value) for value in values]
    if name in ("GREATEST", "LEAST"):
        return extreme(GREATER if name == "GREATEST" else LESS, singles, True)
    if name == "CONCAT":
        return limited("".join([part for part in [text(each) for each in singles] if part is not None]))
    for each in singles:
        if each is None or each is OPAQUE:
            return None
    if name in ("ABS", "CEILING", "FLOOR", "ROUND", "SIGN"):
        return of_number(name, singles)
    if name in NUMERIC:
        return of_floats(name, singles)
    if name == "MOD":
        return arithmetic("%", singles[0], singles[1])
    words = text(singles[0])
    assert words is not None
    if name == "STRFTIME":
        seconds = number(singles[1])
        return written_time(words, float(seconds)) if isinstance(seconds, int | float) else None
    if len(singles) == 1:
        return of_text(name, words)
    if name in ("SUBSTR", "LEFT", "RIGHT"):
        return part_of(name, words, singles[1:])
    other = text(singles[1])
    assert other is not None
    if name == "INSTR":
        return words.find(other) + 1
    if name == "INSTR_I":
        return words.casefold().find(other.casefold()) + 1
    if name == "STREQUAL_I":
        return words.casefold() == other.casefold()
    if name == "STRPTIME":
        return read_time(words, other)
    assert name == "REPLACE"
    by = text(singles[2])
    assert by is not None
    return replaced(words, other, by)


def of_text(name: str, words: str) -> object:
    if name == "LENGTH":
        return len(words)
    if name == "LOWER":
        return words.lower()
    if name == "UPPER":
        return words.upper()
    if name == "TRIM":
        return words.strip() or None
    if name == "LTRIM":
        return words.lstrip() or None
    if name == "REVERSE":
        return words[::-1]
    if name == "CRC32":
        return zlib.crc32(words.encode("utf-8", "replace"))
    if name == "CRC64":
        return crc64(words.encode("utf-8", "replace"))
    if name == "MD5":
        return hashlib.md5(words.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()
    assert name == "RTRIM"
    return words.rstrip() or None


def of_floats(name: str, values: list[object]) -> object:
    floats: list[float] = []
    for each in values:
        read = number(each)
        if not isinstance(read, int | float):
            return None
        floats.append(float(read))
    return of_numbers(name, floats)


def part_of(name: str, words: str, numbers: list[object]) -> object:
    counts: list[int] = []
    for each in numbers:
        read = number(each)
        if not isinstance(read, int):
            return None
        counts.append(read)
    most = max(0, counts[0])
    if name == "LEFT":
        return words[:most] or None
    if name == "RIGHT":
        return words[max(0, len(words) - most) :] or None
    start = max(0, counts[0] - 1)
    stop = len(words) if len(counts) == 1 else start + max(0, counts[1])
    return words[start:stop] or None


def replaced(words: str, old: str, new: str) -> object:
    if len(words) + words.count(old) * (len(new) - len(old)) > TEXT_CHARACTERS_MAX:
        return None
    return words.replace(old, new) or None


def limited(words: str) -> object:
    return words if words and len(words) <= TEXT_CHARACTERS_MAX else None


def of_number(name: str, values: list[object]) -> object:
    value = number(values[0])
    if value is None:
        return None
    assert isinstance(value, int | float)
    if name == "SIGN":
        if value != value:  # noqa: PLR0124  NaN alone differs from itself
            return None
        return 1 if value > 0 else (-1 if value < 0 else 0)
    if name == "ABS":
        return abs(value)
    places = 0
    if len(values) > 1:
        read = number(values[1])
        if not isinstance(read, int) or read < 0 or read > PLACES_MAX:
            return None
        places = read
    if isinstance(value, int) or value - value != 0.0:
        return value  # an integer is rounded, and an infinite or no number cannot be
    if name == "ROUND":
        return round(value, places) if places else whole(round(value))
    down = int(value // 1.0)
    return whole(down if name == "FLOOR" or down == value else down + 1)


def of_list(name: str, value: object) -> object:
    if value is None or value is OPAQUE:
        return None
    values = elements(value)
    if name == "ARRAY_COUNT":
        return len(values)
    present = [each for each in values if each is not None and each is not OPAQUE]
    if name == "ARRAY_SUM":
        total: object = 0
        for each in present:
            added = arithmetic("+", total, each)
            total = total if added is None else added
        return total
    return extreme(GREATER if name == "ARRAY_MAX" else LESS, present, False)


def extreme(comparison: int, values: list[object], strict: bool) -> object:
    """Return the value that compares so with all others, such as the greatest. Returns None if no value does."""
    best: object = None
    for at, each in enumerate(values):
        if at == 0:
            best = each
            continue
        held = compare_single(comparison, each, best)
        if held is None:
            if strict:
                return None
        elif held:
            best = each
    return None if best is OPAQUE else best
