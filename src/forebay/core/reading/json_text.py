"""The one reader of JSON that comes from outside: what it returns can be stored, and written as JSON again.

JSON may hold what nothing here can keep: half of a surrogate pair (`"\\ud83d"`, as a program cuts an emoji), numbers of
more than 64 bits, numbers without end, and nesting without end. The reader refuses these, and names field and value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

import msgspec

NESTING_MAX: Final = 200  # of lists and objects: an encoder of answers goes to 254, field tables of AMQP to 128
INTEGER_LIMIT: Final = 1 << 63
DIGITS_MAX: Final = 40  # that are read of an integer: it has more than 64 bits
VALUE_CHARACTERS_MAX: Final = 80
PATH_CHARACTERS_MAX: Final = 120
LONG_NUMBER: Final = re.compile(rb"\d{19}")
SURROGATE: Final = re.compile("[\ud800-\udfff]")
WORD: Final = re.compile(r"[\w-]+")


class JsonError(ValueError):
    """A text that is no JSON, or JSON with a value that nothing can keep; the message names the field and the value."""


class NotJson(JsonError):
    """A text that is no JSON."""


def read_json(source: bytes | str, field: str = "") -> object:
    """Return the value of a JSON text; raise JsonError, naming the field and the value, if it cannot be kept.

    field  what the text is the value of, for errors
    """
    octets = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    try:
        value: object = msgspec.json.decode(octets)
    except (ValueError, RecursionError) as error:
        check_value(read_leniently(octets, field), field)
        raise NotJson(f"no JSON: {error}") from None
    if LONG_NUMBER.search(octets) or octets.count(b"[") + octets.count(b"{") > NESTING_MAX:
        check_value(value, field)
    return value


def check_value(value: object, field: str = "") -> None:
    """Raise JsonError, naming the field and the value, if a value cannot be stored and written as JSON again."""
    fault = fault_of(value, field)
    if fault:
        raise JsonError(fault)


def read_leniently(octets: bytes, field: str) -> object:
    """Return the value of a text that the strict decoder refused, to find out why; raise JsonError if it is no JSON."""
    try:
        value: object = json.loads(octets.decode("utf-8", "surrogatepass"), parse_int=parse_integer)
    except UnicodeDecodeError as error:
        raise NotJson(f"no UTF-8: byte {octets[error.start]:#04x} at {error.start}") from None
    except json.JSONDecodeError as error:
        raise NotJson(f"no JSON: {error}") from None
    except RecursionError:
        raise JsonError(located(field, f"nested deeper than {NESTING_MAX}")) from None
    return value


def is_unicode(text: str) -> bool:
    """Return whether a text can be written in UTF-8: it has no half of a surrogate pair."""
    return SURROGATE.search(text) is None


def parse_integer(digits: str) -> int:
    """Return an integer, of a very long one the beginning: Python refuses to convert thousands of digits."""
    return int(digits[:DIGITS_MAX])


def fault_of(value: object, field: str = "", depth: int = 0) -> str:
    """Return the field of a value that cannot be kept, the value and the reason; "" if all can be."""
    if isinstance(value, str):
        return located(field, f"{shown(value)} has half a character") if not is_unicode(value) else ""
    if isinstance(value, float):
        return located(field, f"{value} is not finite") if value - value != 0.0 else ""
    if isinstance(value, int):
        is_long = not -INTEGER_LIMIT <= value < INTEGER_LIMIT
        return located(field, f"{shown(value)} has more than 64 bits") if is_long else ""
    if not isinstance(value, Mapping | list | tuple):
        return ""
    if depth >= NESTING_MAX:
        return located(field, f"nested deeper than {NESTING_MAX}")
    if isinstance(value, Mapping):
        for name, each in value.items():
            if isinstance(name, str) and not is_unicode(name):
                return located(field, f"the name {shown(name)} has half a character")
            fault = fault_of(each, field_below(field, name), depth + 1)
            if fault:
                return fault
        return ""
    for index, each in enumerate(value):
        fault = fault_of(each, f"{field}[{index}]", depth + 1)
        if fault:
            return fault
    return ""


def field_below(field: str, name: object) -> str:
    """Return the path of a field of an object; a name that is no word stands in quotation marks."""
    step = name if isinstance(name, str) and WORD.fullmatch(name) else shown(name)
    return f"{field}.{step}" if field else str(step)


def located(field: str, fault: str) -> str:
    """Return a fault behind the field that has it, whose path is cut where it is long."""
    if len(field) > PATH_CHARACTERS_MAX:
        field = f"{field[:PATH_CHARACTERS_MAX]}..."
    return f"{field}: {fault}" if field else fault


def shown(value: object) -> str:
    """Return a value as a message can show it: in ASCII, and not all of it where it is long."""
    text = ascii(value)
    return text if len(text) <= VALUE_CHARACTERS_MAX else f"{text[:VALUE_CHARACTERS_MAX]}..."
