"""The settings of the store, and what it finds when it opens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from forebay.log.frame import FrameEntry
from forebay.log.queue_log import QueueLog

REWRITE_AGE_US: Final = 5_000_000  # what is settled soon after its WAL file became full is not copied at all


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Bounds of the store.

    wal_octets_max        a WAL file is full at this length
    wal_chunk_octets      room is reserved on the disk in steps of this
    settle_margin_octets  of the room reserved, what messages may not use, so that a full disk still takes settlements
    segment_octets_max    longest segment
    cache_octets_max      memory for blocks of durable logs
    recent_octets_max     memory of a node that leads for frames that others may ask for, those on the disk only
    catch_up_octets_max   octets of WAL files that are kept for members that catch up, with those that are needed
    catch_up_octets_min   so much of that also where a copy of all files would be less
    rewrite_age_us        how long a full WAL file is left alone before what is still wanted of it is copied
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
    """The result of `open`.

    entries  since the last checkpoint, that included
    logs     by queue number
    report   what was cut or removed, for people
    """

    entries: list[FrameEntry]
    logs: dict[int, QueueLog]
    report: list[str]
