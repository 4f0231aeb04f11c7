"""Publishes whose address or headers ask for more than a delivery."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, u8

from forebay.broker.publish.commands import CANCEL_DELAYED, MESSAGE, QUERY_QUEUE, REPLY
from forebay.broker.publish.headers import PublishHeaders
from forebay.broker.publish.outcome import NO_WAY, TAKEN, PublishOutcome
from forebay.broker.publish.route import Route
from forebay.broker.query.replies import QueryReply
from forebay.core.errors import NOT_IMPLEMENTED, PRECONDITION, RequestError
from forebay.core.message import AMQP10
from forebay.message.formats.table import format_of
from forebay.routing.exchange import text
from forebay.session.amqp10.addresses import parse_target
from forebay.session.amqp10.context import LinkContext
from forebay.session.shared.held_publishes import HeldPublish
from forebay.session.shared.target import PublishTarget
from forebay.wire.amqp10.neutral import reply_address

READ_SHIFT: Final = 2  # of the meter: octets of properties that are read, a point


def publish_message(
    context: LinkContext,
    target: PublishTarget,
    headers: PublishHeaders | None,
    format: u8,
    properties: bytes,
    body: bytes,
) -> PublishOutcome:
    """Publish a message, and return what became of it. Raises Later, Undecided, RequestError, with nothing done."""
    vhost = context.vhost
    command = target.command
    if command == MESSAGE:
        route = find_content_way(context, target, headers, format, properties)
        if headers is not None:
            check_copies(context, target, headers)
            outcome = vhost.messages.publish_with_headers(
                target.route,
                headers,
                format,
                body,
                context.user,
                None if headers.is_delayed() else route,
            )
        else:
            outcome = vhost.messages.publish(route, format, properties, body)
        context.finish_work()
        return outcome
    check_command(target)
    return do_command(context, target, properties, body)


def check_command(target: PublishTarget) -> None:
    """Refuse a publish that is a command which AMQP 1.0 has other ways for."""
    if target.command not in (MESSAGE, REPLY, CANCEL_DELAYED, QUERY_QUEUE):
        raise RequestError(NOT_IMPLEMENTED, f"address '{text(target.route.routing_key)}': no command over AMQP 1.0")


def do_command(context: LinkContext, target: PublishTarget, properties: bytes, body: bytes) -> PublishOutcome:
    """Do what the publish to a target other than an exchange stands for, and return what became of it."""
    vhost = context.vhost
    if target.command == QUERY_QUEUE:
        ask_query(context, target.subject, properties, body)
        return TAKEN
    if target.command == REPLY:
        return TAKEN if vhost.direct_replies.append(target.subject, AMQP10, properties, body) else NO_WAY
    return TAKEN if vhost.delayed.cancel(target.subject) else NO_WAY


def ask_query(context: LinkContext, queue: bytes, properties: bytes, body: bytes) -> None:
    """Begin the query in the body of a message, whose answer goes to the address in its reply-to. Raises Undecided."""
    format = format_of(AMQP10)
    request = format.decode(properties)
    address = reply_address(request)
    if not address:
        raise RequestError(PRECONDITION, "reply-to: missing; a query needs a place for its answer")
    vhost = context.vhost
    target = parse_target(address, [], context.options.amqp_queue_addresses)
    if not vhost.direct_replies.has(target.routing_key):
        is_topic = vhost.is_topic_exchange(target.exchange)
        context.rights.check_publish(target.exchange, target.routing_key, is_topic)
    reply = QueryReply(AMQP10, target.exchange, target.routing_key, request)
    vhost.query_requests.ask(queue, format.payload(body), reply, context.session.id, context.session.principal.user)


def publish_held(context: LinkContext, held: HeldPublish) -> PublishOutcome:
    """Publish a message of a transaction that commits, and return what became of it.

    Nothing is put off here, and nothing refused: half of the transaction may be done already.
    """
    vhost = context.vhost
    target = held.target
    if target.command != MESSAGE:
        return do_command(context, target, held.properties, held.body)
    if held.headers is not None:
        user = context.user
        return vhost.messages.publish_with_headers(target.route, held.headers, held.format, held.body, user, None)
    route = target.route
    if route.headers_exchange is not None:
        route = vhost.routes.resolve(route, held.format, held.properties)
    return vhost.messages.publish(route, held.format, held.properties, held.body)


def find_content_way(
    context: LinkContext, target: PublishTarget, headers: PublishHeaders | None, format: u8, properties: bytes
) -> Route:
    """Return the route of a message whose properties have a say in it. Raises Later, with nothing changed."""
    vhost = context.vhost
    route = target.route
    if headers is not None:
        if headers.is_delayed():
            return route
        route = vhost.messages.route_with_headers(route, headers, format, context.work)
    elif route.headers_exchange is not None:
        context.meter.start(i64(len(properties)) >> READ_SHIFT)
        route = vhost.routes.resolve(route, format, properties, context.work)
    if route.is_counted:
        vhost.budgets.publishes.start_publish(route.points)
        if route.is_wide:
            context.meter.await_delivery(vhost.fanout.wide.ticket())
    return route


def check_copies(context: LinkContext, target: PublishTarget, headers: PublishHeaders) -> None:
    """Refuse a message whose further routing keys the user may not publish under."""
    exchange = target.route.exchange
    is_topic = context.vhost.is_topic_exchange(exchange)
    for key in headers.keys:
        context.rights.check_publish(exchange, key, is_topic)
