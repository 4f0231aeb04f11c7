"""The metrics of the broker as a whole: one sample each, or one for each reason, bucket or the like."""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import forebay
from forebay.admin.metrics import family
from forebay.admin.metrics.family import Metric, Number, Row, counter, gauge, histogram
from forebay.admin.rabbitmq.node import NODE, SPOKEN_VERSION
from forebay.core.metrics import Totals
from forebay.queue.counts import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED, Counts
from forebay.routing.flow import Flow
from forebay.server.app import App
from forebay.server.heap import resident_octets
from forebay.server.histograms import Histogram
from forebay.server.pressure import DISK, MEMORY
from forebay.session.traffic import Traffic

SECOND_US: Final = 1_000_000
AMQP091: Final = "amqp091"
MQTT: Final = "mqtt"


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at the broker has found; sums include what is gone since the start.

    counts, flow  of all queues and exchanges
    moved         dead letters, by why they died
    """

    app: App
    now_us: int
    totals: Totals
    traffic: Traffic
    counts: Counts
    flow: Flow
    moved: Counts
    queues: int
    queues_gone: int
    queues_at_start: int
    consumers: int
    channels: int
    took_s: float


@dataclass(frozen=True, slots=True)
class Spread:
    """A metric with several samples: how their labels' values and their numbers are found."""

    metric: Metric
    read: Callable[[Look], dict[tuple[str, ...], Number]]


@dataclass(frozen=True, slots=True)
class Timing:
    """A metric that is a histogram; `scale` makes its unit of what is recorded."""

    metric: Metric
    read: Callable[[App], Histogram]
    scale: float


def by_reason(counts: Counts) -> dict[tuple[str, ...], Number]:
    """What died, by why."""
    return {
        (EXPIRED,): int(counts.expired),
        (REJECTED,): int(counts.rejected),
        (MAXLEN,): int(counts.dropped),
        (DELIVERY_LIMIT,): int(counts.limited),
    }


def dropped_by_reason(look: Look) -> dict[tuple[str, ...], Number]:
    """Messages that somebody did not get, by why; of what died in queues also what went on as a dead letter."""
    totals = look.totals
    return {
        **by_reason(look.counts),
        ("queue_full",): int(look.counts.refused),
        ("unroutable",): int(look.flow.unroutable),
        ("client_queue_full",): totals.dropped_queue_full,
        ("client_not_reading",): totals.dropped_not_read,
        ("client_expired",): totals.dropped_expired,
        ("client_too_large",): totals.dropped_too_large,
    }


def collections(look: Look) -> dict[tuple[str, ...], Number]:
    """Runs of Python's collector, by generation."""
    return {(str(generation),): each["collections"] for generation, each in enumerate(gc.get_stats())}


def expiry_of(look: Look) -> float | None:
    """Until when the certificate is good, in seconds since 1970."""
    until = look.app.tls.expiry()
    return None if until is None else until.timestamp()


def descriptors(look: Look) -> int:
    """Handles of files and sockets that are open."""
    return len(os.listdir("/proc/self/fd"))


NODE_ROWS: Final[tuple[Row[Look], ...]] = (
    Row(gauge("rabbitmq_connections", family.NODE_COARSE, "Connections open."), lambda look: len(look.app.connections)),
    Row(gauge("rabbitmq_channels", family.NODE_COARSE, "Channels open."), lambda look: look.channels),
    Row(gauge("rabbitmq_queues", family.NODE_COARSE, "Queues."), lambda look: look.queues),
    Row(gauge("rabbitmq_consumers", family.NODE_COARSE, "Consumers."), lambda look: look.consumers),
    Row(
        counter("rabbitmq_connections_opened", family.CHURN, "Connections taken."),
        lambda look: look.totals.sockets,
    ),
    Row(
        counter("rabbitmq_connections_closed", family.CHURN, "Connections that have ended."),
        lambda look: look.totals.sockets - len(look.app.open),
    ),
    Row(
        counter("rabbitmq_channels_opened", family.CHURN, "Channels opened."),
        lambda look: int(look.traffic.channels),
    ),
    Row(
        counter("rabbitmq_channels_closed", family.CHURN, "Channels closed."),
        lambda look: int(look.traffic.channels) - look.channels,
    ),
    Row(
        counter("rabbitmq_queues_created", family.CHURN, "Queues made."),
        lambda look: look.queues + look.queues_gone - look.queues_at_start,
    ),
    Row(counter("rabbitmq_queues_deleted", family.CHURN, "Queues deleted."), lambda look: look.queues_gone),
    Row(
        gauge("rabbitmq_process_resident_memory_bytes", family.NODE_COARSE, "Memory of the process."),
        lambda look: resident_octets(),
    ),
    Row(
        gauge("rabbitmq_resident_memory_limit_bytes", family.NODE, "Memory above which publishers are not read."),
        lambda look: look.app.options.memory_octets_max,
    ),
    Row(
        gauge("rabbitmq_disk_space_available_bytes", family.NODE_COARSE, "Room on the disk of the data folder."),
        lambda look: look.app.disk.free_octets(),
    ),
    Row(
        gauge("rabbitmq_disk_space_available_limit_bytes", family.NODE, "Room below which publishers are not read."),
        lambda look: look.app.options.disk_free_min_octets,
    ),
    Row(gauge("rabbitmq_process_open_fds", family.NODE_COARSE, "Handles open."), descriptors),
    Row(
        gauge("rabbitmq_process_max_fds", family.NODE, "Handles that may be open."),
        lambda look: resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    ),
    Row(
        gauge("rabbitmq_process_open_tcp_sockets", family.NODE_COARSE, "Sockets of clients."),
        lambda look: len(look.app.open),
    ),
    Row(
        gauge("rabbitmq_process_max_tcp_sockets", family.NODE, "Connections that there may be."),
        lambda look: look.app.options.connections_max,
    ),
    Row(
        gauge("rabbitmq_erlang_uptime_seconds", family.NODE, "Seconds since the start; no Erlang is in it."),
        lambda look: (look.now_us - look.app.figures.topics.started_us) / SECOND_US,
    ),
    Row(
        gauge("rabbitmq_alarms_memory_used_watermark", family.NODE, "1 while publishers are not read for memory."),
        lambda look: int(MEMORY in look.app.pressure.alarms()),
    ),
    Row(
        gauge("rabbitmq_alarms_free_disk_space_watermark", family.NODE, "1 while publishers are not read for disk."),
        lambda look: int(DISK in look.app.pressure.alarms()),
    ),
    Row(
        gauge("forebay_connections_choked", family.NODE, "Publishers that are not read for now."),
        lambda look: len(look.app.pressure.choked),
    ),
    Row(
        gauge("forebay_connections_slow", family.NODE, "Connections that do not read what they are sent."),
        lambda look: len(look.app.pressure.slow),
    ),
    Row(
        counter("forebay_connections_slow_ended", family.NODE, "Connections ended as they did not read."),
        lambda look: look.app.pressure.ended_slow,
    ),
    Row(
        gauge(
            "forebay_tls_certificate_expiry_timestamp_seconds",
            family.NODE,
            "Until when the broker's certificate is good, in seconds since 1970.",
        ),
        expiry_of,
    ),
    Row(
        gauge("forebay_scrape_duration_seconds", family.NODE, "What it took to gather these figures."),
        lambda look: look.took_s,
    ),
)

MESSAGE_ROWS: Final[tuple[Row[Look], ...]] = (
    Row(
        counter("rabbitmq_channel_messages_published", family.CHANNEL, "Messages published on channels."),
        lambda look: int(look.traffic.received),
    ),
    Row(
        counter("rabbitmq_channel_messages_confirmed", family.CHANNEL, "Of these, confirmed."),
        lambda look: int(look.traffic.confirmed),
    ),
    Row(
        counter("rabbitmq_channel_messages_unroutable_returned", family.CHANNEL, "Mandatory messages given back."),
        lambda look: int(look.traffic.returned),
    ),
    Row(
        counter("rabbitmq_channel_messages_unroutable_dropped", family.CHANNEL, "Others that went nowhere."),
        lambda look: int(look.traffic.dropped),
    ),
    Row(
        counter("rabbitmq_channel_get_empty", family.CHANNEL, "basic.get that found nothing."),
        lambda look: int(look.traffic.gets_empty),
    ),
    Row(
        counter("rabbitmq_channel_messages_delivered_ack", family.CHANNEL, "Messages delivered, to be acknowledged."),
        lambda look: int(look.counts.delivered),
    ),
    Row(
        counter("rabbitmq_channel_messages_delivered", family.CHANNEL, "Messages delivered and settled by that."),
        lambda look: int(look.counts.delivered_settled),
    ),
    Row(
        counter("rabbitmq_channel_get_ack", family.CHANNEL, "Messages fetched, to be acknowledged."),
        lambda look: int(look.counts.got),
    ),
    Row(
        counter("rabbitmq_channel_get", family.CHANNEL, "Messages fetched, settled by that."),
        lambda look: int(look.counts.got_settled),
    ),
    Row(
        counter("rabbitmq_channel_messages_redelivered", family.CHANNEL, "Messages delivered again."),
        lambda look: int(look.counts.redelivered),
    ),
    Row(
        counter("rabbitmq_channel_messages_acked", family.CHANNEL, "Messages acknowledged."),
        lambda look: int(look.counts.acked),
    ),
    Row(
        counter("rabbitmq_connection_incoming_bytes", family.CONNECTION_COARSE, "Octets received."),
        lambda look: look.totals.octets_received,
    ),
    Row(
        counter("rabbitmq_connection_outgoing_bytes", family.CONNECTION_COARSE, "Octets sent."),
        lambda look: look.totals.octets_sent,
    ),
    Row(
        counter("rabbitmq_exchange_messages_published", family.EXCHANGE, "Messages published to exchanges."),
        lambda look: int(look.flow.published_in),
    ),
    Row(
        counter("forebay_exchange_messages_routed", family.EXCHANGE, "Copies of these for queues and subscribers."),
        lambda look: int(look.flow.published_out),
    ),
    Row(
        counter("forebay_exchange_messages_unroutable", family.EXCHANGE, "Messages that exchanges led nowhere."),
        lambda look: int(look.flow.unroutable),
    ),
)

GLOBAL_ROWS: Final[tuple[Row[Look], ...]] = (
    Row(
        counter(
            "rabbitmq_global_messages_received_confirm", family.GLOBAL, "Messages whose publisher asks for confirms."
        ),
        lambda look: int(look.traffic.expecting),
    ),
    Row(
        counter("rabbitmq_global_messages_confirmed", family.GLOBAL, "Messages confirmed to AMQP publishers."),
        lambda look: int(look.traffic.confirmed),
    ),
    Row(
        counter("rabbitmq_global_messages_routed", family.GLOBAL, "Messages published that went somewhere."),
        lambda look: int(look.flow.published_in - look.flow.unroutable),
    ),
    Row(
        counter("rabbitmq_global_messages_unroutable_returned", family.GLOBAL, "Mandatory messages given back."),
        lambda look: int(look.traffic.returned),
    ),
    Row(
        counter("rabbitmq_global_messages_unroutable_dropped", family.GLOBAL, "Other AMQP messages that went nowhere."),
        lambda look: int(look.traffic.dropped),
    ),
    Row(
        counter("rabbitmq_global_messages_delivered", family.GLOBAL, "Messages that queues delivered."),
        lambda look: int(
            look.counts.delivered + look.counts.delivered_settled + look.counts.got + look.counts.got_settled
        ),
    ),
    Row(
        counter(
            "rabbitmq_global_messages_delivered_consume_manual_ack",
            family.GLOBAL,
            "Messages delivered to consumers, to be acknowledged.",
        ),
        lambda look: int(look.counts.delivered),
    ),
    Row(
        counter(
            "rabbitmq_global_messages_delivered_consume_auto_ack",
            family.GLOBAL,
            "Messages delivered to consumers that acknowledge nothing.",
        ),
        lambda look: int(look.counts.delivered_settled),
    ),
    Row(
        counter(
            "rabbitmq_global_messages_delivered_get_manual_ack", family.GLOBAL, "Messages fetched, to acknowledge."
        ),
        lambda look: int(look.counts.got),
    ),
    Row(
        counter("rabbitmq_global_messages_delivered_get_auto_ack", family.GLOBAL, "Messages fetched, settled by that."),
        lambda look: int(look.counts.got_settled),
    ),
    Row(
        counter("rabbitmq_global_messages_get_empty", family.GLOBAL, "basic.get that found nothing."),
        lambda look: int(look.traffic.gets_empty),
    ),
    Row(
        counter("rabbitmq_global_messages_redelivered", family.GLOBAL, "Messages delivered again."),
        lambda look: int(look.counts.redelivered),
    ),
    Row(
        counter("rabbitmq_global_messages_acknowledged", family.GLOBAL, "Messages acknowledged."),
        lambda look: int(look.counts.acked),
    ),
    Row(
        counter("rabbitmq_global_messages_dead_lettered_expired", family.GLOBAL, "Dead letters whose time was over."),
        lambda look: int(look.moved.expired),
    ),
    Row(
        counter("rabbitmq_global_messages_dead_lettered_rejected", family.GLOBAL, "Dead letters that were rejected."),
        lambda look: int(look.moved.rejected),
    ),
    Row(
        counter("rabbitmq_global_messages_dead_lettered_maxlen", family.GLOBAL, "Dead letters of full queues."),
        lambda look: int(look.moved.dropped),
    ),
    Row(
        counter(
            "rabbitmq_global_messages_dead_lettered_delivery_limit",
            family.GLOBAL,
            "Dead letters that failed too often.",
        ),
        lambda look: int(look.moved.limited),
    ),
)

MQTT_ROWS: Final[tuple[Row[Look], ...]] = (
    Row(
        gauge("forebay_mqtt_connections", family.MQTT, "MQTT clients that are connected."),
        lambda look: look.totals.clients_connected,
    ),
    Row(
        counter("forebay_mqtt_connects", family.MQTT, "MQTT CONNECTs."),
        lambda look: look.totals.connects,
    ),
    Row(
        gauge("forebay_mqtt_sessions", family.MQTT, "MQTT sessions, with and without a connection."),
        lambda look: look.totals.clients_connected + look.totals.clients_disconnected,
    ),
    Row(
        gauge("forebay_mqtt_sessions_offline", family.MQTT, "MQTT sessions without a connection."),
        lambda look: look.totals.clients_disconnected,
    ),
    Row(
        counter("forebay_mqtt_sessions_expired", family.MQTT, "MQTT sessions that ended by their expiry."),
        lambda look: look.totals.clients_expired,
    ),
    Row(
        counter("forebay_mqtt_packets_received", family.MQTT, "MQTT packets received, of any type."),
        lambda look: look.totals.packets_received,
    ),
    Row(
        counter("forebay_mqtt_packets_sent", family.MQTT, "MQTT packets sent, of any type."),
        lambda look: look.totals.packets_sent,
    ),
    Row(
        counter("forebay_mqtt_messages_received", family.MQTT, "MQTT PUBLISHes received."),
        lambda look: look.totals.publishes_received,
    ),
    Row(
        counter("forebay_mqtt_messages_sent", family.MQTT, "MQTT PUBLISHes sent."),
        lambda look: look.totals.publishes_sent,
    ),
    Row(
        counter("forebay_mqtt_payload_bytes_received", family.MQTT, "Octets of payload received."),
        lambda look: look.totals.publish_octets_received,
    ),
    Row(
        counter("forebay_mqtt_payload_bytes_sent", family.MQTT, "Octets of payload sent."),
        lambda look: look.totals.publish_octets_sent,
    ),
    Row(
        gauge("forebay_mqtt_subscriptions", family.MQTT, "Subscriptions to topics."),
        lambda look: look.totals.subscriptions,
    ),
    Row(
        gauge("forebay_mqtt_shared_subscriptions", family.MQTT, "Members of shared subscriptions."),
        lambda look: look.totals.shared_subscriptions,
    ),
    Row(gauge("forebay_mqtt_retained_messages", family.MQTT, "Retained messages."), lambda look: look.totals.retained),
    Row(
        gauge("forebay_mqtt_stored_messages", family.MQTT, "Messages retained, and waiting for clients."),
        lambda look: look.totals.stored_messages,
    ),
    Row(gauge("forebay_mqtt_stored_bytes", family.MQTT, "What these take."), lambda look: look.totals.stored_octets),
)

LOG_ROWS: Final[tuple[Row[Look], ...]] = (
    Row(
        counter("rabbitmq_io_sync_ops", family.PERSISTER, "Times that a file was synced."),
        lambda look: sum(look.app.histograms.sync.counts),
    ),
    Row(
        counter("rabbitmq_io_sync_time_seconds", family.PERSISTER, "Seconds that syncs took."),
        lambda look: look.app.histograms.sync.total / SECOND_US,
    ),
    Row(
        counter("rabbitmq_io_write_ops", family.PERSISTER, "Commits given to the disk."),
        lambda look: sum(look.app.histograms.commit.counts),
    ),
    Row(
        counter("rabbitmq_io_write_bytes", family.PERSISTER, "Octets of these."),
        lambda look: look.app.histograms.commit.total,
    ),
    Row(
        counter("rabbitmq_io_read_ops", family.PERSISTER, "Blocks read that were not in memory."),
        lambda look: int(look.app.store.logs.files.reads),
    ),
    Row(
        counter("rabbitmq_io_read_bytes", family.PERSISTER, "Octets of these."),
        lambda look: int(look.app.store.logs.files.octets_read),
    ),
    Row(gauge("forebay_wal_files", family.LOG, "Files of the write-ahead log."), lambda look: len(look.app.store.wals)),
    Row(
        gauge("forebay_wal_bytes", family.LOG, "Octets used in these."),
        lambda look: sum(wal.tail for wal in look.app.store.wals),
    ),
    Row(
        gauge("forebay_segment_files", family.LOG, "Segment files of queues."),
        lambda look: look.app.store.logs.segment_totals()[0],
    ),
    Row(
        gauge("forebay_segment_bytes", family.LOG, "Octets of these."),
        lambda look: look.app.store.logs.segment_totals()[1],
    ),
    Row(
        gauge("forebay_log_pending_bytes", family.LOG, "Octets accepted and not on the disk so far."),
        lambda look: look.app.store.pending(),
    ),
    Row(
        gauge("forebay_log_full", family.LOG, "1 while the disk has no room for more messages."),
        lambda look: int(look.app.store.full),
    ),
    Row(
        gauge("forebay_log_rewriting", family.LOG, "1 while files are rewritten in the background."),
        lambda look: int(look.app.store.job_running is not None),
    ),
    Row(
        gauge("forebay_cache_bytes", family.LOG, "Blocks of records in memory."),
        lambda look: int(look.app.store.logs.cache.octets),
    ),
    Row(
        gauge("forebay_cache_limit_bytes", family.LOG, "Memory that these may take."),
        lambda look: look.app.options.cache_octets_max,
    ),
)

SPREADS: Final[tuple[Spread, ...]] = (
    Spread(
        gauge(
            "rabbitmq_build_info",
            family.NODE,
            "Which software this is, and which RabbitMQ it is like.",
            ("rabbitmq_version", "product_name", "product_version"),
        ),
        lambda look: {(SPOKEN_VERSION, "forebay", forebay.__version__): 1},
    ),
    Spread(
        gauge(
            "rabbitmq_identity_info",
            family.NODE,
            "Which broker this is.",
            ("rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id"),
        ),
        lambda look: {(NODE, NODE, NODE): 1},
    ),
    Spread(
        counter(
            "rabbitmq_global_messages_received", family.GLOBAL, "Messages received from publishers.", ("protocol",)
        ),
        lambda look: {
            (AMQP091,): int(look.traffic.received),
            (MQTT,): look.totals.publishes_received,
        },
    ),
    Spread(
        counter(
            "forebay_messages_dropped",
            family.GLOBAL,
            "Messages that a queue or client did not get or keep, by why; dead letters that went on are among them.",
            ("reason",),
        ),
        dropped_by_reason,
    ),
    Spread(
        counter("forebay_dead_letters_moved", family.GLOBAL, "Dead letters moved on, by why they died.", ("reason",)),
        lambda look: by_reason(look.moved),
    ),
    Spread(
        counter("forebay_gc_collections", family.NODE, "Runs of Python's garbage collector.", ("generation",)),
        collections,
    ),
)

TIMINGS: Final[tuple[Timing, ...]] = (
    Timing(
        histogram("forebay_turn_duration_seconds", family.LATENCY, "What a turn of the broker's loop takes."),
        lambda app: app.histograms.turn,
        SECOND_US,
    ),
    Timing(
        histogram("forebay_sync_duration_seconds", family.LATENCY, "What one fdatasync takes."),
        lambda app: app.histograms.sync,
        SECOND_US,
    ),
    Timing(
        histogram("forebay_commit_duration_seconds", family.LATENCY, "What a commit takes, until the loop knows."),
        lambda app: app.histograms.wait,
        SECOND_US,
    ),
    Timing(
        histogram("forebay_commit_size_bytes", family.LATENCY, "Octets that one commit takes to the disk."),
        lambda app: app.histograms.commit,
        1,
    ),
    Timing(
        histogram(
            "forebay_confirm_latency_seconds",
            family.LATENCY,
            "From a publish to when it is on the disk; the first publish of each turn.",
        ),
        lambda app: app.histograms.confirm,
        SECOND_US,
    ),
    Timing(
        histogram(
            "forebay_delivery_latency_seconds",
            family.LATENCY,
            "From a publish to its delivery out of a queue; one delivery of each turn.",
        ),
        lambda app: app.histograms.delivery,
        SECOND_US,
    ),
)

ROWS: Final = (*NODE_ROWS, *MESSAGE_ROWS, *GLOBAL_ROWS, *MQTT_ROWS, *LOG_ROWS)
