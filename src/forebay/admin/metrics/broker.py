"""The metrics of the broker as a whole: one sample each, or one for each bucket or the like."""

from __future__ import annotations

import gc
import os
import resource
from collections import Counter
from collections.abc import Callable
from typing import Final

import forebay
from forebay.admin.metrics import family
from forebay.admin.metrics.cluster import CLUSTER_ROWS, CLUSTER_SPREADS, COMMIT_LATENCY, ETCD_TIMES, Fields
from forebay.admin.metrics.family import Metric, Number, Row, counter, gauge, histogram
from forebay.admin.metrics.look import MetricsLook, Spread, Timing
from forebay.admin.metrics.messages import GLOBAL_ROWS, MESSAGE_ROWS, MESSAGE_SPREADS, MQTT_ROWS
from forebay.admin.rabbitmq.node.node import SPOKEN_VERSION, own_node
from forebay.admin.samples.rates import number_of
from forebay.core.units import US_PER_S
from forebay.server.broker_view import BrokerView
from forebay.server.system.heap import resident_octets
from forebay.server.telemetry.histograms import Histogram


def collections(look: MetricsLook) -> dict[tuple[str, ...], Number]:
    """Runs of Python's collector, by generation."""
    return {(str(generation),): each["collections"] for generation, each in enumerate(gc.get_stats())}


def by_protocol(counts: dict[str, int]) -> dict[tuple[str, ...], Number]:
    """The counts by protocol."""
    return {(protocol,): count for protocol, count in counts.items()}


def webhooks(look: MetricsLook) -> list[dict[str, object]]:
    """The webhooks, as they tell of themselves."""
    found = look.app.control.webhooks
    return [] if found is None else found.listed()


def webhook_events(look: MetricsLook) -> dict[tuple[str, ...], Number]:
    """The outcomes of each webhook's events."""
    fates = ("sent", "failed", "dropped", "retried")
    return {(str(hook["name"]), fate): number_of(hook, fate) for hook in webhooks(look) for fate in fates}


def expiry_of(look: MetricsLook) -> float | None:
    """The end of the certificate's validity, in seconds since 1970."""
    until = look.app.certificate_expiry()
    return None if until is None else until.timestamp()


def identity(look: MetricsLook) -> dict[tuple[str, ...], Number]:
    """The node, and its cluster's name."""
    own = own_node(look.app)
    cluster = look.app.control.cluster
    name = own if cluster is None else cluster.name
    return {(own, name, name): 1}


def of_cluster(row: Row[Fields]) -> Row[MetricsLook]:
    """The same of a look, which has it if the broker is a node of a cluster."""
    return Row(row.metric, lambda look: row.read(look.cluster) if look.cluster else None)


def spread_of_cluster(metric: Metric, read: Callable[[Fields], dict[tuple[str, ...], Number]]) -> Spread:
    """The same of a metric with several samples."""
    return Spread(metric, lambda look: read(look.cluster) if look.cluster else {})


def etcd_times(app: BrokerView) -> Histogram | None:
    """The times of etcd's answers, if there is an etcd."""
    cluster = app.control.cluster
    if cluster is None:
        return None
    from forebay.server.cluster.administration import ClusterState  # noqa: PLC0415  a broker that stands alone has none

    return cluster.etcd_times() if isinstance(cluster, ClusterState) else None


def commit_latency(app: BrokerView) -> Histogram | None:
    """The times until all nodes in sync have a commit, if there are others."""
    return None if app.control.cluster is None else app.histograms.replicate


def descriptors(look: MetricsLook) -> int:
    """Handles of files and sockets that are open."""
    return len(os.listdir("/proc/self/fd"))


NODE_ROWS: Final[tuple[Row[MetricsLook], ...]] = (
    Row(gauge("rabbitmq_connections", family.NODE_COARSE, "Connections open."), lambda look: look.clients.sessions),
    Row(gauge("rabbitmq_channels", family.NODE_COARSE, "Channels open."), lambda look: look.channels),
    Row(gauge("rabbitmq_queues", family.NODE_COARSE, "Queues."), lambda look: look.queues),
    Row(gauge("rabbitmq_consumers", family.NODE_COARSE, "Consumers."), lambda look: look.consumers),
    Row(
        counter("rabbitmq_connections_opened", family.CHURN, "Connections accepted."),
        lambda look: look.totals.sockets,
    ),
    Row(
        counter("rabbitmq_connections_closed", family.CHURN, "Connections that have ended."),
        lambda look: look.totals.sockets - look.clients.open,
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
        counter("rabbitmq_queues_created", family.CHURN, "Queues declared."),
        lambda look: look.queues + look.queues_gone - look.queues_at_start,
    ),
    Row(counter("rabbitmq_queues_deleted", family.CHURN, "Queues deleted."), lambda look: look.queues_gone),
    Row(
        gauge("rabbitmq_process_resident_memory_bytes", family.NODE_COARSE, "Memory of the process."),
        lambda look: resident_octets(),
    ),
    Row(
        gauge(
            "rabbitmq_resident_memory_limit_bytes",
            family.NODE,
            "Memory above which the broker stops reading publishers.",
        ),
        lambda look: look.app.options.memory_octets_max,
    ),
    Row(
        gauge("rabbitmq_disk_space_available_bytes", family.NODE_COARSE, "Free space on the data folder's disk."),
        lambda look: look.app.folder.free_octets(),
    ),
    Row(
        gauge(
            "rabbitmq_disk_space_available_limit_bytes",
            family.NODE,
            "Free space below which the broker stops reading publishers.",
        ),
        lambda look: look.app.options.disk_free_min_octets,
    ),
    Row(gauge("rabbitmq_process_open_fds", family.NODE_COARSE, "Open file descriptors."), descriptors),
    Row(
        gauge("rabbitmq_process_max_fds", family.NODE, "Limit of open file descriptors."),
        lambda look: resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    ),
    Row(
        gauge("rabbitmq_process_open_tcp_sockets", family.NODE_COARSE, "Sockets of clients."),
        lambda look: look.clients.open,
    ),
    Row(
        gauge("rabbitmq_process_max_tcp_sockets", family.NODE, "Limit of connections."),
        lambda look: look.app.options.connections_max,
    ),
    Row(
        gauge("forebay_connections_without_login", family.NODE, "Connections whose clients have not logged in."),
        lambda look: look.load.newcomers,
    ),
    Row(
        gauge("forebay_login_buffers_octets", family.NODE, "Unfinished packets of clients that have not logged in."),
        lambda look: look.load.login_octets,
    ),
    Row(
        counter(
            "forebay_connections_ended_before_login",
            family.NODE,
            "Connections ended before a login because of connections_login_max or login_buffers_octets_max.",
        ),
        lambda look: look.load.newcomers_ended,
    ),
    Row(
        gauge("rabbitmq_erlang_uptime_seconds", family.NODE, "Seconds since the start; the name is RabbitMQ's."),
        lambda look: (look.now_us - look.clients.started_us) / US_PER_S,
    ),
    Row(
        gauge("rabbitmq_alarms_memory_used_watermark", family.NODE, "1 during a memory alarm."),
        lambda look: int(look.intake.low_memory),
    ),
    Row(
        gauge("rabbitmq_alarms_free_disk_space_watermark", family.NODE, "1 during a disk alarm."),
        lambda look: int(look.intake.low_disk),
    ),
    Row(
        gauge(
            "forebay_disk_unanswered_seconds",
            family.NODE,
            "Seconds for which the disk has not answered a write or sync; 0 while it answers within "
            "`disk_answer_timeout_ms`.",
        ),
        lambda look: look.intake.disk_unanswered_s,
    ),
    Row(
        gauge(
            "forebay_damaged_blocks", family.NODE, "Blocks of messages that a reader asked for and that cannot be read."
        ),
        lambda look: look.log.damaged_blocks,
    ),
    Row(
        gauge("forebay_connections_choked", family.NODE, "Publishers that the broker does not read now."),
        lambda look: look.intake.choked,
    ),
    Row(
        gauge("forebay_connections_slow", family.NODE, "Connections that do not read."),
        lambda look: look.load.slow_readers,
    ),
    Row(
        gauge("forebay_send_buffer_bytes", family.NODE, "Octets that wait for clients to take them."),
        lambda look: look.intake.send_buffer_octets,
    ),
    Row(
        gauge("forebay_send_buffer_limit_bytes", family.NODE, "Octets that may wait for all clients together."),
        lambda look: look.app.options.send_buffers_octets_max,
    ),
    Row(
        gauge("forebay_connections_slowed", family.NODE, "Publishers slowed down because a queue is over its share."),
        lambda look: look.load.slowed,
    ),
    Row(
        gauge("forebay_queues_crowded", family.NODE, "Queues over their share of disk or memory."),
        lambda look: look.load.queues_over_share,
    ),
    Row(
        counter("forebay_connections_refused", family.NODE, "Connections refused by a rate limit."),
        lambda look: look.load.connections_refused,
    ),
    Row(
        counter("forebay_logins_put_off", family.NODE, "Logins refused without a check after too many wrong ones."),
        lambda look: look.load.logins_put_off,
    ),
    Row(
        counter("forebay_rate_limited", family.NODE, "Times that a rate limit stopped reading from a connection."),
        lambda look: look.load.rate_limited,
    ),
    Row(
        counter("forebay_reads_put_off", family.NODE, "Times that a read had more than fits into one turn."),
        lambda look: look.load.reads_put_off,
    ),
    Row(
        gauge("forebay_mqtt_sessions_over_quota", family.NODE, "MQTT sessions over mqtt_session_octets_max."),
        lambda look: look.load.sessions_over_quota,
    ),
    Row(
        counter("forebay_filters_put_off", family.NODE, "Turns in which filters had to stop: see filter_work_a_turn."),
        lambda look: look.load.filters_put_off,
    ),
    Row(
        counter("forebay_filter_looks_cut", family.NODE, "Evaluations that a filter's limit cut short."),
        lambda look: look.load.filters_cut,
    ),
    Row(
        counter("forebay_connections_slow_ended", family.NODE, "Connections ended because they did not read."),
        lambda look: look.intake.slow_ended,
    ),
    Row(
        gauge("forebay_http_connections", family.NODE, "Connections over HTTP, on all listeners."),
        lambda look: look.app.door.connections,
    ),
    Row(
        gauge("forebay_http_request_bytes", family.NODE, "Octets of unanswered HTTP requests."),
        lambda look: look.app.door.octets,
    ),
    Row(
        gauge("forebay_coap_observations", family.NODE, "Observations by CoAP clients."),
        lambda look: look.app.coap.observations,
    ),
    Row(
        gauge(
            "forebay_coap_exchanges", family.NODE, "CoAP requests that are under way, or remembered after a publish."
        ),
        lambda look: look.app.coap.exchanges,
    ),
    Row(
        gauge("forebay_coap_bytes", family.NODE, "Memory of CoAP bodies that come in blocks and of notifications."),
        lambda look: look.app.coap.octets,
    ),
    Row(
        counter(
            "forebay_coap_duplicates", family.NODE, "CoAP requests that came again and were not carried out again."
        ),
        lambda look: look.app.coap.duplicates,
    ),
    Row(
        gauge(
            "forebay_tls_certificate_expiry_timestamp_seconds",
            family.NODE,
            "Expiry of the broker's certificate, in seconds since 1970.",
        ),
        expiry_of,
    ),
    Row(
        gauge("forebay_scrape_duration_seconds", family.NODE, "Seconds to gather these metrics."),
        lambda look: look.took_s,
    ),
)

LOG_ROWS: Final[tuple[Row[MetricsLook], ...]] = (
    Row(
        counter("rabbitmq_io_sync_ops", family.PERSISTER, "Times that a file was synced."),
        lambda look: sum(look.app.histograms.sync.counts),
    ),
    Row(
        counter("rabbitmq_io_sync_time_seconds", family.PERSISTER, "Seconds that syncs took."),
        lambda look: look.app.histograms.sync.total / US_PER_S,
    ),
    Row(
        counter("rabbitmq_io_write_ops", family.PERSISTER, "Commits written to the disk."),
        lambda look: sum(look.app.histograms.commit.counts),
    ),
    Row(
        counter("rabbitmq_io_write_bytes", family.PERSISTER, "Octets of these."),
        lambda look: look.app.histograms.commit.total,
    ),
    Row(
        counter("rabbitmq_io_read_ops", family.PERSISTER, "Blocks read that were not in memory."),
        lambda look: look.log.blocks_read,
    ),
    Row(
        counter("rabbitmq_io_read_bytes", family.PERSISTER, "Octets of these."),
        lambda look: look.log.octets_read,
    ),
    Row(gauge("forebay_wal_files", family.LOG, "Files of the write-ahead log."), lambda look: look.log.wal_files),
    Row(
        gauge("forebay_wal_bytes", family.LOG, "Octets used in these."),
        lambda look: look.log.wal_octets,
    ),
    Row(
        gauge("forebay_segment_files", family.LOG, "Segment files of queues."),
        lambda look: look.log.segment_files,
    ),
    Row(
        gauge("forebay_segment_bytes", family.LOG, "Octets of these."),
        lambda look: look.log.segment_octets,
    ),
    Row(
        gauge("forebay_log_pending_bytes", family.LOG, "Octets accepted that are not on disk yet."),
        lambda look: look.log.pending_octets,
    ),
    Row(
        gauge("forebay_log_full", family.LOG, "1 while the disk has no room for more messages."),
        lambda look: int(look.log.full),
    ),
    Row(
        gauge("forebay_log_rewriting", family.LOG, "1 while files are rewritten in the background."),
        lambda look: int(look.log.rewriting),
    ),
    Row(
        gauge("forebay_cache_bytes", family.LOG, "Blocks of records in memory."),
        lambda look: look.log.cache_octets,
    ),
    Row(
        gauge("forebay_cache_limit_bytes", family.LOG, "Memory that these may take."),
        lambda look: look.app.options.cache_octets_max,
    ),
)

SPREADS: Final[tuple[Spread, ...]] = (
    *MESSAGE_SPREADS,
    Spread(
        gauge(
            "rabbitmq_build_info",
            family.NODE,
            "Version of forebay, and of the RabbitMQ that it resembles.",
            ("rabbitmq_version", "product_name", "product_version"),
        ),
        lambda look: {(SPOKEN_VERSION, "forebay", forebay.__version__): 1},
    ),
    Spread(
        gauge(
            "rabbitmq_identity_info",
            family.NODE,
            "Name of the broker.",
            ("rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id"),
        ),
        identity,
    ),
    Spread(
        family.INTERNAL_ERRORS,
        lambda look: {(place,): count for place, count in look.app.faults.counts.items()},
    ),
    Spread(
        gauge("forebay_connections_held", family.NODE, "Connections that are not read, or sent nothing.", ("reason",)),
        lambda look: {(reason,): count for reason, count in look.load.held.items()},
    ),
    Spread(
        counter("forebay_http_refused", family.NODE, "HTTP connections refused or ended.", ("why",)),
        lambda look: {(why,): count for why, count in look.app.door.refused.items()},
    ),
    Spread(
        counter("forebay_coap_answers", family.NODE, "Answers over CoAP.", ("code",)),
        lambda look: {(code,): count for code, count in look.app.coap.answers.items()},
    ),
    Spread(
        counter("forebay_coap_refused", family.NODE, "CoAP datagrams dropped, and requests refused unseen.", ("why",)),
        lambda look: {(why,): count for why, count in look.app.coap.refused.items()},
    ),
    Spread(
        counter("forebay_coap_notifications", family.NODE, "Notifications of CoAP observers, by outcome.", ("fate",)),
        lambda look: {(outcome,): count for outcome, count in look.app.coap.notifications.items()},
    ),
    Spread(
        counter("rabbitmq_auth_attempts", family.AUTH, "Login attempts.", ("protocol",)),
        lambda look: by_protocol(Counter(look.clients.logins) + Counter(look.clients.refused_logins)),
    ),
    Spread(
        counter("rabbitmq_auth_attempts_succeeded", family.AUTH, "Successful logins.", ("protocol",)),
        lambda look: by_protocol(look.clients.logins),
    ),
    Spread(
        counter("rabbitmq_auth_attempts_failed", family.AUTH, "Refused logins.", ("protocol",)),
        lambda look: by_protocol(look.clients.refused_logins),
    ),
    Spread(
        counter("forebay_webhook_events", family.WEBHOOK, "Events of webhooks, by outcome.", ("webhook", "fate")),
        webhook_events,
    ),
    Spread(
        gauge("forebay_webhook_waiting", family.WEBHOOK, "Events that wait to be sent.", ("webhook",)),
        lambda look: {(str(hook["name"]),): number_of(hook, "waiting") for hook in webhooks(look)},
    ),
    Spread(
        counter("forebay_gc_collections", family.NODE, "Runs of Python's garbage collector.", ("generation",)),
        collections,
    ),
    *[spread_of_cluster(metric, read) for metric, read in CLUSTER_SPREADS],
)

TIMINGS: Final[tuple[Timing, ...]] = (
    Timing(
        histogram("forebay_turn_duration_seconds", family.LATENCY, "Duration of a turn of the broker's loop."),
        lambda app: app.histograms.turn,
        US_PER_S,
    ),
    Timing(
        histogram("forebay_sync_duration_seconds", family.LATENCY, "Duration of an fdatasync."),
        lambda app: app.histograms.sync,
        US_PER_S,
    ),
    Timing(
        histogram("forebay_commit_duration_seconds", family.LATENCY, "Duration of a commit, until the loop knows."),
        lambda app: app.histograms.wait,
        US_PER_S,
    ),
    Timing(
        histogram("forebay_commit_size_bytes", family.LATENCY, "Octets of a commit."),
        lambda app: app.histograms.commit,
        1,
    ),
    Timing(
        histogram(
            "forebay_confirm_latency_seconds",
            family.LATENCY,
            "From a publish until it is on disk; the first publish of each turn.",
        ),
        lambda app: app.histograms.confirm,
        US_PER_S,
    ),
    Timing(
        histogram(
            "forebay_delivery_latency_seconds",
            family.LATENCY,
            "From a publish to its delivery out of a queue; one delivery of each turn.",
        ),
        lambda app: app.histograms.delivery,
        US_PER_S,
    ),
    Timing(COMMIT_LATENCY, commit_latency, US_PER_S),
    Timing(ETCD_TIMES, etcd_times, US_PER_S),
)

CLUSTERED_ROWS: Final = tuple(of_cluster(row) for row in CLUSTER_ROWS)
ROWS: Final = (*NODE_ROWS, *MESSAGE_ROWS, *GLOBAL_ROWS, *MQTT_ROWS, *LOG_ROWS, *CLUSTERED_ROWS)
