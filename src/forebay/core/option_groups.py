"""Options that come in groups: what an entry of `queues`, `vhosts`, `permissions` and other lists of tables holds."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Final

from forebay.core.option_table import NAMES, PATTERN, TABLE, TEXT, integer, option

CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
STREAM: Final = "stream"


@dataclass(frozen=True, slots=True)
class RetentionOptions:
    """What a stream keeps: whole blocks go from its start once one of the limits is passed."""

    max_age_s: int = integer(0, "s", 0, 10**10, "Records older than this may go; 0 keeps them for ever.")
    max_length_bytes: int = integer(0, "octets", 0, 2**62, "Octets kept at most; 0 sets no limit.")
    max_length_messages: int = integer(0, "messages", 0, 2**62, "Messages kept at most; 0 sets no limit.")


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
    """What a user may do in a vhost: regular expressions over the names of queues and exchanges."""

    user: str = option(MISSING, TEXT, "One of `users`.")
    vhost: str = option("/", TEXT, "The vhost.")
    configure: str = option(".*", PATTERN, "What the user may declare and delete.")
    write: str = option(".*", PATTERN, "What the user may publish to and bind.")
    read: str = option(".*", PATTERN, "What the user may consume from and bind to.")
