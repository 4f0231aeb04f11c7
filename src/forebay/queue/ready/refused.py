"""Records that some consumers must not get again, because they reported that they cannot handle them.

Such a record waits here, and not in the order of the others, as long as one of these consumers is there. Other
consumers get it before what is ready.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

CONSUMER_MAX: Final = 1000  # records that one consumer may refuse while it consumes
GROUP_MAX: Final = 8192  # records that all consumers of a group may refuse together


@final
class RefusedRecords:
    """The refused records of one group, and the consumers that refused them.

    by_offset    by offset: numbers of the consumers that must not get the record
    by_consumer  by consumer number: offsets of the records that it refused
    count        number of pairs of record and consumer
    waiting      offsets of the refused records that are ready
    """

    def __init__(self) -> None:
        self.by_offset: dict[int, set[int]] = {}
        self.by_consumer: dict[int, set[int]] = {}
        self.count: i64 = 0
        self.waiting: set[int] = set()

    def refuse(self, offset: i64, consumer: i64) -> bool:
        """Record that a consumer must not get a record again.

        Return False, with nothing done, if there are too many.
        """
        own = self.by_consumer.get(int(consumer))
        if own is None:
            own = set()
        if len(own) >= CONSUMER_MAX or self.count >= GROUP_MAX:
            return False
        self.by_consumer[int(consumer)] = own
        if int(offset) not in own:
            own.add(int(offset))
            self.by_offset.setdefault(int(offset), set()).add(int(consumer))
            self.count += 1
        return True

    def may_take(self, offset: i64, consumer: i64) -> bool:
        """Return whether a consumer has not refused a record."""
        consumers = self.by_offset.get(int(offset))
        return consumers is None or int(consumer) not in consumers

    def forget(self, offset: i64) -> None:
        """Forget a settled record."""
        for consumer in self.by_offset.pop(int(offset), set()):
            self.count -= 1
            own = self.by_consumer[consumer]
            own.discard(int(offset))
            if not own:
                del self.by_consumer[consumer]
        self.waiting.discard(int(offset))

    def leave(self, consumer: i64) -> list[int]:
        """Forget a departed consumer. Return the waiting records that no consumer refuses any more."""
        free: list[int] = []
        for offset in sorted(self.by_consumer.pop(int(consumer), set())):
            self.count -= 1
            others = self.by_offset[offset]
            others.discard(int(consumer))
            if not others:
                del self.by_offset[offset]
                if offset in self.waiting:
                    self.waiting.discard(offset)
                    free.append(offset)
        return free

    def take_first(self) -> i64:
        """Remove and return the lowest waiting record. There must be one."""
        first = min(self.waiting)
        self.waiting.discard(first)
        return first

    def clear(self) -> None:
        """Forget all records and consumers."""
        self.by_offset.clear()
        self.by_consumer.clear()
        self.waiting.clear()
        self.count = 0
