"""Samples, every five seconds, of everything that is counted: by queue, exchange, channel, connection, vhost."""

from __future__ import annotations

import asyncio
from typing import Final

from forebay.admin.http.slices import sliced
from forebay.admin.samples.measures import DEATHS, OCTETS, TIMES, SampledTimes, deaths, flow_of, more_of_queue, octets
from forebay.admin.samples.samples import Fields, Numbers, Samples, Series
from forebay.admin.samples.usage import NodeUsage
from forebay.broker.vhost import Vhost
from forebay.core.units import US_PER_MS
from forebay.queue.counts import Counts
from forebay.queue.queue import Queue
from forebay.queue.totals import GroupTotals, QueueTotals, take_changed
from forebay.routing.exchange import Exchange
from forebay.routing.flow import ExchangeCounts
from forebay.server.broker_view import BrokerView
from forebay.session.traffic import Traffic

SAMPLE_S: Final = 5
BROKER_SAMPLES: Final = 121  # ten minutes and both their ends
SAMPLES: Final = 13  # a minute
LOOK_QUEUES: Final = 1000  # that are looked at for changes before the broker has a turn
KEPT_MAX: Final = 500  # queues, and as many connections, of which ten minutes and a day are kept


QUEUE: Final = Fields(
    (
        "publish",
        "deliver_get",
        "deliver",
        "deliver_no_ack",
        "get",
        "get_no_ack",
        "redeliver",
        "ack",
        "messages",
        "messages_ready",
        "messages_unacknowledged",
    ),
    3,
)
EXCHANGE: Final = Fields(("publish_in", "publish_out"))
CHANNEL: Final = Fields(
    (
        "publish",
        "confirm",
        "return_unroutable",
        "deliver_get",
        "deliver",
        "deliver_no_ack",
        "get",
        "get_no_ack",
        "redeliver",
        "ack",
    )
)
CONNECTION: Final = Fields(("recv_oct", "send_oct"))
VHOST: Final = Fields((*QUEUE.names[: QUEUE.counters], "drop_unroutable", *QUEUE.names[QUEUE.counters :]), 3)
BROKER: Final = Fields(("confirm", "return_unroutable", "get_empty", *VHOST.names), 3)
NODE: Final = Fields(
    (
        "connection_created",
        "connection_closed",
        "channel_created",
        "channel_closed",
        "queue_declared",
        "queue_created",
        "queue_deleted",
        "mem_used",
        "disk_free",
        "fd_used",
        "sockets_used",
        "proc_used",
    ),
    5,
)
# The same numbers, and further ones that only /api/forebay/samples tells of.
QUEUE_KEPT: Final = Fields((*QUEUE.names, "message_bytes", *DEATHS), QUEUE.gauges + 1, len(DEATHS))
CONNECTION_KEPT: Final = Fields((*CONNECTION.names, *CHANNEL.names))
BROKER_KEPT: Final = Fields((*BROKER.names, *DEATHS, *OCTETS), BROKER.gauges, len(DEATHS) + len(OCTETS))
NODE_KEPT: Final = Fields((*NODE.names, "connections", *(name for _, _, name in TIMES)), NODE.gauges + 1 + len(TIMES))


class DayPlaces:
    """The places left for objects whose samples are kept for a day."""

    def __init__(self) -> None:
        self.left = KEPT_MAX

    def count(self, known: dict[int, Series]) -> None:
        """See how many there are after a round."""
        self.left = KEPT_MAX - sum(series.is_kept for series in known.values())

    def give(self, series: Series) -> bool:
        """True if this one is kept; the next to come gets a place that is free."""
        if not series.is_kept and self.left > 0:
            series.is_kept = True
            self.left -= 1
        return series.is_kept


class RateSamples(Samples):
    """The samples of everything that is counted.

    times_fast, times_slow  of confirms and deliveries, since the last round and since the last that is kept for a day
    """

    def __init__(self, app: BrokerView) -> None:
        self.app = app
        super().__init__(self.now_ms(), BROKER_SAMPLES)
        self.usage = NodeUsage(app)
        self.times_fast = SampledTimes(app.histograms)
        self.times_slow = SampledTimes(app.histograms)
        self.node = Series()
        self.broker = Series()
        self.vhosts: dict[int, Series] = {}
        self.queues: dict[int, Series] = {}
        self.exchanges: dict[tuple[int, int], Series] = {}
        self.connections: dict[int, Series] = {}
        self.channels: dict[tuple[int, int], Series] = {}
        self.queue_places = DayPlaces()
        self.connection_places = DayPlaces()

    def now_ms(self) -> int:
        return self.app.clock.now_us() // US_PER_MS

    # ---- taking samples

    async def take(self) -> None:
        """Take the samples of one round."""
        self.begin(self.now_ms())
        whole = Sum()
        whole.counts.add(self.app.vhosts.past_counts)
        whole.flow.add(self.app.vhosts.past_flow)
        for vhost in self.app.vhosts.all():
            own = await self.take_vhost(vhost)
            self.note(self.vhosts.setdefault(int(vhost.number), Series()), VHOST, own.numbers(), SAMPLES)
            whole.add(own)
        await sliced(self.app.clients.all_ids(), self.take_connection)
        await self.usage.look()
        self.take_node(whole)
        for known in (self.vhosts, self.connections):
            self.forget(known)
        self.forget_queues()
        for placed in (self.exchanges, self.channels):
            self.forget(placed)
        self.connection_places.count(self.connections)

    def take_node(self, whole: Sum) -> None:
        """Take the samples of one round of the broker and its process."""
        traffic = self.usage.traffic()
        numbers = [*traffic_numbers(traffic), *whole.numbers(), *deaths(whole.counts), *octets(self.app)]
        self.note(self.broker, BROKER_KEPT, numbers, BROKER_SAMPLES)
        usage = [*self.usage.numbers(traffic), self.app.readings.clients().sessions]
        self.note(self.node, NODE_KEPT, [*usage, *self.times_fast.since_last()], BROKER_SAMPLES)
        if self.is_slow:
            self.note_slow(self.broker, numbers)
            self.note_slow(self.node, [*usage, *self.times_slow.since_last()])

    def note_kept(self, series: Series, places: DayPlaces, fields: Fields, numbers: Numbers) -> None:
        """Add this round's sample of a queue or connection, which may be one of those that are kept for a day."""
        is_kept = places.give(series)
        self.note(series, fields, numbers, BROKER_SAMPLES if is_kept else SAMPLES)
        if self.is_slow and is_kept:
            self.note_slow(series, numbers)

    def to_sample(self, queues: list[Queue]) -> list[Queue]:
        """Return those of the queues of which a sample is to be taken in this round: those with other numbers.

        The others are idle, and have their samples once somebody asks: see `queue_series`. Those of which samples are
        kept for a day have one every five minutes all the same.
        """
        changed = take_changed(queues)
        places = self.queue_places.left
        if places == 0 and not self.is_slow and len(self.queues) >= self.queue_count():
            return changed
        found: list[Queue] = []
        ids = {int(queue.id) for queue in changed}
        for queue in queues:
            id = int(queue.id)
            series = self.queues.get(id)
            if series is None or id in ids or (series.is_kept and self.is_slow):
                found.append(queue)
            elif not series.is_kept and places > 0:
                places -= 1
                found.append(queue)
        return found

    def queue_count(self) -> int:
        """Return the number of queues in all vhosts."""
        return sum(len(vhost.catalog.queues) for vhost in self.app.vhosts.all())

    def queue_series(self, queue: Queue) -> Series | None:
        """Return the samples of a queue up to the newest round; None if there are none yet."""
        series = self.queues.get(int(queue.id))
        if series is not None:
            self.bring_up_to_date(series)
        return series

    def bring_up_to_date(self, series: Series) -> None:
        """Give a queue that is idle its samples up to the newest round."""
        self.catch_up(series, BROKER_SAMPLES if series.is_kept else SAMPLES, self.round)

    def forget_queues(self) -> None:
        """Drop the samples of queues that are gone."""
        if len(self.queues) > self.queue_count():
            there = {int(id) for vhost in self.app.vhosts.all() for id in vhost.catalog.queues_by_id}
            for id in [id for id in self.queues if id not in there]:
                del self.queues[id]
            self.queue_places.count(self.queues)

    async def take_vhost(self, vhost: Vhost) -> Sum:
        """Take the samples of one round of a vhost's queues and exchanges; what they come to together."""

        def take_queue(queue: Queue) -> None:
            series = self.queues.setdefault(int(queue.id), Series())
            self.note_kept(series, self.queue_places, QUEUE_KEPT, [*queue_numbers(queue), *more_of_queue(queue)])

        def take_exchange(exchange: Exchange) -> None:
            place = (int(vhost.number), exchange.number)
            self.note(self.exchanges.setdefault(place, Series()), EXCHANGE, exchange_numbers(exchange), SAMPLES)

        queues = list(vhost.catalog.queues.values())
        for first in range(0, len(queues), LOOK_QUEUES):
            await sliced(self.to_sample(queues[first : first + LOOK_QUEUES]), take_queue)
            await asyncio.sleep(0)
        await sliced(vhost.catalog.bindings.exchanges.values(), take_exchange)
        return sum_of(vhost)

    def take_connection(self, id: int) -> None:
        connection = self.app.clients.counts(id)
        if connection is None:
            return
        found: list[tuple[Series, Numbers]] = []
        for channel in connection.channels:
            place = (id, number_of(channel, "channel"))
            found.append((self.channels.setdefault(place, Series()), channel_numbers(channel)))
        own = self.connections.setdefault(id, Series())
        flow = flow_of(own, found, len(CONNECTION.names)) or [0] * len(CHANNEL.names)
        for series, numbers in found:
            self.note(series, CHANNEL, numbers, SAMPLES)
        received_sent = (connection.octets_received, connection.octets_sent)
        self.note_kept(own, self.connection_places, CONNECTION_KEPT, [*received_sent, *flow])


class Sum:
    """The sum over the queues and exchanges of a vhost, or of all of them.

    vhost  whose queues and exchanges that are gone are counted in
    """

    def __init__(self, vhost: Vhost | None = None) -> None:
        self.counts = Counts()
        self.flow = ExchangeCounts()
        self.wanted = 0
        self.ready = 0
        self.leased = 0
        if vhost is not None:
            self.counts.add(vhost.catalog.past_counts)
            self.flow.add(vhost.catalog.past_flow)

    def take(self, queues: list[Queue]) -> None:
        """Add queues."""
        totals = QueueTotals()
        totals.add(queues)
        self.counts.add(totals.counts)
        self.wanted += int(totals.wanted)
        self.ready += int(totals.ready)
        self.leased += int(totals.unacked)

    def add(self, other: Sum) -> None:
        """Add another sum."""
        self.counts.add(other.counts)
        self.flow.add(other.flow)
        self.wanted += other.wanted
        self.ready += other.ready
        self.leased += other.leased

    def numbers(self) -> list[int]:
        """The numbers that VHOST names: a publish counts once, however many queues take it."""
        counters = count_numbers(self.counts)
        counters[0] = int(self.flow.published_in)
        return [*counters, int(self.flow.unroutable), self.wanted, self.ready, self.leased]


def sum_of(vhost: Vhost) -> Sum:
    """The sum over the queues and exchanges of a vhost now."""
    found = Sum(vhost)
    found.take(list(vhost.catalog.queues.values()))
    for exchange in vhost.catalog.bindings.exchanges.values():
        found.flow.add(exchange.flow)
    return found


def count_numbers(counts: Counts) -> list[int]:
    """The counters as QUEUE has them."""
    delivered, settled = int(counts.delivered), int(counts.delivered_settled)
    got, got_settled = int(counts.got), int(counts.got_settled)
    return [
        int(counts.published),
        delivered + settled + got + got_settled,
        delivered,
        settled,
        got,
        got_settled,
        int(counts.redelivered),
        int(counts.acked),
    ]


def queue_numbers(queue: Queue) -> list[int]:
    """A queue's numbers now, as QUEUE has them."""
    return [*count_numbers(queue.counts), int(queue.wanted()), int(queue.ready()), int(GroupTotals(queue).unacked)]


def exchange_numbers(exchange: Exchange) -> tuple[int, int]:
    """An exchange's numbers now, as EXCHANGE has them."""
    return int(exchange.flow.published_in), int(exchange.flow.published_out)


def channel_numbers(channel: dict[str, object]) -> list[int]:
    """A described channel's numbers now, as CHANNEL has them."""
    delivered, settled, got, got_settled = (
        number_of(channel, name) for name in ("delivered", "delivered_settled", "got", "got_settled")
    )
    return [
        number_of(channel, "published"),
        number_of(channel, "confirmed"),
        number_of(channel, "returned"),
        delivered + settled + got + got_settled,
        delivered,
        settled,
        got,
        got_settled,
        number_of(channel, "redelivered"),
        number_of(channel, "acked"),
    ]


def traffic_numbers(traffic: Traffic) -> list[int]:
    """The numbers with which BROKER begins."""
    return [int(traffic.confirmed), int(traffic.returned), int(traffic.gets_empty)]


def number_of(fields: dict[str, object], name: str) -> int:
    """A described object's number; 0 where it has none of that name."""
    value = fields.get(name, 0)
    return value if isinstance(value, int) else 0
