"""Operations on the broker itself: its state, its configuration, its connections."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

import forebay
from forebay.broker.vhost import Vhost
from forebay.core.errors import NOT_FOUND, RequestError
from forebay.core.units import US_PER_MS
from forebay.management.cluster_words import summary_of
from forebay.management.control import Control, made_already, operation, page
from forebay.management.needs import CLOSE
from forebay.management.requests.broker import (
    BrokerStatusAnswer,
    BrokerStatusRequest,
    ChannelListRequest,
    ConfigReloadRequest,
    ConfigShowRequest,
    ConnectionCloseRequest,
    ConnectionListRequest,
    OptionFields,
    QueueStatsFields,
    QueueStatsPage,
    QueueStatsRequest,
    ReloadAnswer,
    ServerFields,
    WebhookFields,
    WebhookListRequest,
)
from forebay.management.requests.fields import EmptyAnswer, ListPage, Open
from forebay.queue.queue import KIND_NAMES, Queue
from forebay.queue.totals import GroupTotals, QueueTotals, oldest_us
from forebay.routing.exchange import text

# ---- state


@operation("broker.status")
def show_status(control: Control, given: BrokerStatusRequest) -> BrokerStatusAnswer:
    """Show the broker's state: version, listeners, alarms, memory, disk, totals, the longest queues.

    `alarms` names what is short (memory, disk) while the broker does not read publishers, and `damage` while it cannot
    read messages, which `damages` names. `cluster` sums up the cluster, if there is one. `counts` are the messages of
    all queues since the start, including deleted queues.
    """
    vhosts = list(control.vhosts.by_name.values())
    totals = QueueTotals()
    for vhost in vhosts:
        totals.add(list(vhost.catalog.queues.values()))
        totals.counts.add(vhost.catalog.past_counts)
    server = control.server
    now_us = int(control.vhosts.shared.next_turn.now_us) if server is None else server.now_us()
    longest = [queue_stats(vhost, queue, now_us) for vhost, queue in placed(vhosts, totals.longest)]
    return {
        "version": forebay.__version__,
        **(ServerFields() if server is None else server.fields()),
        "cluster": summary_of(control.cluster),
        "time_us": now_us,
        "vhosts": len(vhosts),
        "exchanges": sum(len(vhost.catalog.bindings.exchanges) for vhost in vhosts),
        "sessions": sum(len(vhost.sessions.by_number) for vhost in vhosts),
        "subscriptions": sum(len(vhost.fanout.subscriptions) for vhost in vhosts),
        "retained": sum(int(vhost.retained.count()) for vhost in vhosts),
        "delayed": sum(int(vhost.delayed.count()) for vhost in vhosts),
        "queues": int(totals.queues),
        "consumers": int(totals.consumers),
        "ready": int(totals.ready),
        "unacked": int(totals.unacked),
        "octets": int(totals.octets),
        "counts": totals.counts.fields(),
        "longest": longest,
    }


@operation("queue.stats")
def list_stats(control: Control, given: QueueStatsRequest) -> QueueStatsPage:
    """The queues with what changes from second to second: lengths, consumers, the oldest message's age, counters."""
    vhosts = list(control.vhosts.by_name.values()) if given.vhost is None else [control.vhost_named(given.vhost)]
    now_us = int(control.vhosts.shared.next_turn.now_us) if control.server is None else control.server.now_us()
    queues = [
        partial(queue_stats, vhost, vhost.catalog.queues[name], now_us)
        for vhost in vhosts
        for name in sorted(vhost.catalog.queues)
    ]
    return {"time_us": now_us, **page(given, queues)}


def placed(vhosts: Sequence[Vhost], queues: Sequence[Queue]) -> list[tuple[Vhost, Queue]]:
    """Return each of these queues with its vhost."""
    return [(vhost, queue) for queue in queues for vhost in vhosts if vhost.catalog.queues.get(queue.name) is queue]


def queue_stats(vhost: Vhost, queue: Queue, now_us: int) -> QueueStatsFields:
    """Return the statistics of a queue. `oldest_ms` is the time of its first message, None if it has none."""
    stored_us = int(oldest_us(queue))
    totals = GroupTotals(queue)
    return {
        "vhost": text(vhost.name),
        "queue": text(queue.name),
        "type": KIND_NAMES[int(queue.kind)],
        "ready": int(queue.ready()),
        "unacked": int(totals.unacked),
        "dead_letters_waiting": int(totals.dead_letters),
        "consumers": int(queue.consumer_count()),
        "groups": len(queue.groups),
        "octets": int(queue.stored_octets()),
        "oldest_ms": None if stored_us < 0 else max(now_us - stored_us, 0) // US_PER_MS,
        "counts": queue.counts.fields(),
    }


# ---- configuration


@operation("config.show")
def show_config(control: Control, given: ConfigShowRequest) -> ListPage[OptionFields]:
    """Every option by its name: value, where it came from, and whether a reload can change it; no secrets."""
    configuration = control.configuration
    shown = [] if configuration is None else configuration.shown()
    return page(given, [made_already(each) for each in shown])


@operation("config.reload", changes=True)
def reload_config(control: Control, given: ConfigReloadRequest) -> ReloadAnswer:
    """Read the configuration again, and apply what can change while the broker runs.

    `applied` has the changed options with `old` and `new`, and `restart` those that need a restart. If anything is
    wrong, nothing changes.
    """
    if control.configuration is None:
        raise RequestError(NOT_FOUND, "config.reload: this broker has no configuration")
    return cast("ReloadAnswer", control.configuration.reload())


@operation("webhook.list")
def list_webhooks(control: Control, given: WebhookListRequest) -> ListPage[WebhookFields]:
    """The webhooks: waiting, sent, failed and dropped events, and whether sending is stopped for now."""
    hooks = [] if control.webhooks is None else control.webhooks.listed()
    return page(given, [made_already(each) for each in hooks])


# ---- connections


@operation("connection.list")
def list_connections(control: Control, given: ConnectionListRequest) -> ListPage[Open]:
    """List the broker's connections by number, with their protocol and user."""
    known = control.connections.listed()
    if given.vhost is not None:
        known = [each for each in known if each["vhost"] == given.vhost]
    return page(given, [made_already(each) for each in known])


@operation("channel.list")
def list_channels(control: Control, given: ChannelListRequest) -> ListPage[Open]:
    """List the channels of AMQP connections, with their unsettled messages."""
    known = control.connections.channels()
    if given.connection is not None:
        known = [each for each in known if each["connection"] == given.connection]
    return page(given, [made_already(each) for each in known])


@operation("connection.close", changes=True, need=CLOSE)
def close_connection(control: Control, given: ConnectionCloseRequest) -> EmptyAnswer:
    """Close a connection, and tell its client the reason."""
    if not control.connections.close(given.id, given.reason):
        raise RequestError(NOT_FOUND, f"id: {given.id} is no connection")
    return {}
