"""The properties of AMQP 0.9.1 messages as RabbitMQ's API has them in JSON."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

from forebay.core.errors import INVALID, RequestError
from forebay.core.message import Properties
from forebay.core.reading.nearest import slip_among
from forebay.message.formats.table import EXCHANGE_FORMAT
from forebay.message.requests import check_expiration
from forebay.message.shown import plain

PERSISTENT: Final = 2
TEXT_OCTETS_MAX: Final = 255
LINE_OCTETS: Final = 76  # of base64
# Those that are texts, by their names here and there.
TEXTS: Final = ("content_type", "content_encoding", "reply_to", "message_id", "type", "user_id", "app_id", "cluster_id")
NUMBERS: Final = {"delivery_mode": 2, "priority": 255, "timestamp": (1 << 63) - 1}
NAMES: Final = (*TEXTS, *NUMBERS, "correlation_id", "expiration", "headers")


def octets_of_properties(given: Mapping[str, object]) -> bytes:
    """Properties as they are published; RequestError(INVALID) names the one that is wrong, or most likely misspelt.

    Others that are unknown say nothing, as with RabbitMQ.
    """
    name, meant = slip_among(given, NAMES)
    if meant:
        raise RequestError(INVALID, f"properties: {name!r} is no property: did you mean {meant}?")
    made = Properties()
    made.durable = number_of(given, "delivery_mode") == PERSISTENT
    made.priority = number_of(given, "priority")
    made.timestamp_s = number_of(given, "timestamp")
    for name in TEXTS:
        setattr(made, name, text_of(given, name))
    correlation = text_of(given, "correlation_id")
    made.correlation_id = None if correlation is None else correlation.encode()
    expiration = text_of(given, "expiration")
    if expiration is not None:
        check_expiration(expiration)
        made.expiration_ms = int(expiration)
    headers = given.get("headers") or {}
    if not isinstance(headers, dict):
        raise RequestError(INVALID, f"properties: headers: {headers!r} is no object")
    for name, value in headers.items():
        if len(name.encode()) > TEXT_OCTETS_MAX:
            raise RequestError(INVALID, f"properties: headers: a name has more than {TEXT_OCTETS_MAX} octets")
        made.headers.append((name, value))
    return EXCHANGE_FORMAT.encode(made)


def text_of(given: Mapping[str, object], name: str) -> str | None:
    """A property that is a text; None where it is not given."""
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or len(value.encode()) > TEXT_OCTETS_MAX:
        raise RequestError(INVALID, f"properties: {name}: {value!r} is no text of at most {TEXT_OCTETS_MAX} octets")
    return value


def number_of(given: Mapping[str, object], name: str) -> int | None:
    """A property that is a number; None where it is not given."""
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= NUMBERS[name]:
        raise RequestError(INVALID, f"properties: {name}: {value!r} is no whole number from 0 to {NUMBERS[name]}")
    return value


def properties_fields(said: Properties) -> dict[str, object]:
    """The properties that a message has."""
    found: dict[str, object] = {name: getattr(said, name) for name in TEXTS}
    found["delivery_mode"] = PERSISTENT if said.durable else None
    found["priority"] = said.priority
    found["timestamp"] = said.timestamp_s
    found["correlation_id"] = None if said.correlation_id is None else value_shown(said.correlation_id)
    found["expiration"] = None if said.expiration_ms is None else str(said.expiration_ms)
    found["headers"] = {name: value_shown(value) for name, value in said.named_values()} or None
    return {name: value for name, value in found.items() if value is not None}


def value_shown(value: object) -> object:
    """A value of AMQP in JSON as RabbitMQ's API has it."""
    if value is None:
        return "undefined"
    if isinstance(value, list):
        return [value_shown(each) for each in value]
    if isinstance(value, dict):
        return {str(plain(key)): value_shown(each) for key, each in value.items()}
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            octets = base64.b64encode(value).decode()
            lines = [octets[at : at + LINE_OCTETS] for at in range(0, len(octets), LINE_OCTETS)]
            return "Not UTF-8, base64 is: " + "\n".join(lines)
    return plain(value)
