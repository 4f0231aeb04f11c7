"""Fields of requests to an entity."""

from __future__ import annotations

from typing import Final

from forebay.core.errors import INVALID, RequestError
from forebay.session.amqp10.servicebus.locks import uuid_order
from forebay.wire.amqp10.values import Array, Number, Symbol, Uuid

ITEMS_MAX: Final = 1000  # of one request
SESSION_CHARACTERS_MAX: Final = 128


def items_in(fields: dict[str, object], name: str) -> list[object]:
    """Return the items of a field that is an array or a list; RequestError if it is absent, empty or too long."""
    value = fields.get(name)
    items = value.items if isinstance(value, Array) else value
    if not isinstance(items, list) or not items or len(items) > ITEMS_MAX:
        raise RequestError(INVALID, f"field '{name}': must be an array of 1 to {ITEMS_MAX} items")
    return items


def sequence_numbers_in(fields: dict[str, object]) -> list[int]:
    """Return the field `sequence-numbers`, each of which must be there once."""
    found: list[int] = []
    for item in items_in(fields, "sequence-numbers"):
        number = item.value if isinstance(item, Number) else item
        if isinstance(number, bool) or not isinstance(number, int) or number < 1 or number >= 1 << 63:
            raise RequestError(INVALID, f"field 'sequence-numbers': {number!r:.100} is no sequence number")
        found.append(number)
    if len(set(found)) != len(found):
        raise RequestError(INVALID, "field 'sequence-numbers': one of them is there twice")
    return found


def lock_tokens_in(fields: dict[str, object]) -> list[bytes]:
    """Return the field `lock-tokens` as the delivery-tags that they are."""
    found: list[bytes] = []
    for item in items_in(fields, "lock-tokens"):
        if not isinstance(item, Uuid):
            raise RequestError(INVALID, f"field 'lock-tokens': {item!r:.100} is no uuid")
        found.append(uuid_order(item.octets))
    return found


def text_field(fields: dict[str, object], name: str, default: str | None = None) -> str:
    """Return a field that is text; RequestError if it is something else, or absent without a default."""
    value = fields.get(name)
    if isinstance(value, Symbol):
        return value.text
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise RequestError(INVALID, f"field '{name}': {value!r:.100} must be text")
    return value


def session_in(fields: dict[str, object]) -> bytes | None:
    """Return the field `session-id` as the name of a message group; None if it is absent."""
    if fields.get("session-id") is None:
        return None
    return session_name(text_field(fields, "session-id"))


def session_name(text: str) -> bytes:
    """Return the message group of a session; RequestError if there can be no such one."""
    if not text or len(text) > SESSION_CHARACTERS_MAX:
        raise RequestError(INVALID, f"session-id of {len(text)} characters: must be 1 to {SESSION_CHARACTERS_MAX}")
    return text.encode("utf-8", "surrogatepass")
