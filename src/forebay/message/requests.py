"""Headers by which a message requests something of the broker.

CC, BCC                          arrays of further routing keys; BCC is not shown to consumers
x-delay                          milliseconds after which the message is routed, as if it were published then
x-delay-id                       the name under which it can be cancelled until then
x-cron with x-cron-time-zone     routes it repeatedly, at the times of a cron expression, until it is cancelled
x-producer-id with x-sequence    accepts it once: a number not above the producer's last one is a duplicate
x-deduplication-key              accepts one message for each key
x-forebay-...                    reserved for the broker: refused unless the broker or its deliveries use the name

Each format has these under its own names and types: see `Format.read_requests`.
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
RESERVED: Final = b"x-forebay-"  # prefix of names that only the broker may define
# Set on deliveries: message id, group, queue, offset. Accepted from publishers that forward a delivery.
ORIGIN_HEADERS: Final[list[bytes]] = [
    b"x-forebay-message-id",
    b"x-forebay-group-id",
    b"x-forebay-queue",
    b"x-forebay-offset",
]
# Set on webhook requests. Accepted from publishers, as a bridge that gets such a request forwards its headers.
EVENT_HEADERS: Final[list[bytes]] = [b"x-forebay-event", b"x-forebay-delivery", b"x-forebay-signature"]

# Results of `Format.requests`, beside the marks of a record.
REQUESTS: Final = 1  # one of REQUEST_HEADERS
UNKNOWN: Final = 2  # a reserved name
MARKS: Final = EXPIRES | KEYED

DELAY_MS_MAX: Final = 100 * 366 * 86_400_000  # a century: a longer delay was probably meant in another unit
EXPIRATION_MS_MAX: Final = 315_360_000_000  # ten years, RabbitMQ's limit
DELAY_ID_OCTETS_MAX: Final = 255


@final
class PublishRequests:
    """The requests in the headers of one message.

    properties  as they are delivered
    delayed     as they are stored while the message is delayed
    keys        further routing keys
    delay_us    delay from the publish on; 0 for none
    due_us      time of delivery in its place, since 1970; 0 for none
    recurrence  times of repeated publishes, see message/recurrence.py; empty for once
    delay_id    by which the delayed message can be cancelled
    producer, sequence, deduplication_key  values of the headers for deduplication; None if missing
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
    """Add the recurrence in a message's headers to `requests`. Raises RequestError(PRECONDITION) if it is invalid.

    Refuses a message that also requests a delay, as only one of the two can hold.
    """
    names = ("x-cron", "x-cron-time-zone", "x-delay-id")
    if "x-cron" not in values:
        raise RequestError(PRECONDITION, f"x-cron-time-zone: {values['x-cron-time-zone']!r:.200} goes with x-cron only")
    if requests.delay_us > 0 or requests.due_us > 0:
        raise RequestError(PRECONDITION, f"x-cron: {values['x-cron']!r:.200} does not go with a delay")
    requests.delay_id = delay_id_of(values.get("x-delay-id", ""))
    requests.recurrence = recurrence_of(values["x-cron"], values.get("x-cron-time-zone"), requests.delay_id, names)


def texts_in(values: object) -> list[bytes]:
    """Return the texts of a header that is an array. Ignores items of other types, as RabbitMQ does."""
    texts: list[bytes] = []
    if isinstance(values, list):
        for value in values:
            if isinstance(value, bytes):
                texts.append(value)
            elif isinstance(value, str):
                texts.append(value.encode())
    return texts


def delay_ms_of(value: object) -> i64:
    """Return the delay in milliseconds, at least 0. Raises RequestError if the value is not a number in range."""
    if isinstance(value, float):
        value = int(value) if -DELAY_MS_MAX <= value <= DELAY_MS_MAX else None
    if isinstance(value, bool) or not isinstance(value, int) or value > DELAY_MS_MAX:
        raise RequestError(
            PRECONDITION, f"invalid x-delay header: {value!r} is no number of milliseconds up to {DELAY_MS_MAX}"
        )
    return max(0, value)


def delay_id_of(value: object) -> bytes:
    """Return the name of a delayed message. Raises RequestError if the value cannot be one."""
    octets = value.encode() if isinstance(value, str) else value
    if not isinstance(octets, bytes) or len(octets) > DELAY_ID_OCTETS_MAX:
        raise RequestError(
            PRECONDITION, f"invalid x-delay-id header: {value!r} is no text of up to {DELAY_ID_OCTETS_MAX} octets"
        )
    return octets


def check_name(name: str, what: str) -> None:
    """Refuse a reserved name without a meaning with RequestError. `what` says what is named, such as a header."""
    octets = name.encode()
    if octets.startswith(RESERVED) and octets not in ORIGIN_HEADERS and octets not in EVENT_HEADERS:
        known = [each.decode() for each in (*REQUEST_HEADERS, GROUP_HEADER)]
        meant = hint("x-" + name[len(RESERVED) :], known)
        raise RequestError(PRECONDITION, f"{what} '{name}': nothing puts it in force; {meant}")


def check_expiration(expiration: str) -> None:
    """Refuse an expiration that RabbitMQ does not accept, in RabbitMQ's (Erlang's) words. Raises RequestError."""
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
