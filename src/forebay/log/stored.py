"""The settings of the store, and the result of opening it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from forebay.log.frame import FrameEntry
from forebay.log.queue_log import QueueLog

REWRITE_AGE_US: Final = 5_000_000  # messages settled soon after their WAL file became full are not copied at all


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Bounds of the store; lengths in bytes.

    wal_octets_max        a WAL file is full at this length
    wal_chunk_octets      step in which room is reserved on the disk
    settle_margin_octets  reserved room that messages may not use, so that a full disk still takes settlements
    segment_octets_max    longest segment
    cache_octets_max      memory for blocks of durable logs
    recent_octets_max     a leader's memory for frames on the disk that followers may still request
    catch_up_octets_max   total of the WAL files kept for members that catch up, needed files included
    catch_up_octets_min   keep this much even if a copy of all files would be shorter
    rewrite_age_us        wait this long after a WAL file became full before its needed records are copied
    """

    wal_octets_max: int = 256 << 20
    wal_chunk_octets: int = 32 << 20
    settle_margin_octets: int = 1 << 20
    segment_octets_max: int = 64 << 20
    cache_octets_max: int = 128 << 20
    rewrite_age_us: int = REWRITE_AGE_US
    recent_octets_max: int = 8 << 20
    catch_up_octets_max: int = 4 << 30
    catch_up_octets_min: int = 1 << 30


@dataclass(frozen=True, slots=True)
class Recovery:
    """The result of `Store.open`.

    entries  all since the last checkpoint, those of the checkpoint included
    logs     by queue number
    report   messages for people about what was truncated or removed
    """

    entries: list[FrameEntry]
    logs: dict[int, QueueLog]
    report: list[str]
