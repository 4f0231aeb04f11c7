"""Converts a stored record to JSON for the management API and its users."""

from __future__ import annotations

import base64
from typing import Final

from forebay.message.subject import DEATH_NAMES, PROPERTY_NAMES, RecordSubject

INTEGER_MIN: Final = -9_223_372_036_854_775_808
INTEGER_MAX: Final = 18_446_744_073_709_551_615
ALWAYS: Final = ("offset", "exchange", "routing_key", "protocol", "stored_ms", "octets", "deliveries", "failures")


def record_shown(record: RecordSubject, body_octets_max: int) -> dict[str, object]:
    """Return a record's properties, headers and deaths for JSON, and at most `body_octets_max` bytes of its body.

    A body that is text stands under `body`, any other in base64 under `body_base64`.
    """
    shown: dict[str, object] = {name: plain(record.property(name)) for name in ALWAYS}
    shown["properties"] = properties_shown(record, PROPERTY_NAMES)
    shown["headers"] = {key: plain(value) for key, value in record.properties().headers}
    death = properties_shown(record, DEATH_NAMES)
    if death:
        shown["death"] = death
    shown.update(body_shown(record.read_body(), body_octets_max))
    return shown


def body_shown(whole: bytes, octets_max: int) -> dict[str, object]:
    """Return the first `octets_max` bytes of a body: text under `body`, any other in base64 under `body_base64`."""
    body = whole[:octets_max]
    shown: dict[str, object] = {"is_cut": len(body) < len(whole)}
    try:
        shown["body"] = body.decode()
    except UnicodeDecodeError:
        shown["body_base64"] = base64.b64encode(body).decode()
    return shown


def properties_shown(record: RecordSubject, names: list[str]) -> dict[str, object]:
    """Return the properties among `names` that the message has."""
    properties = {name: record.property(name) for name in names}
    return {name: plain(value) for name, value in properties.items() if value is not None}


def plain(value: object) -> object:
    """Return a value as JSON can represent it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {str(plain(key)): plain(each) for key, each in value.items()}
    if isinstance(value, int) and not isinstance(value, bool) and not INTEGER_MIN <= value <= INTEGER_MAX:
        return str(value)  # few JSON parsers read longer integers
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and value - value == 0.0:
        return value
    return str(value)
