"""The kinds of exchanges there are, by the names that clients declare them with."""

from __future__ import annotations

from typing import Final

from forebay.core.errors import PRECONDITION, RequestError
from forebay.core.reading.nearest import slip_of
from forebay.routing.exchange import (
    DIRECT,
    FANOUT,
    HEADERS,
    TOPIC,
    DirectExchange,
    Exchange,
    FanoutExchange,
    TopicExchange,
    text,
)
from forebay.routing.hash_exchange import CONSISTENT_HASH, HashExchange
from forebay.routing.headers_exchange import MATCH, WITH_X, HeadersExchange

DELAYED: Final = b"x-delayed-message"
DELAYED_TYPE: Final = "x-delayed-type"
FOREIGN_TO_BINDINGS: Final = ("x-bound-from",)  # of RabbitMQ's federation; nothing comes of it
KINDS: Final = (DIRECT, FANOUT, TOPIC, HEADERS, CONSISTENT_HASH, DELAYED)


def check_kind(kind: bytes) -> None:
    """RequestError, naming it, if there is no such kind."""
    if kind not in KINDS:
        raise RequestError(PRECONDITION, f"unknown exchange type '{text(kind)}'")


def make_exchange(
    kind: bytes, name: bytes, durable: bool, auto_delete: bool, internal: bool, arguments: dict[str, object]
) -> Exchange:
    """Return a new exchange. Raises RequestError if there is no such kind or the arguments are wrong."""
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


def check_binding(vhost: bytes, exchange: Exchange, arguments: dict[str, object]) -> None:
    """RequestError names an argument of a new binding that nothing puts in force, and what may have been meant."""
    is_headers = isinstance(exchange, HeadersExchange)
    kind = arguments.get(MATCH)
    with_x = isinstance(kind, str) and kind.endswith(WITH_X)
    for name in arguments:
        # RabbitMQ passes over the other names with x-, too, and who leaves headers out by that is right.
        if name in FOREIGN_TO_BINDINGS or (is_headers and (with_x or slip_of(name, [MATCH]) == "")):
            continue
        words = f"did you mean {MATCH}?" if is_headers else "only headers exchanges look at arguments"
        raise RequestError(
            PRECONDITION,
            f"invalid arg '{name}' for a binding of exchange '{text(exchange.name)}' in vhost '{text(vhost)}': nothing "
            f"puts it in force; {words}",
        )
