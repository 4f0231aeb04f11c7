"""The headers of `message/requests.py` in force: further routing keys, delays, messages taken once; and their checks.

Few messages have any of these; they go a way of their own, so that the others pay nothing for them.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64, u8

from forebay.broker.publish.deduplication import Identity, address_of, identity_of
from forebay.broker.publish.delayed import KEY_OCTETS_MAX
from forebay.broker.publish.outcome import NO_ROOM, TAKEN, PublishOutcome
from forebay.broker.publish.publishing import Publishing
from forebay.broker.publish.router import Route
from forebay.core.errors import PRECONDITION, RequestError
from forebay.core.message import ACCEPTED, AMQP091, REJECTED
from forebay.core.reading.nearest import hint
from forebay.message.edited import edited
from forebay.message.fields import GROUP_HEADER, headers_of, texts_in
from forebay.message.requests import (
    BCC,
    DELAY,
    EVENT_HEADERS,
    ORIGIN_HEADERS,
    REQUEST_HEADERS,
    RESERVED,
    UNKNOWN,
    requests_of,
)
from forebay.queue.declaration.arguments import EXPIRY_MS_MAX
from forebay.routing.cut_work import WorkInHand
from forebay.wire.amqp091.codec import TABLE_DEPTH_MAX
from forebay.wire.amqp091.properties import EXPIRATION, USER_ID, check_properties, header_at, short_field

DELAY_MS_MAX: Final = 100 * 366 * 86_400_000  # a century: beyond it somebody meant another unit

# RabbitMQ's names for the types of field values in errors (AMQP 0.9.1 section 4.2.1, with its errata).
TYPE_NAMES: Final[dict[int, str]] = {
    83: "longstr",
    73: "signedint",
    68: "decimal",
    84: "timestamp",
    70: "table",
    98: "byte",
    66: "unsignedbyte",
    100: "double",
    102: "float",
    108: "long",
    115: "short",
    117: "unsignedshort",
    105: "unsignedint",
    116: "bool",
    120: "binary",
    86: "void",
}


@final
class PublishHeaders:
    """The requests in the headers of one message.

    properties  as they are delivered
    delayed     as they are kept until their time has come
    keys        of CC and BCC
    delay_us    0 for none
    identity    None where nobody asks for it to be taken only once
    """

    def __init__(self, properties: bytes) -> None:
        self.properties = properties
        self.delayed = properties
        self.keys: list[bytes] = []
        self.delay_us: i64 = 0
        self.delay_id = b""
        self.identity: Identity | None = None


def check_message(properties: bytes, user: bytes, depth_max: i64) -> i64:
    """`requests_of` properties; errors unless another client can read them, and the broker can do what they request.

    user  who publishes: nobody may say that he is somebody else
    raises  PeerError(MALFORMED), RequestError(PRECONDITION)
    """
    flags = check_properties(properties, depth_max)
    if flags & USER_ID:
        named = short_field(properties, USER_ID, depth_max)
        if named != user:
            raise RequestError(
                PRECONDITION,
                f"user_id property set to '{named.decode('utf-8', 'replace')}' but authenticated user was "
                f"'{user.decode('utf-8', 'replace')}'",
            )
    if flags & EXPIRATION:
        check_expiration(short_field(properties, EXPIRATION, depth_max).decode("utf-8", "replace"))
    found = requests_of(properties)
    if found & UNKNOWN:
        for name in headers_of(AMQP091, properties):
            check_name(name, "header")
    return found


def check_name(name: str, what: str) -> None:
    """RequestError where a header or user property has a reserved name that means nothing."""
    octets = name.encode()
    if octets.startswith(RESERVED) and octets not in ORIGIN_HEADERS and octets not in EVENT_HEADERS:
        known = [each.decode() for each in (*REQUEST_HEADERS, GROUP_HEADER)]
        meant = hint("x-" + name[len(RESERVED) :], known)
        raise RequestError(PRECONDITION, f"{what} '{name}': nothing puts it in force; {meant}")


def check_expiration(expiration: str) -> None:
    """RequestError unless it is a number of milliseconds that RabbitMQ takes, in its words (those of Erlang)."""
    digits = expiration.removeprefix("-")
    stop: i64 = 0
    while stop < i64(len(digits)) and "0" <= digits[stop] <= "9":
        stop += 1
    wrong = ""
    if stop == 0:
        wrong = "no_integer"
    elif stop < i64(len(digits)):
        wrong = f'{{leftover_string,"{digits[stop:]}"}}'
    elif digits != expiration:
        wrong = f"{{value_negative,{int(expiration)}}}"
    elif int(digits) > EXPIRY_MS_MAX:
        wrong = f"{{value_too_large,{int(digits)}}}"
    if wrong:
        raise RequestError(PRECONDITION, f"invalid expiration '{expiration}': {wrong}")


def read_publish_headers(properties: bytes) -> PublishHeaders:
    """The requests in checked properties; RequestError(PRECONDITION) where they are nonsense."""
    headers = PublishHeaders(properties)
    values = headers_of(AMQP091, properties)
    if "CC" in values:
        headers.keys += routing_keys("CC", values["CC"], properties)
    if "BCC" in values:
        headers.keys += routing_keys("BCC", values["BCC"], properties)
        headers.properties = edited(AMQP091, properties, [BCC], [])
    if "x-delay" in values:
        delay_ms = delay_of(values["x-delay"])
        if delay_ms > 0:
            headers.delay_us = delay_ms * 1000
            headers.delay_id = delay_id_of(values.get("x-delay-id", ""))
            # As the delayed-message plugin has it: consumers see how long it was, and it is no delay any more.
            headers.delayed = edited(AMQP091, properties, [DELAY], [("x-delay", -int(delay_ms))])
    headers.identity = identity_of(
        values.get("x-producer-id"), values.get("x-sequence"), values.get("x-deduplication-key")
    )
    return headers


def routing_keys(name: str, value: object, properties: bytes) -> list[bytes]:
    """The texts of CC or BCC; RequestError where it is no array."""
    if not isinstance(value, list):
        type_name = TYPE_NAMES[properties[header_at(properties, name.encode(), TABLE_DEPTH_MAX)]]
        raise RequestError(PRECONDITION, f'invalid message: {{unacceptable_type_in_header,"{name}",{type_name}}}')
    return texts_in(value)


def delay_of(value: object) -> i64:
    """Milliseconds; RequestError where it is no number of them."""
    if isinstance(value, float):
        value = int(value) if -DELAY_MS_MAX <= value <= DELAY_MS_MAX else None
    if isinstance(value, bool) or not isinstance(value, int) or value > DELAY_MS_MAX:
        raise RequestError(
            PRECONDITION, f"invalid x-delay header: {value!r} is no number of milliseconds up to {DELAY_MS_MAX}"
        )
    return max(0, value)


def delay_id_of(value: object) -> bytes:
    """A text that can name a delayed message, or else RequestError."""
    octets = value.encode() if isinstance(value, str) else value
    if not isinstance(octets, bytes) or len(octets) > KEY_OCTETS_MAX:
        raise RequestError(
            PRECONDITION, f"invalid x-delay-id header: {value!r} is no text of up to {KEY_OCTETS_MAX} octets"
        )
    return octets


# ---- publishing


def publish_with_headers(
    publishing: Publishing,
    route: Route,
    headers: PublishHeaders,
    format: u8,
    body: bytes,
    user: bytes,
    found: Route | None = None,
) -> PublishOutcome:
    """Publish for a user with what the headers ask for; what was taken before is TAKEN, and not published again.

    found  the message's route by all its keys and headers, where it is known already
    """
    identity = headers.identity
    if identity is None:
        return publish_or_delay(publishing, route, headers, format, body, found)
    identity.user = user
    seen = publishing.deduplication
    if seen.is_known(address_of(route.exchange, route.routing_key), identity, publishing.turn.now_us):
        return TAKEN
    if not publishing.admission.take_room(seen.octets(identity)):
        return NO_ROOM
    outcome = publish_or_delay(publishing, route, headers, format, body, found)
    if outcome.status == ACCEPTED:
        seen.remember(identity)
    return outcome


def publish_or_delay(
    publishing: Publishing, route: Route, headers: PublishHeaders, format: u8, body: bytes, found: Route | None
) -> PublishOutcome:
    if headers.delay_us == 0:
        found = found or route_with_headers(publishing, route, headers)
        return publishing.publish(found, format, headers.properties, body)
    due_us = publishing.turn.now_us + headers.delay_us
    try:
        return publishing.delay(
            headers.delay_id, due_us, format, route.routing_key, headers.delayed, body, route.exchange
        )
    except RequestError as error:  # too many wait already
        return PublishOutcome(REJECTED, error.text)


def route_with_headers(
    publishing: Publishing, route: Route, headers: PublishHeaders, work: WorkInHand | None = None
) -> Route:
    """The route of the message by all its routing keys."""
    router = publishing.router
    if headers.keys:
        keys = [route.routing_key, *headers.keys]
        return router.route_all(route.exchange, keys, AMQP091, headers.properties, work)
    return route if route.headers_exchange is None else router.resolve(route, AMQP091, headers.properties, work)
