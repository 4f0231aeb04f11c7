"""Gathering what there is to tell: in slices, between which the broker has its turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, TypeVar

from forebay.admin.http.slices import sliced
from forebay.admin.metrics.broker import ROWS, SPREADS, TIMINGS
from forebay.admin.metrics.exposition import UNLABELLED, Labels, Sink, Text, labelled, wants_open_metrics
from forebay.admin.metrics.family import Metric, Number, Row
from forebay.admin.metrics.look import MetricsLook
from forebay.admin.metrics.objects import (
    CHANNELS,
    CONNECTIONS,
    COUNTED,
    EXCHANGES,
    GROUPS,
    QUEUES,
    VHOSTS,
    QueueGroup,
    VhostTotals,
)
from forebay.broker.vhost import Vhost
from forebay.node.telemetry.stats import add_client, look_at_vhosts
from forebay.queue.counts import Counts
from forebay.queue.group import Group
from forebay.queue.queue import Queue, group_key
from forebay.queue.totals import QueueTotals
from forebay.routing.exchange import Exchange, text
from forebay.routing.flow import ExchangeCounts
from forebay.server.broker_view import BrokerView

METRICS: Final = "/metrics"
PER_OBJECT: Final = "/metrics/per-object"
SLICE: Final = 25  # queues whose numbers are read between two turns
SAMPLES: Final = 1000  # of one metric, written between two turns

# Metrics that objects have.
OF_OBJECTS: Final = (
    {row.metric.name for row in EXCHANGES}
    | {row.metric.name for row in CONNECTIONS}
    | {row.metric.name for row in CHANNELS}
)

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class ScrapeRequest:
    """The metrics that a scrape asks for.

    each    every object has samples of its own; else the sums of all
    groups  of metrics; None: all
    vhosts  names of those whose objects are wanted; None: all
    """

    each: bool = False
    groups: frozenset[str] | None = None
    vhosts: frozenset[str] | None = None

    def wants(self, metric: Metric) -> bool:
        """True if the metric is asked for."""
        return self.groups is None or metric.group in self.groups

    def wants_vhost(self, vhost: Vhost) -> bool:
        """True if objects of this vhost are asked for."""
        return self.vhosts is None or text(vhost.name) in self.vhosts


@dataclass(slots=True)
class Sheet:
    """The samples of objects of one kind: labels and numbers where each has its own, else one number of all."""

    labels: tuple[str, ...]
    samples: dict[str, list[tuple[Labels, Number]]] = field(default_factory=dict)
    together: dict[str, Number] = field(default_factory=dict)

    def take(self, rows: Sequence[Row[Item]], item: Item, values: tuple[str, ...] | None) -> None:
        """Read one object; `values` of its labels where it has samples of its own."""
        shown = UNLABELLED if values is None else labelled(self.labels, values)
        for row in rows:
            number = row.read(item)
            if number is None:
                continue
            name = row.metric.name
            if values is not None:
                self.samples.setdefault(name, []).append((shown, number))
            elif row.combine is not None:
                before = self.together.get(name)
                self.together[name] = number if before is None else row.combine(before, number)

    async def write(self, rows: Sequence[Row[Item]], out: Sink) -> None:
        """Write what was read, by metric."""
        for row in rows:
            own = self.samples.pop(row.metric.name, None)  # letting go of all at once takes long
            if own is None:
                number = self.together.get(row.metric.name)
                own = [] if number is None else [(UNLABELLED, number)]
            out.add(row.metric, own[:SAMPLES])
            for at in range(SAMPLES, len(own), SAMPLES):
                await asyncio.sleep(0)
                out.more(row.metric, own[at : at + SAMPLES])
            await asyncio.sleep(0)


def wanted_rows(rows: Iterable[Row[Item]], wanted: ScrapeRequest) -> list[Row[Item]]:
    """The rows of the table that a scrape asks for."""
    return [row for row in rows if wanted.wants(row.metric) and (wanted.each or row.combine is not None)]


class Gathering:
    """One scrape: everything is read, then written."""

    def __init__(self, app: BrokerView, wanted: ScrapeRequest) -> None:
        self.app = app
        self.wanted = wanted
        self.began_s = monotonic()
        self.now_us = app.clock.now_us()
        self.counts = Counts()
        self.flow = ExchangeCounts()
        self.moved = Counts()
        self.queues = self.queues_gone = self.consumers = self.channels = 0
        self.queue_sheet = Sheet(("vhost", "queue"))
        self.counted_sheet = Sheet(("vhost", "queue"))
        self.group_sheet = Sheet(("vhost", "queue", "group"))
        self.exchange_sheet = Sheet(("vhost", "exchange"))
        self.vhost_sheet = Sheet(("vhost",))
        self.connection_sheet = Sheet(("connection", "vhost", "user"))
        self.channel_sheet = Sheet(("connection", "channel", "vhost"))

    async def run(self, out: Sink) -> None:
        """Read everything that is asked for, and write it."""
        vhosts = self.app.vhosts
        self.counts.add(vhosts.past_counts)
        self.flow.add(vhosts.past_flow)
        self.moved.add(vhosts.past_moved)
        self.queues_gone = int(vhosts.past_queues)
        for vhost in vhosts.all():
            await self.look_at_vhost(vhost)
        await self.look_at_connections()
        look = await self.look_at_broker()
        await self.write(look, out)

    # ---- reading

    async def look_at_vhost(self, vhost: Vhost) -> None:
        totals = QueueTotals()
        totals.counts.add(vhost.catalog.past_counts)
        is_wanted = self.wanted.wants_vhost(vhost)
        queue_rows = wanted_rows(QUEUES, self.wanted)
        counted_rows = [row for row in COUNTED if self.wanted.wants(row.metric)] if self.wanted.each else []
        group_rows = wanted_rows(GROUPS, self.wanted)
        name = text(vhost.name)
        queues = list(vhost.catalog.queues.values())
        for at in range(0, len(queues), SLICE):
            part = queues[at : at + SLICE]
            totals.add(part)
            if is_wanted:
                for queue in part:
                    values = (name, text(queue.name)) if self.wanted.each else None
                    self.queue_sheet.take(queue_rows, queue, values)
                    self.counted_sheet.take(counted_rows, queue.counts, values)
                    self.look_at_groups(group_rows, queue, values)
            await asyncio.sleep(0)
        if is_wanted:
            await self.look_at_exchanges(vhost, name)
            self.vhost_sheet.take(VHOSTS, VhostTotals(vhost, totals), (name,))
        self.counts.add(totals.counts)
        self.queues += int(totals.queues)
        self.consumers += int(totals.consumers)
        self.queues_gone += int(vhost.catalog.past_queues)
        self.flow.add(vhost.catalog.past_flow)
        for exchange in list(vhost.catalog.bindings.exchanges.values()):
            self.flow.add(exchange.flow)
        self.moved.add(vhost.dead_letters.moved_for)

    def look_at_groups(self, rows: Sequence[Row[QueueGroup]], queue: Queue, values: tuple[str, ...] | None) -> None:
        if rows:
            for group in list(queue.groups.values()):
                own = None if values is None else (*values, group_name(group))
                self.group_sheet.take(rows, QueueGroup(queue, group, self.now_us), own)

    async def look_at_exchanges(self, vhost: Vhost, name: str) -> None:
        rows = wanted_rows(EXCHANGES, self.wanted)
        if rows and self.wanted.each:

            def take(exchange: Exchange) -> None:
                self.exchange_sheet.take(rows, exchange, (name, text(exchange.name)))

            await sliced(vhost.catalog.bindings.exchanges.values(), take)

    async def look_at_connections(self) -> None:
        connections = wanted_rows(CONNECTIONS, self.wanted)
        channels = wanted_rows(CHANNELS, self.wanted)

        def take(id: int) -> None:
            connection = self.app.clients.counts(id)
            where = None if connection is None else self.app.vhosts.by_number.get(connection.vhost)
            if connection is None or where is None or not self.wanted.wants_vhost(where):
                return
            vhost = text(where.name)
            name = self.app.clients.name(id) if self.wanted.each else ""
            own = (name, vhost, connection.user) if self.wanted.each else None
            self.connection_sheet.take(connections, connection, own)
            for channel in connection.channels:
                self.channels += 1
                place = (name, str(channel["channel"]), vhost) if self.wanted.each else None
                self.channel_sheet.take(channels, channel, place)

        await sliced(self.app.clients.ids(), take)

    async def look_at_broker(self) -> MetricsLook:
        app = self.app
        totals = app.readings.totals_of_ended()
        await sliced(app.clients.ids(), lambda id: app.clients.add_to(totals, id))
        vhosts = app.vhosts.all()
        look_at_vhosts(totals, vhosts)
        for vhost in vhosts:
            await sliced(vhost.sessions.by_number.values(), lambda client: add_client(totals, client))
        return MetricsLook(
            app=app,
            now_us=self.now_us,
            log=app.readings.log(),
            intake=app.readings.intake(self.now_us),
            load=app.readings.load(),
            clients=app.readings.clients(),
            totals=totals,
            traffic=app.readings.traffic(),
            counts=self.counts,
            flow=self.flow,
            moved=self.moved,
            queues=self.queues,
            queues_gone=self.queues_gone,
            queues_at_start=int(app.vhosts.first_queues),
            consumers=self.consumers,
            channels=self.channels,
            took_s=monotonic() - self.began_s,
            cluster={} if self.app.control.cluster is None else self.app.control.cluster.status(),
        )

    # ---- writing

    async def write(self, look: MetricsLook, out: Sink) -> None:
        """Objects first, then what there is one of."""
        await self.queue_sheet.write(QUEUES, out)
        await self.counted_sheet.write(COUNTED, out)
        await self.group_sheet.write(GROUPS, out)
        await self.exchange_sheet.write(EXCHANGES, out)
        await self.connection_sheet.write(CONNECTIONS, out)
        await self.channel_sheet.write(CHANNELS, out)
        await self.vhost_sheet.write([row for row in VHOSTS if self.wanted.wants(row.metric)], out)
        if not self.wanted.each:
            write_single(COUNTED, self.counts, self.wanted.wants, out)
        write_single(ROWS, look, self.wants_single, out)
        for spread in SPREADS:
            if self.wanted.wants(spread.metric):
                names = spread.metric.labels
                out.add(spread.metric, [(labelled(names, values), n) for values, n in spread.read(look).items()])
        for timing in TIMINGS:
            if self.wanted.wants(timing.metric):
                measured = timing.read(self.app)
                if measured is not None:
                    out.add_histogram(timing.metric, measured, timing.scale)

    def wants_single(self, metric: Metric) -> bool:
        """True if a sum is asked for: not where each object, if there is any, has a number of its own."""
        return self.wanted.wants(metric) and not (self.wanted.each and metric.name in OF_OBJECTS)


def write_single(rows: Iterable[Row[Item]], item: Item, wants: Callable[[Metric], bool], out: Sink) -> None:
    """Metrics that have one sample."""
    for row in rows:
        if wants(row.metric):
            number = row.read(item)
            if number is not None:
                out.add(row.metric, [(UNLABELLED, number)])


def group_name(group: Group) -> str:
    """A group's name for people; a reader of its own has none, and is known by its group's number."""
    key = group_key(group.name, group.filter)
    return f"reader {group.id}" if key.startswith(b"\0") else text(key)


def known_groups() -> set[str]:
    """The names that /metrics/detailed may be asked for."""
    tables = (QUEUES, COUNTED, GROUPS, EXCHANGES, CONNECTIONS, CHANNELS, VHOSTS, ROWS)
    names = {row.metric.group for table in tables for row in table}
    return names | {spread.metric.group for spread in SPREADS} | {timing.metric.group for timing in TIMINGS}


async def gathered(app: BrokerView, accept: str, wanted: ScrapeRequest, prefix: str = "") -> tuple[str, bytes]:
    """Return content type and document of a scrape; to be called within `app.door.long`."""
    out = Text(wants_open_metrics(accept), prefix)
    await Gathering(app, wanted).run(out)
    return out.content_type, out.document()
