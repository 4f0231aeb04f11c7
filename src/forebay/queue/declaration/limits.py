"""The limits in force for a queue: from its declaration and from policies."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.option_names import QUORUM_TYPE, STREAM_TYPE
from forebay.filter.parser import Filter, parse, parse_value
from forebay.queue.declaration.arguments import (
    BY_KEY,
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_KEY,
    FAIR_KEY,
    FAIR_WEIGHT,
    KEY_CONCURRENCY,
    LEASE_PERIOD,
    PRIORITY_EXPRESSION,
    RETAIN,
    RETAIN_MESSAGES,
    RETAIN_OCTETS,
    VISIBILITY,
    age_us,
    retain_age_us,
    type_bit,
)
from forebay.queue.declaration.fair_key import parse_weights
from forebay.queue.declaration.spec import QueueSpec

# Behaviour of a full queue.
DROP_HEAD: Final = 0
REJECT_PUBLISH: Final = 1
REJECT_PUBLISH_DLX: Final = 2

# Which returned records wait before they are delivered again.
RETRY_DISABLED: Final = 0
RETRY_ALL: Final = 1
RETRY_FAILED: Final = 2
RETRY_RETURNED: Final = 3

# How priorities order a queue.
NO_PRIORITY: Final = 0
STRICT: Final = 1  # the highest first, among at most 256 levels
FAIR: Final = 2  # two classes, above 4 and the others, at two to one
BY_EXPRESSION: Final = 3  # the highest value of an expression first

# How consumers get records.
USUAL: Final = 0  # a backlog is divided evenly, in bursts
FAST: Final = 1  # the first consumer that can take records gets them
IN_TURN: Final = 2  # one record each, in turn
PROPORTIONAL: Final = 3  # the consumer with the largest unused share of its backlog is next
STRATEGIES: Final = {"fast": FAST, "round-robin": IN_TURN, "proportional": PROPORTIONAL}

SOURCE: Final = BY_KEY["source"].argument
LAST_VALUE_KEY: Final = BY_KEY["last-value-key"].argument
OVERFLOWS: Final = {
    "drop-head": DROP_HEAD,
    "reject-publish": REJECT_PUBLISH,
    "reject-publish-dlx": REJECT_PUBLISH_DLX,
}
RETRY_TYPES: Final = {
    "disabled": RETRY_DISABLED,
    "all": RETRY_ALL,
    "failed": RETRY_FAILED,
    "returned": RETRY_RETURNED,
}
QUORUM_DELIVERY_LIMIT: Final = 20
DOUBLING: Final = 2.0
DAY_US: Final = 86_400_000_000
QUORUM_PRIORITY_MAX: Final = 31
MILLISECONDS_MAX: Final = 10**15
NUMBER_MAX: Final = 1 << 62
TTLS_MAX: Final = 64  # times to live that may apply to the records of one queue at once


@final
class Limits:
    """The limits in force for a queue: its arguments, and what policies add to them.

    There is one object for the life of a queue. `become` overwrites it when a policy changes.

    message_ttl_us  time from publish to expiry of new messages; -1 for never
    earlier_ttls    (end, message_ttl_us), ascending: the time to live of the records below `end`, if it differs
    expires_us      time that the queue may be unused; 0 for ever
    max_messages, max_octets  most ready messages and bytes; -1 for no limit; for a stream: what retention keeps
    max_body_octets  most bytes of a published message's body; -1 for no limit
    publish_filter  filter that published messages must match; None for all
    refuses         the queue may refuse a message
    dead_letter_exchange      exchange of dead messages; None if they are dropped
    dead_letter_key           routing key of dead messages; None for the message's own
    dlq             dead messages go to `$dlq/<queue>`, as no dead-letter exchange was declared
    at_least_once   dead messages stay until the dead-letter exchange accepts them
    retry_exponential  the delay grows by `retry_factor` each time, instead of by the shortest delay
    delivery_limit  failures after which a record dies; -1 for no limit
    max_deliveries  deliveries after which a record dies instead of coming back; 0 for no limit
    max_cancels     number of times a consumer may give a record back, at the last of which it dies; 0 for no limit
    amps_reasons    dead letters state AMPS's reasons where these differ from RabbitMQ's
    retry_timeout_us  time after its first failure from which a failing record dies; 0 for never
    nack_counts     a record given back by its consumer counts as failed
    priority_expression  expression whose value orders the records, the highest first; None if none does
    consumer_timeout_us  time that a consumer may hold a record before it is cancelled; 0 for the broker's option
    visibility_us   time that a consumer may hold a record before it returns; 0 for the consumer's timeout
    tells_leases    deliveries carry the end of their lease and the number of leases
    settles_at_send a record is settled when it is sent: at most once
    notes_deliveries  the notes of a delivery are on disk before it is sent
    max_backlog     records that the consumers of one group may hold together; 0 for no limit
    max_subscription_backlog  records that one consumer may hold; 0 for no limit
    deferred_ack_us  time that an acknowledgement of an unpublished record is kept; 0 to keep none
    fairness        the strategy that chooses consumers
    fair_key        expression whose values deliveries go round; None for no fair key
    fair_weights    weights by key, see `parse_weights`; empty if all keys are equal
    key_concurrency records of one key that may be out at once; 0 for no limit
    sublet          every consumer of a group may settle what one of them holds
    max_age_us      age limit of a stream; 0 for no limit
    retains         settled records stay in the log, within the limits of retention
    retain_age_us, retain_octets, retain_messages  retention limits of the whole log, counted from the newest record; 0
    for no limit
    """

    def __init__(self) -> None:
        self.message_ttl_us: i64 = -1
        self.earlier_ttls: list[tuple[int, int]] = []
        self.expires_us: i64 = 0
        self.max_messages: i64 = -1
        self.max_octets: i64 = -1
        self.max_body_octets: i64 = -1
        self.overflow: i64 = DROP_HEAD
        self.publish_filter: Filter | None = None
        self.refuses = False
        self.dead_letter_exchange: bytes | None = None
        self.dead_letter_key: bytes | None = None
        self.dlq = False
        self.at_least_once = False
        self.delivery_limit: i64 = -1
        self.max_deliveries: i64 = 0
        self.max_cancels: i64 = 0
        self.amps_reasons = False
        self.retry_type: i64 = RETRY_DISABLED
        self.retry_min_us: i64 = 0
        self.retry_max_us: i64 = 0
        self.retry_exponential = False
        self.retry_factor = 2.0
        self.retry_timeout_us: i64 = 0
        self.nack_counts = True
        self.single_active = False
        self.priority_mode: i64 = NO_PRIORITY
        self.max_priority: i64 = 0
        self.priority_expression: Filter | None = None
        self.consumer_timeout_us: i64 = 0
        self.visibility_us: i64 = 0
        self.tells_leases = False
        self.settles_at_send = False
        self.notes_deliveries = False
        self.max_backlog: i64 = 0
        self.max_subscription_backlog: i64 = 0
        self.deferred_ack_us: i64 = DAY_US
        self.fairness: i64 = USUAL
        self.fair_key: Filter | None = None
        self.fair_weights: dict[bytes, int] = {}
        self.key_concurrency: i64 = 0
        self.sublet = False
        self.max_age_us: i64 = 0
        self.retains = False
        self.retain_age_us: i64 = 0
        self.retain_octets: i64 = 0
        self.retain_messages: i64 = 0

    def become(self, other: Limits) -> None:
        """Copy all values of `other`, except `earlier_ttls`."""
        self.message_ttl_us = other.message_ttl_us
        self.expires_us = other.expires_us
        self.max_messages = other.max_messages
        self.max_octets = other.max_octets
        self.max_body_octets = other.max_body_octets
        self.overflow = other.overflow
        self.publish_filter = other.publish_filter
        self.refuses = other.refuses
        self.dead_letter_exchange = other.dead_letter_exchange
        self.dead_letter_key = other.dead_letter_key
        self.dlq = other.dlq
        self.at_least_once = other.at_least_once
        self.delivery_limit = other.delivery_limit
        self.max_deliveries = other.max_deliveries
        self.max_cancels = other.max_cancels
        self.amps_reasons = other.amps_reasons
        self.retry_type = other.retry_type
        self.retry_min_us = other.retry_min_us
        self.retry_max_us = other.retry_max_us
        self.retry_exponential = other.retry_exponential
        self.retry_factor = other.retry_factor
        self.retry_timeout_us = other.retry_timeout_us
        self.nack_counts = other.nack_counts
        self.single_active = other.single_active
        self.priority_mode = other.priority_mode
        self.max_priority = other.max_priority
        self.priority_expression = other.priority_expression
        self.consumer_timeout_us = other.consumer_timeout_us
        self.visibility_us = other.visibility_us
        self.tells_leases = other.tells_leases
        self.settles_at_send = other.settles_at_send
        self.notes_deliveries = other.notes_deliveries
        self.max_backlog = other.max_backlog
        self.max_subscription_backlog = other.max_subscription_backlog
        self.deferred_ack_us = other.deferred_ack_us
        self.fairness = other.fairness
        self.fair_key = other.fair_key
        self.fair_weights = other.fair_weights
        self.key_concurrency = other.key_concurrency
        self.sublet = other.sublet
        self.max_age_us = other.max_age_us
        self.retains = other.retains
        self.retain_age_us = other.retain_age_us
        self.retain_octets = other.retain_octets
        self.retain_messages = other.retain_messages

    def ttl_us(self, offset: i64) -> i64:
        """Return the `message_ttl_us` of the time when a record came.

        A later policy does not change waiting records.
        """
        for end, ttl_us in self.earlier_ttls:
            if offset < end:
                return ttl_us
        return self.message_ttl_us

    def ttl_holds_to(self, offset: i64) -> i64:
        """Return the first offset behind this record with another `message_ttl_us`."""
        for end, _ in self.earlier_ttls:
            if offset < end:
                return end
        return NUMBER_MAX

    def ttls_after(self, ttl_us: i64, start: i64, end: i64) -> list[tuple[int, int]]:
        """Return the new `earlier_ttls` after a change of `message_ttl_us`. The records [start, end) keep `ttl_us`."""
        kept: list[tuple[int, int]] = []
        for each in self.earlier_ttls:
            if each[0] > start:
                kept.append(each)
        last = kept[len(kept) - 1] if kept else (int(start), -1)
        if last[0] < end:
            kept.append((int(end), int(ttl_us)))
        elif kept and last[1] == self.message_ttl_us:
            kept.pop()  # changed and changed back before any record came
        if len(kept) > TTLS_MAX:
            first = kept.pop(0)
            if first[1] < 0 or 0 <= kept[0][1] < first[1]:
                kept[0] = (kept[0][0], first[1])  # the longer of both, so that no record expires too early
        return kept


def limits_of(
    spec: QueueSpec,
    policy: dict[str, object],
    operator_policy: dict[str, object],
    delivery_limit: i64,
    name: bytes = b"",
) -> Limits:
    """Return the limits in force for a queue: mostly an operator's policy before an argument before a policy.

    Of limiting numbers the lowest one is in force, as in RabbitMQ.

    policy, operator_policy  definitions of the policies that apply, checked; empty for none
    delivery_limit           delivery limit of a classic queue without its own; -1 for no limit
    name                     name of the queue for its dead letters, if it may have a dead-letter queue of its own
    """
    asked = Asked(spec, policy, operator_policy)
    # RabbitMQ's streams have no such policies: one for "all" queues must not remove their records.
    own = Asked(spec, {}, {}) if spec.type == STREAM_TYPE else asked
    limits = Limits()
    limits.message_ttl_us = microseconds(own.lowest("message-ttl", -1))
    limits.expires_us = microseconds(asked.lowest("expires", 0))
    limits.max_messages = capped(own.lowest("max-length", -1))
    limits.max_octets = capped(asked.lowest("max-length-bytes", -1))
    limits.max_body_octets = capped(asked.lowest("max-message-size", -1))
    limits.overflow = OVERFLOWS[asked.word("overflow", "drop-head")]
    set_refusals(limits, spec)
    limits.dead_letter_exchange = asked.octets(DEAD_LETTER_EXCHANGE)
    limits.dead_letter_key = asked.octets(DEAD_LETTER_KEY)
    if limits.dead_letter_exchange is None and name and asked.switch("dlq", False):
        limits.dlq = True
        limits.dead_letter_exchange = b""
        limits.dead_letter_key = name
    limits.at_least_once = (
        asked.word("dead-letter-strategy", "at-most-once") == "at-least-once"
        and limits.overflow == REJECT_PUBLISH
        and limits.dead_letter_exchange is not None
    )
    usual = QUORUM_DELIVERY_LIMIT if spec.type == QUORUM_TYPE else delivery_limit
    limits.delivery_limit = capped(asked.lowest("delivery-limit", usual))
    limits.retry_type = RETRY_TYPES[asked.word("delayed-retry-type", "disabled")]
    limits.retry_min_us = microseconds(asked.number("delayed-retry-min", 0))
    limits.retry_max_us = max(limits.retry_min_us, microseconds(asked.number("delayed-retry-max", 0)))
    limits.retry_factor = asked.factor("delayed-retry-multiplier", 0.0)
    usual_backoff = "exponential" if limits.retry_factor else "linear"
    limits.retry_exponential = asked.word("delayed-retry-backoff", usual_backoff) == "exponential"
    limits.retry_factor = limits.retry_factor or DOUBLING
    limits.retry_timeout_us = microseconds(asked.number("retry-timeout", 0))
    limits.nack_counts = asked.switch("nack-counts", spec.type != QUORUM_TYPE)
    limits.single_active = asked.argument("single-active-consumer") is True
    limits.consumer_timeout_us = microseconds(asked.number("consumer-timeout", 0))
    set_leases(limits, asked)
    set_fairness(limits, asked)
    limits.max_age_us = asked.lowest_age()
    set_priorities(limits, asked)
    is_own = SOURCE not in spec.arguments and LAST_VALUE_KEY not in spec.arguments
    if spec.durable and not spec.exclusive and is_own:
        set_retention(limits, asked)
    return limits


def set_refusals(limits: Limits, spec: QueueSpec) -> None:
    """Set the filter of publishes to the queue, and whether the queue may refuse a message or leave it out."""
    condition = spec.arguments.get("x-publish-filter")
    if isinstance(condition, str):
        limits.publish_filter = parse(condition)
    if SOURCE in spec.arguments:  # a view accepts no publishes, so it can refuse none
        limits.overflow = DROP_HEAD
        limits.max_body_octets = -1
        limits.publish_filter = None
    if LAST_VALUE_KEY in spec.arguments and limits.overflow == DROP_HEAD:  # from a policy, or the default
        limits.overflow = REJECT_PUBLISH
    limits.refuses = limits.overflow != DROP_HEAD or limits.max_body_octets >= 0 or limits.publish_filter is not None


def set_retention(limits: Limits, asked: Asked) -> None:
    """Set which settled records stay in the log. Of several limits the first one reached applies."""
    age = asked.word(RETAIN, "")
    limits.retain_age_us = retain_age_us(age) if age else 0
    limits.retain_octets = capped(asked.number(RETAIN_OCTETS, 0))
    limits.retain_messages = capped(asked.number(RETAIN_MESSAGES, 0))
    limits.retains = limits.retain_age_us > 0 or limits.retain_octets > 0 or limits.retain_messages > 0


def set_leases(limits: Limits, asked: Asked) -> None:
    """Set the duration and number of leases, and which consumers may settle them."""
    lease_ms = asked.number(LEASE_PERIOD, 0)
    limits.visibility_us = microseconds(asked.number(VISIBILITY, lease_ms))
    limits.tells_leases = lease_ms > 0
    limits.settles_at_send = asked.word("semantics", "at-least-once") == "at-most-once"
    limits.max_deliveries = capped(asked.lowest("max-deliveries", 0))
    limits.max_cancels = capped(asked.lowest("max-cancels", 0))
    limits.notes_deliveries = limits.settles_at_send or limits.max_deliveries > 0 or limits.max_cancels > 0
    limits.amps_reasons = asked.word("dead-letter-reasons", "rabbitmq") == "amps"
    limits.max_backlog = capped(asked.number("max-backlog", 0))
    limits.max_subscription_backlog = capped(asked.number("max-subscription-backlog", 0))
    limits.deferred_ack_us = microseconds(asked.number("deferred-ack", DAY_US // 1000))
    limits.sublet = asked.word("leasing", "strict") == "sublet"


def last_value_expression(spec: QueueSpec) -> Filter | None:
    """Return the key expression of a last-value queue, or None for any other queue."""
    expression = spec.arguments.get(LAST_VALUE_KEY)
    return parse_value(expression) if isinstance(expression, str) else None


def set_fairness(limits: Limits, asked: Asked) -> None:
    """Set the strategy and the fair key. Fair keys leave no room for priorities."""
    limits.fairness = STRATEGIES.get(asked.word("fairness", ""), USUAL)
    expression = asked.argument(FAIR_KEY)
    if isinstance(expression, str):
        limits.fair_key = parse_value(expression)
        weights = asked.word(FAIR_WEIGHT, "")
        limits.fair_weights = parse_weights(weights) if weights else {}
        limits.key_concurrency = asked.number(KEY_CONCURRENCY, 0)


def set_priorities(limits: Limits, asked: Asked) -> None:
    """Set how priorities order the queue. By default a quorum queue has two classes, and a classic queue has none."""
    levels = asked.number("max-priority", 0)
    quorum = asked.spec.type == QUORUM_TYPE
    if limits.fair_key is not None:
        return
    mode = asked.word("priority-mode", "fair" if quorum else "strict" if levels else "")
    expression = asked.argument(PRIORITY_EXPRESSION)
    if isinstance(expression, str):
        limits.priority_mode = BY_EXPRESSION
        limits.priority_expression = parse_value(expression)
    elif mode == "fair":
        limits.priority_mode = FAIR
    elif mode == "strict":
        limits.priority_mode = STRICT
        limits.max_priority = levels or QUORUM_PRIORITY_MAX


@final
class Asked:
    """The limits that the declaration and both policies ask for, restricted to what the type of queue knows."""

    def __init__(self, spec: QueueSpec, policy: dict[str, object], operator_policy: dict[str, object]) -> None:
        self.spec = spec
        self.policy = policy
        self.operator_policy = operator_policy
        self.bit = type_bit(spec.type)
        self.nothing = not (spec.arguments or policy or operator_policy)  # true for most queues

    def argument(self, key: str) -> object:
        return self.spec.arguments.get(BY_KEY[key].argument) if BY_KEY[key].types & self.bit else None

    def values(self, key: str) -> list[object]:
        """Return the values that are set, in order of precedence."""
        if self.nothing or not BY_KEY[key].types & self.bit:
            return []
        found: list[object] = []
        for value in (self.operator_policy.get(key), self.argument(key), self.policy.get(key)):
            if value is not None:
                found.append(value)
        return found

    def lowest(self, key: str, default: i64) -> int:
        """Return the lowest number that is set. A number below 0 means no limit, and any limit is lower."""
        least = -1
        values = self.values(key)
        for value in values:
            if isinstance(value, int) and value >= 0 and (least < 0 or value < least):
                least = value
        return least if values else int(default)

    def lowest_age(self) -> i64:
        least: i64 = 0
        for value in self.values("max-age"):
            if isinstance(value, str):
                age: i64 = age_us(value)
                if not least or age < least:
                    least = age
        return least

    def number(self, key: str, default: int) -> int:
        for value in self.values(key):
            if isinstance(value, int):
                return value
        return default

    def factor(self, key: str, default: float) -> float:
        for value in self.values(key):
            if isinstance(value, int | float):
                return float(value)
        return default

    def switch(self, key: str, default: bool) -> bool:
        for value in self.values(key):
            if isinstance(value, bool):
                return value
        return default

    def word(self, key: str, default: str) -> str:
        for value in self.values(key):
            if isinstance(value, str):
                return value
        return default

    def octets(self, key: str) -> bytes | None:
        for value in self.values(key):
            if isinstance(value, str):
                return value.encode()
            if isinstance(value, bytes):
                return value
        return None


def microseconds(milliseconds: int) -> i64:
    """Return milliseconds as microseconds, capped to fit beside a time of day; -1 for a negative number."""
    return min(milliseconds, MILLISECONDS_MAX) * 1000 if milliseconds >= 0 else -1


def capped(number: int) -> i64:
    return min(number, NUMBER_MAX) if number >= 0 else -1
