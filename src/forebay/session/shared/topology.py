"""Changes of queues, exchanges and bindings that a client asks for over its own protocol.

Each function has the vhost check the user's rights and change, keeps the answer back until the change is on disk
(`Session.hold`), and notes the change in the audit log. Each raises RequestError and changes nothing where the request
cannot be met.
"""

from __future__ import annotations

from mypy_extensions import i64

from forebay.queue.queue import Queue
from forebay.session.session import Session


def declare_queue(
    session: Session, name: bytes, durable: bool, exclusive: bool, auto_delete: bool, arguments: dict[str, object]
) -> Queue:
    """Declare a queue, and return it as it is after all that has happened so far.

    name  "" for a name that the broker makes
    """
    vhost = session.vhost
    is_new = not vhost.has_queue(name)
    queue = vhost.declare_queue(
        session.rights, name, durable, exclusive, auto_delete, arguments, session.id, session.principal.user
    )
    session.hold()
    if is_new and not exclusive:
        session.note_change("queue.declare", {"queue": queue.name, "arguments": arguments})
    return queue


def bind_queue(session: Session, name: bytes, exchange: bytes, key: bytes, arguments: dict[str, object]) -> None:
    """Bind a queue to an exchange."""
    session.vhost.bind_queue(session.rights, name, exchange, key, arguments, session.id)
    session.hold()


def unbind_queue(session: Session, name: bytes, exchange: bytes, key: bytes, arguments: dict[str, object]) -> None:
    """Delete a binding of a queue, if there is one."""
    session.vhost.unbind_queue(session.rights, name, exchange, key, arguments, session.id)
    session.hold()


def purge_queue(session: Session, name: bytes) -> i64:
    """Remove all ready messages of a queue, and return their number.

    The removal is on disk with the commit of this turn: the answer is to be kept back for that by the caller.
    """
    count = session.vhost.purge_queue(session.rights, name, session.id)
    session.note_change("queue.purge", {"queue": name, "messages": int(count)})
    return count


def delete_queue(session: Session, name: bytes, if_unused: bool, if_empty: bool) -> i64:
    """Delete a queue if there is one, and return the number of its messages.

    if_unused, if_empty  refuse to if the queue has consumers, or messages
    """
    vhost = session.vhost
    queue = vhost.find_queue(name)
    count = vhost.delete_queue(session.rights, name, if_unused, if_empty, session.id)
    session.hold()
    if queue is not None and not queue.owner:
        session.note_change("queue.delete", {"queue": name, "messages": int(count)})
    return count


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
    vhost = session.vhost
    is_new = vhost.find_exchange(name) is None
    vhost.declare_exchange(session.rights, name, kind, durable, auto_delete, internal, arguments)
    session.hold()
    if is_new:
        session.note_change("exchange.declare", {"exchange": name, "arguments": arguments})


def delete_exchange(session: Session, name: bytes, if_unused: bool) -> None:
    """Delete an exchange if there is one; `if_unused`: refuse to if something is bound to it."""
    vhost = session.vhost
    is_there = vhost.find_exchange(name) is not None
    vhost.delete_exchange(session.rights, name, if_unused)
    session.hold()
    if is_there:
        session.note_change("exchange.delete", {"exchange": name})


def bind_exchange(
    session: Session, destination: bytes, source: bytes, key: bytes, arguments: dict[str, object]
) -> None:
    """Bind an exchange to another one, the source."""
    session.vhost.bind_exchange(session.rights, destination, source, key, arguments)
    session.hold()


def unbind_exchange(
    session: Session, destination: bytes, source: bytes, key: bytes, arguments: dict[str, object]
) -> None:
    """Delete a binding of an exchange to another one, if there is one."""
    session.vhost.unbind_exchange(session.rights, destination, source, key, arguments)
    session.hold()
