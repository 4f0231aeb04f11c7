"""The methods of AMQP 0.9.1 by which a channel asks for messages: qos, consume, cancel, get."""

from __future__ import annotations

from mypy_extensions import i64

from forebay.broker.consuming.primary import reader_primary
from forebay.broker.publish.replies import REPLY_QUEUE
from forebay.core.errors import NOT_ALLOWED, NOT_IMPLEMENTED, PRECONDITION, PeerError, RequestError
from forebay.directory.permissions import READ
from forebay.message.address import consumed_queue
from forebay.queue.leases.lease import Consumer
from forebay.queue.stream.stream_group import StreamGroup
from forebay.session.amqp091.channel import Channel
from forebay.session.amqp091.deliver import Outlet, write_get
from forebay.session.amqp091.origin import origin_of
from forebay.session.amqp091.topology import queue_name
from forebay.session.session import Session
from forebay.wire.amqp091.codec import Reader, put_method
from forebay.wire.amqp091.methods import (
    BASIC_CANCEL,
    BASIC_CANCEL_OK,
    BASIC_CONSUME,
    BASIC_CONSUME_OK,
    BASIC_GET,
    BASIC_GET_EMPTY,
    BASIC_QOS,
    BASIC_QOS_OK,
    Consume,
    put_tag,
)


def on_consuming_method(session: Session, channel: Channel, method: i64, args: Reader) -> bool:
    """Do a method that asks for messages; False if it is none."""
    if method == BASIC_GET:
        on_get(session, channel, args)
    elif method == BASIC_CONSUME:
        on_consume(session, channel, Consume(args))
    elif method == BASIC_CANCEL:
        on_cancel(session, channel, args)
    elif method == BASIC_QOS:
        on_qos(session, channel, args)
    else:
        return False
    return True


def on_qos(session: Session, channel: Channel, args: Reader) -> None:
    octets = args.long()
    count = args.short()
    if octets:
        raise PeerError(NOT_IMPLEMENTED, f"prefetch_size!=0 ({octets})")
    if args.octet() & 1:
        channel.set_limit(count)
    else:
        channel.prefetch = count
    put_method(session.out, channel.number, BASIC_QOS_OK, b"")


def on_consume(session: Session, channel: Channel, consume: Consume) -> None:
    session.has_delivered = True
    link = channel.link
    tag = consume.tag
    if not tag:
        link.tags += 1
        tag = b"amq.ctag-%d-%d" % (session.id, link.tags)
    if tag in channel.outlets:
        raise PeerError(NOT_ALLOWED, f"attempt to reuse consumer tag '{tag.decode('utf-8', 'replace')}'")
    vhost = session.vhost
    if link.subscribes is not None and not link.subscribes.take(int(vhost.now_us())):
        raise RequestError(PRECONDITION, "more consumers a second than client_subscribes_per_s")
    if consume.queue == REPLY_QUEUE:
        on_consume_replies(session, channel, consume, tag)
        return
    name = queue_name(channel, consume.queue)
    session.rights.check_queue(READ, consumed_queue(name))
    session.rights.check_made(name, False)
    consumer = vhost.consuming.consume(
        name,
        session.id,
        channel.number,
        tag,
        consume.no_ack,
        consume.exclusive,
        0 if consume.no_ack else channel.credit(channel.prefetch),
        consume.arguments,
        True,
    )
    if not consume.no_ack:
        consumer.prefetch = channel.prefetch
    queue = vhost.queue_of(consumer)
    stream = isinstance(queue.groups[consumer.group], StreamGroup)
    outlet = Outlet(consumer, channel.number, tag, stream, link.frame_octets_max, session.parts)
    outlet.queue = queue
    outlet.tell(
        reader_primary(queue, consumer),
        origin_of(consumer.headers or link.delivery_headers, consumer.queue_name, consumer.group_name),
    )
    channel.add_outlet(outlet, tag)
    if not consume.no_wait:
        put_tag(session.out, channel.number, BASIC_CONSUME_OK, tag)


def on_consume_replies(session: Session, channel: Channel, consume: Consume, tag: bytes) -> None:
    """Direct reply-to: the channel's requests name its consumer from here on."""
    if not consume.no_ack:
        raise RequestError(PRECONDITION, "reply consumer cannot acknowledge")
    publisher = channel.publisher
    if publisher.reply_name:
        raise RequestError(PRECONDITION, "reply consumer already set")
    opened = session.vhost.consuming.consume_replies(session.id, channel.number, tag)
    publisher.set_reply_name(opened.name)
    most = channel.link.frame_octets_max
    channel.add_outlet(Outlet(opened.consumer, channel.number, tag, False, most, session.parts), tag)
    if not consume.no_wait:
        put_tag(session.out, channel.number, BASIC_CONSUME_OK, tag)


def on_cancel(session: Session, channel: Channel, args: Reader) -> None:
    tag = args.short_string()
    no_wait = args.octet() & 1 != 0
    channel.end_outlet(tag)
    if not no_wait:
        put_tag(session.out, channel.number, BASIC_CANCEL_OK, tag)


def on_get(session: Session, channel: Channel, args: Reader) -> None:
    session.has_delivered = True
    args.short()
    name = queue_name(channel, args.short_string())
    no_ack = args.octet() & 1 != 0
    vhost = session.vhost
    session.rights.check_queue(READ, name)
    delivery = vhost.consuming.get(name, session.id, channel.number, no_ack)
    if delivery is None:
        channel.gets_empty += 1
        put_method(session.out, channel.number, BASIC_GET_EMPTY, b"\0")
        return
    channel.delivered += 1
    tag = channel.delivered
    lease = delivery.lease
    channel.counts.get(lease is None, delivery.deliveries > 1)
    if lease is not None:
        channel.deliveries.add(channel.got, lease, tag, delivery.block.base + delivery.index, 1)
    queue = vhost.queue(name, session.id)
    most = channel.link.frame_octets_max
    origin = origin_of(channel.link.delivery_headers, name, b"")
    told = queue.counts_deliveries()
    write_get(session.out, session.parts, channel.number, delivery, tag, queue.own_ready(), most, origin, told)


def timeout_text(channel: i64, consumer: Consumer) -> str:
    """The text for a client whose consumer has held a message for too long: RabbitMQ's words."""
    return (
        f"delivery acknowledgement on channel {channel} timed out. Timeout value used: {consumer.timeout_us // 1000} "
        "ms. This timeout value can be configured, see consumers doc guide to learn more"
    )
