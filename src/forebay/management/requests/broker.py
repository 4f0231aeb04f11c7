"""The requests of operations on the broker itself, its connections, and its cluster, and their answers."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from msgspec import Meta, field

from forebay.management.requests.fields import (
    LIMIT_DEFAULT,
    Limit,
    ListPage,
    NodeName,
    Open,
    OperationRequest,
    PageRequest,
    Skip,
    Whole,
    metavar,
)


class BrokerStatusRequest(OperationRequest):
    """Arguments of `broker.status`."""


class QueueStatsRequest(OperationRequest, kw_only=True):
    """Arguments of `queue.stats`."""

    vhost: Annotated[str, Meta(description="only those of this vhost; else of all")] | None = None
    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT


class ConfigShowRequest(PageRequest):
    """Arguments of `config.show`."""


class ConfigReloadRequest(OperationRequest):
    """Arguments of `config.reload`."""


class WebhookListRequest(PageRequest):
    """Arguments of `webhook.list`."""


class ConnectionListRequest(OperationRequest, kw_only=True):
    """Arguments of `connection.list`."""

    vhost: Annotated[str, Meta(description="only those in this vhost", extra=metavar("NAME"))] | None = None
    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT


class ChannelListRequest(OperationRequest, kw_only=True):
    """Arguments of `channel.list`."""

    connection: Annotated[Whole, Meta(description="only those of this connection", extra=metavar("ID"))] | None = None
    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT


class ConnectionCloseRequest(OperationRequest, kw_only=True):
    """Arguments of `connection.close`."""

    id: Annotated[Whole, Meta(description="the connection's number in the list", extra=metavar("ID"))]
    reason: Annotated[str, Meta(description="the reason for the client", extra=metavar("TEXT"))] = (
        "closed by an administrator"
    )


class ClusterStatusRequest(OperationRequest):
    """Arguments of `cluster.status`."""


class ClusterTransferRequest(OperationRequest, kw_only=True):
    """Arguments of `cluster.transfer`."""

    node: NodeName


class ClusterRemoveRequest(OperationRequest, kw_only=True):
    """Arguments of `cluster.remove`."""

    node: NodeName


class ClusterDrainRequest(OperationRequest, kw_only=True):
    """Arguments of `cluster.drain`."""

    node: NodeName


class ClusterUndrainRequest(OperationRequest, kw_only=True):
    """Arguments of `cluster.undrain`."""

    node: NodeName


# ---- answers


class QueueStatsFields(TypedDict):
    """The statistics of a queue; `oldest_ms` is the age of its first message, None without any."""

    vhost: str
    queue: str
    type: str
    ready: int
    unacked: int
    dead_letters_waiting: int
    consumers: int
    groups: int
    octets: int
    oldest_ms: int | None
    counts: dict[str, int]


class QueueStatsPage(ListPage[QueueStatsFields]):
    """A page of the queues' statistics, and the broker's time."""

    time_us: int


class ClusterSummary(TypedDict):
    """A cluster in a few words.

    waits        why confirms wait just now; empty where they do not
    out_of_sync  members that are, each with the reason
    line         all of it in a line
    """

    name: str
    leader: str
    epoch: int
    members: int
    in_sync: int
    min_in_sync: int
    too_few_in_sync: bool
    out_of_sync: dict[str, str]
    waits: str
    line: str


class ServerFields(TypedDict, total=False):
    """The state of the broker's process; no field is there without one."""

    build: str
    python: str
    pid: int
    data: str
    started_ms: int
    uptime_s: int
    cpu_s: float
    listeners: dict[str, str]
    alarms: list[str]
    damages: list[Open]
    connections: int
    connections_max: int
    memory_octets: int
    memory_octets_max: int
    disk_free_octets: int
    disk_free_min_octets: int
    slowed_publishers: int
    slow_readers: int
    held_publishers: int
    messages_lost: int
    sessions_over_quota: int


class BrokerStatusAnswer(ServerFields):
    """The state of the broker."""

    version: str
    cluster: ClusterSummary | None
    time_us: int
    vhosts: int
    exchanges: int
    sessions: int
    subscriptions: int
    retained: int
    delayed: int
    queues: int
    consumers: int
    ready: int
    unacked: int
    octets: int
    counts: dict[str, int]
    longest: list[QueueStatsFields]


class OptionFields(TypedDict):
    """An option in force: its value without secrets, where it was set, and whether a reload can change it."""

    name: str
    value: Any
    origin: str
    reloadable: bool


class OptionChange(TypedDict):
    """An option that a reload has changed."""

    name: str
    old: Any
    new: Any


class ReloadAnswer(TypedDict):
    """The outcome of a reload: options that changed, those that wait for a restart, and the number of all others."""

    applied: list[OptionChange]
    restart: list[str]
    unchanged: int


class WebhookFields(TypedDict):
    """A webhook, and what became of its events."""

    name: str
    url: str
    events: list[str]
    waiting: int
    sent: int
    failed: int
    dropped: int
    retried: int
    breaker: str
    last_error: str


class ClusterFields(TypedDict, total=False):
    """The state of a cluster; there are no fields where a broker stands alone."""

    name: str
    node: str
    role: str
    epoch: int
    leader: str
    frame: int
    committed: int
    min_in_sync: int
    in_sync: list[str]
    waits: str
    mode: str
    members_max: int
    answering: list[str]
    too_few_in_sync: bool
    links_refused: int
    take_overs: int
    etcd: Open
    members: list[Open]


class ClusterAnswer(ClusterFields):
    """The state of a cluster, and whether there is one."""

    clustered: bool


class MemberAnswer(TypedDict):
    """The member that an operation is about."""

    node: str
