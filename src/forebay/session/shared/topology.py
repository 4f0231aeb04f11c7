"""Changes of queues, exchanges and bindings that a client asks for over its own protocol.

Each function has the vhost check the user's rights and change, keeps the answer back until the change is on disk
(`Session.hold`), and notes the change in the audit log. Each raises RequestError and changes nothing where the request
cannot be met.
"""

from __future__ import annotations

from mypy_extensions import i64

from forebay.broker.catalog.topology_requests import (
    BindingChange,
    ExchangeDeclaration,
    ExchangeDeletion,
    QueueDeclaration,
    QueueDeletion,
    QueuePurge,
    Requester,
    TopologyOutcome,
    TopologyRequest,
)
from forebay.queue.queue import Queue
from forebay.session.session import Session


def change(session: Session, request: TopologyRequest) -> TopologyOutcome:
    """Have the vhost make a change for a session's user, and return its outcome."""
    return session.vhost.change(Requester(session.rights, session.id, session.principal.user), request)


def declare_queue(
    session: Session, name: bytes, durable: bool, exclusive: bool, auto_delete: bool, arguments: dict[str, object]
) -> Queue:
    """Declare a queue, and return it as it is after all that has happened so far.

    name  "" for a name that the broker makes
    """
    outcome = change(session, QueueDeclaration(name, durable, exclusive, auto_delete, arguments))
    queue = outcome.queue
    assert queue is not None, "a queue was declared"
    session.hold()
    if outcome.is_changed and not exclusive:
        session.note_change("queue.declare", {"queue": queue.name, "arguments": arguments})
    return queue


def bind_queue(session: Session, name: bytes, exchange: bytes, key: bytes, arguments: dict[str, object]) -> None:
    """Bind a queue to an exchange."""
    change(session, BindingChange(True, True, name, exchange, key, arguments))
    session.hold()


def unbind_queue(session: Session, name: bytes, exchange: bytes, key: bytes, arguments: dict[str, object]) -> None:
    """Delete a binding of a queue, if there is one."""
    change(session, BindingChange(True, False, name, exchange, key, arguments))
    session.hold()


def purge_queue(session: Session, name: bytes) -> i64:
    """Remove all ready messages of a queue, and return their number.

    The removal is on disk with the commit of this turn: the answer is to be kept back for that by the caller.
    """
    count = change(session, QueuePurge(name)).messages
    session.note_change("queue.purge", {"queue": name, "messages": int(count)})
    return count


def delete_queue(session: Session, name: bytes, if_unused: bool, if_empty: bool) -> i64:
    """Delete a queue if there is one, and return the number of its messages.

    if_unused, if_empty  refuse to if the queue has consumers, or messages
    """
    outcome = change(session, QueueDeletion(name, if_unused, if_empty))
    session.hold()
    queue = outcome.queue
    if queue is not None and not queue.owner:
        session.note_change("queue.delete", {"queue": name, "messages": int(outcome.messages)})
    return outcome.messages


def drop_own_queue(session: Session, name: bytes) -> None:
    """Delete a queue that the session has made for itself, unless it has gone by itself."""
    if session.vhost.find_queue(name) is not None:
        change(session, QueueDeletion(name, False, False, True))
        session.hold()


def declare_exchange(
    session: Session,
    name: bytes,
    kind: bytes,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: dict[str, object],
) -> None:
    """Declare an exchange of a kind, such as direct."""
    outcome = change(session, ExchangeDeclaration(name, kind, durable, auto_delete, internal, arguments))
    session.hold()
    if outcome.is_changed:
        session.note_change("exchange.declare", {"exchange": name, "arguments": arguments})


def delete_exchange(session: Session, name: bytes, if_unused: bool) -> None:
    """Delete an exchange if there is one; `if_unused`: refuse to if something is bound to it."""
    outcome = change(session, ExchangeDeletion(name, if_unused))
    session.hold()
    if outcome.is_changed:
        session.note_change("exchange.delete", {"exchange": name})


def bind_exchange(
    session: Session, destination: bytes, source: bytes, key: bytes, arguments: dict[str, object]
) -> None:
    """Bind an exchange to another one, the source."""
    change(session, BindingChange(False, True, destination, source, key, arguments))
    session.hold()


def unbind_exchange(
    session: Session, destination: bytes, source: bytes, key: bytes, arguments: dict[str, object]
) -> None:
    """Delete a binding of an exchange to another one, if there is one."""
    change(session, BindingChange(False, False, destination, source, key, arguments))
    session.hold()
