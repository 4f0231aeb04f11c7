"""The arguments of a request: whether they are what the parameters say, and the checked ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from forebay.core.errors import INVALID, RequestError
from forebay.directory.permissions import Rights
from forebay.management.parameters import ANY, FLAG, RANGES, TABLE, TEXT, TEXTS, WHOLE, Parameter
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

INTEGER_MAX: Final = (1 << 63) - 1
RANGES_MAX: Final = 10_000
PAGE_OCTETS_MAX: Final = 1 << 20  # a page ends before it if one item is in it


class Arguments:
    """The checked arguments of one request.

    rights  what the caller may do in the vhost; None for administrators, who may do everything
    user    the caller's name
    """

    def __init__(self, values: dict[str, object], rights: Rights | None = None, user: str = "") -> None:
        self._values = values
        self.rights = rights
        self.user = user

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def text(self, name: str) -> str:
        """An argument that is text; empty where it was left out."""
        value = self._values.get(name)
        if isinstance(value, bytes):
            return text(value)
        return value if isinstance(value, str) else ""

    def octets(self, name: str) -> bytes:
        """The same as the broker has names: in UTF-8, or whatever octets the broker itself has given."""
        value = self._values.get(name)
        return value if isinstance(value, bytes) else self.text(name).encode()

    def value(self, name: str) -> object:
        """An argument of any type; None where it was left out."""
        return self._values.get(name)

    def whole(self, name: str) -> int:
        """An argument that is a whole number; 0 where it was left out."""
        value = self._values.get(name)
        return value if isinstance(value, int) else 0

    def flag(self, name: str) -> bool:
        """An argument that is true or false; false where it was left out."""
        return self._values.get(name) is True

    def table(self, name: str) -> dict[str, object]:
        """An argument that is an object; empty where it was left out."""
        value = self._values.get(name)
        return value if isinstance(value, dict) else {}

    def texts(self, name: str) -> list[str]:
        """An argument that is a list of texts; empty where it was left out."""
        value = self._values.get(name)
        return value if isinstance(value, list) else []

    def ranges(self, name: str) -> list[tuple[int, int]] | None:
        """An argument that is a list of offsets, as ranges [first, end) that ascend; None where it was left out."""
        if name not in self:
            return None
        value = self._values[name]
        assert isinstance(value, list)
        pairs = sorted((each[0], each[1]) if isinstance(each, list) else (each, each + 1) for each in value)
        merged: list[tuple[int, int]] = []
        for first, end in pairs:
            if merged and first <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((first, end))
        return merged

    def only(self, names: Sequence[str]) -> dict[str, object]:
        """The arguments of these names that were given."""
        return {name: self._values[name] for name in names if name in self}


def has_type(value: object, type: str) -> bool:
    """True if a value out of JSON is of this type, and within what the broker can hold; a name may be octets."""
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
    """True if a value out of JSON is an offset, or two of them in order."""
    if not isinstance(value, list):
        return is_offset(value)
    return len(value) == 2 and is_offset(value[0]) and is_offset(value[1]) and value[0] <= value[1]


def is_offset(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int) and 0 <= value < INTEGER_MAX


def refuse(name: str, value: object, text: str) -> RequestError:
    """An error that names an argument and its value."""
    return RequestError(INVALID, f"{name}: {shown(value)} {text}")


def check_bounds(parameter: Parameter, value: object) -> None:
    """RequestError(INVALID) for a whole number that is out of an argument's bounds."""
    least, most = parameter.least, parameter.most
    if not isinstance(value, int) or least is None:
        return
    if most is not None and not least <= value <= most:
        raise refuse(parameter.name, value, f"is not within {least} .. {most}")
    if value < least:
        raise refuse(parameter.name, value, f"is below {least}")
