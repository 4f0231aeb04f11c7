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

DELAYED: Final = b"x-delayed-message"
DELAYED_TYPE: Final = "x-delayed-type"


def make_exchange(
    kind: bytes, name: bytes, durable: bool, auto_delete: bool, internal: bool, arguments: dict[str, object]
) -> Exchange:
    """An exchange of the kind; RequestError, naming it, if there is no such kind or its arguments are wrong."""
    if kind == DIRECT:
        return DirectExchange(name, durable, auto_delete, internal, arguments)
    if kind == FANOUT:
        return FanoutExchange(name, durable, auto_delete, internal, arguments)
    if kind == TOPIC:
        return TopicExchange(name, durable, auto_delete, internal, arguments)
    if kind == HEADERS:
        return HeadersExchange(name, durable, auto_delete, internal, arguments)
    if kind == DELAYED:
        return make_delayed(name, durable, auto_delete, internal, arguments)
    raise RequestError(PRECONDITION, f"unknown exchange type '{text(kind)}'")


def make_delayed(
    name: bytes, durable: bool, auto_delete: bool, internal: bool, arguments: dict[str, object]
) -> Exchange:
    """RabbitMQ's exchange for delayed messages: here it only routes, for every exchange heeds the header `x-delay`."""
    inner = arguments.get(DELAYED_TYPE)
    if not isinstance(inner, str) or inner.encode() == DELAYED:
        raise no_such_type()
    try:
        made = make_exchange(inner.encode(), name, durable, auto_delete, internal, arguments)
    except RequestError as error:
        raise no_such_type() from error
    made.kind = DELAYED
    return made


def no_such_type() -> RequestError:
    return RequestError(PRECONDITION, f"Invalid argument, '{DELAYED_TYPE}' must be an existing exchange type")
