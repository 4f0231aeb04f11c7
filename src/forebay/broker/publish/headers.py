"""Headers by which a message asks something of the broker beside being delivered.

CC, BCC                          arrays: their texts are further routing keys; BCC is not shown to consumers
x-delay                          milliseconds after which the message is routed, as if it were published then
x-delay-id                       the name under which it can be cancelled until then
x-producer-id with x-sequence    taken once: a number not above the producer's last one is a duplicate
x-deduplication-key              taken once for each key
x-forebay-...                    reserved for the broker: a name that neither it nor its deliveries know is refused

Few messages have any of these; they go a way of their own, so that the others pay nothing for them.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be
from mypy_extensions import i64, u8

from forebay.broker.publish.deduplication import Identity, address_of, identity_of
from forebay.broker.publish.delayed import KEY_OCTETS_MAX
from forebay.broker.publish.publishing import Publishing
from forebay.broker.publish.router import Route
from forebay.core.errors import PRECONDITION, RequestError
from forebay.core.message import ACCEPTED, AMQP091, EXPIRES, KEYED, REJECTED
from forebay.core.nearest import hint
from forebay.message.fields import GROUP_HEADER, marks_of
from forebay.queue.declaration.arguments import EXPIRY_MS_MAX
from forebay.wire.amqp091.codec import TABLE_DEPTH_MAX, put_short_string, put_value, skip_value
from forebay.wire.amqp091.properties import (
    EXPIRATION,
    HEADERS,
    USER_ID,
    check_properties,
    edit_headers,
    field_at,
    flags_of,
    header_at,
    headers_of,
    short_field,
)

CC: Final = b"CC"
BCC: Final = b"BCC"
DELAY: Final = b"x-delay"
DELAY_ID: Final = b"x-delay-id"
PRODUCER: Final = b"x-producer-id"
SEQUENCE: Final = b"x-sequence"
DEDUPLICATION_KEY: Final = b"x-deduplication-key"
NAMES: Final = (CC, BCC, DELAY, DELAY_ID, PRODUCER, SEQUENCE, DEDUPLICATION_KEY)
RESERVED: Final = b"x-forebay-"  # what names begin with that nobody else has
RESERVED_TEXT: Final = "x-forebay-"
# Of deliveries: message id, group, queue, offset. Who publishes what came keeps them.
ORIGIN_HEADERS: Final[list[bytes]] = [
    b"x-forebay-message-id",
    b"x-forebay-group-id",
    b"x-forebay-queue",
    b"x-forebay-offset",
]
# Of webhooks' requests, whose headers a bridge that they are sent to takes for properties.
EVENT_HEADERS: Final[list[bytes]] = [b"x-forebay-event", b"x-forebay-delivery", b"x-forebay-signature"]
ASKS: Final = 1
GROUPED: Final = 2
UNKNOWN: Final = 4
MARKS: Final = EXPIRES | KEYED
CAPITALS: Final = (66, 67)  # B, C
SMALL_X: Final = 120
DELAY_MS_MAX: Final = 100 * 366 * 86_400_000  # a century: beyond it somebody meant another unit

# What RabbitMQ's errors call the types of field values (AMQP 0.9.1 section 4.2.1, with its errata).
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


def asked_by(properties: bytes) -> i64:
    """The headers of this table that checked properties have.

    ASKS where `read_publish_headers` has something to do, GROUPED for x-group-id, UNKNOWN for a reserved name
    """
    found: i64 = 0
    if not flags_of(properties) & HEADERS:
        return found
    pos = field_at(properties, HEADERS, TABLE_DEPTH_MAX)
    end = pos + 4 + (i64(read_i32_be(properties, pos)) & 0xFFFFFFFF)
    pos += 4
    while pos < end:
        start = pos + 1
        pos = start + i64(properties[pos])
        if pos > start:
            first = i64(properties[start])
            if first == SMALL_X or first in CAPITALS:
                name = properties[start:pos]
                if name in NAMES:
                    found |= ASKS
                elif name == GROUP_HEADER:
                    found |= GROUPED
                elif name.startswith(RESERVED):
                    found |= UNKNOWN
        pos = skip_value(properties, pos, end, TABLE_DEPTH_MAX)
    return found


def asks_of(properties: bytes, flags: i64) -> i64:
    """ASKS and UNKNOWN as `asked_by` has them, and the marks of the record that checked properties make."""
    asked: i64 = asked_by(properties) if flags & HEADERS else 0
    found = asked & (ASKS | UNKNOWN)
    if flags & EXPIRATION or asked & GROUPED:
        found |= marks_of(AMQP091, properties)
    return found


def check_message(properties: bytes, user: bytes, depth_max: i64) -> i64:
    """`asks_of` properties; errors unless another client can do something with them, and the broker what they ask for.

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
    asked = asks_of(properties, flags)
    if asked & UNKNOWN:
        for name, _ in headers_of(properties, depth_max):
            check_name(name, "header")
    return asked


def check_name(name: str, what: str) -> None:
    """RequestError where a header or user property has a reserved name that means nothing."""
    if not name.startswith(RESERVED_TEXT):
        return
    octets = name.encode()
    if octets not in ORIGIN_HEADERS and octets not in EVENT_HEADERS:
        known = [each.decode() for each in (*NAMES, GROUP_HEADER)]
        meant = hint("x-" + name[len(RESERVED_TEXT) :], known)
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
    values: dict[str, object] = {}
    for name, value in headers_of(properties, TABLE_DEPTH_MAX):
        values[name] = value
    if "CC" in values:
        headers.keys += routing_keys("CC", values["CC"], properties)
    if "BCC" in values:
        headers.keys += routing_keys("BCC", values["BCC"], properties)
        headers.properties = edit_headers(properties, [BCC], b"", TABLE_DEPTH_MAX)
    if "x-delay" in values:
        delay_ms = delay_of(values["x-delay"])
        if delay_ms > 0:
            headers.delay_us = delay_ms * 1000
            headers.delay_id = delay_id_of(values.get("x-delay-id", ""))
            # As the delayed-message plugin has it: consumers see how long it was, and it is no delay any more.
            headers.delayed = edit_headers(properties, [DELAY], field(DELAY, -int(delay_ms)), TABLE_DEPTH_MAX)
    headers.identity = identity_of(
        values.get("x-producer-id"), values.get("x-sequence"), values.get("x-deduplication-key")
    )
    return headers


def routing_keys(name: str, value: object, properties: bytes) -> list[bytes]:
    """The texts of CC or BCC; what else is among them says nothing, as with RabbitMQ."""
    if not isinstance(value, list):
        type_name = TYPE_NAMES[properties[header_at(properties, name.encode(), TABLE_DEPTH_MAX)]]
        raise RequestError(PRECONDITION, f'invalid message: {{unacceptable_type_in_header,"{name}",{type_name}}}')
    keys: list[bytes] = []
    for each in value:
        if isinstance(each, str):
            keys.append(each.encode())
        elif isinstance(each, bytes):
            keys.append(each)
    return keys


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


def field(name: bytes, value: object) -> bytes:
    """One field as it stands in a table."""
    out = BytesWriter()
    put_short_string(out, name)
    put_value(out, value)
    return out.getvalue()


# ---- publishing


def publish_with_headers(publishing: Publishing, route: Route, headers: PublishHeaders, format: u8, body: bytes) -> i64:
    """As `Publishing.publish`, with what the headers ask for; what was taken before is ACCEPTED, and left at that."""
    identity = headers.identity
    if identity is None:
        return publish_or_delay(publishing, route, headers, format, body)
    seen = publishing.deduplication
    if seen.is_known(address_of(route.exchange, route.routing_key), identity, publishing.turn.now_us):
        return ACCEPTED
    if not publishing.admission.take_room(seen.octets(identity)):
        return REJECTED
    outcome = publish_or_delay(publishing, route, headers, format, body)
    if outcome == ACCEPTED:
        seen.remember(identity)
    return outcome


def publish_or_delay(publishing: Publishing, route: Route, headers: PublishHeaders, format: u8, body: bytes) -> i64:
    if headers.delay_us == 0:
        return publishing.publish(route_with_headers(publishing, route, headers), format, headers.properties, body)
    due_us = publishing.turn.now_us + headers.delay_us
    try:
        kept = publishing.delay(
            headers.delay_id, due_us, format, route.routing_key, headers.delayed, body, route.exchange
        )
    except RequestError as error:  # too many wait already
        publishing.admission.refusal = error.text
        return REJECTED
    return ACCEPTED if kept else REJECTED


def route_with_headers(publishing: Publishing, route: Route, headers: PublishHeaders) -> Route:
    """The route of the message by all its routing keys."""
    if headers.keys:
        return publishing.router.route_all(
            route.exchange, [route.routing_key, *headers.keys], AMQP091, headers.properties
        )
    return route if route.headers_exchange is None else publishing.router.resolve(route, AMQP091, headers.properties)
