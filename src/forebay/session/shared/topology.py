"""Changes of queues, exchanges and bindings that a client asks for over its own protocol.

Each function checks the user's rights, changes the vhost, keeps the answer back until the change is on disk
(`Session.hold`), and notes the change in the audit log. Each raises RequestError and changes nothing where the request
cannot be met.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.broker.catalog.declare_rights import check_bind_exchange, check_declare_exchange, check_declare_queue
from forebay.directory.permissions import CONFIGURE, READ
from forebay.queue.queue import Queue
from forebay.session.session import Session

SERVER_NAMED: Final = b"amq.gen"  # how names begin that the broker makes


def declare_queue(
    session: Session, name: bytes, durable: bool, exclusive: bool, auto_delete: bool, arguments: dict[str, object]
) -> Queue:
    """Declare a queue, and return it as it is after all that has happened so far.

    name  "" for a name that the broker makes
    """
    vhost = session.vhost
    check_declare_queue(vhost.catalog, session.rights, name or SERVER_NAMED, arguments)
    is_new = name not in vhost.catalog.queues
    queue = vhost.catalog.declare_queue(
        name, durable, exclusive, auto_delete, arguments, session.id, session.principal.user
    )
    session.hold()
    if is_new and not exclusive:
        session.note_change("queue.declare", {"queue": queue.name, "arguments": arguments})
    return queue


def bind_queue(session: Session, name: bytes, exchange: bytes, key: bytes, arguments: dict[str, object]) -> None:
    """Bind a queue to an exchange."""
    catalog = session.vhost.catalog
    session.rights.check_bind(name, exchange, key, catalog.is_topic_exchange(exchange))
    if exchange:  # else it is refused whether or not there is the queue
        catalog.check_exchange(exchange)
        catalog.check_owner(catalog.queue(name), session.id)
    catalog.bind(name, exchange, key, arguments)
    session.hold()


def unbind_queue(session: Session, name: bytes, exchange: bytes, key: bytes, arguments: dict[str, object]) -> None:
    """Delete a binding of a queue, if there is one."""
    catalog = session.vhost.catalog
    session.rights.check_bind(name, exchange, key, catalog.is_topic_exchange(exchange))
    queue = catalog.queues.get(name)
    if queue is not None:
        catalog.check_owner(queue, session.id)
    catalog.unbind(name, exchange, key, arguments)
    session.hold()


def purge_queue(session: Session, name: bytes) -> i64:
    """Remove all ready messages of a queue, and return their number.

    The removal is on disk with the commit of this turn: the answer is to be kept back for that by the caller.
    """
    vhost = session.vhost
    session.rights.check_queue(READ, name)
    vhost.catalog.check_owner(vhost.catalog.queue(name), session.id)
    count = vhost.upkeep.purge(name)
    session.note_change("queue.purge", {"queue": name, "messages": int(count)})
    return count


def delete_queue(session: Session, name: bytes, if_unused: bool, if_empty: bool) -> i64:
    """Delete a queue if there is one, and return the number of its messages.

    if_unused, if_empty  refuse to if the queue has consumers, or messages
    """
    vhost = session.vhost
    session.rights.check_queue(CONFIGURE, name)
    queue = vhost.catalog.queues.get(name)
    if queue is not None:
        vhost.catalog.check_owner(queue, session.id)
    count = vhost.upkeep.delete_queue(name, if_unused, if_empty)
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
    catalog = session.vhost.catalog
    check_declare_exchange(catalog, session.rights, name, arguments)
    is_new = name not in catalog.bindings.exchanges
    catalog.declare_exchange(name, kind, durable, auto_delete, internal, arguments)
    session.hold()
    if is_new:
        session.note_change("exchange.declare", {"exchange": name, "arguments": arguments})


def delete_exchange(session: Session, name: bytes, if_unused: bool) -> None:
    """Delete an exchange if there is one; `if_unused`: refuse to if something is bound to it."""
    catalog = session.vhost.catalog
    session.rights.check_exchange(CONFIGURE, name)
    is_there = name in catalog.bindings.exchanges
    catalog.delete_exchange(name, if_unused)
    session.hold()
    if is_there:
        session.note_change("exchange.delete", {"exchange": name})


def bind_exchange(
    session: Session, destination: bytes, source: bytes, key: bytes, arguments: dict[str, object]
) -> None:
    """Bind an exchange to another one, the source."""
    catalog = session.vhost.catalog
    check_bind_exchange(catalog, session.rights, destination, source, key)
    catalog.bind_exchange(destination, source, key, arguments)
    session.hold()


def unbind_exchange(
    session: Session, destination: bytes, source: bytes, key: bytes, arguments: dict[str, object]
) -> None:
    """Delete a binding of an exchange to another one, if there is one."""
    catalog = session.vhost.catalog
    check_bind_exchange(catalog, session.rights, destination, source, key)
    catalog.unbind_exchange(destination, source, key, arguments)
    session.hold()
