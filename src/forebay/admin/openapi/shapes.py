"""The shapes of answers, for the OpenAPI document alone: no answer is checked against this while the broker runs.

Every field may be missing, since callers may ask for only some (`columns`).
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, NotRequired, TypedDict, TypeVar

from msgspec import Meta

from forebay.admin.samples.rates import BROKER, CHANNEL, EXCHANGE, NODE, QUEUE, VHOST
from forebay.admin.samples.samples import Fields

Item = TypeVar("Item")
Object = dict[str, Any]

WHOLE: Object = {"type": "integer"}
SAMPLE: Object = {"type": "object", "properties": {"sample": WHOLE, "timestamp": WHOLE}}
DETAILS: Object = {
    "type": "object",
    "properties": {
        "rate": {"type": "number", "description": "A second, between the last two samples."},
        "samples": {"type": "array", "items": SAMPLE, "description": "The newest first, where they were asked for."},
        "avg": {"type": "number"},
        "avg_rate": {"type": "number"},
    },
}


def numbers(fields: Fields, first: int = 0, end: int | None = None) -> Any:
    """An object with these numbers and their rates."""
    chosen = slice(first, end)
    properties = dict.fromkeys(fields.names[chosen], WHOLE) | dict.fromkeys(fields.details[chosen], DETAILS)
    return Meta(extra_json_schema={"type": "object", "properties": properties})


QueueStats = Annotated[Object, numbers(QUEUE, 0, QUEUE.counters)]
ChannelStats = Annotated[Object, numbers(CHANNEL)]
ExchangeStats = Annotated[Object, numbers(EXCHANGE)]
BrokerStats = Annotated[Object, numbers(BROKER, 0, BROKER.counters)]
VhostStats = Annotated[Object, numbers(VHOST, 0, VHOST.counters)]
QueueTotals = Annotated[Object, numbers(BROKER, BROKER.counters)]
Churn = Annotated[Object, numbers(NODE, 0, NODE.counters)]
Details = Annotated[Object, Meta(extra_json_schema=DETAILS)]
Own = Annotated[Object, Meta(description="What RabbitMQ's objects do not have.")]


class PageShape(TypedDict, Generic[Item]):
    """A page of a list."""

    filtered_count: Annotated[int, Meta(description="Items that the filter on names lets pass.")]
    item_count: Annotated[int, Meta(description="Items of this page.")]
    items: list[Item]
    page: int
    page_count: int
    page_size: int
    total_count: Annotated[int, Meta(description="Items without the filter.")]


class ListenerShape(TypedDict):
    """An address at which the broker listens."""

    node: str
    protocol: str
    ip_address: str
    port: int


class Kind(TypedDict):
    """A kind of exchange, or a mechanism to log in."""

    name: str
    description: str
    enabled: bool


class ObjectTotals(TypedDict):
    """The number of them."""

    connections: int
    channels: int
    exchanges: int
    queues: int
    consumers: int


class Overview(TypedDict, total=False):
    """The broker at a glance."""

    management_version: Annotated[str, Meta(description="The version of RabbitMQ whose API this is.")]
    rabbitmq_version: str
    product_name: str
    product_version: Annotated[str, Meta(description="This broker's.")]
    cluster_name: str
    node: str
    rates_mode: str
    default_queue_type: str
    exchange_types: list[Kind]
    message_stats: BrokerStats
    queue_totals: QueueTotals
    object_totals: ObjectTotals
    churn_rates: Annotated[Churn, Meta(description="For monitors.")]
    listeners: Annotated[list[ListenerShape], Meta(description="For monitors.")]
    contexts: Annotated[list[Object], Meta(description="For monitors.")]
    forebay: Own


class Name(TypedDict):
    """The name of something."""

    name: str


class NodeShape(TypedDict, total=False):
    """The node."""

    name: str
    running: bool
    being_drained: Annotated[bool, Meta(description="It is about to stop.")]
    os_pid: str
    uptime: Annotated[int, Meta(description="In milliseconds.")]
    processors: int
    mem_used: Annotated[int, Meta(description="In octets.")]
    mem_limit: int
    mem_alarm: Annotated[bool, Meta(description="Publishers are not read.")]
    disk_free: Annotated[int, Meta(description="In octets.")]
    disk_free_limit: int
    disk_free_alarm: Annotated[bool, Meta(description="Publishers are not read.")]
    fd_used: int
    fd_total: int
    sockets_used: int
    sockets_total: int
    proc_used: Annotated[int, Meta(description="Threads.")]
    proc_total: int
    db_dir: str
    forebay: Annotated[Object, Meta(description="Of a member of a cluster: its role, lag, link and store.")]
    exchange_types: list[Kind]
    auth_mechanisms: list[Kind]


class NodeMemory(TypedDict):
    """The memory of a node, by use."""

    memory: Object


class PeerShape(TypedDict, total=False):
    """A connection, and where its client is."""

    name: str
    peer_host: str
    peer_port: int


class ConnectionShape(TypedDict, total=False):
    """A connection."""

    name: Annotated[str, Meta(description="The client's address and ours.")]
    protocol: Annotated[str, Meta(description="AMQP 0-9-1, MQTT 3-1-1, MQTT 5-0, ...")]
    user: str
    vhost: str
    node: str
    state: Annotated[str, Meta(description="running, blocked (not read for now) or closing.")]
    host: str
    port: int
    peer_host: str
    peer_port: int
    connected_at: Annotated[int, Meta(description="In milliseconds since 1970.")]
    timeout: Annotated[int, Meta(description="Heartbeat or keep alive in seconds.")]
    channels: int
    client_properties: Object
    user_provided_name: str
    recv_oct: int
    recv_oct_details: Details
    send_oct: int
    send_oct_details: Details
    recv_cnt: Annotated[int, Meta(description="Reads of the socket.")]
    send_cnt: Annotated[int, Meta(description="Writes to the socket.")]
    send_pend: Annotated[int, Meta(description="Octets that the client has not taken yet.")]
    ssl: bool
    ssl_protocol: str | None
    ssl_cipher: str | None
    peer_cert_subject: str | None
    forebay: Own


class UserConnection(TypedDict, total=False):
    """A connection, in short."""

    name: str
    vhost: str
    user: str
    node: str


class ChannelDetails(TypedDict, total=False):
    """The channel that a consumer is on."""

    name: str
    number: int
    user: str
    connection_name: str
    peer_host: str
    peer_port: int
    node: str


class QueueName(TypedDict, total=False):
    """The queue."""

    name: str
    vhost: str


class ConsumerShape(TypedDict, total=False):
    """A consumer."""

    consumer_tag: str
    queue: QueueName
    channel_details: ChannelDetails
    ack_required: bool
    exclusive: bool
    prefetch_count: Annotated[int, Meta(description="Messages it may hold; 0 for no limit.")]
    active: bool
    activity_status: Annotated[str, Meta(description="up, single_active or waiting.")]
    arguments: Object
    consumer_timeout: Annotated[int, Meta(description="In milliseconds.")]
    forebay: Own


class SessionShape(TypedDict, total=False):
    """A session of AMQP 1.0, with the links by which its client publishes (incoming) and consumes (outgoing)."""

    channel_number: int
    handle_max: int
    next_incoming_id: int
    incoming_window: int
    next_outgoing_id: int
    remote_incoming_window: int
    remote_outgoing_window: int
    outgoing_unsettled_deliveries: int
    incoming_links: list[Object]
    outgoing_links: list[Object]


class ChannelShape(TypedDict, total=False):
    """A channel."""

    name: str
    number: int
    user: str
    vhost: str
    connection_details: PeerShape
    state: str
    consumer_count: int
    confirm: bool
    transactional: bool
    prefetch_count: int
    global_prefetch_count: int
    messages_unacknowledged: int
    messages_unconfirmed: int
    message_stats: Annotated[ChannelStats, Meta(description="Missing where nothing has gone over it.")]
    consumer_details: Annotated[list[ConsumerShape], Meta(description="Of a single channel.")]


class QueueShape(TypedDict, total=False):
    """A queue."""

    name: str
    name_in_path: Annotated[str, Meta(description="The name in paths, where the shown one is not: it is no UTF-8.")]
    vhost: str
    type: Annotated[str, Meta(description="classic, quorum or stream.")]
    durable: bool
    auto_delete: bool
    exclusive: bool
    arguments: Object
    node: str
    state: str
    policy: str | None
    operator_policy: str | None
    effective_policy_definition: Object
    messages: int
    messages_details: Details
    messages_ready: int
    messages_ready_details: Details
    messages_unacknowledged: int
    messages_unacknowledged_details: Details
    messages_ram: Annotated[int, Meta(description="Those in memory; of a log that is there in part an estimate.")]
    messages_ready_ram: int
    messages_unacknowledged_ram: int
    messages_persistent: int
    message_bytes: Annotated[int, Meta(description="What the queue's log holds, with what belongs to it.")]
    message_bytes_ready: Annotated[int, Meta(description="What is not unacknowledged of it.")]
    message_bytes_unacknowledged: Annotated[
        int, Meta(description="What consumers hold; of messages that are not in memory an estimate.")
    ]
    message_bytes_ram: Annotated[int, Meta(description="What of it is in memory.")]
    message_bytes_persistent: int
    messages_dlx: Annotated[int, Meta(description="Dead letters that wait for their exchange to take them.")]
    message_bytes_dlx: int
    consumers: int
    consumer_capacity: Annotated[float, Meta(description="The part of the consumers that could take a message now.")]
    consumer_utilisation: float
    exclusive_consumer_tag: str | None
    single_active_consumer_tag: str | None
    message_stats: Annotated[QueueStats, Meta(description="Missing where nothing has happened yet.")]
    owner_pid_details: Annotated[PeerShape, Meta(description="Whose it is, of an exclusive queue.")]
    consumer_details: Annotated[list[ConsumerShape], Meta(description="Of a single queue.")]
    delivery_limit: int
    forebay: Own


class ExchangeShape(TypedDict, total=False):
    """An exchange."""

    name: str
    name_in_path: Annotated[str, Meta(description="The name in paths, where the shown one is not: it is no UTF-8.")]
    vhost: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Object
    policy: str | None
    message_stats: Annotated[ExchangeStats, Meta(description="Missing where nothing has gone through it.")]
    forebay: Own


class BindingShape(TypedDict, total=False):
    """A binding."""

    source: Annotated[str, Meta(description="An exchange; empty: the one without a name.")]
    vhost: str
    destination: str
    destination_type: Annotated[str, Meta(description="queue or exchange.")]
    routing_key: str
    arguments: Object
    properties_key: Annotated[str, Meta(description="Names it among the bindings between the same two.")]


class VhostShape(TypedDict, total=False):
    """A vhost."""

    name: str
    description: str
    tags: list[str]
    default_queue_type: str
    protected_from_deletion: bool
    tracing: bool
    cluster_state: dict[str, str]
    messages: int
    messages_details: Details
    messages_ready: int
    messages_ready_details: Details
    messages_unacknowledged: int
    messages_unacknowledged_details: Details
    message_stats: VhostStats


class Check(TypedDict):
    """The result of a health check."""

    status: Annotated[str, Meta(description="ok or failed.")]
    reason: NotRequired[Annotated[str, Meta(description="Why it failed.")]]


class Flag(TypedDict, total=False):
    """A feature flag."""

    name: str
    desc: str
    doc_url: str
    state: str
    stability: str
    provided_by: str


class AuthShape(TypedDict):
    """The ways to log in."""

    oauth_enabled: bool


def answers(model: Any, note: str) -> dict[int | str, dict[str, Any]]:
    """The answer of a route; the errors that all may answer with are put in by `document.py`."""
    return {200: {"model": model, "description": note}}


def lists(model: Any, note: str) -> dict[int | str, dict[str, Any]]:
    """The answer of a route that lists these: all of them, or a page."""
    return answers(list[model] | PageShape[model], note)


OVERVIEW = answers(Overview, "The broker at a glance.")
CLUSTER_NAME = answers(Name, "The name.")
NODES = lists(NodeShape, "The nodes.")
ONE_NODE = answers(NodeShape, "The node.")
MEMORY = answers(NodeMemory, "What the memory is used for.")
CONNECTIONS = lists(ConnectionShape, "Connections.")
USER_CONNECTIONS = lists(UserConnection, "Connections, in short.")
ONE_CONNECTION = answers(ConnectionShape, "The connection.")
CHANNELS = lists(ChannelShape, "Channels.")
ONE_CHANNEL = answers(ChannelShape, "The channel.")
CONSUMERS = lists(ConsumerShape, "Consumers.")
QUEUES = lists(QueueShape, "Queues.")
ONE_QUEUE = answers(QueueShape, "The queue.")
EXCHANGES = lists(ExchangeShape, "Exchanges.")
ONE_EXCHANGE = answers(ExchangeShape, "The exchange.")
BINDINGS = lists(BindingShape, "Bindings.")
ONE_BINDING = answers(BindingShape, "The binding.")
VHOSTS = lists(VhostShape, "Vhosts.")
ONE_VHOST = answers(VhostShape, "The vhost.")
CHECK = {**answers(Check, "The answer is yes."), 503: {"model": Check, "description": "The answer is no."}}
EXTENSIONS = answers(list[Object], "None.")
FEATURES = lists(Flag, "The flags.")
NOTHING_LISTED = answers(list[Object], "None.")
AUTH = answers(AuthShape, "Without OAuth.")
SESSIONS = {
    **answers(list[SessionShape], "Sessions."),
    400: {"description": "The connection does not use AMQP 1.0."},
}
VERSION = answers(str, "The version.")
EFFECTIVE: dict[int | str, dict[str, Any]] = {
    200: {"description": "A line an option.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}
