"""Filters of a source that look at each message, as the broker's filter language says them.

descriptor                                               value
apache.org:selector-filter:string    0x468C00000004      a JMS selector
amqp:sql-filter                      0x120               an SQL filter
amqp:properties-filter               0x173               fields of the properties section, and what they equal
amqp:application-properties-filter   0x174               application properties, and what they equal
forebay:filter                                           a filter in the broker's language
"""

from __future__ import annotations

from typing import Final

from forebay.core.errors import INVALID, RequestError
from forebay.core.units import MS_PER_S
from forebay.filter.nodes import Affix, And, Comparison, FilterNode, Literal, Path
from forebay.filter.parser import parse
from forebay.filter.sql.names import field_node
from forebay.filter.sql.selector import parse_jms, parse_sql
from forebay.filter.values import EQUAL, INTEGER_LEAST, INTEGER_MOST
from forebay.wire.amqp10.values import Char, Float, Map, Number, Symbol, Timestamp, Uuid

SELECTOR: Final = "apache.org:selector-filter:string"
SQL: Final = "amqp:sql-filter"
PROPERTIES: Final = "amqp:properties-filter"
APPLICATION_PROPERTIES: Final = "amqp:application-properties-filter"
OWN: Final = "forebay:filter"
MESSAGE_FILTERS: Final = (SELECTOR, SQL, PROPERTIES, APPLICATION_PROPERTIES, OWN)
CODES: Final = {
    0x468C00000004: SELECTOR,
    0x120: SQL,
    0x173: PROPERTIES,
    0x174: APPLICATION_PROPERTIES,
}
SQL_KEY: Final = "sql-filter"
ENTRIES_MAX: Final = 16
INFINITE: Final = float("inf")


def translate_filter(kind: str, key: str, value: object) -> str:
    """Return one of MESSAGE_FILTERS in the filter language, "" if all messages match it; refuse an invalid one."""
    where = f"attach: source: filter '{key}'"
    if kind in (SELECTOR, SQL, OWN):
        if not isinstance(value, str):
            raise RequestError(INVALID, f"{where}: {value!r} must be a string")
        try:
            if kind == OWN:
                return parse(value).text
            return parse_jms(value) if kind == SELECTOR else parse_sql(value)
        except RequestError as error:
            raise RequestError(error.reason, f"{where}: {error.text}") from None
    pairs = pairs_of(value, where)
    if len(pairs) > ENTRIES_MAX:
        raise RequestError(INVALID, f"{where}: {len(pairs)} entries: at most {ENTRIES_MAX}")
    parts: list[FilterNode] = []
    for position, (name, wanted) in enumerate(pairs):
        field = name.text if isinstance(name, Symbol) else name
        if not isinstance(field, str) or not field:
            raise RequestError(INVALID, f"{where}, entry {position + 1}: {name!r} is no name")
        try:
            asked: FilterNode = Path(field, [])
            if kind == PROPERTIES:
                check_time(wanted)
                asked = field_node(field.replace("-", "_"), position, field)
            if wanted is not None:  # null matches whatever the message says
                parts.append(equality(asked, wanted))
        except RequestError as error:
            raise RequestError(INVALID, f"{where}, entry {position + 1}, '{field}': {error.text}") from None
    if not parts:
        return ""
    return parts[0].written() if len(parts) == 1 else And(parts).written()


def pairs_of(value: object, where: str) -> list[tuple[object, object]]:
    """Return the pairs of a map."""
    if isinstance(value, Map):
        return value.pairs
    if isinstance(value, dict):
        return list(value.items())
    raise RequestError(INVALID, f"{where}: {value!r} must be a map")


def equality(asked: FilterNode, wanted: object) -> FilterNode:
    """Return the condition that what is asked for equals a value, or begins or ends with a text."""
    if isinstance(wanted, str):
        if wanted.startswith(("&p:", "&s:")):
            return Affix(wanted[1] == "s", asked, Literal(text_literal(wanted[3:])))
        if wanted.startswith("&"):
            if not wanted.startswith("&&"):
                raise RequestError(INVALID, f"{wanted!r}: behind '&' stands 'p:', 's:' or another '&'")
            wanted = wanted[1:]
    return Comparison(EQUAL, asked, Literal(literal_value(wanted)))


def literal_value(wanted: object) -> object:
    """Return a value of a message as a value of the filter language; refuse one that the language does not have."""
    if isinstance(wanted, bool):
        return wanted
    if isinstance(wanted, str):
        return text_literal(wanted)
    if isinstance(wanted, Symbol):
        return text_literal(wanted.text)
    if isinstance(wanted, Uuid):
        return f"urn:uuid:{wanted.text()}"
    if isinstance(wanted, bytes):
        try:
            return text_literal(wanted.decode())
        except UnicodeDecodeError:
            raise RequestError(INVALID, "octets that are no UTF-8 cannot be compared") from None
    if isinstance(wanted, Number) and not isinstance(wanted, Char):
        return wanted.value
    if isinstance(wanted, int) and INTEGER_LEAST <= wanted <= INTEGER_MOST:
        return wanted
    number = wanted.number() if isinstance(wanted, Float) else wanted
    if isinstance(number, float) and -INFINITE < number < INFINITE:
        return number
    raise RequestError(INVALID, f"{wanted!r} cannot be compared with what a message says")


def check_time(wanted: object) -> None:
    """Refuse a time that is no whole second: filters know a message's time by the second, and it would never match."""
    if isinstance(wanted, Timestamp) and wanted.value % MS_PER_S:
        raise RequestError(INVALID, f"{wanted.value} ms: times are compared by whole seconds")


def text_literal(words: str) -> str:
    """Return a text that is not empty: to the filter language an empty text is none."""
    if not words:
        raise RequestError(INVALID, "an empty text cannot be compared with what a message says")
    return words
