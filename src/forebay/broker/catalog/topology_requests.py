"""Changes of queues, exchanges and bindings that a session asks its vhost for, each a value.

`VhostContract.change` checks the rights of the user and whose a queue is, makes the change, and returns its outcome.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.directory.permissions import Rights
from forebay.queue.queue import Queue


@final
class Requester:
    """The user and the connection that ask for a change."""

    def __init__(self, rights: Rights, session_id: i64, user: str) -> None:
        self.rights = rights
        self.session_id: i64 = session_id
        self.user = user


class TopologyRequest:
    """A change of queues, exchanges and bindings."""


@final
class QueueDeclaration(TopologyRequest):
    """Declare a queue, or check that the one there is was declared alike; name "" for one that the broker makes."""

    def __init__(
        self, name: bytes, durable: bool, exclusive: bool, auto_delete: bool, arguments: dict[str, object]
    ) -> None:
        self.name = name
        self.durable = durable
        self.exclusive = exclusive
        self.auto_delete = auto_delete
        self.arguments = arguments


@final
class QueueDeletion(TopologyRequest):
    """Delete a queue if there is one.

    if_unused, if_empty  refuse to if the queue has consumers, or messages
    is_own               the session has made the queue for itself: no rights are asked for
    """

    def __init__(self, name: bytes, if_unused: bool, if_empty: bool, is_own: bool = False) -> None:
        self.name = name
        self.if_unused = if_unused
        self.if_empty = if_empty
        self.is_own = is_own


@final
class QueuePurge(TopologyRequest):
    """Remove all ready messages of a queue."""

    def __init__(self, name: bytes) -> None:
        self.name = name


@final
class ExchangeDeclaration(TopologyRequest):
    """Declare an exchange, or check that the one there is was declared alike."""

    def __init__(
        self,
        name: bytes,
        kind: bytes,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: dict[str, object],
    ) -> None:
        self.name = name
        self.kind = kind
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments


@final
class ExchangeDeletion(TopologyRequest):
    """Delete an exchange and its bindings if there is one; `if_unused`: refuse to if something is bound to it."""

    def __init__(self, name: bytes, if_unused: bool) -> None:
        self.name = name
        self.if_unused = if_unused


@final
class BindingChange(TopologyRequest):
    """Bind a queue or an exchange to a source exchange, or delete that binding if there is one.

    to_queue  the destination is a queue, else an exchange
    adds      bind, else delete the binding
    """

    def __init__(
        self, to_queue: bool, adds: bool, destination: bytes, source: bytes, key: bytes, arguments: dict[str, object]
    ) -> None:
        self.to_queue = to_queue
        self.adds = adds
        self.destination = destination
        self.source = source
        self.key = key
        self.arguments = arguments


@final
class TopologyOutcome:
    """The outcome of a change.

    is_changed  a queue or an exchange was made or deleted
    queue       the queue that was declared or deleted
    messages    number of messages that went with the change
    """

    def __init__(self, is_changed: bool, queue: Queue | None = None, messages: i64 = 0) -> None:
        self.is_changed = is_changed
        self.queue = queue
        self.messages: i64 = messages
