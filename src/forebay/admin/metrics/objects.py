"""The metrics of queues, groups, exchanges, vhosts, connections and channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from forebay.admin.metrics import family
from forebay.admin.metrics.family import Row, counter, gauge, plus
from forebay.admin.samples.rates import number_of
from forebay.broker.vhost import Vhost
from forebay.core.units import US_PER_S
from forebay.management.held_logs import held_log
from forebay.queue.counts import Counts
from forebay.queue.group import Group
from forebay.queue.queue import Queue
from forebay.queue.stream.stream_group import StreamGroup
from forebay.queue.totals import GroupTotals, QueueTotals, oldest_us
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import Exchange
from forebay.server.connection_reader import ConnectionCounts

# ---- queues

# Of their counters: those of queues that are gone belong to the sums.
COUNTED: Final[tuple[Row[Counts], ...]] = (
    Row(
        counter("rabbitmq_queue_messages_published", family.QUEUE_DELIVERY, "Messages that queues accepted."),
        lambda counts: int(counts.published),
    ),
    Row(
        counter(
            "rabbitmq_queue_messages_delivered_ack",
            family.QUEUE_DELIVERY,
            "Messages delivered to consumers, to be acknowledged.",
        ),
        lambda counts: int(counts.delivered),
    ),
    Row(
        counter(
            "rabbitmq_queue_messages_delivered",
            family.QUEUE_DELIVERY,
            "Messages delivered to consumers that acknowledge nothing.",
        ),
        lambda counts: int(counts.delivered_settled),
    ),
    Row(
        counter("rabbitmq_queue_get_ack", family.QUEUE_DELIVERY, "Messages fetched one by one, to be acknowledged."),
        lambda counts: int(counts.got),
    ),
    Row(
        counter("rabbitmq_queue_get", family.QUEUE_DELIVERY, "Messages fetched one by one without acknowledgement."),
        lambda counts: int(counts.got_settled),
    ),
    Row(
        counter(
            "rabbitmq_queue_messages_redelivered",
            family.QUEUE_DELIVERY,
            "Messages delivered or fetched again.",
        ),
        lambda counts: int(counts.redelivered),
    ),
    Row(
        counter("rabbitmq_queue_messages_acked", family.QUEUE_DELIVERY, "Messages that consumers acknowledged."),
        lambda counts: int(counts.acked),
    ),
    Row(
        counter(
            "forebay_queue_messages_expired",
            family.QUEUE_DELIVERY,
            "Messages that expired; in a stream, messages that a group skipped because they had expired.",
        ),
        lambda counts: int(counts.expired),
    ),
    Row(
        counter(
            "forebay_queue_messages_dropped",
            family.QUEUE_DELIVERY,
            "Messages dropped from the head of a queue over its length.",
        ),
        lambda counts: int(counts.dropped),
    ),
    Row(
        counter("forebay_queue_messages_rejected", family.QUEUE_DELIVERY, "Messages that consumers rejected."),
        lambda counts: int(counts.rejected),
    ),
    Row(
        counter("forebay_queue_messages_failed", family.QUEUE_DELIVERY, "Messages that died at the delivery limit."),
        lambda counts: int(counts.limited),
    ),
    Row(
        counter("forebay_queue_messages_refused", family.QUEUE_DELIVERY, "Publishes that full queues refused."),
        lambda counts: int(counts.refused),
    ),
    Row(
        counter(
            "forebay_queue_messages_purged",
            family.QUEUE_DELIVERY,
            "Messages purged, moved or deleted by administrators.",
        ),
        lambda counts: int(counts.purged),
    ),
    Row(
        counter(
            "forebay_queue_messages_replaced",
            family.QUEUE_DELIVERY,
            "Messages of last-value queues that newer ones of their keys replaced.",
        ),
        lambda counts: int(counts.replaced),
    ),
)


def ready_of(queue: Queue) -> int:
    """Messages that consumers could get."""
    return int(queue.ready())


def unacked_of(queue: Queue) -> int:
    """Messages that consumers hold."""
    return int(GroupTotals(queue).unacked)


def head_of(queue: Queue) -> int | None:
    """About when the first message came, in seconds since 1970; None without any."""
    stamp_us = int(oldest_us(queue))
    return None if stamp_us < 0 else stamp_us // US_PER_S


def octets_kept_alone(queue: Queue) -> int:
    """Return the octets that the log of a stream keeps for this view alone, beyond what the stream keeps."""
    held = held_log(queue.source) if queue.is_view else None
    return held.octets if held is not None and held.view is queue else 0


QUEUES: Final[tuple[Row[Queue], ...]] = (
    Row(
        gauge("rabbitmq_queue_messages_ready", family.QUEUE_COARSE, "Messages ready to be delivered to consumers."),
        ready_of,
        plus,
    ),
    Row(
        gauge("rabbitmq_queue_messages_unacked", family.QUEUE_COARSE, "Messages delivered and not acknowledged yet."),
        unacked_of,
        plus,
    ),
    Row(
        gauge(
            "rabbitmq_queue_messages",
            family.QUEUE_COARSE,
            "Messages ready, unacknowledged, or dead letters that wait; each counts once.",
        ),
        lambda queue: int(queue.wanted()),
        plus,
    ),
    Row(
        gauge(
            "forebay_queue_dead_letters_waiting",
            family.QUEUE_COARSE,
            "Dead letters that their exchange has not taken yet.",
        ),
        lambda queue: int(GroupTotals(queue).dead_letters),
        plus,
    ),
    Row(
        gauge("forebay_queue_dead_letter_bytes_waiting", family.QUEUE_COARSE, "Octets of their bodies."),
        lambda queue: int(GroupTotals(queue).dead_letter_octets),
        plus,
    ),
    Row(
        gauge("rabbitmq_queue_consumers", family.QUEUE_CONSUMERS, "Consumers of a queue."),
        lambda queue: int(queue.consumer_count()),
        plus,
    ),
    Row(
        gauge(
            "rabbitmq_queue_head_message_timestamp",
            family.QUEUE,
            "Arrival of a queue's first message, in seconds since 1970.",
        ),
        head_of,
    ),
    Row(
        gauge("forebay_queue_stored_bytes", family.QUEUE, "Octets of a queue's log, on disk or in memory."),
        lambda queue: int(queue.stored_octets()),
        plus,
    ),
    Row(
        gauge("forebay_queue_holds", family.QUEUE, "Readers that hold records of a queue."),
        lambda queue: len(queue.pins.by_name),
        plus,
    ),
    Row(
        gauge(
            "forebay_queue_view_kept_bytes",
            family.QUEUE,
            "Octets that a log keeps for this view alone, beyond what its stream keeps.",
        ),
        octets_kept_alone,
        plus,
    ),
    Row(
        gauge("forebay_queue_crowded", family.QUEUE, "1 while a queue is over its share of disk or memory."),
        lambda queue: int(queue.crowded),
        plus,
    ),
)

# ---- groups


@dataclass(frozen=True, slots=True)
class QueueGroup:
    """A group and where it belongs."""

    queue: Queue
    group: Group
    now_us: int


def lag_of(member: QueueGroup) -> int:
    """Messages that the group has not settled, or a reader not read."""
    group = member.group
    if isinstance(group, WorkGroup):
        return int(group.ready() + group.leases.count + group.delayed.count + group.dead_letters.count)
    assert isinstance(group, StreamGroup)
    return int(member.queue.log.end - max(group.committed, member.queue.start()))


def lag_seconds(member: QueueGroup) -> float:
    """The age of the oldest of these."""
    if lag_of(member) <= 0:
        return 0.0
    group = member.group
    log = member.queue.log
    assert isinstance(group, WorkGroup | StreamGroup)
    first = group.settlement.advance() if isinstance(group, WorkGroup) else group.committed
    at = log.find(max(first, member.queue.start()))
    if at >= log.index.size():
        return 0.0  # not sealed yet
    return max(0, member.now_us - int(log.index.stamps[at])) / US_PER_S


GROUPS: Final[tuple[Row[QueueGroup], ...]] = (
    Row(
        gauge("forebay_group_lag_messages", family.GROUP, "Messages that a group has not settled, or not read."),
        lag_of,
        plus,
    ),
    Row(
        gauge(
            "forebay_group_lag_seconds",
            family.GROUP,
            "Age of the oldest of these; of all groups together, the highest.",
        ),
        lag_seconds,
        max,
    ),
    Row(
        gauge("forebay_group_consumers", family.GROUP, "Consumers of a group."),
        lambda member: len(member.group.consumers),
        plus,
    ),
    Row(
        gauge("forebay_group_leased_messages", family.GROUP, "Messages that consumers of a group hold."),
        lambda member: int(member.group.leases.count) if isinstance(member.group, WorkGroup) else None,
        plus,
    ),
    Row(
        gauge("forebay_group_resting_messages", family.GROUP, "Failed messages that wait for their next delivery."),
        lambda member: int(member.group.delayed.count) if isinstance(member.group, WorkGroup) else None,
        plus,
    ),
    Row(
        gauge(
            "forebay_group_dead_letters_waiting", family.GROUP, "Dead letters that their exchange has not taken yet."
        ),
        lambda member: int(member.group.dead_letters.count) if isinstance(member.group, WorkGroup) else None,
        plus,
    ),
)

# ---- exchanges

EXCHANGES: Final[tuple[Row[Exchange], ...]] = (
    Row(
        counter("rabbitmq_exchange_messages_published", family.EXCHANGE, "Messages published to an exchange."),
        lambda exchange: int(exchange.flow.published_in),
    ),
    Row(
        counter(
            "forebay_exchange_messages_routed", family.EXCHANGE, "Copies of these that went to queues and subscribers."
        ),
        lambda exchange: int(exchange.flow.published_out),
    ),
    Row(
        counter("forebay_exchange_messages_unroutable", family.EXCHANGE, "Messages without a route."),
        lambda exchange: int(exchange.flow.unroutable),
    ),
)

# ---- vhosts


@dataclass(frozen=True, slots=True)
class VhostTotals:
    """A vhost, and what its queues come to."""

    vhost: Vhost
    totals: QueueTotals


VHOSTS: Final[tuple[Row[VhostTotals], ...]] = (
    Row(gauge("forebay_vhost_queues", family.VHOST, "Queues of a vhost."), lambda place: int(place.totals.queues)),
    Row(
        gauge("forebay_vhost_connections", family.VHOST, "Connections to a vhost."),
        lambda place: len(place.vhost.entered),
    ),
    Row(
        gauge("forebay_vhost_messages_ready", family.VHOST, "Messages in a vhost ready to be delivered."),
        lambda place: int(place.totals.ready),
    ),
    Row(
        gauge("forebay_vhost_messages_unacked", family.VHOST, "Messages in a vhost that consumers hold."),
        lambda place: int(place.totals.unacked),
    ),
    Row(
        gauge("forebay_vhost_consumers", family.VHOST, "Consumers in a vhost."),
        lambda place: int(place.totals.consumers),
    ),
    Row(
        counter("forebay_vhost_messages_published", family.VHOST, "Messages published in a vhost that had a route."),
        lambda place: int(place.vhost.publishing.published),
    ),
    Row(
        counter("forebay_vhost_messages_acked", family.VHOST, "Messages that consumers in a vhost acknowledged."),
        lambda place: int(place.totals.counts.acked),
    ),
    Row(
        counter(
            "forebay_vhost_publishes_refused", family.VHOST, "Publishes refused because of a limit or a full disk."
        ),
        lambda place: int(place.vhost.admission.rejected),
    ),
    Row(
        counter("forebay_vhost_dead_letters_dropped", family.VHOST, "Dead letters without a target."),
        lambda place: int(place.vhost.dead_letters.dropped),
    ),
    Row(
        gauge("forebay_vhost_delayed_messages", family.VHOST, "Messages to be published later."),
        lambda place: int(place.vhost.delayed.count()),
    ),
    Row(
        gauge("forebay_vhost_staged_batches", family.VHOST, "Batches that sinks have staged and not committed."),
        lambda place: len(place.vhost.staging.staged),
    ),
    Row(
        counter("forebay_vhost_staged_rows_published", family.VHOST, "Rows of committed batches that were published."),
        lambda place: int(place.vhost.staging.published),
    ),
    Row(
        gauge("forebay_vhost_mqtt_sessions", family.VHOST, "MQTT sessions, with and without a connection."),
        lambda place: len(place.vhost.sessions.by_number),
    ),
    Row(
        gauge("forebay_vhost_subscriptions", family.VHOST, "Subscriptions to topics."),
        lambda place: len(place.vhost.fanout.subscriptions),
    ),
    Row(
        gauge(
            "forebay_vhost_topology_octets",
            family.VHOST,
            "Estimated memory of subscriptions, bindings, queues, exchanges and consumers.",
        ),
        lambda place: int(place.vhost.catalog.memory.total()),
    ),
    Row(
        counter(
            "forebay_vhost_topology_refused",
            family.VHOST,
            "Declarations and subscriptions refused because of these limits: client_topology_octets_max, "
            "vhost_topology_octets_max.",
        ),
        lambda place: int(place.vhost.catalog.memory.refused),
    ),
    Row(
        gauge("forebay_vhost_retained_messages", family.VHOST, "Retained messages."),
        lambda place: int(place.vhost.retained.count()),
    ),
)

# ---- connections and channels

CONNECTIONS: Final[tuple[Row[ConnectionCounts], ...]] = (
    Row(
        counter("rabbitmq_connection_incoming_bytes", family.CONNECTION_COARSE, "Octets received."),
        lambda connection: connection.octets_received,
    ),
    Row(
        counter("rabbitmq_connection_outgoing_bytes", family.CONNECTION_COARSE, "Octets sent."),
        lambda connection: connection.octets_sent,
    ),
    Row(
        counter("rabbitmq_connection_incoming_packets", family.CONNECTION, "Reads of the socket."),
        lambda connection: connection.reads,
    ),
    Row(
        counter("rabbitmq_connection_outgoing_packets", family.CONNECTION, "Writes to the socket."),
        lambda connection: connection.writes,
    ),
    Row(
        gauge("forebay_connection_unsent_bytes", family.CONNECTION, "Octets that wait for the client to read."),
        lambda connection: connection.waiting_octets,
        plus,
    ),
)


def channel_row(metric: family.Metric, name: str) -> Row[dict[str, object]]:
    """The row of a number that a channel tells of itself."""
    combine = plus if metric.kind == family.GAUGE else None
    return Row(metric, lambda channel: number_of(channel, name), combine)


CHANNELS: Final[tuple[Row[dict[str, object]], ...]] = (
    channel_row(gauge("rabbitmq_channel_consumers", family.CHANNEL, "Consumers on a channel."), "consumers"),
    channel_row(
        gauge("rabbitmq_channel_messages_unacked", family.CHANNEL, "Messages delivered and not acknowledged."),
        "unacked",
    ),
    channel_row(
        gauge("rabbitmq_channel_messages_unconfirmed", family.CHANNEL, "Messages published and not confirmed yet."),
        "unconfirmed",
    ),
    channel_row(
        gauge("rabbitmq_channel_prefetch", family.CHANNEL, "Messages that a channel may hold; 0 is no limit."),
        "limit",
    ),
    channel_row(
        counter("rabbitmq_channel_messages_published", family.CHANNEL, "Messages published on a channel."), "published"
    ),
    channel_row(counter("rabbitmq_channel_messages_confirmed", family.CHANNEL, "Of these, confirmed."), "confirmed"),
    channel_row(
        counter("rabbitmq_channel_messages_unroutable_returned", family.CHANNEL, "Mandatory messages returned."),
        "returned",
    ),
    channel_row(
        counter("rabbitmq_channel_messages_unroutable_dropped", family.CHANNEL, "Other messages without a route."),
        "dropped",
    ),
    channel_row(counter("rabbitmq_channel_get_empty", family.CHANNEL, "basic.get on an empty queue."), "gets_empty"),
    channel_row(
        counter("rabbitmq_channel_messages_delivered_ack", family.CHANNEL, "Messages delivered, to be acknowledged."),
        "delivered",
    ),
    channel_row(
        counter("rabbitmq_channel_messages_delivered", family.CHANNEL, "Messages delivered without acknowledgement."),
        "delivered_settled",
    ),
    channel_row(counter("rabbitmq_channel_get_ack", family.CHANNEL, "Messages fetched, to be acknowledged."), "got"),
    channel_row(
        counter("rabbitmq_channel_get", family.CHANNEL, "Messages fetched without acknowledgement."), "got_settled"
    ),
    channel_row(
        counter("rabbitmq_channel_messages_redelivered", family.CHANNEL, "Messages delivered again."), "redelivered"
    ),
    channel_row(counter("rabbitmq_channel_messages_acked", family.CHANNEL, "Messages acknowledged."), "acked"),
)
