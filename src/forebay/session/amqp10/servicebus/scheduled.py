"""Scheduled messages: published when their time has come, and cancelled by the numbers that they have until then.

The number of a scheduled message says where it waits, and no message of a queue has it: it is SCHEDULED above the
message's place among the delayed ones of the vhost.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, u8

from forebay.broker.internal_log import ANNOTATION_OVERHEAD, RECORD_OVERHEAD
from forebay.broker.publish.headers import PublishHeaders, read_publish_headers
from forebay.core.errors import INVALID, NOT_FOUND, NOT_IMPLEMENTED, TOO_LARGE, TOO_MANY, RequestError
from forebay.message.requests import REQUESTS
from forebay.session.amqp10.addresses import PublishAddress
from forebay.session.amqp10.context import LinkContext
from forebay.session.amqp10.incoming.receiving import FORMAT, properties_column, stored_format
from forebay.session.amqp10.servicebus.fields import items_in, sequence_numbers_in
from forebay.session.amqp10.servicebus.node_requests import names_of
from forebay.wire.amqp10.sections import split_sections
from forebay.wire.amqp10.values import LONG, Array, Map

SCHEDULED: Final = 1 << 48
MESSAGE_NOT_FOUND: Final = "com.microsoft:message-not-found"


class ScheduledMessage:
    """One message that is to wait.

    format  octet of its record
    """

    def __init__(self, due_us: i64, format: u8, properties: bytes, body: bytes) -> None:
        self.due_us: i64 = due_us
        self.format = format
        self.properties = properties
        self.body = body

    def octets(self) -> i64:
        """Return the octets that it takes on disk, at most."""
        return len(self.properties) + len(self.body) + RECORD_OVERHEAD + ANNOTATION_OVERHEAD + 256


def schedule(context: LinkContext, queue: bytes, fields: dict[str, object]) -> Map:
    """Have messages be published to a queue later, all of them or none, and return their numbers."""
    check_may_publish(context, queue)
    context.vhost.routes.route(b"", queue)  # refused now: later nobody could be told why
    messages: list[ScheduledMessage] = []
    octets: i64 = 0
    for item in items_in(fields, "messages"):
        content = names_of(item).get("message") if isinstance(item, Map) else None
        if not isinstance(content, bytes):
            raise RequestError(INVALID, "field 'messages': each must be a map with the binary 'message'")
        message = read_message(context, content)
        octets += message.octets()
        messages.append(message)
    vhost = context.vhost
    delayed = vhost.delayed
    if not delayed.has_places(len(messages)):
        raise RequestError(TOO_MANY, "mqtt_delayed_max: too many messages wait already")
    if not vhost.take_room(octets):
        raise RequestError(TOO_MANY, "the disk has no room")
    numbers: list[object] = []
    for each in messages:
        offset = delayed.put(b"", each.due_us, each.format, queue, each.properties, each.body)
        numbers.append(int(SCHEDULED + offset))
    context.committed = True
    return Map([("sequence-numbers", Array(LONG, numbers))])


def read_message(context: LinkContext, content: bytes) -> ScheduledMessage:
    """Return a message that is to wait. Raises PeerError, RequestError."""
    if len(content) > context.message_octets_max:
        raise RequestError(TOO_LARGE, f"a message of {len(content)} bytes, more than message_octets_max")
    sections = split_sections(content, 0, i64(len(content)))
    properties = properties_column(content, sections)
    found = FORMAT.check(properties, context.user, context.depth_max)
    headers = read_publish_headers(FORMAT, properties) if found & REQUESTS else PublishHeaders(properties)
    if headers.keys or headers.identity is not None or headers.delay_id:
        raise RequestError(NOT_IMPLEMENTED, "a scheduled message cannot have x-cc, x-delay-id or be taken once")
    now_us = context.vhost.now_us()
    due_us = headers.due_us or now_us + headers.delay_us
    body = content[sections.body_at :]
    return ScheduledMessage(max(due_us, now_us), stored_format(found), headers.delayed, body)


def cancel_scheduled(context: LinkContext, queue: bytes, fields: dict[str, object]) -> Map:
    """Cancel messages that are to be published to a queue, all that are named or none."""
    check_may_publish(context, queue)
    delayed = context.vhost.delayed
    names: list[bytes] = []
    for number in sequence_numbers_in(fields):
        name = b"%d" % max(0, number - SCHEDULED)
        message = delayed.find(name) if number >= SCHEDULED else None
        if message is None or message.exchange or message.topic != queue or message.key:
            raise RequestError(MESSAGE_NOT_FOUND, f"no message {number} is scheduled for this queue")
        names.append(name)
    for name in names:
        if not delayed.cancel(name):
            raise RequestError(NOT_FOUND, "a message was published meanwhile")
    context.committed = True
    return Map([])


def check_may_publish(context: LinkContext, queue: bytes) -> None:
    """Refuse a user who may not publish to a queue. Raises RequestError, Undecided."""
    context.find_target(b"\0" + queue, PublishAddress(b"", queue))
    context.finish_work()
