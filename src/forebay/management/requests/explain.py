"""The requests of operations on explanations and traces."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from forebay.management.requests.fields import (
    LIMIT_DEFAULT,
    OFFSET_MAX,
    InVhost,
    Limit,
    OperationRequest,
    Owner,
    QueueName,
    Skip,
    TraceName,
    VhostPageRequest,
    Where,
    Whole,
    metavar,
)


class MessageExplainRequest(OperationRequest, kw_only=True):
    """Arguments of `message.explain`."""

    vhost: InVhost = "/"
    queue: (
        Annotated[str, Meta(description="the queue; with a message id all are searched if it is not given")] | None
    ) = None
    offset: Annotated[int, Meta(description="the message's offset in the queue", ge=0, le=OFFSET_MAX)] | None = None
    message_id: Annotated[str, Meta(description="or the message id that its publisher gave it")] | None = None
    client_id: (
        Annotated[str, Meta(description="or the MQTT session that should have it, with an offset of the sessions' log")]
        | None
    ) = None
    user: Owner = None
    topic: Annotated[str, Meta(description="and the topic on which it was published")] | None = None


class ConnectionExplainRequest(OperationRequest, kw_only=True):
    """Arguments of `connection.explain`."""

    id: Annotated[Whole, Meta(description="the connection's number in the list", extra=metavar("ID"))]
    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT


class QueueExplainRequest(OperationRequest, kw_only=True):
    """Arguments of `queue.explain`."""

    vhost: InVhost = "/"
    queue: QueueName
    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT


class MessageHistoryRequest(OperationRequest, kw_only=True):
    """Arguments of `message.history`."""

    vhost: InVhost = "/"
    queue: (
        Annotated[str, Meta(description="the queue; with a message id all are searched if it is not given")] | None
    ) = None
    offset: Annotated[int, Meta(description="the message's offset in the queue", ge=0, le=OFFSET_MAX)] | None = None
    message_id: Annotated[str, Meta(description="or the message id that its publisher gave it")] | None = None


class TraceStartRequest(OperationRequest, kw_only=True):
    """Arguments of `trace.start`."""

    vhost: InVhost = "/"
    name: TraceName = "trace"
    pattern: Annotated[
        str,
        Meta(
            description="regular expression that matches anywhere in the names of queues, later ones too",
            extra=metavar("REGEX"),
        ),
    ] = ".*"
    where: Where = ""
    events_max: Annotated[int, Meta(description="number of latest events to keep", ge=1, le=100000)] = 10000


class TraceStopRequest(OperationRequest, kw_only=True):
    """Arguments of `trace.stop`."""

    vhost: InVhost = "/"
    name: TraceName = "trace"


class TraceListRequest(VhostPageRequest):
    """Arguments of `trace.list`."""


class TraceShowRequest(OperationRequest, kw_only=True):
    """Arguments of `trace.show`."""

    vhost: InVhost = "/"
    name: TraceName = "trace"
    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT
