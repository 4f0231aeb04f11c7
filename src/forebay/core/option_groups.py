"""Options that come in groups: what an entry of `queues`, `vhosts`, `permissions` and other lists of tables holds."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Final

from forebay.core.option_table import (
    ARGUMENTS,
    FACTOR,
    HEADERS,
    NAMES,
    PATTERN,
    SECRET,
    TABLE,
    TEXT,
    VALUE,
    boolean,
    integer,
    option,
)

CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
STREAM: Final = "stream"
OLDEST: Final = "oldest"
NEWEST: Final = "newest"


@dataclass(frozen=True, slots=True)
class RetentionOptions:
    """The limits of what a queue keeps: of a stream whole blocks go from its start once one of the limits is passed."""

    max_age_s: int = integer(
        0, "s", 0, 10**10, "Records older than this may go; 0 keeps them for ever.", alias="max_age"
    )
    max_length_bytes: int = integer(0, "octets", 0, 2**62, "Octets that the queue keeps at most; 0 sets no limit.")
    max_length_messages: int = integer(
        0, "messages", 0, 2**62, "Messages that the queue keeps at most; 0 sets no limit."
    )


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """The limits of a queue."""

    max_depth: int = integer(0, "messages", 0, 2**62, "Ready messages; further publishes are refused. 0 sets no limit.")
    message_ttl_ms: int = integer(
        0, "ms", 0, 10**12, "Time after which a waiting message expires; 0 for never.", alias="message_ttl"
    )
    max_message_size: int = integer(
        0, "octets", 0, 2**62, "The longest body; longer messages are refused. 0 sets no limit."
    )


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """The leases of a queue's consumers: how many messages they may hold, and when these are settled."""

    semantics: str = option(
        "at-least-once",
        TEXT,
        "When a message is settled: when its consumer says so, or at most once: when it is sent.",
        choices=("at-least-once", "at-most-once"),
    )
    period_ms: int = integer(
        0, "ms", 0, 10**10, "As `visibility_timeout_ms`, and deliveries say when it ends; 0 sets none."
    )
    max_backlog: int = integer(0, "messages", 0, 2**62, "Messages that one group may hold; 0 sets no limit.")
    max_subscription_backlog: int = integer(
        0, "messages", 0, 2**62, "Messages that one consumer may hold; 0 sets no limit."
    )
    max_deliveries: int = integer(
        0,
        "deliveries",
        0,
        2**31 - 1,
        "After so many deliveries a message dies instead of coming back; 0 sets no limit.",
    )
    max_cancels: int = integer(
        0, "cancels", 0, 2**31 - 1, "A message dies when consumers give it back for this time; 0 sets no limit."
    )
    deferred_ack_ms: int = integer(
        86_400_000, "ms", 0, 10**12, "Time for which an acknowledgement of what is not published yet is kept; 0: not."
    )
    dead_letter_reasons: str = option(
        "rabbitmq", TEXT, "Whose words dead letters state their reasons in.", choices=("rabbitmq", "amps")
    )


@dataclass(frozen=True, slots=True)
class OrderOptions:
    """The order in which a queue delivers its messages."""

    priority_expression: str = option(
        "", VALUE, "An expression: messages with the highest value go first. Empty: by age, or by priority."
    )


@dataclass(frozen=True, slots=True)
class FairnessOptions:
    """The consumers of a queue, and the keys of its messages, beside each other."""

    strategy: str = option(
        "",
        TEXT,
        "The consumer that is next: the first with room, each in turn, or the one with the most unused share.",
        choices=("", "fast", "round-robin", "proportional"),
    )
    key: str = option("", VALUE, "An expression: deliveries go round its values. Empty: round nothing.")
    weight: str = option("", VALUE, "Weights of keys, such as `gold=5, *=1`; only with `key`.")
    key_concurrency: int = integer(
        0, "messages", 0, 2**62, "Messages of one key that may be out at once, only with `key`; 0 sets no limit."
    )


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """The retries of messages that consumers give back."""

    max_retries: int = integer(
        -1, "failures", -1, 2**31 - 1, "A message dies after more failures than this; -1 sets no limit."
    )
    initial_backoff_ms: int = integer(
        0, "ms", 0, 10**10, "Wait after the first failure; 0 for none.", alias="initial_backoff"
    )
    max_backoff_ms: int = integer(
        0, "ms", 0, 10**10, "The longest wait; 0: every wait is as long as the first.", alias="max_backoff"
    )
    multiplier: str = option(
        "2.0", FACTOR, "Factor by which the wait grows with each failure; 1 keeps it as it is.", least=1, most=1_000_000
    )
    total_timeout_ms: int = integer(
        0,
        "ms",
        0,
        10**10,
        "Time after the first failure in which a message may still be retried; 0 sets no limit.",
        alias="total_timeout",
    )


@dataclass(frozen=True, slots=True)
class DeadLetterOptions:
    """The dead-letter settings of a queue."""

    enabled: bool = boolean(False, "The queue's dead letters are kept.")
    topic: str = option(
        "", VALUE, "Where they go: an MQTT topic, or `$queue/<name>`. Empty: the queue `$dlq/<name of the queue>`."
    )


@dataclass(frozen=True, slots=True)
class ReplicationOptions:
    """The demands of a queue on the nodes that keep it: a cluster does for all what `cluster` says, or refuses them."""

    enabled: bool = boolean(False, "The queue makes demands on replication; `true` needs the section `cluster`.")
    group: str = option("", VALUE, "Empty, or the cluster's name: there is one group.")
    replication_factor: int = integer(
        1, "nodes", 1, 99, "At most `cluster.members`, since all members keep every queue."
    )
    mode: str = option(
        "sync", TEXT, "`sync` needs `cluster.mode: sync`; `async` goes with either.", choices=("sync", "async")
    )
    min_in_sync_replicas: int = integer(
        1, "nodes", 1, 99, "At most `cluster.min_in_sync`, which holds for every queue."
    )
    ack_timeout_ms: int = integer(
        0, "ms", 0, 10**7, "Must be 0: a confirm comes once enough members have the message.", alias="ack_timeout"
    )


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """A queue that is there from the start."""

    name: str = option(MISSING, TEXT, "The queue's name, as in `$queue/<name>`.")
    topics: list[str] = option([], NAMES, "MQTT topic filters: publishes to matching topics go to this queue.")
    type: str = option(CLASSIC, TEXT, "Type of the queue.", choices=(CLASSIC, QUORUM, STREAM))
    visibility_timeout_ms: int = integer(
        0,
        "ms",
        0,
        10**10,
        "Time for which a consumer may hold a message unsettled; 0 takes the broker's `visibility_timeout_ms`.",
    )
    retention: RetentionOptions = option(
        RetentionOptions(), TABLE, "Retention: how much a stream keeps.", inner=RetentionOptions
    )
    retain: RetentionOptions = option(
        RetentionOptions(),
        TABLE,
        "Retention of messages that are settled, of a queue that is no stream: `x-retain` and its like.",
        inner=RetentionOptions,
    )
    reserved: bool = boolean(False, "The queue takes `$queue/` publishes that no other queue takes.")
    primary_group: str = option("", VALUE, "The group of a stream whose progress its readers are told.")
    source: str = option("", VALUE, "The stream of which the queue is a view: `x-source`.")
    recovery_point: str = option(
        "",
        VALUE,
        "Where a view starts: `epoch` (if empty), `now`, `creation`, an offset, or `timestamp=` and milliseconds.",
    )
    filter: str = option("", VALUE, "What a view takes of its stream, as a filter: `x-filter`; everything if empty.")
    publish_target: str = option("", VALUE, "Where a publish to a view's own name goes: its stream, or nowhere.")
    last_value_key: str = option(
        "", VALUE, "An expression: a message replaces the older one with the same value: `x-last-value-key`."
    )
    limits: LimitOptions = option(LimitOptions(), TABLE, "Limits of the queue.", inner=LimitOptions)
    lease: LeaseOptions = option(LeaseOptions(), TABLE, "Leases of the queue's consumers.", inner=LeaseOptions)
    order: OrderOptions = option(OrderOptions(), TABLE, "Order of the queue's messages.", inner=OrderOptions)
    fairness: FairnessOptions = option(
        FairnessOptions(), TABLE, "Fairness among consumers, and keys, of the queue.", inner=FairnessOptions
    )
    retry: RetryOptions = option(RetryOptions(), TABLE, "Retries of failed messages.", inner=RetryOptions)
    dlq: DeadLetterOptions = option(DeadLetterOptions(), TABLE, "Dead letters.", inner=DeadLetterOptions)
    ack_durability: str = option(
        "fsync", TEXT, "No effect: every confirm means *on disk*.", choices=("fsync", "buffered")
    )
    replication: ReplicationOptions = option(
        ReplicationOptions(), TABLE, "Demands on the cluster.", inner=ReplicationOptions
    )


@dataclass(frozen=True, slots=True)
class ExchangeOptions:
    """An exchange that is there from the start."""

    name: str = option(MISSING, TEXT, "The exchange's name.")
    type: str = option(
        "direct", TEXT, "Type: `direct`, `fanout`, `topic`, `headers`, `x-consistent-hash` or `x-delayed-message`."
    )
    vhost: str = option("/", TEXT, "The exchange's vhost.")
    durable: bool = boolean(True, "The exchange survives a restart even after it is removed from the configuration.")
    auto_delete: bool = boolean(False, "The exchange is deleted with its last binding.")
    internal: bool = boolean(False, "Only other exchanges publish to it.")
    arguments: dict[str, object] = option({}, ARGUMENTS, "Arguments, such as `alternate-exchange`.")


@dataclass(frozen=True, slots=True)
class BindingOptions:
    """A binding that is there from the start."""

    source: str = option(MISSING, TEXT, "The exchange that messages come from.")
    destination: str = option(MISSING, TEXT, "The queue or exchange that they go to.")
    destination_type: str = option("queue", TEXT, "Type of the destination.", choices=("queue", "exchange"))
    vhost: str = option("/", TEXT, "The binding's vhost.")
    routing_key: str = option("", VALUE, "The routing key, or a topic exchange's pattern.")
    arguments: dict[str, object] = option({}, ARGUMENTS, "Arguments: the headers that a headers exchange compares.")


@dataclass(frozen=True, slots=True)
class VhostOptions:
    """A vhost that is there from the start."""

    name: str = option(MISSING, TEXT, "The vhost's name.")
    description: str = option("", VALUE, "A description for people.")
    default_queue_type: str = option(
        CLASSIC, TEXT, "Type of a queue that is declared without one.", choices=(CLASSIC, QUORUM, STREAM)
    )
    connections_max: int = integer(-1, "connections", -1, 2**31 - 1, "Connections at one time; -1 sets no limit.")
    octets_max: int = integer(
        -1,
        "octets",
        -1,
        2**62,
        "Octets that its queues may hold before their publishers are slowed down; -1 sets no limit.",
    )
    queues_max: int = integer(-1, "queues", -1, 2**31 - 1, "Queues at one time; -1 sets no limit.")


@dataclass(frozen=True, slots=True)
class PermissionOptions:
    """The permissions of a user in a vhost: regular expressions over the names of queues and exchanges."""

    user: str = option(MISSING, TEXT, "One of `users`.")
    vhost: str = option("/", TEXT, "The vhost in which the permissions hold.")
    configure: str = option(".*", PATTERN, "Names of queues and exchanges that the user may declare and delete.")
    write: str = option(".*", PATTERN, "Names that the user may publish to, and bind queues of.")
    read: str = option(".*", PATTERN, "Names that the user may consume from, and bind exchanges of.")


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """The address to which events are sent by HTTP, and the events."""

    url: str = option(MISSING, TEXT, "The URL that gets the events; it begins with `http://` or `https://`.")
    name: str = option("", VALUE, "The webhook's name. Empty: its `url`.")
    events: list[str] = option(["*"], NAMES, "Types of events, with `*` for any text: `client.*`.")
    vhosts: list[str] = option([], NAMES, "Only events of these vhosts; empty for all.")
    queues: list[str] = option([], NAMES, "Only events of these queues, with `*` for any text; empty for all.")
    topics: list[str] = option([], NAMES, "Only events of topics that match one of these MQTT filters; empty for all.")
    headers: dict[str, str] = option({}, HEADERS, "Headers of each request, such as `Authorization`.")
    secret: str = option(
        "", SECRET, "Key that signs each request: `X-Forebay-Signature` is the HMAC-SHA256 of the body."
    )
    include_payload: bool = boolean(False, "Events of messages contain the payload, in base64.")
    timeout_ms: int = integer(5_000, "ms", 1, 10**6, "Time for a request.")
    attempts_max: int = integer(3, "attempts", 1, 100, "Attempts to deliver one event.")
    retry_min_ms: int = integer(1_000, "ms", 1, 10**7, "Wait before the second attempt; it doubles each time.")
    retry_max_ms: int = integer(30_000, "ms", 1, 10**7, "The longest wait between two attempts.")
    breaker_failures: int = integer(5, "failures", 1, 10**6, "Failures in a row after which the webhook pauses.")
    breaker_reset_ms: int = integer(
        60_000, "ms", 1, 10**8, "Length of that pause; then one event tests whether the URL works again."
    )
    events_max: int = integer(10_000, "events", 1, 10**6, "Events that may wait; beyond it some are dropped.")
    drop_policy: str = option(
        OLDEST, TEXT, "Events that are dropped: the oldest or the newest.", choices=(OLDEST, NEWEST)
    )
    workers: int = integer(5, "requests", 1, 1000, "Requests at one time; with 1, events come in order.")
