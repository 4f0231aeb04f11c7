"""The requests of operations on queues, their messages and their logs, and their answers."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

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
    Open,
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


class QueueRedeliverRequest(OperationRequest, kw_only=True):
    """Arguments of `queue.redeliver`."""

    vhost: InVhost = "/"
    queue: QueueName
    group: Annotated[str, Meta(description="the group that gets them; the queue's own if not given")] = ""
    since: Annotated[
        str,
        Meta(
            description="the first of them: first, an offset, timestamp=MS (since 1970), or an age such as 90m",
            extra=metavar("PLACE"),
        ),
    ] = "first"
    until: Annotated[str, Meta(description="the first that is not among them, as `since`", extra=metavar("PLACE"))] = (
        "next"
    )
    where: Where = ""
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


class QueueSettleRequest(OperationRequest, kw_only=True):
    """Arguments of `queue.settle`."""

    vhost: InVhost = "/"
    queue: QueueName
    action: Annotated[
        str,
        Meta(
            description="acknowledge, cancel (return to the queue what consumers hold) or expire",
            extra=metavar("ACTION"),
        ),
    ] = "acknowledge"
    group: Annotated[str, Meta(description="name of the group; by default the nameless one", extra=metavar("NAME"))] = (
        ""
    )
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


class QueuePauseRequest(OperationRequest, kw_only=True):
    """Arguments of `queue.pause`."""

    vhost: InVhost = "/"
    queue: QueueName


class QueueResumeRequest(OperationRequest, kw_only=True):
    """Arguments of `queue.resume`."""

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


# ---- answers


class QueueGlance(TypedDict):
    """The state of a queue in numbers."""

    queue: str
    type: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    ready: int
    unacked: int
    dead_letters_waiting: int
    consumers: int
    paused: bool


class QueueFields(QueueGlance):
    """A queue, as lists have it."""

    groups: int
    octets: int


class PinHolder(TypedDict, total=False):
    """The group or reader for whom a log keeps its oldest records.

    `queue` is another queue over the same log, whose it is. `kind` is `queue` for one that nobody has consumed from.
    """

    queue: NotRequired[str]
    group: str
    kind: str
    consumers: int
    active_ms: int | None


class PinFields(PinHolder):
    """The one for whom the log of a queue keeps its oldest records.

    `messages` and `octets` are all from its `offset` on, `frees_messages` and `frees_octets` what would go without it.
    `active_ms` is when it last settled something, or renewed its hold; None if not since the broker started.
    """

    offset: int
    messages: int
    octets: int
    frees_messages: int
    frees_octets: int


class GroupFields(TypedDict):
    """A group of a queue, or a reader's hold on it.

    `key` names it in operations. `committed`: every lower offset is settled, or was read. `active_ms` is when that last
    changed.
    """

    queue: str
    group: str
    filter: str
    key: str
    kind: str
    ready: int
    consumers: int
    cursor: int
    paused: NotRequired[bool]
    consumer_filters: NotRequired[list[str]]
    committed: NotRequired[int]
    leased: NotRequired[int]
    delivered: NotRequired[int]
    settled: NotRequired[int]
    dead_letters_waiting: NotRequired[int]
    auto_commit: NotRequired[bool]
    active_ms: NotRequired[int | None]
    user: NotRequired[str | None]
    octets: NotRequired[int]
    seconds_left: NotRequired[int]


class ViewSource(TypedDict):
    """The stream of a view; `deleted`: it is gone, and the view gets no more messages.

    `kept_messages` and `kept_octets` would go from the log without this view, as the stream has given them up.
    """

    stream: str
    deleted: bool
    kept_messages: int
    kept_octets: int


class ViewLeft(TypedDict):
    """The messages of a view that are ready or held, and the first record that the log keeps for it."""

    queue: str
    messages: int
    offset: int


class ViewFields(TypedDict, total=False):
    """The source of a view, or the views of a stream; nothing of another queue."""

    source: ViewSource
    views: list[str]


class KeyFields(TypedDict, total=False):
    """The number of keys of a last-value queue; nothing of another queue."""

    keys: int


class QueueDetails(QueueGlance, ViewFields, KeyFields):
    """A queue with its declaration, policies and groups; of a view its source, of a stream its views."""

    octets: int
    arguments: Any
    policy: str | None
    operator_policy: str | None
    start: int
    end: int
    kept: int
    pinned_by: PinFields | None
    groups: list[GroupFields]


class DeletedMessages(TypedDict):
    """The number of messages that were deleted; of a stream also what its views keep."""

    messages: int
    views: NotRequired[list[ViewLeft]]


class TruncateAnswer(TypedDict):
    """The first offset of a stream that was truncated, and what its views keep."""

    start: int
    views: NotRequired[list[ViewLeft]]


class BodyFields(TypedDict):
    """A message's body as far as it is shown: text, or else base64."""

    is_cut: bool
    body: NotRequired[str]
    body_base64: NotRequired[str]


class MessageFields(BodyFields):
    """A message; of a session's, `topic` and `packet_id`, too."""

    offset: int
    exchange: str | None
    routing_key: str | None
    protocol: str
    stored_ms: int
    octets: int
    deliveries: int | None
    failures: int | None
    properties: Open
    headers: Open
    death: NotRequired[Open]
    topic: NotRequired[str]
    packet_id: NotRequired[int | None]


class MessagePage(TypedDict):
    """Messages by offset, and where to go on if there are more."""

    items: list[MessageFields]
    next: NotRequired[int]


class TailAnswer(TypedDict):
    """The newest messages; `skipped` counts those that are not shown."""

    items: list[MessageFields]
    next: int
    skipped: int


class PortionAnswer(TypedDict):
    """The outcome for a part of a queue.

    `done` messages were changed. Left were those that consumers hold (`held`), those that cannot go where they should
    (`refused`; `refusal` says why the first), and those that wait no more (`gone`). `next` is where to go on.
    """

    done: int
    held: int
    scanned: int
    end: int
    gone: NotRequired[int]
    refused: NotRequired[int]
    refusal: NotRequired[str]
    next: NotRequired[int]


class SettledAnswer(PortionAnswer):
    """The outcome of settling a part of a queue: `kept` offsets to come are acknowledged in advance."""

    kept: int


class PortionTotals(TypedDict):
    """The sums over all portions of one request over HTTP; `next` where it was cut short."""

    done: int
    held: int
    scanned: int
    gone: NotRequired[int]
    kept: NotRequired[int]
    refused: NotRequired[int]
    refusal: NotRequired[str]
    next: NotRequired[int]


class UnsettledAnswer(TypedDict):
    """The unsettled offsets of a queue, as ranges [first, end), and the bounds of its log."""

    id: int
    start: int
    end: int
    ranges: list[list[int]]
    next: NotRequired[int]


class LogFileFields(TypedDict):
    """A file that holds blocks of a log."""

    path: str
    first: int
    end: int
    blocks: int
    first_ms: int


class LogFields(TypedDict):
    """A queue's log."""

    queue: str
    type: str
    start: int
    end: int
    readable_end: int
    kept: int
    octets: int
    blocks: int
    first_ms: int | None
    last_ms: int | None
    max_age_ms: int | None
    max_octets: int | None
    max_messages: int | None
    files: list[LogFileFields]
    groups: int


class OffsetAnswer(TypedDict):
    """An offset of a queue."""

    offset: int
