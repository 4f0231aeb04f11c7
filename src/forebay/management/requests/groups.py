"""The requests of operations on groups, what their consumers hold, and what is not published yet, and their answers."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta, field

from forebay.management.requests.fields import (
    LIMIT_DEFAULT,
    DelayedName,
    FirstOffset,
    GroupName,
    InVhost,
    Limit,
    Offset,
    OfQueue,
    OperationRequest,
    QueueName,
    Skip,
    VhostPageRequest,
    Whole,
    metavar,
)


class GroupListRequest(OperationRequest, kw_only=True):
    """Arguments of `group.list`."""

    vhost: InVhost = "/"
    queue: OfQueue = None
    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT


class GroupReleaseRequest(OperationRequest, kw_only=True):
    """Arguments of `group.release`."""

    vhost: InVhost = "/"
    queue: QueueName
    group: Annotated[str, Meta(description="name of a group of kind reader", extra=metavar("GROUP"))]


class GroupCommitRequest(OperationRequest, kw_only=True):
    """Arguments of `group.commit`."""

    vhost: InVhost = "/"
    queue: QueueName
    group: Annotated[str, Meta(description="name of a stream group", extra=metavar("GROUP"))]
    offset: Annotated[Whole, Meta(description="the offset at which it resumes", extra=metavar("OFFSET"))]


class GroupSeekRequest(OperationRequest, kw_only=True):
    """Arguments of `group.seek`."""

    vhost: InVhost = "/"
    queue: QueueName
    group: GroupName
    to: Annotated[
        str,
        Meta(
            description="one of first, last and next, or an offset, timestamp=MS (since 1970), or an age such as 90m",
            extra=metavar("PLACE"),
        ),
    ]


class GroupPauseRequest(OperationRequest, kw_only=True):
    """Arguments of `group.pause`."""

    vhost: InVhost = "/"
    queue: QueueName
    group: GroupName


class GroupResumeRequest(OperationRequest, kw_only=True):
    """Arguments of `group.resume`."""

    vhost: InVhost = "/"
    queue: QueueName
    group: GroupName


class GroupDeleteRequest(OperationRequest, kw_only=True):
    """Arguments of `group.delete`."""

    vhost: InVhost = "/"
    queue: QueueName
    group: GroupName
    if_unused: Annotated[bool, Meta(description="only if it has no consumers, and holds nothing")] = True


class LeaseListRequest(OperationRequest, kw_only=True):
    """Arguments of `lease.list`."""

    vhost: InVhost = "/"
    queue: OfQueue = None
    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT


class LeaseReleaseRequest(OperationRequest, kw_only=True):
    """Arguments of `lease.release`."""

    vhost: InVhost = "/"
    queue: QueueName
    group: Annotated[str, Meta(description="name of the group; by default the nameless one", extra=metavar("NAME"))] = (
        ""
    )
    offset: Offset


class LeaseExtendRequest(OperationRequest, kw_only=True):
    """Arguments of `lease.extend`."""

    vhost: InVhost = "/"
    queue: QueueName
    group: Annotated[str, Meta(description="name of the group; by default the nameless one", extra=metavar("NAME"))] = (
        ""
    )
    offset: Offset
    extend_ms: Annotated[
        int,
        Meta(
            description="time for which it may be held from now on; 0: as if it were delivered now",
            ge=0,
            le=10**10,
            extra=metavar("MS"),
        ),
    ] = 0


class ConsumerListRequest(OperationRequest, kw_only=True):
    """Arguments of `consumer.list`."""

    vhost: InVhost = "/"
    queue: OfQueue = None
    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT


class QueueUnsettledRequest(OperationRequest, kw_only=True):
    """Arguments of `queue.unsettled`."""

    vhost: InVhost = "/"
    queue: QueueName
    first: FirstOffset = field(name="from", default=0)


class DelayedListRequest(VhostPageRequest):
    """Arguments of `delayed.list`."""


class DelayedCancelRequest(OperationRequest, kw_only=True):
    """Arguments of `delayed.cancel`."""

    vhost: InVhost = "/"
    name: DelayedName


class DelayedPublishRequest(OperationRequest, kw_only=True):
    """Arguments of `delayed.publish`."""

    vhost: InVhost = "/"
    name: DelayedName


class TransactionListRequest(VhostPageRequest):
    """Arguments of `transaction.list`."""


# ---- answers


class LeaseFields(TypedDict):
    """Messages that a consumer holds."""

    queue: str
    group: str
    first: int
    count: int
    left: int
    deliveries: int
    failures: int
    until_ms: int
    connection: int
    channel: int
    consumer: str


class LeaseUntilAnswer(TypedDict):
    """The end of a lease, in ms since 1970."""

    until_ms: int


class ConsumerFields(TypedDict):
    """A consumer."""

    queue: str
    group: str
    consumer: str
    connection: int
    channel: int
    acknowledges: bool
    exclusive: bool
    priority: int
    filter: str
    held: int
    paused: bool


class DelayedFields(TypedDict):
    """A message that waits for its time; `cron` and `time_zone` say when it recurs, and are empty if it does not."""

    number: int
    key: str
    due_ms: int
    exchange: str
    topic: str
    octets: int
    cron: str
    time_zone: str


class RoutedAnswer(TypedDict):
    """The outcome of a publish: `routed` if a queue or a subscriber got the message."""

    routed: bool


class StagedFields(TypedDict):
    """A batch that is not committed."""

    batch: int
    parts: int
    rows: int
    octets: int


class TransactionFields(TypedDict):
    """The last batch of a Spark query, -1 with an empty state where none is committed, and those that are staged."""

    query: str
    user: str | None
    batch: int
    state: str
    rows: int
    unroutable: int
    staged: list[StagedFields]
