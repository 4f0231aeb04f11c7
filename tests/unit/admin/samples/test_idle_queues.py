"""Queues in which nothing happens cost nothing when samples are taken, and have their samples when somebody asks."""

from __future__ import annotations

import asyncio
from pathlib import Path

from forebay.admin.samples.rates import BROKER_SAMPLES, KEPT_MAX, QUEUE_KEPT, SAMPLE_S, SAMPLES, RateSamples
from forebay.admin.samples.samples import SLOW_MS, Fields, Numbers, SampleWindow, Series
from forebay.core.message import AMQP091
from forebay.server.app import App
from tests.held_app import held_app

IDLE = 300
PUBLISHED = QUEUE_KEPT.names.index("publish")


class CountingRates(RateSamples):
    """Counts the queues of which a sample was taken."""

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self.sampled = 0
        self.ms = 0

    def now_ms(self) -> int:
        self.ms = getattr(self, "ms", 0) + SAMPLE_S * 1000
        return self.ms

    def note(self, series: Series, fields: Fields, numbers: Numbers, most: int) -> None:
        self.sampled += fields is QUEUE_KEPT
        super().note(series, fields, numbers, most)


def test_idle_queues_are_not_sampled(tmp_path: Path) -> None:
    async def run() -> None:
        async with held_app(tmp_path) as app:
            vhost = app.vhosts.by_name[b"/"]
            count = KEPT_MAX + IDLE
            for number in range(count):
                vhost.catalog.declare_queue(b"q%d" % number, True, False, False, {}, 1)
            rates = CountingRates(app)
            await rates.take()
            assert rates.sampled == count
            await rates.take()
            assert rates.sampled == count
            queue = vhost.catalog.queue(b"q%d" % (count - 1))
            for _ in range(20):
                await rates.take()
            rates.sampled = 0
            queue.log.append(AMQP091, b"", queue.name, b"", b"x")
            queue.counts.published += 1
            await rates.take()
            assert rates.sampled == 1
            series = rates.queue_series(queue)
            assert series is not None
            assert [numbers[PUBLISHED] for numbers in series.numbers] == [0] * (SAMPLES - 1) + [1]
            assert rates.details(series, QUEUE_KEPT, PUBLISHED, None) == {"rate": 1 / SAMPLE_S}

    asyncio.run(run())


def test_idle_queues_whose_samples_are_kept_for_a_day_have_one_every_five_minutes(tmp_path: Path) -> None:
    async def run() -> None:
        async with held_app(tmp_path) as app:
            vhost = app.vhosts.by_name[b"/"]
            queue = vhost.catalog.declare_queue(b"q", True, False, False, {}, 1)
            rates = CountingRates(app)
            for _ in range(SLOW_MS * 3 // (SAMPLE_S * 1000)):
                await rates.take()
            assert rates.sampled <= 4
            series = rates.queue_series(queue)
            assert series is not None
            assert len(series.slow_times()) in (3, 4)
            assert len(series.numbers) == BROKER_SAMPLES
            assert series.round == rates.round

    asyncio.run(run())


def test_an_idle_queue_has_samples_up_to_now(tmp_path: Path) -> None:
    async def run() -> None:
        async with held_app(tmp_path) as app:
            vhost = app.vhosts.by_name[b"/"]
            for number in range(KEPT_MAX + 1):
                vhost.catalog.declare_queue(b"q%d" % number, True, False, False, {}, 1)
            queue = vhost.catalog.queue(b"q%d" % KEPT_MAX)
            queue.counts.published += 7
            rates = CountingRates(app)
            for _ in range(5):
                await rates.take()
            found = rates.samples(rates.queue_series(queue) or Series(), PUBLISHED, SampleWindow(10, 5), True)
            assert found == [{"sample": 7, "timestamp": ms} for ms in range(rates.times[-1], rates.times[-4], -5000)]
            assert rates.details(rates.queue_series(queue), QUEUE_KEPT, PUBLISHED, None) == {"rate": 0.0}

    asyncio.run(run())


def test_samples_of_deleted_queues_go(tmp_path: Path) -> None:
    async def run() -> None:
        async with held_app(tmp_path) as app:
            vhost = app.vhosts.by_name[b"/"]
            for number in range(KEPT_MAX + 5):
                vhost.catalog.declare_queue(b"q%d" % number, True, False, False, {}, 1)
            rates = CountingRates(app)
            await rates.take()
            for number in (0, KEPT_MAX + 1):
                vhost.catalog.delete_queue(b"q%d" % number, False, False)
            await rates.take()
            assert set(rates.queues) == {int(id) for id in vhost.catalog.queues_by_id}
            await rates.take()
            assert sum(series.is_kept for series in rates.queues.values()) == KEPT_MAX

    asyncio.run(run())
