"""The latest record of each key of a last-value queue.

None of it is stored: recovery rebuilds it from the records that some group has not settled.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from forebay.filter.parser import Filter
from forebay.filter.subject import Subject
from forebay.filter.values import first, text
from forebay.queue.counts import Counts
from forebay.queue.declaration.limits import Limits
from forebay.queue.leases.page import DELAYED, LEASED, PAGE_RECORDS
from forebay.queue.work.settlement import Settlement

KEYS_USUAL: Final = 100_000  # most keys of a queue without x-max-length
KEY_OCTETS_MAX: Final = 1024


@final
class LatestRecord:
    """The latest record of one key.

    octets  bytes of its body
    """

    def __init__(self, key: bytes, offset: i64, octets: i64) -> None:
        self.key = key
        self.offset: i64 = offset
        self.octets: i64 = octets


@final
class LastValues:
    """The keys of a last-value queue, and the latest record of each that some group has not settled.

    expression   expression whose value is a message's key
    by_key       the latest records by key; `by_offset`: the same by offset, the oldest first
    octets       bytes of their bodies
    replaced     offsets of replaced records that groups have still to settle
    settlements  settlements of the queue's work groups
    counts       counters of the queue
    """

    def __init__(self, expression: Filter, counts: Counts) -> None:
        self.expression = expression
        self.by_key: dict[bytes, LatestRecord] = {}
        self.by_offset: dict[int, LatestRecord] = {}
        self.octets: i64 = 0
        self.replaced: list[int] = []
        self.settlements: list[Settlement] = []
        self.counts = counts

    def key_of(self, subject: Subject) -> bytes:
        """Return a message's key, or b"" if it has none or one that is too long."""
        value = first(self.expression.value(subject))
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 1.0 is equal to 1
        key = text(value)
        if key is None or subject.is_cut:
            return b""
        encoded = key.encode("utf-8", "surrogatepass")
        return encoded if len(encoded) <= KEY_OCTETS_MAX else b""

    def has_room(self, key: bytes, octets: i64, limits: Limits) -> bool:
        """Return whether a record with a body of `octets` bytes can be the latest of a key."""
        keys = i64(len(self.by_key))
        sum = self.octets + octets
        old = self.by_key.get(key)
        if old is None:
            keys += 1
        else:
            sum -= old.octets
        if keys > keys_max(limits):
            return old is not None  # a policy has lowered the limit
        return limits.max_octets < 0 or sum <= limits.max_octets

    def is_full(self, messages: i64, octets: i64, limits: Limits) -> bool:
        """Return whether there is no room for new keys, beside `messages` messages with `octets` bytes."""
        if i64(len(self.by_key)) + messages >= keys_max(limits):
            return True
        return 0 <= limits.max_octets <= self.octets + octets

    def put(self, key: bytes, offset: i64, octets: i64) -> None:
        """Make a record the latest of its key. It must be newer than all records before."""
        old = self.by_key.get(key)
        if old is not None:
            del self.by_offset[int(old.offset)]
            self.octets -= old.octets
            self.replaced.append(int(old.offset))
            self.counts.replaced += 1
        record = LatestRecord(key, offset, octets)
        self.by_key[key] = record
        self.by_offset[int(offset)] = record
        self.octets += octets

    def note_settled(self, first: i64, count: i64) -> None:
        """Forget those of some records that every group has settled."""
        for offset in range(first, first + count):
            record = self.by_offset.get(int(offset))
            if record is not None and self.is_settled(record.offset):
                self.drop(record)

    def is_settled(self, offset: i64) -> bool:
        """Return whether every group has settled a record."""
        for settlement in self.settlements:
            if not settlement.is_settled(offset):
                return False
        return len(self.settlements) > 0

    def replaced_in(self, settlement: Settlement) -> bytes:
        """Return the intervals of a group's replaced, unsettled records as noted settlements.

        Consumers hold these records, or they wait for a time. After a crash they must not come back.
        """
        out = BytesWriter()
        for page in settlement.pages.values():
            for at in range(PAGE_RECORDS):
                offset = page.base + at
                if page.states[at] in (LEASED, DELAYED) and int(offset) not in self.by_offset:
                    write_i64_le(out, offset)
                    write_i64_le(out, offset + 1)
        return out.getvalue()

    def drop(self, record: LatestRecord) -> None:
        """Forget a record, so that its key is free."""
        del self.by_key[record.key]
        del self.by_offset[int(record.offset)]
        self.octets -= record.octets

    def forget_settled(self, start: i64) -> None:
        """Forget all records that every group has settled, and those below `start`."""
        for record in list(self.by_offset.values()):
            if record.offset < start or self.is_settled(record.offset):
                self.drop(record)


def keys_max(limits: Limits) -> i64:
    """Return the number of keys that a queue may have."""
    return limits.max_messages if limits.max_messages >= 0 else KEYS_USUAL
