"""The table of a queue's settings, by an argument of its declaration, by a policy, or by both.

A setting `message-ttl` is the argument `x-message-ttl` and the policy's key `message-ttl`. Every refusal of a name or a
value is derived from this table. The words of a refusal are RabbitMQ's, which clients look for: its
`{value_negative,-1}` is an Erlang term, shown as RabbitMQ shows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from forebay.core.errors import PRECONDITION, RequestError
from forebay.core.option_names import CLASSIC_TYPE, QUEUE_TYPES, QUORUM_TYPE, STREAM_TYPE
from forebay.core.reading.nearest import hint
from forebay.filter.parser import parse, parse_value
from forebay.queue.declaration.fair_key import weights_fault
from forebay.routing.exchange import type_name

# Types of queue that know an argument, as bits.
NO_QUEUE: Final = 0
ON_CLASSIC: Final = 1
ON_QUORUM: Final = 2
ON_STREAM: Final = 4
ON_WORK: Final = ON_CLASSIC | ON_QUORUM
ON_ALL: Final = ON_WORK | ON_STREAM

# Sources of an argument beside the declaration.
NOBODY: Final = 0
USER: Final = 1  # a policy
OPERATOR: Final = 2  # a policy, or an operator's

# Kinds of values.
ANY: Final = 0
WHOLE: Final = 1
NATURAL: Final = 2  # a whole number >= 0
POSITIVE: Final = 3
PRIORITY: Final = 4  # 0 to 255
VERSION: Final = 5
FILTER_SIZE: Final = 6
SEGMENT_SIZE: Final = 7
BOOLEAN: Final = 8
TEXT: Final = 9
CHOICE: Final = 10
AGE: Final = 11
EXCHANGE: Final = 12
FACTOR: Final = 13  # a number >= 1
CONDITION: Final = 14  # a filter on a message as published
RETAIN_AGE: Final = 15  # as AGE, with a small d for days, too
EXPRESSION: Final = 16  # a value of a message as published
LASTING_EXPRESSION: Final = 17  # a value that does not change while a message is in the queue
WEIGHTS: Final = 18  # weights of keys

AGE_UNITS: Final = {"Y": 31_536_000, "M": 2_592_000, "D": 86_400, "h": 3600, "m": 60, "s": 1}
AGE_DIGITS_MAX: Final = 9
PRIORITY_MAX: Final = 255
SEGMENT_OCTETS_MAX: Final = 3_000_000_000
EXPIRY_MS_MAX: Final = 315_360_000_000  # ten years, RabbitMQ's limit
FILTER_OCTETS_MIN: Final = 16
FILTER_OCTETS_MAX: Final = 255

DEAD_LETTER_EXCHANGE: Final = "dead-letter-exchange"
DEAD_LETTER_KEY: Final = "dead-letter-routing-key"
BACKOFF: Final = "delayed-retry-backoff"
MULTIPLIER: Final = "delayed-retry-multiplier"
RETAIN: Final = "retain"
RETAIN_OCTETS: Final = "retain-bytes"
RETAIN_MESSAGES: Final = "retain-length"
RETENTIONS: Final = (RETAIN, RETAIN_OCTETS, RETAIN_MESSAGES)
FACTOR_MAX: Final = 1_000_000
FAIR_KEY: Final = "fair-key"
FAIR_WEIGHT: Final = "fair-weight"
KEY_CONCURRENCY: Final = "key-concurrency"
LEASE_PERIOD: Final = "lease-period"
VISIBILITY: Final = "visibility-timeout"
# Properties that filters know, and that a message has only once it is in a queue.
LATER: Final = frozenset(["age_ms", "deliveries", "failures", "offset", "queue", "stored_ms"])
CHANGING: Final = frozenset(["age_ms", "deliveries", "failures", "queue"])  # no priority may depend on these
PRIORITY_EXPRESSION: Final = "priority-expression"
MAX_PRIORITY: Final = "max-priority"
PRIORITY_MODE: Final = "priority-mode"
DURATIONS: Final = (
    "deferred-ack",
    "expires",
    "lease-period",
    "message-ttl",
    "retry-timeout",
    "visibility-timeout",
)  # ms, none above EXPIRY_MS_MAX


@final
class Setting:
    """One line of the table.

    key      the policy's key; the argument has `x-` before it
    types    the types of queue that know it, as bits
    policy   NOBODY, USER or OPERATOR
    noun     name of the expected value, for a policy's refusal
    choices  values of a CHOICE; `refusal` is RabbitMQ's text for another value, with {} for the value
    """

    def __init__(
        self,
        key: str,
        types: int,
        check: int,
        policy: int,
        noun: str,
        choices: tuple[str, ...] = (),
        refusal: str = "",
    ) -> None:
        self.key = key
        self.argument = "x-" + key
        self.types = types
        self.check = check
        self.policy = policy
        self.noun = noun
        self.choices = choices
        self.refusal = refusal

    def fault(self, value: object) -> str:
        """Return what is wrong with a value, in RabbitMQ's words; "" if nothing is."""
        check = self.check
        if check == ANY:
            return ""
        if check == BOOLEAN:
            return "" if isinstance(value, bool) else unacceptable(value)
        if check <= SEGMENT_SIZE:
            if isinstance(value, bool) or not isinstance(value, int):
                return f'"expected integer, got {type_name(value)}"'
            return number_fault(check, value)
        if check == FACTOR:
            return factor_fault(value)
        if not isinstance(value, str):
            # Bytes that are not UTF-8 are still a name or a key.
            return "" if isinstance(value, bytes) and check in {TEXT, EXCHANGE} else unacceptable(value)
        if check in (CONDITION, EXPRESSION):
            return condition_fault(value, check == EXPRESSION)
        if check == LASTING_EXPRESSION:
            return expression_fault(value)
        if check == WEIGHTS:
            return weights_fault(value)
        if check == CHOICE and value not in self.choices:
            return self.refusal.replace("{}", value)
        if check == AGE and age_us(value) < 0:
            return "invalid_max_age"
        if check == RETAIN_AGE and retain_age_us(value) < 0:
            return f"\"'{value}' is no age: a number above 0 and a unit of Y, M, D or d, h, m, s, such as 7d\""
        return ""


# In the order in which RabbitMQ checks them, so that it names the same one of several wrong arguments.
SETTINGS: Final = (
    Setting("expires", ON_WORK, POSITIVE, OPERATOR, "queue expiry"),
    Setting("message-ttl", ON_ALL, NATURAL, OPERATOR, "message TTL"),
    Setting(DEAD_LETTER_EXCHANGE, ON_WORK, EXCHANGE, USER, "dead letter exchange name"),
    Setting(DEAD_LETTER_KEY, ON_WORK, TEXT, USER, "dead letter routing key"),
    Setting(
        "dead-letter-strategy",
        ON_WORK,
        CHOICE,
        USER,
        "dead letter strategy",
        ("at-most-once", "at-least-once"),
        "invalid_dlx_strategy",
    ),
    Setting("max-length", ON_ALL, NATURAL, OPERATOR, "maximum length"),
    Setting("max-length-bytes", ON_ALL, NATURAL, OPERATOR, "maximum length in bytes"),
    Setting("max-in-memory-length", ON_QUORUM, NATURAL, OPERATOR, "maximum memory in bytes"),
    Setting("max-in-memory-bytes", ON_QUORUM, NATURAL, OPERATOR, "maximum memory in bytes"),
    Setting(MAX_PRIORITY, ON_CLASSIC, PRIORITY, NOBODY, "maximum priority"),
    Setting(
        "overflow",
        ON_WORK,
        CHOICE,
        OPERATOR,
        "overflow value",
        ("drop-head", "reject-publish", "reject-publish-dlx"),
        "invalid_overflow",
    ),
    Setting(
        "queue-mode",
        ON_CLASSIC,
        CHOICE,
        USER,
        "queue-mode value",
        ("default", "lazy"),
        "\"unsupported queue mode '{}'\"",
    ),
    Setting("queue-version", ON_CLASSIC, VERSION, OPERATOR, "queue-version value"),
    Setting("single-active-consumer", ON_WORK, BOOLEAN, NOBODY, "truth value"),
    Setting("quorum-initial-group-size", ON_QUORUM, POSITIVE, NOBODY, "group size"),
    Setting("max-age", ON_STREAM, AGE, USER, "max age"),
    Setting("stream-max-segment-size-bytes", ON_STREAM, SEGMENT_SIZE, USER, "segment size"),
    Setting("stream-filter-size-bytes", ON_ALL, FILTER_SIZE, USER, "filter size"),
    Setting("initial-cluster-size", ON_STREAM, POSITIVE, USER, "cluster size"),
    Setting(
        "queue-leader-locator",
        ON_ALL,
        CHOICE,
        USER,
        "queue leader locator value",
        ("client-local", "balanced", "random", "least-leaders"),
        "invalid_queue_locator_arg",
    ),
    Setting("queue-master-locator", ON_CLASSIC, ANY, OPERATOR, "queue leader locator value"),
    Setting("delivery-limit", ON_WORK, WHOLE, OPERATOR, "delivery limit"),
    Setting(
        "delayed-retry-type",
        ON_WORK,
        CHOICE,
        USER,
        "delayed retry type",
        ("disabled", "all", "failed", "returned"),
        "invalid_delayed_retry_type",
    ),
    Setting("delayed-retry-min", ON_WORK, NATURAL, USER, "delayed retry time"),
    Setting("delayed-retry-max", ON_WORK, NATURAL, USER, "delayed retry time"),
    Setting("consumer-timeout", ON_WORK, NATURAL, USER, "consumer timeout"),
    Setting("consumer-disconnected-timeout", ON_QUORUM, NATURAL, USER, "consumer disconnected timeout"),
    Setting("target-group-size", NO_QUEUE, NATURAL, OPERATOR, "group size"),
    Setting("alternate-exchange", NO_QUEUE, TEXT, USER, "alternate exchange name"),
    # Settings that RabbitMQ does not have.
    Setting(PRIORITY_MODE, ON_WORK, CHOICE, NOBODY, "priority mode", ("fair", "strict"), "invalid_priority_mode"),
    Setting(PRIORITY_EXPRESSION, ON_WORK, LASTING_EXPRESSION, NOBODY, "expression"),
    Setting(
        BACKOFF,
        ON_WORK,
        CHOICE,
        USER,
        "delayed retry backoff",
        ("linear", "exponential"),
        "invalid_delayed_retry_backoff",
    ),
    Setting(MULTIPLIER, ON_WORK, FACTOR, USER, "delayed retry multiplier"),
    Setting("dlq", ON_WORK, BOOLEAN, USER, "truth value"),
    Setting("max-message-size", ON_ALL, POSITIVE, OPERATOR, "message size"),
    Setting("nack-counts", ON_WORK, BOOLEAN, USER, "truth value"),
    Setting("retry-timeout", ON_WORK, POSITIVE, USER, "retry timeout"),
    Setting("publish-filter", ON_WORK, CONDITION, NOBODY, "filter"),
    Setting("visibility-timeout", ON_ALL, POSITIVE, NOBODY, "visibility timeout"),
    Setting("lease-period", ON_WORK, POSITIVE, USER, "lease period"),
    Setting("semantics", ON_WORK, CHOICE, NOBODY, "semantics", ("at-least-once", "at-most-once"), "invalid_semantics"),
    Setting("max-backlog", ON_WORK, POSITIVE, USER, "maximum backlog"),
    Setting("max-subscription-backlog", ON_WORK, POSITIVE, USER, "maximum backlog of a subscription"),
    Setting("deferred-ack", ON_WORK, NATURAL, USER, "time of deferred acknowledgements"),
    Setting("max-deliveries", ON_WORK, POSITIVE, USER, "maximum number of deliveries"),
    Setting("max-cancels", ON_WORK, POSITIVE, USER, "maximum number of cancels"),
    Setting(
        "dead-letter-reasons",
        ON_WORK,
        CHOICE,
        USER,
        "names of reasons",
        ("rabbitmq", "amps"),
        "invalid_dead_letter_reasons",
    ),
    Setting("fairness", ON_WORK, CHOICE, USER, "fairness", ("fast", "round-robin", "proportional"), "invalid_fairness"),
    Setting(FAIR_KEY, ON_WORK, LASTING_EXPRESSION, NOBODY, "expression"),
    Setting(FAIR_WEIGHT, ON_WORK, WEIGHTS, USER, "weights of keys"),
    Setting(KEY_CONCURRENCY, ON_WORK, POSITIVE, NOBODY, "number of records of a key"),
    Setting("leasing", ON_ALL, CHOICE, USER, "leasing", ("strict", "sublet"), "invalid_leasing"),
    Setting("primary-group", ON_ALL, TEXT, NOBODY, "group name"),
    Setting(RETAIN, ON_WORK, RETAIN_AGE, USER, "age to retain"),
    Setting(RETAIN_OCTETS, ON_WORK, POSITIVE, USER, "octets to retain"),
    Setting(RETAIN_MESSAGES, ON_WORK, POSITIVE, USER, "messages to retain"),
    Setting("source", ON_WORK, TEXT, NOBODY, "name of a stream"),
    Setting("recovery-point", ON_WORK, ANY, NOBODY, "recovery point"),
    Setting("filter", ON_WORK, CONDITION, NOBODY, "filter"),
    Setting("publish-target", ON_WORK, TEXT, NOBODY, "name of a stream"),
    Setting("last-value-key", ON_WORK, EXPRESSION, NOBODY, "expression"),
)
# Arguments of RabbitMQ, or of a plugin that comes with it, which its clients send. They have no effect here.
FOREIGN: Final = (
    "x-cancel-on-ha-failover",
    "x-ha-mode",
    "x-ha-nodes",
    "x-ha-params",
    "x-ha-policy",
    "x-ha-sync-mode",
    "x-internal-purpose",
    "x-member-placement-tag",
    "x-quorum-target-group-size",
)
KNOWN: Final = ("x-queue-type", *[setting.argument for setting in SETTINGS if setting.types])
BY_KEY: Final = {setting.key: setting for setting in SETTINGS}


def number_fault(check: int, value: int) -> str:
    """Return what is wrong with an integer, in RabbitMQ's words; "" if nothing is."""
    if check == WHOLE:
        return ""
    if check == VERSION:
        return "" if value in {1, 2} else f"\"unsupported queue version '{value}'\""
    if value < 0:
        return f"{{value_negative,{value}}}"
    if check == POSITIVE and not value:
        return "{value_zero,0}"
    most = {PRIORITY: PRIORITY_MAX, SEGMENT_SIZE: SEGMENT_OCTETS_MAX, FILTER_SIZE: FILTER_OCTETS_MAX}.get(check, value)
    if value > most:
        return f"{{max_value_exceeded,{value}}}"
    if check == FILTER_SIZE and value < FILTER_OCTETS_MIN:
        return f"{{min_value_not_reached,{value}}}"
    return ""


def factor_fault(value: object) -> str:
    """Return what is wrong with a growth factor; "" if nothing is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f'"expected number, got {type_name(value)}"'
    if not 1 <= value <= FACTOR_MAX:
        return f'"{value} is not within 1 .. {FACTOR_MAX}"'
    return ""


def condition_fault(text: str, is_value: bool) -> str:
    """Return what is wrong with a filter, or a value expression, on what is published; "" if nothing is."""
    try:
        later = LATER & (parse_value(text) if is_value else parse(text)).properties
    except RequestError as error:
        return f'"{error.text}"'
    what = "expression" if is_value else "filter"
    return f'"{what}: {min(later)} is not known before the message is in the queue"' if later else ""


def expression_fault(text: str) -> str:
    """Return what is wrong with an expression that orders messages; "" if nothing is."""
    try:
        changing = CHANGING & parse_value(text).properties
    except RequestError as error:
        return f'"{error.text}"'
    return f'"expression: {min(changing)} is nothing that an order can go by"' if changing else ""


def unacceptable(value: object) -> str:
    """Return RabbitMQ's text for a value of a wrong type."""
    return f"{{unacceptable_type,{type_name(value)}}}"


def type_bit(queue_type: str) -> int:
    """Return the bit of a type of queue in `Setting.types`."""
    return {CLASSIC_TYPE: ON_CLASSIC, QUORUM_TYPE: ON_QUORUM, STREAM_TYPE: ON_STREAM}[queue_type]


def check_queue_type(arguments: dict[str, object], where: str) -> str:
    """Return the type of queue that a declaration asks for. Raise RequestError if there is no such type."""
    value = arguments.get("x-queue-type", CLASSIC_TYPE)
    if not isinstance(value, str):
        raise invalid("x-queue-type", where, unacceptable(value))
    if value not in QUEUE_TYPES:
        raise invalid("x-queue-type", where, f"\"unsupported queue type '{value}'\"")
    return value


def check_names(arguments: dict[str, object], known: Iterable[str], foreign: Iterable[str], where: str) -> None:
    """Raise RequestError for an argument that has no effect, and suggest the one probably meant.

    foreign  RabbitMQ's arguments, which are accepted without effect
    """
    for name in arguments:
        if name not in known and name not in foreign:
            raise RequestError(
                PRECONDITION, f"invalid arg '{name}' for {where}: nothing puts it in force; {hint(name, known)}"
            )


def check_arguments(queue_type: str, arguments: dict[str, object], where: str) -> None:
    """Raise RequestError if the type of queue lacks an argument that other types have, or a value is invalid.

    where  "queue 'q' in vhost '/'", for the error
    """
    bit = type_bit(queue_type)
    for setting in SETTINGS:
        if setting.argument not in arguments or not setting.types & bit:
            continue
        value = arguments[setting.argument]
        fault = setting.fault(value)
        if fault and setting.check == EXCHANGE:
            raise RequestError(
                PRECONDITION, f"invalid type '{type_name(value)}' for arg '{setting.argument}' in {where}"
            )
        if fault:
            raise invalid(setting.argument, where, fault)
        if setting.key in DURATIONS and isinstance(value, int) and value > EXPIRY_MS_MAX:
            raise invalid(setting.argument, where, f"{{value_too_large,{value}}}")
        if setting.key == DEAD_LETTER_KEY and BY_KEY[DEAD_LETTER_EXCHANGE].argument not in arguments:
            raise invalid(setting.argument, where, "routing_key_but_no_dlx_defined")
        if setting.key == MULTIPLIER and arguments.get(BY_KEY[BACKOFF].argument) == "linear":
            raise invalid(setting.argument, where, '"a linear backoff has no multiplier"')
        if setting.key == LEASE_PERIOD and arguments.get(BY_KEY[VISIBILITY].argument, value) != value:
            raise invalid(setting.argument, where, '"x-visibility-timeout means the same, and says another time"')
        if setting.key == PRIORITY_EXPRESSION:
            for key in (MAX_PRIORITY, PRIORITY_MODE):
                if BY_KEY[key].argument in arguments:
                    raise invalid(setting.argument, where, f'"x-{key} gives priorities, too: leave one of them out"')
    for setting in SETTINGS:
        if setting.argument in arguments and setting.types and not setting.types & bit:
            raise RequestError(
                PRECONDITION, f"invalid arg '{setting.argument}' for {where} of queue type rabbit_{queue_type}_queue"
            )


def check_fairness(arguments: dict[str, object], where: str) -> None:
    """Refuse fairness arguments that exclude each other, or other arguments."""
    if "x-fairness" in arguments and arguments.get("x-single-active-consumer") is True:
        raise invalid("x-fairness", where, '"a single active consumer gets everything"')
    if BY_KEY[FAIR_KEY].argument not in arguments:
        for key in (FAIR_WEIGHT, KEY_CONCURRENCY):
            if BY_KEY[key].argument in arguments:
                raise invalid(BY_KEY[key].argument, where, '"only a queue with x-fair-key has it"')
        return
    for key in (MAX_PRIORITY, PRIORITY_MODE, PRIORITY_EXPRESSION, "last-value-key"):
        if BY_KEY[key].argument in arguments:
            raise invalid(BY_KEY[key].argument, where, '"x-fair-key goes round the keys, and knows no other order"')


def invalid(argument: str, where: str, fault: str) -> RequestError:
    """Return the error for an argument's invalid value. `fault` says what is wrong, in RabbitMQ's words."""
    return RequestError(PRECONDITION, f"invalid arg '{argument}' for {where}: {fault}")


def age_us(text: str) -> int:
    """Return `max-age` in microseconds, from a number above 0 and a unit of Y M D h m s; -1 if it is invalid."""
    number = text[:-1]
    if number.isascii() and number.isdigit() and len(number) <= AGE_DIGITS_MAX and text[-1] in AGE_UNITS:
        age = int(number) * AGE_UNITS[text[-1]] * 1_000_000
        return age or -1
    return -1


def retain_age_us(text: str) -> int:
    """Return an age as `age_us` does. Accept a small d for days, too."""
    return age_us(text[:-1] + "D" if text.endswith("d") else text)
