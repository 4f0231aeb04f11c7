"""Headers by which a message requests something of the broker.

CC, BCC                          arrays: their texts are further routing keys; BCC is not shown to consumers
x-delay                          milliseconds after which the message is routed, as if it were published then
x-delay-id                       the name under which it can be cancelled until then
x-cron with x-cron-time-zone     it is routed again and again, at the times of an expression, until it is cancelled
x-producer-id with x-sequence    taken once: a number not above the producer's last one is a duplicate
x-deduplication-key              taken once for each key
x-forebay-...                    reserved for the broker: a name that neither it nor its deliveries know is refused

A format has these under names and in types of its own: see `Format.read_requests`.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import PRECONDITION, RequestError
from forebay.core.message import EXPIRES, KEYED
from forebay.core.reading.nearest import hint
from forebay.message.recurrence import recurrence_of

CC: Final = b"CC"
BCC: Final = b"BCC"
DELAY: Final = b"x-delay"
DELAY_ID: Final = b"x-delay-id"
CRON: Final = b"x-cron"
CRON_ZONE: Final = b"x-cron-time-zone"
PRODUCER: Final = b"x-producer-id"
SEQUENCE: Final = b"x-sequence"
DEDUPLICATION_KEY: Final = b"x-deduplication-key"
REQUEST_HEADERS: Final = (CC, BCC, DELAY, DELAY_ID, CRON, CRON_ZONE, PRODUCER, SEQUENCE, DEDUPLICATION_KEY)
GROUP_HEADER: Final = b"x-group-id"  # the message group: a header over AMQP, a user property over MQTT
FILTER_HEADER: Final = b"x-stream-filter-value"
RESERVED: Final = b"x-forebay-"  # what names begin with that nobody else has
# Of deliveries: message id, group, queue, offset. Who publishes what came keeps them.
ORIGIN_HEADERS: Final[list[bytes]] = [
    b"x-forebay-message-id",
    b"x-forebay-group-id",
    b"x-forebay-queue",
    b"x-forebay-offset",
]
# Of webhooks' requests, whose headers a bridge that they are sent to takes for properties.
EVENT_HEADERS: Final[list[bytes]] = [b"x-forebay-event", b"x-forebay-delivery", b"x-forebay-signature"]

# Results of `Format.requests`, beside the marks of a record.
REQUESTS: Final = 1  # one of REQUEST_HEADERS
UNKNOWN: Final = 2  # a reserved name
MARKS: Final = EXPIRES | KEYED

DELAY_MS_MAX: Final = 100 * 366 * 86_400_000  # a century: beyond it somebody meant another unit
EXPIRATION_MS_MAX: Final = 315_360_000_000  # ten years, RabbitMQ's limit
DELAY_ID_OCTETS_MAX: Final = 255


@final
class PublishRequests:
    """The requests in the headers of one message.

    properties  as they are delivered
    delayed     as they are kept until their time has come
    keys        further routing keys
    delay_us    from the publish on, 0 for none
    due_us      the time of the publish instead, since 1970; 0 for none
    recurrence  the times at which it is published, see message/recurrence.py; empty for once
    delay_id    by which the message can be cancelled until then
    producer, sequence, deduplication_key  values of the headers by which it is taken once; None where there is none
    """

    def __init__(self, properties: bytes) -> None:
        self.properties = properties
        self.delayed = properties
        self.keys: list[bytes] = []
        self.delay_us: i64 = 0
        self.due_us: i64 = 0
        self.recurrence = b""
        self.delay_id = b""
        self.producer: object = None
        self.sequence: object = None
        self.deduplication_key: object = None


def read_recurrence(requests: PublishRequests, values: dict[str, object]) -> None:
    """Take the recurrence out of a message's headers; RequestError(PRECONDITION) if it is nonsense.

    Whoever has a header for a delay beside it is refused: only one of the two can hold.
    """
    names = ("x-cron", "x-cron-time-zone", "x-delay-id")
    if "x-cron" not in values:
        raise RequestError(PRECONDITION, f"x-cron-time-zone: {values['x-cron-time-zone']!r:.200} goes with x-cron only")
    if requests.delay_us > 0 or requests.due_us > 0:
        raise RequestError(PRECONDITION, f"x-cron: {values['x-cron']!r:.200} does not go with a delay")
    requests.delay_id = delay_id_of(values.get("x-delay-id", ""))
    requests.recurrence = recurrence_of(values["x-cron"], values.get("x-cron-time-zone"), requests.delay_id, names)


def texts_in(values: object) -> list[bytes]:
    """Return the texts of a header that is an array; what else is in it says nothing, as with RabbitMQ."""
    texts: list[bytes] = []
    if isinstance(values, list):
        for value in values:
            if isinstance(value, bytes):
                texts.append(value)
            elif isinstance(value, str):
                texts.append(value.encode())
    return texts


def delay_ms_of(value: object) -> i64:
    """Return the milliseconds of a delay; RequestError if the value is no number of them."""
    if isinstance(value, float):
        value = int(value) if -DELAY_MS_MAX <= value <= DELAY_MS_MAX else None
    if isinstance(value, bool) or not isinstance(value, int) or value > DELAY_MS_MAX:
        raise RequestError(
            PRECONDITION, f"invalid x-delay header: {value!r} is no number of milliseconds up to {DELAY_MS_MAX}"
        )
    return max(0, value)


def delay_id_of(value: object) -> bytes:
    """Return the text that names a delayed message; RequestError if the value cannot be one."""
    octets = value.encode() if isinstance(value, str) else value
    if not isinstance(octets, bytes) or len(octets) > DELAY_ID_OCTETS_MAX:
        raise RequestError(
            PRECONDITION, f"invalid x-delay-id header: {value!r} is no text of up to {DELAY_ID_OCTETS_MAX} octets"
        )
    return octets


def check_name(name: str, what: str) -> None:
    """Refuse a header, or what else `what` names, that has a reserved name without a meaning: RequestError."""
    octets = name.encode()
    if octets.startswith(RESERVED) and octets not in ORIGIN_HEADERS and octets not in EVENT_HEADERS:
        known = [each.decode() for each in (*REQUEST_HEADERS, GROUP_HEADER)]
        meant = hint("x-" + name[len(RESERVED) :], known)
        raise RequestError(PRECONDITION, f"{what} '{name}': nothing puts it in force; {meant}")


def check_expiration(expiration: str) -> None:
    """Refuse an expiration that is no number of milliseconds that RabbitMQ takes, in its words (those of Erlang)."""
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
    elif int(digits) > EXPIRATION_MS_MAX:
        wrong = f"{{value_too_large,{int(digits)}}}"
    if wrong:
        raise RequestError(PRECONDITION, f"invalid expiration '{expiration}': {wrong}")
