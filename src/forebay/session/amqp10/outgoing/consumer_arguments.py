"""The arguments of a consumer, as an attach says them: by link properties, and by filters of its source.

    link property               filter                              argument
    consumer-group                                                  x-consumer-group
    cursor                      rabbitmq:stream-offset-spec         x-stream-offset
                                rabbitmq:stream-filter              x-stream-filter
                                rabbitmq:stream-match-unfiltered    x-stream-match-unfiltered
    rabbitmq:priority, priority                                     x-priority
    rabbitmq:consumer-timeout                                       x-consumer-timeout
    x-...                                                           the same

A filter that is none of these is left out of the answer, by which a client knows that it is not in force.
"""

from __future__ import annotations

from typing import Final

from forebay.core.errors import INVALID, RequestError
from forebay.core.units import MS_PER_S
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
CURSORS: Final = {"earliest": "first", "latest": "next"}


def arguments_in(properties: dict[str, object] | None, filters: dict[str, object] | None) -> dict[str, object]:
    """Return the arguments that the properties of an attach and the filters of its source ask for."""
    arguments: dict[str, object] = {}
    for name, value in (properties or {}).items():
        argument = PROPERTIES.get(name, name if name.startswith("x-") else "")
        if argument:
            arguments[argument] = plain_value(value, f"attach: properties: {name}")
    for name, value in (filters or {}).items():
        argument = FILTERS.get(descriptor_of(name, value), "")
        if argument:
            inner = value.value if isinstance(value, Described) else value
            arguments[argument] = plain_value(inner, f"attach: source: filter '{name}'")
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
        if descriptor_of(name, value) in FILTERS:
            found[name] = value
    return found or None


def descriptor_of(name: str, value: object) -> str:
    """Return what a filter says that it is: by its descriptor, or else by its key."""
    if isinstance(value, Described) and isinstance(value.descriptor, Symbol):
        return value.descriptor.text
    return name


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
