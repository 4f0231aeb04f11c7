"""The requests of operations on explanations and traces, and their answers."""

from __future__ import annotations

from typing import Annotated, NotRequired, Required, TypedDict

from msgspec import Meta, field

from forebay.management.requests.fields import (
    LIMIT_DEFAULT,
    OFFSET_MAX,
    InVhost,
    Limit,
    Open,
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
from forebay.management.requests.queues import MessageFields, PinFields
from forebay.management.requests.sessions import SessionGlance


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


# ---- answers


class HoldFields(TypedDict):
    """A reason for which a connection is not read, or is sent nothing."""

    reason: str
    since_ms: int
    until_ms: int | None
    text: str
    queue: NotRequired[str]
    client_id: NotRequired[str]


class HeldPublisher(HoldFields):
    """A publisher that is not read, with the reason."""

    connection: int
    peer: str
    user: str | None


class GroupState(TypedDict):
    """The state of a message in one group."""

    group: str
    kind: str
    state: str
    cursor: NotRequired[int]


class Explanation(SessionGlance, total=False):
    """An explanation of a message or a session, with the reasons, the worst first: `code`, `text` and more."""

    summary: Required[str]
    reasons: Required[list[Open]]
    vhost: str
    queue: str
    type: str
    offset: int
    state: str
    topic: str
    message: MessageFields
    groups: list[GroupState]
    pinned_by: PinFields | None


class ExplainAnswer(TypedDict):
    """Explanations, and whether everything was searched."""

    found: list[Explanation]
    complete: bool


class History(TypedDict):
    """The events of a message, and what the broker does not keep of them."""

    vhost: str
    queue: str
    offset: int
    events: list[Open]
    not_kept: list[str]


class HistoryAnswer(TypedDict):
    """Histories, and whether everything was searched."""

    found: list[History]
    complete: bool


class TracedQueues(TypedDict):
    """The number of queues that are traced."""

    queues: int


class TraceFields(TypedDict):
    """A trace."""

    name: str
    pattern: str
    where: str
    events: int
    events_max: int
    seen: int


class TraceEventFields(TypedDict):
    """An event of a trace."""

    type: str
    time_ms: int
    queue: str
    group: str
    offset: int
    message_id: NotRequired[str]
    connection: NotRequired[int]
    channel: NotRequired[int]
    consumer: NotRequired[str]
    detail: NotRequired[str]
