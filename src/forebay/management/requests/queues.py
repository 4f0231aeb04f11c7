"""The requests of operations on queues, their messages and their logs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from forebay.management.requests.fields import (
    INTEGER_MAX,
    LIMIT_DEFAULT,
    OFFSET_MAX,
    SCANNED_AT_ONCE,
    BodyOctetsMax,
    FirstOffset,
    InVhost,
    Limit,
    Offset,
    Offsets,
    OperationRequest,
    QueueName,
    Scan,
    Table,
    VhostPageRequest,
    Where,
    metavar,
)


class MessageShowRequest(OperationRequest, kw_only=True):
    """Arguments of `message.show`."""

    vhost: InVhost = "/"
    queue: QueueName
    offset: Offset
    body_octets_max: BodyOctetsMax = 1024


class QueueTailRequest(OperationRequest, kw_only=True):
    """Arguments of `queue.tail`."""

    vhost: InVhost = "/"
    queue: QueueName
    first: (
        Annotated[int, Meta(description="`next` of the answer before; without it, from now on", ge=0, le=OFFSET_MAX)]
        | None
    ) = field(name="from", default=None)
    limit: Annotated[int, Meta(description="the newest so many at most, up to 100", ge=1, le=100)] = 20
    body_octets_max: BodyOctetsMax = 1024


class QueueMoveRequest(OperationRequest, kw_only=True):
    """Arguments of `queue.move`."""

    vhost: InVhost = "/"
    queue: QueueName
    to: Annotated[str, Meta(description="the queue that they go to")] = ""
    exchange: Annotated[str, Meta(description="or the exchange that they go to")] | None = None
    routing_key: Annotated[str, Meta(description="their routing key there; that of each if not given")] | None = None
    where: Where = ""
    offsets: Offsets = None
    first: FirstOffset = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT
    scan: Scan = SCANNED_AT_ONCE


class QueueDiscardRequest(OperationRequest, kw_only=True):
    """Arguments of `queue.discard`."""

    vhost: InVhost = "/"
    queue: QueueName
    where: Where = ""
    offsets: Offsets = None
    first: FirstOffset = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT
    scan: Scan = SCANNED_AT_ONCE


class QueueListRequest(VhostPageRequest):
    """Arguments of `queue.list`."""


class QueueShowRequest(OperationRequest, kw_only=True):
    """Arguments of `queue.show`."""

    vhost: InVhost = "/"
    queue: QueueName


class QueueDeclareRequest(OperationRequest, kw_only=True):
    """Arguments of `queue.declare`."""

    vhost: InVhost = "/"
    queue: QueueName
    type: (
        Annotated[str, Meta(description="one of classic, quorum and stream; the vhost's default if not given")] | None
    ) = None
    durable: Annotated[bool, Meta(description="kept over a restart")] = True
    auto_delete: Annotated[bool, Meta(description="it is deleted with its last consumer")] = False
    arguments: (
        Annotated[Table, Meta(description="the x-arguments as AMQP clients give them, as a JSON object")] | None
    ) = None


class QueueDeleteRequest(OperationRequest, kw_only=True):
    """Arguments of `queue.delete`."""

    vhost: InVhost = "/"
    queue: QueueName
    if_unused: Annotated[bool, Meta(description="only if it has no consumers")] = False
    if_empty: Annotated[bool, Meta(description="only if it has no ready messages")] = False


class QueuePurgeRequest(OperationRequest, kw_only=True):
    """Arguments of `queue.purge`."""

    vhost: InVhost = "/"
    queue: QueueName


class QueueTruncateRequest(OperationRequest, kw_only=True):
    """Arguments of `queue.truncate`."""

    vhost: InVhost = "/"
    queue: QueueName
    below: Annotated[int, Meta(description="the first offset to keep", ge=0, le=INTEGER_MAX, extra=metavar("OFFSET"))]


class QueueMessagesRequest(OperationRequest, kw_only=True):
    """Arguments of `queue.messages`."""

    vhost: InVhost = "/"
    queue: QueueName
    first: FirstOffset = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT
    where: Where = ""
    body_octets_max: BodyOctetsMax = 1024
    scan: Scan = SCANNED_AT_ONCE


class StreamShowRequest(OperationRequest, kw_only=True):
    """Arguments of `stream.show`."""

    vhost: InVhost = "/"
    queue: QueueName


class StreamOffsetRequest(OperationRequest, kw_only=True):
    """Arguments of `stream.offset`."""

    vhost: InVhost = "/"
    queue: QueueName
    time_ms: Annotated[int, Meta(description="milliseconds since 1970", ge=0, le=1125899906842624)]
