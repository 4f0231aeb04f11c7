"""The arguments of a consumer, as an attach says them: by link properties, and by filters of its source.

    link property               filter                              argument
    consumer-group                                                  x-consumer-group
    cursor                      rabbitmq:stream-offset-spec         x-stream-offset
                                rabbitmq:stream-filter              x-stream-filter
                                rabbitmq:stream-match-unfiltered    x-stream-match-unfiltered
    rabbitmq:priority, priority                                     x-priority
    rabbitmq:consumer-timeout                                       x-consumer-timeout
    x-...                                                           the same
                               those of `message_filters`           x-filter

A filter that is none of these is left out of the answer, by which a client knows that it is not in force.
"""

from __future__ import annotations

from typing import Final

from forebay.core.errors import INVALID, RequestError
from forebay.core.units import MS_PER_S
from forebay.filter.parser import parse
from forebay.session.amqp10.outgoing.message_filters import (
    CODES,
    MESSAGE_FILTERS,
    OWN,
    SQL,
    SQL_KEY,
    translate_filter,
)
from forebay.wire.amqp10.values import Array, Described, Number, Symbol, Timestamp

PROPERTIES: Final = {
    "consumer-group": "x-consumer-group",
    "cursor": "x-stream-offset",
    "rabbitmq:priority": "x-priority",
    "priority": "x-priority",
    "rabbitmq:consumer-timeout": "x-consumer-timeout",
}
FILTERS: Final = {
    "rabbitmq:stream-offset-spec": "x-stream-offset",
    "rabbitmq:stream-filter": "x-stream-filter",
    "rabbitmq:stream-match-unfiltered": "x-stream-match-unfiltered",
}
FILTER: Final = "x-filter"
CURSORS: Final = {"earliest": "first", "latest": "next"}


def arguments_in(properties: dict[str, object] | None, filters: dict[str, object] | None) -> dict[str, object]:
    """Return the arguments that the properties of an attach and the filters of its source ask for."""
    arguments: dict[str, object] = {}
    for name, value in (properties or {}).items():
        argument = PROPERTIES.get(name, name if name.startswith("x-") else "")
        if argument:
            arguments[argument] = plain_value(value, f"attach: properties: {name}")
    conditions: list[str] = []
    for name, value in (filters or {}).items():
        kind = descriptor_of(name, value)
        inner = value.value if isinstance(value, Described) else value
        if is_message_filter(kind, value):
            translated = translate_filter(kind, name, inner)
            if translated:
                conditions.append(translated)
        argument = FILTERS.get(kind, "")
        if argument:
            arguments[argument] = plain_value(inner, f"attach: source: filter '{name}'")
    if conditions:
        own = arguments.get(FILTER)
        if own is not None:
            if not isinstance(own, str):
                raise RequestError(INVALID, f"attach: properties: {FILTER}: {own!r} must be a string")
            parse(own)  # which it has to be by itself, too
            conditions.insert(0, own)
        arguments[FILTER] = all_of(conditions)
    start = arguments.get("x-stream-offset")
    if isinstance(start, str):
        arguments["x-stream-offset"] = int(start) if start.isdigit() else CURSORS.get(start, start)
    return arguments


def filters_in_force(filters: dict[str, object] | None) -> dict[str, object] | None:
    """Return those of a source's filters that its consumer goes by."""
    if filters is None:
        return None
    found: dict[str, object] = {}
    for name, value in filters.items():
        kind = descriptor_of(name, value)
        if kind in FILTERS or is_message_filter(kind, value):
            found[name] = value
    return found or None


def descriptor_of(name: str, value: object) -> str:
    """Return what a filter says that it is: by its descriptor, or else by its key."""
    if isinstance(value, Described):
        descriptor = value.descriptor
        if isinstance(descriptor, Symbol):
            return descriptor.text
        if isinstance(descriptor, Number) and descriptor.value in CODES:
            return CODES[descriptor.value]
    return SQL if name == SQL_KEY else name


def is_message_filter(kind: str, value: object) -> bool:
    """Return whether a filter looks at each message. Without a descriptor, only the keys of SQL and OWN say so."""
    return kind in MESSAGE_FILTERS and (isinstance(value, Described) or kind in (SQL, OWN))


def all_of(conditions: list[str]) -> str:
    """Return the filter that holds if all of these hold."""
    return conditions[0] if len(conditions) == 1 else " AND ".join([f"({each})" for each in conditions])


def whole_number(value: Number, field: str) -> int:
    """Return a number, which must be one of the 64 bits with a sign that AMQP 0.9.1's arguments have."""
    if value.value >= 1 << 63:
        raise RequestError(INVALID, f"{field}: {value.value} is too large")
    return value.value


def plain_value(value: object, field: str) -> object:
    """Return a value as AMQP 0.9.1's arguments have it."""
    if isinstance(value, Timestamp):
        return value.value // MS_PER_S
    if isinstance(value, Number):
        return whole_number(value, field)
    if isinstance(value, Symbol):
        return value.text
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, Array)):
        items = value.items if isinstance(value, Array) else value
        return [plain_value(each, field) for each in items]
    raise RequestError(INVALID, f"{field}: {value!r} is no value of an argument")
