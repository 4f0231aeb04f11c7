"""/api/forebay/stats: what the server measures of itself, for the page that shows it."""

from __future__ import annotations

import gc
import os
from typing import TypedDict

from starlette.responses import Response

from forebay.admin.http.answer import as_json
from forebay.admin.login import Broker
from forebay.admin.openapi.shapes import answers
from forebay.admin.rights import Monitor
from forebay.admin.web.router import RouteGroup
from forebay.server.broker_view import BrokerView
from forebay.server.system.heap import resident_octets


class SpanSummary(TypedDict):
    """Values of one span of time."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float


class Measured(TypedDict):
    """A histogram: `counts[k]` values were at most `bounds[k]` and above the bound before; the last has no bound."""

    unit: str
    total: SpanSummary
    minute: SpanSummary
    bounds: list[int]
    counts: list[int]
    minute_counts: list[int]


class Memory(TypedDict):
    """The memory of the process."""

    octets: int
    octets_max: int
    cache_octets: int
    cache_octets_max: int
    cache_blocks: int
    blocks_read: int
    octets_read: int


class DiskUse(TypedDict):
    """The disk use of the data folder."""

    free_octets: int
    free_min_octets: int
    full: bool
    pending_octets: int
    wal_files: int
    wal_octets: int
    segment_files: int
    segment_octets: int
    rewriting: bool


class Collector(TypedDict):
    """Python's garbage collector, by generation."""

    collections: int
    collected: int
    uncollectable: int


class ServerStats(TypedDict):
    """All statistics of the server."""

    time_us: int
    uptime_us: int
    cpu_s: float
    alarms: list[str]
    choked: int
    slow: int
    histograms: dict[str, Measured]
    memory: Memory
    disk: DiskUse
    collector: list[Collector]


router = RouteGroup(prefix="/api/forebay", tags=["metrics"])


def memory_of(app: BrokerView) -> dict[str, object]:
    """The fields of `Memory`."""
    log = app.readings.log()
    return {
        "octets": resident_octets(),
        "octets_max": app.options.memory_octets_max,
        "cache_octets": log.cache_octets,
        "cache_octets_max": app.options.cache_octets_max,
        "cache_blocks": log.cache_blocks,
        "blocks_read": log.blocks_read,
        "octets_read": log.octets_read,
    }


def disk_of(app: BrokerView) -> dict[str, object]:
    """The fields of `DiskUse`."""
    log = app.readings.log()
    return {
        "free_octets": app.folder.free_octets(),
        "free_min_octets": app.options.disk_free_min_octets,
        "full": log.full,
        "pending_octets": log.pending_octets,
        "wal_files": log.wal_files,
        "wal_octets": log.wal_octets,
        "segment_files": log.segment_files,
        "segment_octets": log.segment_octets,
        "rewriting": log.rewriting,
    }


@router.get("/stats", responses=answers(ServerStats, "The statistics."))
async def server_stats(app: Broker, caller: Monitor) -> Response:
    """The times of turns, syncs, confirms and deliveries, since the start and in the last minute; memory and disk."""
    now_us = app.clock.now_us()
    used = os.times()
    return as_json(
        {
            "time_us": now_us,
            "uptime_us": now_us - app.readings.clients().started_us,
            "cpu_s": used.user + used.system,
            "alarms": app.readings.alarm_names(),
            "choked": app.readings.intake(now_us).choked,
            "slow": app.readings.load().slow_readers,
            "histograms": {name: each.fields() for name, each in app.histograms.all().items()},
            "memory": memory_of(app),
            "disk": disk_of(app),
            "collector": gc.get_stats(),
        }
    )
