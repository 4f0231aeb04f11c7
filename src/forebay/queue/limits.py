"""What a queue was declared with: its arguments, checked and turned into limits."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import PRECONDITION, RequestError

AGE_UNITS: Final = {"Y": 31_536_000, "M": 2_592_000, "D": 86_400, "h": 3600, "m": 60, "s": 1}
STREAM_ONLY: Final = ("x-max-age", "x-stream-max-segment-size-bytes", "x-max-length", "x-max-length-bytes")
KNOWN: Final = ("x-queue-type", "x-visibility-timeout", "x-topics", *STREAM_ONLY)
# Arguments of the broker's elders that change what happens to messages: accepting one and not doing it would lose or
# keep messages against the user's word, so a declaration that asks for one is refused.
LATER: Final = (
    "x-message-ttl",
    "x-expires",
    "x-overflow",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-delivery-limit",
    "x-single-active-consumer",
    "x-max-priority",
    "x-delayed-retry-type",
)

# What becomes of a publish to a queue that is full.
DROP_HEAD: Final = 0
REJECT_PUBLISH: Final = 1
REJECT_PUBLISH_DLX: Final = 2

# Which returned records wait before they are handed out again.
RETRY_DISABLED: Final = 0
RETRY_ALL: Final = 1
RETRY_FAILED: Final = 2
RETRY_RETURNED: Final = 3

# How priorities order a queue.
NO_PRIORITY: Final = 0
STRICT: Final = 1  # the highest first, among at most 256 levels
FAIR: Final = 2  # two classes, above 4 and the others, at two to one


@final
class Limits:
    """What is in force for a queue: its arguments, and what policies add to them.

    One object for the life of a queue: `become` overwrites it where a policy changes.

    message_ttl_us  from publish to expiry; -1 for never
    expires_us      how long the queue may be unused; 0 for ever
    max_messages, max_octets  ready ones at most; -1 is no limit; of a stream: what retention keeps
    dead_letter_exchange      None: what dies is gone
    dead_letter_key           None: the message's own
    at_least_once   what its dead-letter exchange does not take stays
    delivery_limit  failures after which a record dies; -1 is no limit
    consumer_timeout_us  how long a consumer may hold a record before it is cancelled; 0: as the broker says
    visibility_us   how long anybody may hold a record before it returns; 0: nobody said, the consumer's timeout holds
    max_age_us      of a stream; 0 is no limit
    """

    def __init__(self) -> None:
        self.message_ttl_us: i64 = -1
        self.expires_us: i64 = 0
        self.max_messages: i64 = -1
        self.max_octets: i64 = -1
        self.overflow: i64 = DROP_HEAD
        self.dead_letter_exchange: bytes | None = None
        self.dead_letter_key: bytes | None = None
        self.at_least_once = False
        self.delivery_limit: i64 = -1
        self.retry_type: i64 = RETRY_DISABLED
        self.retry_min_us: i64 = 0
        self.retry_max_us: i64 = 0
        self.single_active = False
        self.priority_mode: i64 = NO_PRIORITY
        self.max_priority: i64 = 0
        self.consumer_timeout_us: i64 = 0
        self.visibility_us: i64 = 0
        self.max_age_us: i64 = 0

    def become(self, other: Limits) -> None:
        """Take over everything that the other says."""
        self.message_ttl_us = other.message_ttl_us
        self.expires_us = other.expires_us
        self.max_messages = other.max_messages
        self.max_octets = other.max_octets
        self.overflow = other.overflow
        self.dead_letter_exchange = other.dead_letter_exchange
        self.dead_letter_key = other.dead_letter_key
        self.at_least_once = other.at_least_once
        self.delivery_limit = other.delivery_limit
        self.retry_type = other.retry_type
        self.retry_min_us = other.retry_min_us
        self.retry_max_us = other.retry_max_us
        self.single_active = other.single_active
        self.priority_mode = other.priority_mode
        self.max_priority = other.max_priority
        self.consumer_timeout_us = other.consumer_timeout_us
        self.visibility_us = other.visibility_us
        self.max_age_us = other.max_age_us


@final
class QueueSpec:
    """A queue's declaration.

    arguments    as the client gave them, for the equivalence check and for listing
    visibility_ms  how long a lease lasts
    max_age_us, max_octets, max_messages  retention of a stream; 0 is no limit
    """

    def __init__(
        self, durable: bool, auto_delete: bool, exclusive: bool, arguments: dict[str, object], visibility_ms: i64
    ) -> None:
        self.durable = durable
        self.auto_delete = auto_delete
        self.exclusive = exclusive
        self.arguments = arguments
        self.visibility_ms = visibility_ms
        self.stream = False
        self.max_age_us: i64 = 0
        self.max_octets: i64 = 0
        self.max_messages: i64 = 0
        self.read_arguments()

    def read_arguments(self) -> None:
        """RequestError names the argument and its value."""
        arguments = self.arguments
        for name in LATER:
            if name in arguments:
                raise RequestError(PRECONDITION, f"argument '{name}' is not supported yet (value {arguments[name]!r})")
        kind = arguments.get("x-queue-type", "classic")
        if kind == "stream":
            self.stream = True
        elif kind != "classic":
            raise RequestError(PRECONDITION, f"invalid arg 'x-queue-type': {kind!r} is neither 'classic' nor 'stream'")
        if self.stream:
            if not self.durable or self.exclusive or self.auto_delete:
                raise RequestError(PRECONDITION, "a stream must be durable, not exclusive and not auto-delete")
            self.max_age_us = age_us(arguments.get("x-max-age"))
            self.max_octets = natural(arguments, "x-max-length-bytes", 0)
            self.max_messages = natural(arguments, "x-max-length", 0)
        else:
            for name in STREAM_ONLY:
                if name in arguments:
                    raise RequestError(
                        PRECONDITION, f"invalid arg '{name}' of queue type classic (value {arguments[name]!r})"
                    )
        self.visibility_ms = natural(arguments, "x-visibility-timeout", self.visibility_ms)
        if self.visibility_ms == 0:
            raise RequestError(PRECONDITION, "invalid arg 'x-visibility-timeout': 0 is not above 0 ms")


def natural(arguments: dict[str, object], name: str, default: i64) -> i64:
    """An argument that must be a whole number >= 0."""
    value = arguments.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 0 or value >= 1 << 62:
        raise RequestError(PRECONDITION, f"invalid arg '{name}': {value!r} is not a whole number >= 0")
    return value


def age_us(value: object) -> i64:
    """`x-max-age`: a number and a unit of Y M D h m s."""
    if value is None:
        return 0
    if isinstance(value, str) and len(value) > 1 and value[-1] in AGE_UNITS:
        number = value[:-1]
        if number.isascii() and number.isdigit() and len(number) < 10:
            return int(number) * AGE_UNITS[value[-1]] * 1_000_000
    raise RequestError(PRECONDITION, f"invalid arg 'x-max-age': {value!r} is not a number with a unit of Y M D h m s")
