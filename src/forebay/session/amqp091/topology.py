"""Exchange and queue methods of AMQP 0.9.1: each asks the vhost and writes the answer.

Where the answer promises something durable, `Session.hold` keeps it back until that is on disk.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.broker.catalog.commands.exchanges import refuse_default
from forebay.broker.catalog.declare_rights import check_bind_exchange, check_declare_exchange, check_declare_queue
from forebay.broker.publish.replies import REPLY_PREFIX, REPLY_QUEUE
from forebay.core.errors import NOT_FOUND, RequestError
from forebay.directory.permissions import CONFIGURE, READ
from forebay.session.amqp091.channel import Channel
from forebay.session.session import Session
from forebay.wire.amqp091.codec import Reader, put_method
from forebay.wire.amqp091.methods import (
    EXCHANGE_BIND,
    EXCHANGE_BIND_OK,
    EXCHANGE_DECLARE,
    EXCHANGE_DECLARE_OK,
    EXCHANGE_DELETE,
    EXCHANGE_DELETE_OK,
    EXCHANGE_UNBIND,
    EXCHANGE_UNBIND_OK,
    QUEUE_BIND,
    QUEUE_BIND_OK,
    QUEUE_DECLARE,
    QUEUE_DECLARE_OK,
    QUEUE_DELETE,
    QUEUE_DELETE_OK,
    QUEUE_PURGE,
    QUEUE_PURGE_OK,
    QUEUE_UNBIND,
    QUEUE_UNBIND_OK,
    ExchangeBind,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    put_counts,
    put_message_count,
    read_name,
)

SERVER_NAMED: Final = b"amq.gen"  # how names begin that the broker makes


def on_topology_method(session: Session, channel: Channel, method: i64, args: Reader) -> bool:
    """Do an exchange or queue method; False if it is none."""
    if method == QUEUE_DECLARE:
        on_queue_declare(session, channel, QueueDeclare(args))
    elif method == QUEUE_BIND:
        on_queue_bind(session, channel, QueueBind(args, False))
    elif method == QUEUE_UNBIND:
        on_queue_unbind(session, channel, QueueBind(args, True))
    elif method == QUEUE_PURGE:
        on_queue_purge(session, channel, args)
    elif method == QUEUE_DELETE:
        on_queue_delete(session, channel, args)
    elif method == EXCHANGE_DECLARE:
        on_exchange_declare(session, channel, ExchangeDeclare(args))
    elif method == EXCHANGE_DELETE:
        on_exchange_delete(session, channel, args)
    elif method == EXCHANGE_BIND:
        on_exchange_bind(session, channel, ExchangeBind(args))
    elif method == EXCHANGE_UNBIND:
        on_exchange_unbind(session, channel, ExchangeBind(args))
    else:
        return False
    return True


def queue_name(channel: Channel, name: bytes) -> bytes:
    """A queue's name; empty stands for the one last declared on the channel."""
    if name:
        return name
    if not channel.last_queue:
        raise RequestError(NOT_FOUND, "no previously declared queue")
    return channel.last_queue


def on_queue_declare(session: Session, channel: Channel, declare: QueueDeclare) -> None:
    vhost = session.vhost
    if declare.queue == REPLY_QUEUE or declare.queue in vhost.replies.by_name:
        # Direct reply-to: a server looks whether its client still waits.
        put_counts(session.out, channel.number, QUEUE_DECLARE_OK, declare.queue, 0, 1)
        return
    if declare.passive or declare.queue.startswith(REPLY_PREFIX):
        queue = vhost.catalog.queue(queue_name(channel, declare.queue))
        vhost.catalog.check_owner(queue, session.id)
        queue.unused_since_us = 0
    else:
        check_declare_queue(vhost.catalog, session.rights, declare.queue or SERVER_NAMED, declare.arguments)
        is_new = declare.queue not in vhost.catalog.queues
        queue = vhost.catalog.declare_queue(
            declare.queue,
            declare.durable,
            declare.exclusive,
            declare.auto_delete,
            declare.arguments,
            session.id,
            session.principal.user,
        )
        session.hold()
        if is_new and not declare.exclusive:
            session.note_change("queue.declare", {"queue": queue.name, "arguments": declare.arguments})
    channel.last_queue = queue.name
    if not declare.no_wait:
        vhost.dispatcher.catch_up(queue)
        put_counts(session.out, channel.number, QUEUE_DECLARE_OK, queue.name, queue.ready(), queue.consumer_count())


def binding_key(bind: QueueBind, queue: bytes) -> bytes:
    """Neither queue nor key means the last queue, under its own name (0.9.1 specification of queue.bind)."""
    return bind.routing_key if bind.queue or bind.routing_key else queue


def on_queue_bind(session: Session, channel: Channel, bind: QueueBind) -> None:
    vhost = session.vhost
    name = queue_name(channel, bind.queue)
    key = binding_key(bind, name)
    session.rights.check_bind(name, bind.exchange, key, vhost.catalog.is_topic_exchange(bind.exchange))
    if bind.exchange:  # else it is refused whether or not there is the queue
        vhost.catalog.check_exchange(bind.exchange)
        vhost.catalog.check_owner(vhost.catalog.queue(name), session.id)
    vhost.catalog.bind(name, bind.exchange, key, bind.arguments)
    session.hold()
    if not bind.no_wait:
        put_method(session.out, channel.number, QUEUE_BIND_OK, b"")


def on_queue_unbind(session: Session, channel: Channel, bind: QueueBind) -> None:
    vhost = session.vhost
    name = queue_name(channel, bind.queue)
    key = binding_key(bind, name)
    session.rights.check_bind(name, bind.exchange, key, vhost.catalog.is_topic_exchange(bind.exchange))
    queue = vhost.catalog.queues.get(name)
    if queue is not None:
        vhost.catalog.check_owner(queue, session.id)
    vhost.catalog.unbind(name, bind.exchange, key, bind.arguments)
    session.hold()
    put_method(session.out, channel.number, QUEUE_UNBIND_OK, b"")


def on_queue_purge(session: Session, channel: Channel, args: Reader) -> None:
    args.short()
    name = queue_name(channel, args.short_string())
    no_wait = args.octet() & 1 != 0
    vhost = session.vhost
    session.rights.check_queue(READ, name)
    vhost.catalog.check_owner(vhost.catalog.queue(name), session.id)
    count = vhost.upkeep.purge(name)
    session.note_change("queue.purge", {"queue": name, "messages": int(count)})
    channel.link.committed = True
    if not no_wait:
        put_message_count(session.out, channel.number, QUEUE_PURGE_OK, count)


def on_queue_delete(session: Session, channel: Channel, args: Reader) -> None:
    args.short()
    name = queue_name(channel, read_name(args))
    bits = args.octet()
    vhost = session.vhost
    session.rights.check_queue(CONFIGURE, name)
    queue = vhost.catalog.queues.get(name)
    if queue is not None:
        vhost.catalog.check_owner(queue, session.id)
    count = vhost.upkeep.delete_queue(name, bits & 1 != 0, bits & 2 != 0)
    session.hold()
    if queue is not None and not queue.owner:
        session.note_change("queue.delete", {"queue": name, "messages": int(count)})
    if not bits & 4:
        put_message_count(session.out, channel.number, QUEUE_DELETE_OK, count)


def on_exchange_declare(session: Session, channel: Channel, declare: ExchangeDeclare) -> None:
    vhost = session.vhost
    if declare.passive:
        refuse_default(declare.exchange)
        vhost.catalog.check_exchange(declare.exchange)
    else:
        check_declare_exchange(vhost.catalog, session.rights, declare.exchange, declare.arguments)
        is_new = declare.exchange not in vhost.catalog.bindings.exchanges
        vhost.catalog.declare_exchange(
            declare.exchange,
            declare.kind,
            declare.durable,
            declare.auto_delete,
            declare.internal,
            declare.arguments,
        )
        session.hold()
        if is_new:
            session.note_change("exchange.declare", {"exchange": declare.exchange, "arguments": declare.arguments})
    if not declare.no_wait:
        put_method(session.out, channel.number, EXCHANGE_DECLARE_OK, b"")


def on_exchange_delete(session: Session, channel: Channel, args: Reader) -> None:
    args.short()
    name = read_name(args)
    bits = args.octet()
    session.rights.check_exchange(CONFIGURE, name)
    is_there = name in session.vhost.catalog.bindings.exchanges
    session.vhost.catalog.delete_exchange(name, bits & 1 != 0)
    session.hold()
    if is_there:
        session.note_change("exchange.delete", {"exchange": name})
    if not bits & 2:
        put_method(session.out, channel.number, EXCHANGE_DELETE_OK, b"")


def on_exchange_bind(session: Session, channel: Channel, bind: ExchangeBind) -> None:
    check_bind_exchange(session.vhost.catalog, session.rights, bind.destination, bind.source, bind.routing_key)
    session.vhost.catalog.bind_exchange(bind.destination, bind.source, bind.routing_key, bind.arguments)
    session.hold()
    if not bind.no_wait:
        put_method(session.out, channel.number, EXCHANGE_BIND_OK, b"")


def on_exchange_unbind(session: Session, channel: Channel, bind: ExchangeBind) -> None:
    check_bind_exchange(session.vhost.catalog, session.rights, bind.destination, bind.source, bind.routing_key)
    session.vhost.catalog.unbind_exchange(bind.destination, bind.source, bind.routing_key, bind.arguments)
    session.hold()
    if not bind.no_wait:
        put_method(session.out, channel.number, EXCHANGE_UNBIND_OK, b"")
