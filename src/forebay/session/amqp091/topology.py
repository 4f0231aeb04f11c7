"""Exchange and queue methods of AMQP 0.9.1: each has its change made by `shared.topology`, and writes the answer."""

from __future__ import annotations

from mypy_extensions import i64

from forebay.broker.catalog.commands.exchanges import refuse_default
from forebay.broker.publish.replies import REPLY_PREFIX, REPLY_QUEUE
from forebay.core.errors import NOT_FOUND, RequestError
from forebay.session.amqp091.channel import Channel
from forebay.session.session import Session
from forebay.session.shared.topology import (
    bind_exchange,
    bind_queue,
    declare_exchange,
    declare_queue,
    delete_exchange,
    delete_queue,
    purge_queue,
    unbind_exchange,
    unbind_queue,
)
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
    if declare.queue == REPLY_QUEUE or vhost.direct_replies.has(declare.queue):
        # Direct reply-to: a server looks whether its client still waits.
        put_counts(session.out, channel.number, QUEUE_DECLARE_OK, declare.queue, 0, 1)
        return
    if declare.passive or declare.queue.startswith(REPLY_PREFIX):
        queue = vhost.queue(queue_name(channel, declare.queue), session.id)
        queue.unused_since_us = 0
    else:
        queue = declare_queue(
            session, declare.queue, declare.durable, declare.exclusive, declare.auto_delete, declare.arguments
        )
    channel.last_queue = queue.name
    if not declare.no_wait:
        vhost.catch_up(queue)
        put_counts(session.out, channel.number, QUEUE_DECLARE_OK, queue.name, queue.ready(), queue.consumer_count())


def binding_key(bind: QueueBind, queue: bytes) -> bytes:
    """Neither queue nor key means the last queue, under its own name (0.9.1 specification of queue.bind)."""
    return bind.routing_key if bind.queue or bind.routing_key else queue


def on_queue_bind(session: Session, channel: Channel, bind: QueueBind) -> None:
    name = queue_name(channel, bind.queue)
    bind_queue(session, name, bind.exchange, binding_key(bind, name), bind.arguments)
    if not bind.no_wait:
        put_method(session.out, channel.number, QUEUE_BIND_OK, b"")


def on_queue_unbind(session: Session, channel: Channel, bind: QueueBind) -> None:
    name = queue_name(channel, bind.queue)
    unbind_queue(session, name, bind.exchange, binding_key(bind, name), bind.arguments)
    put_method(session.out, channel.number, QUEUE_UNBIND_OK, b"")


def on_queue_purge(session: Session, channel: Channel, args: Reader) -> None:
    args.short()
    name = queue_name(channel, args.short_string())
    no_wait = args.octet() & 1 != 0
    count = purge_queue(session, name)
    channel.link.committed = True
    if not no_wait:
        put_message_count(session.out, channel.number, QUEUE_PURGE_OK, count)


def on_queue_delete(session: Session, channel: Channel, args: Reader) -> None:
    args.short()
    name = queue_name(channel, read_name(args))
    bits = args.octet()
    count = delete_queue(session, name, bits & 1 != 0, bits & 2 != 0)
    if not bits & 4:
        put_message_count(session.out, channel.number, QUEUE_DELETE_OK, count)


def on_exchange_declare(session: Session, channel: Channel, declare: ExchangeDeclare) -> None:
    if declare.passive:
        refuse_default(declare.exchange)
        session.vhost.exchange(declare.exchange)
    else:
        declare_exchange(
            session,
            declare.exchange,
            declare.kind,
            declare.durable,
            declare.auto_delete,
            declare.internal,
            declare.arguments,
        )
    if not declare.no_wait:
        put_method(session.out, channel.number, EXCHANGE_DECLARE_OK, b"")


def on_exchange_delete(session: Session, channel: Channel, args: Reader) -> None:
    args.short()
    name = read_name(args)
    bits = args.octet()
    delete_exchange(session, name, bits & 1 != 0)
    if not bits & 2:
        put_method(session.out, channel.number, EXCHANGE_DELETE_OK, b"")


def on_exchange_bind(session: Session, channel: Channel, bind: ExchangeBind) -> None:
    bind_exchange(session, bind.destination, bind.source, bind.routing_key, bind.arguments)
    if not bind.no_wait:
        put_method(session.out, channel.number, EXCHANGE_BIND_OK, b"")


def on_exchange_unbind(session: Session, channel: Channel, bind: ExchangeBind) -> None:
    unbind_exchange(session, bind.destination, bind.source, bind.routing_key, bind.arguments)
    if not bind.no_wait:
        put_method(session.out, channel.number, EXCHANGE_UNBIND_OK, b"")
