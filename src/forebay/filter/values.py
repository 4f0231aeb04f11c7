"""Values of the filter language, and how they compare.

A value is None (there is none, or nobody knows), bool, int of 64 bits, float, str, OPAQUE, or a list of those. As in
SQL, what is asked of None is None; as with the filters of AMPS an empty text is None, a text beside a number is read
as a number if it is one and is otherwise the greater, and a comparison with a list holds if it does for any element.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

INTEGER_LEAST: Final = -(1 << 63)
INTEGER_MOST: Final = (1 << 64) - 1
ELEMENTS_MAX: Final = 1000  # of a list; a longer one is OPAQUE
NUMBER_CHARACTERS_MAX: Final = 400  # of a text that may be a number
NUMBER_CHARACTERS: Final = "0123456789+-.eE"

EQUAL: Final = 1  # the comparisons
UNEQUAL: Final = 2
LESS: Final = 3
AT_MOST: Final = 4
GREATER: Final = 5
AT_LEAST: Final = 6


@final
class Opaque:
    """A value of which nothing can be asked but whether it is there: a table, a list within a list, too long a list."""


OPAQUE: Final = Opaque()


def normal(value: object) -> object:
    """Convert a value from a message to one of the filter language."""
    if isinstance(value, list):
        return [scalar(each) for each in value] if len(value) <= ELEMENTS_MAX else OPAQUE
    return scalar(value)


def scalar(value: object) -> object:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value or None
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return whole(value)
    if isinstance(value, float):
        return value
    return OPAQUE


def whole(value: int) -> object:
    """Return an integer, or the float nearest to it if it does not fit into 64 bits."""
    if INTEGER_LEAST <= value <= INTEGER_MOST:
        return value
    try:
        return float(value)
    except OverflowError:
        return None


def first(value: object) -> object:
    """Return the first element of a list, or any other value as it is."""
    if isinstance(value, list):
        return value[0] if value else None
    return value


def elements(value: object) -> list[object]:
    """Return the elements of a list, or any other value as the only element."""
    return value if isinstance(value, list) else [value]


def number_in(text: str) -> object:
    """Parse a number. Returns None if the text is not one."""
    if len(text) > NUMBER_CHARACTERS_MAX:
        return None
    plain = True
    for character in text:
        if character not in NUMBER_CHARACTERS:
            return None
        if character in ".eE":
            plain = False
    try:
        return whole(int(text)) if plain else float(text)
    except ValueError:
        return None


def number(value: object) -> object:
    """Convert a single value to a number. Returns None if it is not one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    return number_in(value) if isinstance(value, str) else None


def text(value: object) -> str | None:
    """Convert a single value to text. Returns None if it has no text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return None


def order(left: object, right: object) -> i64:
    """-1, 0 or 1 for two numbers or two texts; 2 where one is not a number at all (NaN)."""
    if isinstance(left, str):
        assert isinstance(right, str)
        return -1 if left < right else (1 if left > right else 0)
    assert isinstance(left, int | float) and isinstance(right, int | float)
    if left < right:
        return -1
    if left > right:
        return 1
    return 0 if left == right else 2


def compare_single(comparison: i64, left: object, right: object) -> object:
    """Compare two single values. Returns None if one is None or their types cannot be compared."""
    if left is None or right is None or left is OPAQUE or right is OPAQUE:
        return None
    if isinstance(left, bool) or isinstance(right, bool):
        if not isinstance(left, bool) or not isinstance(right, bool):
            return None
        ordered: i64 = order(int(left), int(right))
    elif isinstance(left, str) == isinstance(right, str):
        ordered = order(left, right)
    elif isinstance(left, str):
        read = number_in(left)
        ordered = 1 if read is None else order(read, right)
    else:
        assert isinstance(right, str)
        read = number_in(right)
        ordered = -1 if read is None else order(left, read)
    if ordered == 2:
        return comparison == UNEQUAL
    if comparison == EQUAL:
        return ordered == 0
    if comparison == UNEQUAL:
        return ordered != 0
    if comparison == LESS:
        return ordered < 0
    if comparison == AT_MOST:
        return ordered <= 0
    if comparison == GREATER:
        return ordered > 0
    return ordered >= 0


def compare(comparison: i64, left: object, right: object) -> object:
    """Return whether any element on the left compares so with any on the right, or None if that is unknown."""
    if not isinstance(left, list) and not isinstance(right, list):
        return compare_single(comparison, left, right)
    unknown = False
    rights = elements(right)
    for one in elements(left):
        for other in rights:
            held = compare_single(comparison, one, other)
            if held is True:
                return True
            if held is None:
                unknown = True
    return None if unknown else False


def negate(condition: object) -> object:
    """NOT, in three values."""
    return (not condition) if isinstance(condition, bool) else None


def condition_of(value: object) -> object:
    """Return a value as a condition: itself if it is a boolean, otherwise None."""
    return value if isinstance(value, bool) else None


def arithmetic(sign: str, left: object, right: object) -> object:
    """`+ - * / %` on two single values; None where one is no number, and for a division by zero."""
    one = number(left)
    other = number(right)
    if one is None or other is None:
        return None
    if isinstance(one, int) and isinstance(other, int):
        return integer_arithmetic(sign, one, other)
    assert isinstance(one, int | float) and isinstance(other, int | float)
    return float_arithmetic(sign, float(one), float(other))


def integer_arithmetic(sign: str, one: int, other: int) -> object:
    if sign == "+":
        return whole(one + other)
    if sign == "-":
        return whole(one - other)
    if sign == "*":
        return whole(one * other)
    if other == 0:
        return None
    quotient = abs(one) // abs(other)
    if (one < 0) != (other < 0):
        quotient = -quotient
    # The remainder has the sign of what is divided, unlike Python's.
    return whole(quotient) if sign == "/" else whole(one - quotient * other)


def float_arithmetic(sign: str, one: float, other: float) -> object:
    if sign == "+":
        return one + other
    if sign == "-":
        return one - other
    if sign == "*":
        return one * other
    if other == 0.0:
        return None
    if sign == "/":
        return one / other
    if one - one != 0.0 or str(other) == "nan":  # an infinite or no number has no remainder
        return None
    remainder = abs(one) % abs(other)
    return -remainder if one < 0.0 else remainder
