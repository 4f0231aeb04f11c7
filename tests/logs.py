"""Logs for tests of what stands on them."""

from __future__ import annotations

from forebay.log.block_files import BlockFiles
from forebay.log.queue_log import BlockCache, QueueLog
from forebay.server.system.disk import DataDisk


def memory_log(folder: str) -> QueueLog:
    """A log in memory; the folder only holds the lock of its disk."""
    return QueueLog(1, "q", False, BlockFiles(DataDisk(folder)), BlockCache(1 << 20))


def retain(log: QueueLog, now_us: int, age_us: int, octets: int, messages: int) -> bool:
    """Let a log forget what is over limits, as a stream without other readers does; whether that was anything."""
    floor = log.retention_floor(now_us, age_us, octets, messages)
    is_over = floor > log.start
    log.truncate(floor)
    return is_over
