"""Logs for tests of what stands on them."""

from __future__ import annotations

from forebay.log.block_files import BlockFiles
from forebay.log.queue_log import BlockCache, QueueLog
from forebay.server.system.disk import DataDisk


def memory_log(folder: str) -> QueueLog:
    """A log in memory; the folder only holds the lock of its disk."""
    return QueueLog(1, "q", False, BlockFiles(DataDisk(folder)), BlockCache(1 << 20))
