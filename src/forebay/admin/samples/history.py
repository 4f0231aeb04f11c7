"""The samples of charts over a restart: one file in the data folder, written every five minutes and at the stop.

    magic   8  b"FBCHART\x01"
    crc32   4  of what follows, little-endian
    body       compressed by zlib:
        head     JSON and a newline; `order` of octets, `times` of rounds in milliseconds, `fields`: names of numbers
                 by kind, `series`: [kind, id, rounds, slow samples] each
        numbers  i64, for each series in turn: those of its rounds, then those of its slow samples, each after its time

Connections end with the broker, so they are not in it. Counters begin again at 0: what was counted before is kept as
if it had been counted down to 0 at the stop, below zero, so that every growth is what it was.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import zlib
from array import array
from typing import Final

import orjson

from forebay.admin.http.slices import sliced
from forebay.admin.samples.rates import (
    BROKER_KEPT,
    BROKER_SAMPLES,
    KEPT_MAX,
    NODE_KEPT,
    QUEUE_KEPT,
    SAMPLE_S,
    RateSamples,
)
from forebay.admin.samples.samples import SLOW_SAMPLES, Fields, Series
from forebay.core.errors import StorageError

logger = logging.getLogger(__name__)

FILE: Final = "chart-history"
MAGIC: Final = b"FBCHART\x01"
CRC_OCTETS: Final = 4
NUMBER_OCTETS: Final = 8
LEVEL: Final = 1  # of compression: most numbers of most queues do not change
KINDS: Final[dict[str, Fields]] = {"broker": BROKER_KEPT, "node": NODE_KEPT, "queue": QUEUE_KEPT}

Found = dict[tuple[str, int], Series]
Named = tuple[str, int, Series]


class ChartHistory:
    """Takes the samples of a broker, and has them outlive it.

    writing  one writes the file at a time
    """

    def __init__(self, rates: RateSamples) -> None:
        self.rates = rates
        self.folder = rates.app.folder
        self.writing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Take samples until the task is cancelled."""
        loop = asyncio.get_running_loop()
        if await self.load():
            await self.rates.take()
        due = loop.time()
        while True:
            due = max(due + SAMPLE_S, loop.time())
            await asyncio.sleep(due - loop.time())
            await self.rates.take()
            if self.rates.is_slow:
                await self.save()

    async def finish(self) -> None:
        """Sample a last time, and keep that."""
        await self.rates.take()
        await self.save()

    async def load(self) -> bool:
        """Take in the samples of the broker before; False if there are none. A damaged file is passed over."""
        try:
            octets = await asyncio.to_thread(self.folder.read, FILE)
            if not octets:
                return False
            times, found = await asyncio.to_thread(unpack, octets)
        except (StorageError, ValueError, LookupError, TypeError, AttributeError, zlib.error) as error:
            logger.warning("history of charts is lost: %s: %s", FILE, error)
            return False
        if times[-1] >= self.rates.now_ms():
            logger.warning("history of charts is lost: %s: it is of a time to come, the clock was set back", FILE)
            return False
        self.put(times, found)
        return True

    def put(self, times: list[int], found: Found) -> None:
        """Go on from these samples."""
        rates = self.rates
        rates.times = times
        rates.round = len(times) - 1
        for (kind, id), series in found.items():
            series.round = rates.round
            if kind == "queue":
                rates.queues[id] = series
        rates.broker = found.get(("broker", 0), rates.broker)
        rates.node = found.get(("node", 0), rates.node)
        rates.queue_places.count(rates.queues)

    async def save(self) -> None:
        """Have the file say what was sampled; durable on return, if there is room."""
        if self.writing is not None:
            await self.writing
        self.writing = asyncio.create_task(self.write())
        await asyncio.shield(self.writing)

    async def write(self) -> None:
        rates = self.rates
        named: list[Named] = [("broker", 0, rates.broker), ("node", 0, rates.node)]
        queues = [(id, series) for id, series in rates.queues.items() if series.is_kept]
        for _, series in queues:
            rates.bring_up_to_date(series)
        named += [("queue", id, series) for id, series in queues]
        kept = [each for each in named if each[2].numbers and each[2].round == rates.round]
        if not kept:
            return
        head = {
            "order": sys.byteorder,
            "times": list(rates.times),
            "fields": {kind: fields.names for kind, fields in KINDS.items()},
            "series": [[kind, id, len(series.numbers), len(series.slow_times())] for kind, id, series in kept],
        }
        parts = await sliced(kept, lambda each: pack(each[2]))
        try:
            await asyncio.to_thread(self.put_down, orjson.dumps(head), parts)
        except StorageError as error:
            logger.warning("history of charts is not kept over a restart: %s", error)

    def put_down(self, head: bytes, parts: list[bytes]) -> None:
        """Write the file; on a thread of its own."""
        body = zlib.compress(b"".join([head, b"\n", *parts]), LEVEL)
        self.folder.write(FILE, MAGIC + zlib.crc32(body).to_bytes(CRC_OCTETS, "little") + body)


def pack(series: Series) -> bytes:
    """The numbers of a series."""
    return b"".join([*(numbers.tobytes() for numbers in series.numbers), series.slow.tobytes()])


def unpack(octets: bytes) -> tuple[list[int], Found]:
    """The times of rounds, and the series by kind and id; ValueError and the like for a damaged file."""
    start = len(MAGIC) + CRC_OCTETS
    if octets[: len(MAGIC)] != MAGIC:
        raise ValueError(f"it begins with {octets[: len(MAGIC)]!r}, not {MAGIC!r}")
    if zlib.crc32(octets[start:]) != int.from_bytes(octets[len(MAGIC) : start], "little"):
        raise ValueError("its checksum does not match")
    head, _, body = zlib.decompress(octets[start:]).partition(b"\n")
    told = orjson.loads(head)
    times = [int(ms) for ms in told["times"]]
    if told["order"] != sys.byteorder or not times or times != sorted(times):
        raise ValueError("it is of another machine")
    found: Found = {}
    at = 0
    for kind, id, rounds, slow in told["series"]:
        width = len(told["fields"][kind])
        end = at + (rounds * width + slow * (width + 1)) * NUMBER_OCTETS
        if not (0 < rounds <= min(BROKER_SAMPLES, len(times)) and 0 <= slow <= SLOW_SAMPLES and end <= len(body)):
            raise ValueError(f"{kind} {id} has {rounds} rounds and {slow} slow samples")
        fields = KINDS.get(kind)
        if fields is not None and list(fields.names) == told["fields"][kind] and len(found) < KEPT_MAX + len(KINDS):
            found[kind, int(id)] = series_of(body[at:end], fields, rounds * width)
        at = end
    return times, found


def series_of(octets: bytes, fields: Fields, fast: int) -> Series:
    """A series whose first `fast` numbers are those of its rounds; its counters end at 0."""
    width = len(fields.names)
    numbers = array("q", octets)
    rounds, slow = numbers[:fast], numbers[fast:]
    for index, last in enumerate(rounds[-width:]):
        if last and fields.grows(index):
            rounds[index::width] = array("q", [value - last for value in rounds[index::width]])
            slow[index + 1 :: width + 1] = array("q", [value - last for value in slow[index + 1 :: width + 1]])
    series = Series()
    series.is_kept = True
    series.slow = slow
    for at in range(0, fast, width):
        sample = rounds[at : at + width]
        known = series.numbers
        known.append(known[-1] if known and known[-1] == sample else sample)
    return series
