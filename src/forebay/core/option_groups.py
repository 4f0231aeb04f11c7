"""Options that come in groups: what an entry of `queues`, `vhosts`, `permissions` and other lists of tables holds."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Final

from forebay.core.option_table import (
    ARGUMENTS,
    FACTOR,
    FILE,
    HEADERS,
    NAMES,
    PATTERN,
    SECRET,
    TABLE,
    TEXT,
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
    max_length_bytes: int = integer(0, "octets", 0, 2**62, "Octets kept at most; 0 sets no limit.")
    max_length_messages: int = integer(0, "messages", 0, 2**62, "Messages kept at most; 0 sets no limit.")


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """The limits of a queue."""

    max_depth: int = integer(0, "messages", 0, 2**62, "Ready messages; more are refused. 0 sets no limit.")
    message_ttl_ms: int = integer(
        0, "ms", 0, 10**12, "How long a message may wait before it dies; 0 for ever.", alias="message_ttl"
    )
    max_message_size: int = integer(
        0, "octets", 0, 2**62, "The longest body; longer ones are refused. 0 sets no limit."
    )


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """The retries of messages that consumers give back."""

    max_retries: int = integer(-1, "failures", -1, 2**31 - 1, "Failures after which a message dies; -1 sets no limit.")
    initial_backoff_ms: int = integer(
        0, "ms", 0, 10**10, "How long it waits after the first failure; 0: not at all.", alias="initial_backoff"
    )
    max_backoff_ms: int = integer(
        0, "ms", 0, 10**10, "The longest that it waits; 0: always as long as at first.", alias="max_backoff"
    )
    multiplier: str = option(
        "2.0", FACTOR, "By what the wait grows each time; 1 keeps it as long as at first.", least=1, most=1_000_000
    )
    total_timeout_ms: int = integer(
        0,
        "ms",
        0,
        10**10,
        "How long after its first failure one may come back; 0 for ever.",
        alias="total_timeout",
    )


@dataclass(frozen=True, slots=True)
class DeadLetterOptions:
    """The dead-letter settings of a queue."""

    enabled: bool = boolean(False, "Whether they go anywhere.")
    topic: str = option("", FILE, "The topic, or `$queue/<name>`; empty for the queue `$dlq/<name of the queue>`.")


@dataclass(frozen=True, slots=True)
class ReplicationOptions:
    """The demands of a queue on the nodes that keep it: a cluster does for all what `cluster` says, or refuses them."""

    enabled: bool = boolean(False, "Whether it asks for anything; true needs the section `cluster`.")
    group: str = option("", FILE, "Empty, or the cluster's name: there is one group.")
    replication_factor: int = integer(1, "nodes", 1, 99, "At most `cluster.members`, which keep every queue.")
    mode: str = option(
        "sync", TEXT, "`sync` needs `cluster.mode: sync`; with `async` either will do.", choices=("sync", "async")
    )
    min_in_sync_replicas: int = integer(
        1, "nodes", 1, 99, "At most `cluster.min_in_sync`, which holds for every queue."
    )
    ack_timeout_ms: int = integer(
        0, "ms", 0, 10**7, "Must be 0: a confirm comes when enough nodes have the message.", alias="ack_timeout"
    )


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """A queue that is there from the start."""

    name: str = option(MISSING, TEXT, "The queue's name, as in `$queue/<name>`.")
    topics: list[str] = option([], NAMES, "MQTT topic filters; what is published to a matching topic lands here.")
    type: str = option(CLASSIC, TEXT, "What kind of queue.", choices=(CLASSIC, QUORUM, STREAM))
    visibility_timeout_ms: int = integer(
        0, "ms", 0, 10**10, "How long a consumer may hold a message; 0 takes the broker's `visibility_timeout_ms`."
    )
    retention: RetentionOptions = option(RetentionOptions(), TABLE, "What a stream keeps.", inner=RetentionOptions)
    reserved: bool = boolean(False, "Whether it takes `$queue/` publishes that no other queue takes.")
    primary_group: str = option("", FILE, "The group whose progress readers of a stream are told of.")
    limits: LimitOptions = option(LimitOptions(), TABLE, "What it takes.", inner=LimitOptions)
    retry: RetryOptions = option(RetryOptions(), TABLE, "What becomes of what consumers give back.", inner=RetryOptions)
    dlq: DeadLetterOptions = option(DeadLetterOptions(), TABLE, "Where messages go that die.", inner=DeadLetterOptions)
    ack_durability: str = option(
        "fsync", TEXT, "Has no effect: what is confirmed is on disk.", choices=("fsync", "buffered")
    )
    replication: ReplicationOptions = option(
        ReplicationOptions(), TABLE, "What it asks of the cluster.", inner=ReplicationOptions
    )


@dataclass(frozen=True, slots=True)
class ExchangeOptions:
    """An exchange that is there from the start."""

    name: str = option(MISSING, TEXT, "The exchange's name.")
    type: str = option(
        "direct", TEXT, "What kind: `direct`, `fanout`, `topic`, `headers`, `x-consistent-hash`, `x-delayed-message`."
    )
    vhost: str = option("/", TEXT, "The vhost.")
    durable: bool = boolean(True, "Whether it outlives a restart also when the configuration has it no more.")
    auto_delete: bool = boolean(False, "Whether it goes with its last binding.")
    internal: bool = boolean(False, "Whether only exchanges publish to it.")
    arguments: dict[str, object] = option({}, ARGUMENTS, "Its arguments, such as `alternate-exchange`.")


@dataclass(frozen=True, slots=True)
class BindingOptions:
    """A binding that is there from the start."""

    source: str = option(MISSING, TEXT, "The exchange that messages come from.")
    destination: str = option(MISSING, TEXT, "The queue or exchange that they go to.")
    destination_type: str = option("queue", TEXT, "Which of both it is.", choices=("queue", "exchange"))
    vhost: str = option("/", TEXT, "The vhost.")
    routing_key: str = option("", FILE, "The routing key, or pattern of a topic exchange.")
    arguments: dict[str, object] = option({}, ARGUMENTS, "Its arguments: what a headers exchange looks for.")


@dataclass(frozen=True, slots=True)
class VhostOptions:
    """A vhost that is there from the start."""

    name: str = option(MISSING, TEXT, "The vhost's name.")
    description: str = option("", TEXT, "What it is for.")
    default_queue_type: str = option(
        CLASSIC, TEXT, "What a queue is that is declared without a type.", choices=(CLASSIC, QUORUM, STREAM)
    )
    connections_max: int = integer(-1, "connections", -1, 2**31 - 1, "Connections at one time; -1 sets no limit.")
    octets_max: int = integer(
        -1, "octets", -1, 2**62, "What its queues may hold before their publishers are slowed down; -1 sets no limit."
    )
    queues_max: int = integer(-1, "queues", -1, 2**31 - 1, "Queues at one time; -1 sets no limit.")


@dataclass(frozen=True, slots=True)
class PermissionOptions:
    """The permissions of a user in a vhost: regular expressions over the names of queues and exchanges."""

    user: str = option(MISSING, TEXT, "One of `users`.")
    vhost: str = option("/", TEXT, "The vhost.")
    configure: str = option(".*", PATTERN, "What the user may declare and delete.")
    write: str = option(".*", PATTERN, "What the user may publish to and bind.")
    read: str = option(".*", PATTERN, "What the user may consume from and bind to.")


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """The address to which events are sent by HTTP, and the events."""

    url: str = option(MISSING, TEXT, "Where they are sent: `http://` or `https://`.")
    name: str = option("", FILE, "What it is called; without a name, by its `url`.")
    events: list[str] = option(["*"], NAMES, "Types of events, with `*` for any text: `client.*`.")
    vhosts: list[str] = option([], NAMES, "Only events of these vhosts; empty for all.")
    queues: list[str] = option([], NAMES, "Only events of queues that match, with `*` for any text; empty for all.")
    topics: list[str] = option([], NAMES, "Only events of topics that match one of these MQTT filters; empty for all.")
    headers: dict[str, str] = option({}, HEADERS, "Headers of each request, such as `Authorization`.")
    secret: str = option("", SECRET, "Signs each request: `X-Forebay-Signature` is the HMAC-SHA256 of its body.")
    include_payload: bool = boolean(False, "Whether events of messages come with their payload, in base64.")
    timeout_ms: int = integer(5_000, "ms", 1, 10**6, "How long a request may take.")
    attempts_max: int = integer(3, "attempts", 1, 100, "How often an event is sent until it is taken.")
    retry_min_ms: int = integer(1_000, "ms", 1, 10**7, "The wait before the second attempt; it doubles each time.")
    retry_max_ms: int = integer(30_000, "ms", 1, 10**7, "The longest wait between two attempts.")
    breaker_failures: int = integer(5, "failures", 1, 10**6, "Failures in a row after which nothing is sent for now.")
    breaker_reset_ms: int = integer(
        60_000, "ms", 1, 10**8, "For how long; one event then shows whether it works again."
    )
    events_max: int = integer(10_000, "events", 1, 10**6, "Events that may wait; beyond it some are dropped.")
    drop_policy: str = option(OLDEST, TEXT, "Which are dropped.", choices=(OLDEST, NEWEST))
    workers: int = integer(5, "requests", 1, 1000, "Requests at one time; with 1 events come in their order.")
