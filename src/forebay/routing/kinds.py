"""The kinds of exchanges there are, by the names that clients declare them with."""

from __future__ import annotations

from typing import Final

from forebay.core.errors import PRECONDITION, RequestError
from forebay.routing.exchange import (
    DIRECT,
    FANOUT,
    HEADERS,
    TOPIC,
    DirectExchange,
    Exchange,
    FanoutExchange,
    HeadersExchange,
    TopicExchange,
    text,
)
from forebay.routing.hash_exchange import CONSISTENT_HASH, HashExchange

DELAYED: Final = b"x-delayed-message"
DELAYED_TYPE: Final = "x-delayed-type"
KINDS: Final = (DIRECT, FANOUT, TOPIC, HEADERS, CONSISTENT_HASH, DELAYED)


def check_kind(kind: bytes) -> None:
    """RequestError, naming it, if there is no such kind."""
    if kind not in KINDS:
        raise RequestError(PRECONDITION, f"unknown exchange type '{text(kind)}'")


def make_exchange(
    kind: bytes, name: bytes, durable: bool, auto_delete: bool, internal: bool, arguments: dict[str, object]
) -> Exchange:
    """An exchange of the kind; RequestError if there is no such kind or its arguments are wrong."""
    check_kind(kind)
    if kind == DIRECT:
        return DirectExchange(name, durable, auto_delete, internal, arguments)
    if kind == FANOUT:
        return FanoutExchange(name, durable, auto_delete, internal, arguments)
    if kind == TOPIC:
        return TopicExchange(name, durable, auto_delete, internal, arguments)
    if kind == HEADERS:
        return HeadersExchange(name, durable, auto_delete, internal, arguments)
    if kind == CONSISTENT_HASH:
        return HashExchange(name, durable, auto_delete, internal, arguments)
    return make_delayed(name, durable, auto_delete, internal, arguments)


def make_delayed(
    name: bytes, durable: bool, auto_delete: bool, internal: bool, arguments: dict[str, object]
) -> Exchange:
    """RabbitMQ's exchange for delayed messages: here it only routes, for every exchange heeds the header `x-delay`."""
    inner = arguments.get(DELAYED_TYPE)
    if not isinstance(inner, str) or inner.encode() == DELAYED or inner.encode() not in KINDS:
        raise RequestError(PRECONDITION, f"Invalid argument, '{DELAYED_TYPE}' must be an existing exchange type")
    made = make_exchange(inner.encode(), name, durable, auto_delete, internal, arguments)
    made.kind = DELAYED
    made.fixed.append(DELAYED_TYPE)
    return made
