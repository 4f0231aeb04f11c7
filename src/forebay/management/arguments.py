"""The arguments of a request: as they came, for whoever checks rights, and checked, as the struct of its operation."""

from __future__ import annotations

from typing import Final

import msgspec

from forebay.core.errors import INVALID, RequestError
from forebay.core.reading.json_text import fault_of
from forebay.management.parameters import ANY, FLAG, RANGES, TABLE, TEXT, TEXTS, WHOLE, Parameter, read_parameters
from forebay.management.requests.fields import INTEGER_MAX, RANGES_MAX, OperationRequest, Ranges
from forebay.routing.exchange import text
from forebay.wire.blocks.frames import is_unicode, shown

TYPES: Final[dict[str, type]] = {
    TEXT: str,
    WHOLE: int,
    FLAG: bool,
    TABLE: dict,
    TEXTS: list,
    RANGES: list,
    ANY: object,
}

PAGE_OCTETS_MAX: Final = 1 << 20  # a page ends before it if one item is in it


class GivenArguments:
    """The arguments of one request as they came, with defaults. A value of another type counts as left out."""

    def __init__(self, values: dict[str, object]) -> None:
        self._values = values

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def text(self, name: str) -> str:
        """Return an argument that is text; "" where it was left out."""
        value = self._values.get(name)
        if isinstance(value, bytes):
            return text(value)
        return value if isinstance(value, str) else ""

    def octets(self, name: str) -> bytes:
        """Return a name as the broker has it: in UTF-8, or the octets that the broker itself has given."""
        value = self._values.get(name)
        return value if isinstance(value, bytes) else self.text(name).encode()

    def whole(self, name: str) -> int:
        """Return an argument that is a whole number; 0 where it was left out."""
        value = self._values.get(name)
        return value if isinstance(value, int) else 0

    def table(self, name: str) -> dict[str, object]:
        """Return an argument that is an object; an empty one where it was left out."""
        value = self._values.get(name)
        return value if isinstance(value, dict) else {}


def octets(name: str) -> bytes:
    """Return the octets of a name in a request: its UTF-8, or those that the broker itself gave (`read_request`)."""
    return name.encode("utf-8", "surrogateescape")


def merged(ranges: Ranges | None) -> list[tuple[int, int]] | None:
    """Return offsets and pairs of a request as ranges [first, end) that ascend; None where none were given."""
    if ranges is None:
        return None
    pairs = sorted((each, each + 1) if isinstance(each, int) else (each[0], each[1]) for each in ranges)
    found: list[tuple[int, int]] = []
    for first, end in pairs:
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((first, end))
    return found


def read_request(name: str, request: type[OperationRequest], values: dict[str, object]) -> OperationRequest:
    """Return the checked request of an operation; RequestError(INVALID) names the argument that is wrong and its value.

    A name may be octets, which only the broker itself gives: they become text that `octets` turns back.
    """
    given: dict[str, object] = {}
    for key, value in values.items():
        if value is not None and fault_of(value, key):
            raise find_fault(name, request, values)
        if isinstance(value, bytes):
            given[key] = value.decode("utf-8", "surrogateescape")
        elif value is not None:
            given[key] = value
    try:
        made = msgspec.convert(given, request)
    except msgspec.ValidationError:
        raise find_fault(name, request, values) from None
    offsets = getattr(made, "offsets", None)
    if offsets is not None and not all(is_range(each) for each in offsets):
        raise find_fault(name, request, values)
    return made


def find_fault(name: str, request: type[OperationRequest], values: dict[str, object]) -> RequestError:
    """Return the error for the first argument of an operation that is wrong."""
    parameters = read_parameters(request)
    known = [each.name for each in parameters]
    for key in values:
        if key not in known:
            return RequestError(INVALID, f"{name}: {shown(key)} is no argument; known are {', '.join(known) or 'none'}")
    for each in parameters:
        value = values.get(each.name)
        if value is None:
            if each.required:
                return RequestError(INVALID, f"{name}: {each.name} is missing: {each.doc}")
            continue
        if not has_type(value, each.type):
            return RequestError(INVALID, f"{name}: {each.name}: {shown(value)} is not what it must be: {each.type}")
        fault = fault_of(value, each.name)
        if fault:
            return RequestError(INVALID, f"{name}: {fault}")
        unbounded = fault_of_bounds(each, value)
        if unbounded is not None:
            return unbounded
    raise AssertionError(f"{name}: refused, and nothing is wrong")


def has_type(value: object, type: str) -> bool:
    """Return whether a value out of JSON is of this type, and within what the broker can hold; a name may be octets."""
    if type == TEXT and isinstance(value, bytes):
        return True
    if not isinstance(value, TYPES[type]):
        return False
    if type == TEXT:
        return isinstance(value, str) and is_unicode(value)
    if type == WHOLE:
        return not isinstance(value, bool) and isinstance(value, int) and -INTEGER_MAX <= value <= INTEGER_MAX
    if type == TEXTS:
        return isinstance(value, list) and all(isinstance(each, str) and is_unicode(each) for each in value)
    if type == RANGES:
        return isinstance(value, list) and len(value) <= RANGES_MAX and all(is_range(each) for each in value)
    return True


def is_range(value: object) -> bool:
    """Return whether a value out of JSON is an offset, or two of them in order."""
    if not isinstance(value, list):
        return is_offset(value)
    return len(value) == 2 and is_offset(value[0]) and is_offset(value[1]) and value[0] <= value[1]


def is_offset(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int) and 0 <= value < INTEGER_MAX


def refuse(name: str, value: object, text: str) -> RequestError:
    """Return an error that names an argument and its value."""
    return RequestError(INVALID, f"{name}: {shown(value)} {text}")


def fault_of_bounds(parameter: Parameter, value: object) -> RequestError | None:
    """Return the error for a whole number that is out of an argument's bounds; None if there is none."""
    least, most = parameter.least, parameter.most
    if not isinstance(value, int) or least is None:
        return None
    if most is not None and not least <= value <= most:
        return refuse(parameter.name, value, f"is not within {least} .. {most}")
    return refuse(parameter.name, value, f"is below {least}") if value < least else None
