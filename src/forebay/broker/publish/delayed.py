"""Messages that wait for their time: what is published to `$delayed/<when>/<topic>`.

A record of the log `$delayed` is the message as it will be published. Its annotations say when, and under which name
it can be cancelled. Bodies stay in the log; in memory is a heap of times.
"""

from __future__ import annotations

import heapq
from typing import Final, final

from mypy_extensions import i64, u8

from forebay.broker.internal_log import DELAYED_LOG, LedgerLog
from forebay.core.errors import INVALID, REFUSED, DamagedBlock, RequestError, note_half_change
from forebay.log.block import Block
from forebay.log.store import Store
from forebay.message.annotations import (
    DELAY_KEY,
    DUE,
    RECURRENCE,
    annotation,
    number_annotation,
    with_annotation,
    with_number,
)
from forebay.message.recurrence import next_time_us
from forebay.message.requests import DELAY_ID_OCTETS_MAX

LOG_NAME: Final = "$delayed"
UNREADABLE_US: Final = 60_000_000  # after which a message that cannot be read is tried again
OFFSET_DIGITS_MAX: Final = 18  # an i64 holds any number of so many digits
SLACK: Final = 1024  # times of cancelled messages kept in the heap before it is compacted


@final
class DelayedMessage:
    """One message that waits, or whose time has come.

    offset  its number, by which it can be cancelled as well as by its key
    key     empty if the publisher gave it none
    format  of the record, the publisher's QoS and RETAIN included
    recurrence  the times at which it is published, see message/recurrence.py; empty for once
    topic   where it goes; of a message published over AMQP the routing key, at `exchange`
    """

    def __init__(
        self,
        offset: i64,
        due_us: i64,
        key: bytes,
        format: i64,
        exchange: bytes,
        topic: bytes,
        properties: bytes,
        body: bytes,
        recurrence: bytes = b"",
    ) -> None:
        self.offset = offset
        self.recurrence = recurrence
        self.due_us = due_us
        self.key = key
        self.format = format
        self.exchange = exchange
        self.topic = topic
        self.properties = properties
        self.body = body


@final
class Delayed(LedgerLog):
    """All messages that wait for their time.

    messages_max  how many may wait; 0 is no limit
    """

    def __init__(self, store: Store, messages_max: i64, vhost: i64 = 0) -> None:
        super().__init__(DELAYED_LOG, LOG_NAME, store, vhost)
        self.messages_max: i64 = messages_max
        self.waiting: dict[int, bytes] = {}  # offset -> key
        self.keys: dict[bytes, int] = {}  # key -> offset
        self.times: list[tuple[int, int]] = []  # heap of (due, offset); the cancelled are passed over when met
        self.gone: list[int] = []  # published or cancelled in this turn; some are perhaps not sealed yet
        self.now_us: i64 = 0

    # ---- coming and going

    def put(
        self,
        key: bytes,
        due_us: i64,
        format: u8,
        topic: bytes,
        properties: bytes,
        body: bytes,
        exchange: bytes = b"",
        recurrence: bytes = b"",
    ) -> i64:
        """Keep a message until its time; its offset. One that waits under the same key is replaced.

        raises  RequestError: INVALID for a key that is too long, REFUSED where too many wait already
        """
        if len(key) > DELAY_ID_OCTETS_MAX:
            raise RequestError(INVALID, f"delay-id of {len(key)} octets is longer than {DELAY_ID_OCTETS_MAX}")
        old = self.keys.get(key) if key else None
        if old is None and not self.has_places(1):
            raise RequestError(REFUSED, f"mqtt_delayed_max: {self.messages_max} delayed messages wait already")
        if old is not None:
            self.leave(old)
        offset: i64 = self.log.end + self.log.writer.count
        annotations = with_annotation(with_number(b"", DUE, due_us), DELAY_KEY, key)
        if recurrence:
            annotations = with_annotation(annotations, RECURRENCE, recurrence)
        self.log.append_annotated(format, exchange, topic, properties, body, annotations)
        self.wait(offset, due_us, key)
        return offset

    def has_places(self, messages: i64) -> bool:
        """Return whether `messages` more messages may wait."""
        return self.messages_max == 0 or len(self.waiting) + messages <= self.messages_max

    def cancel(self, name: bytes) -> bool:
        """Forget a message by its key, or else by its offset in decimal digits; False if none waits under that name."""
        try:
            offset = self.offset_of(name)
            if offset < 0:
                return False
            self.leave(int(offset))
            if len(self.times) > SLACK and len(self.times) > 2 * len(self.waiting):
                self.times = [each for each in self.times if each[1] in self.waiting]
                heapq.heapify(self.times)
            return True
        except Exception as error:
            note_half_change(error)
            raise

    def offset_of(self, name: bytes) -> i64:
        """Return the offset of the waiting message of a key, or of an offset in decimal digits. Returns -1 for none."""
        offset = self.keys.get(name) if name else None
        if offset is not None:
            return offset
        if not name.isdigit() or len(name) > OFFSET_DIGITS_MAX or int(name) not in self.waiting:
            return -1
        return int(name)

    def find(self, name: bytes) -> DelayedMessage | None:
        """Return the waiting message of a key or offset, or None. The message goes on waiting."""
        offset = self.offset_of(name)
        return None if offset < 0 else self.read(offset)

    def due(self, now_us: i64, most: i64) -> list[DelayedMessage]:
        """Up to `most` messages whose time has come, by time, then offset; they wait no longer.

        They are settled when this turn ends: what the caller publishes of them by then is on disk together with that.
        """
        self.now_us = now_us
        found: list[DelayedMessage] = []
        while len(found) < most:
            due_us: i64 = self.next_due_us()
            if due_us == 0 or due_us > now_us:
                break
            offset = self.times[0][1]
            try:
                message = self.read(offset)
            except DamagedBlock:  # the broker says what is damaged; it may be mended
                heapq.heapreplace(self.times, (int(now_us + UNREADABLE_US), offset))
                continue
            heapq.heappop(self.times)
            found.append(message)
            self.leave(offset)
        return found

    def put_next(self, message: DelayedMessage, now_us: i64) -> None:
        """Have a message of `due` that recurs wait for its next time. Times that have passed meanwhile are left out.

        It is on the disk together with what was published now, so that no crash publishes it twice, or ends it.
        """
        due_us = next_time_us(message.recurrence, max(now_us, message.due_us))
        annotations = with_annotation(with_number(b"", DUE, due_us), DELAY_KEY, message.key)
        annotations = with_annotation(annotations, RECURRENCE, message.recurrence)
        offset: i64 = self.log.end + self.log.writer.count
        self.log.append_annotated(
            u8(message.format), message.exchange, message.topic, message.properties, message.body, annotations
        )
        self.wait(offset, due_us, message.key)

    def put_back(self, message: DelayedMessage, due_us: i64) -> None:
        """Have a message of `due` that could not be published wait on. After a restart its own time holds."""
        self.gone.remove(int(message.offset))
        # Its key may be another message's by now.
        self.wait(message.offset, due_us, b"" if message.key in self.keys else message.key)

    def wait(self, offset: i64, due_us: i64, key: bytes) -> None:
        self.waiting[int(offset)] = key
        if key:
            self.keys[key] = int(offset)
        heapq.heappush(self.times, (int(due_us), int(offset)))

    def leave(self, offset: int) -> None:
        try:
            key = self.waiting.pop(offset)
            if key:
                del self.keys[key]
            self.gone.append(offset)
        except Exception as error:
            note_half_change(error)
            raise

    # ---- looking

    def next_due_us(self) -> i64:
        """Return the earliest time at which a message is due, or 0 if none waits."""
        times = self.times
        while times and times[0][1] not in self.waiting:
            heapq.heappop(times)
        # A time of 0 would say that there is none.
        return max(1, times[0][0]) if times else 0

    def listed(self, most: i64) -> list[DelayedMessage]:
        """Return the first `most` waiting messages, in the order in which they will be published."""
        times = sorted([each for each in self.times if each[1] in self.waiting])
        found: list[DelayedMessage] = []
        for due_us, offset in times[: int(most)]:
            try:
                message = self.read(offset)
            except DamagedBlock:
                continue
            message.due_us = due_us
            found.append(message)
        return found

    def count(self) -> i64:
        """Return the number of waiting messages."""
        return len(self.waiting)

    def read(self, offset: i64) -> DelayedMessage:
        """Return the waiting message at an offset."""
        if offset >= self.log.end:
            self.make_readable(self.now_us)
        block = self.log.block(offset)
        assert block is not None and block.base <= offset, "a message that waits is in the log"
        return message_at(block, offset)

    # ---- the turn, and the log

    def end_turn(self, now_us: i64) -> None:
        self.now_us = now_us
        self.make_readable(self.now_us)
        self.source.truncate()
        if not self.gone:
            return
        for offset in sorted(self.gone):
            self.ledger.settle(offset, 1)
        self.gone = []
        # Urgent: on a quiet broker nothing else might ever take it to the disk, and the message would come once more.
        self.note(0, self.ledger.progress(), True)

    def recovered(self, now_us: i64) -> None:
        self.now_us = now_us
        super().recovered(now_us)

    def take_in(self, block: Block, first: i64, end: i64, now_us: i64) -> None:
        for offset in range(first, end):
            message = message_at(block, offset)
            self.wait(offset, message.due_us, message.key)


def message_at(block: Block, offset: i64) -> DelayedMessage:
    """Return the delayed message at an offset of a block."""
    index = offset - block.base
    annotations = block.annotations(index)
    return DelayedMessage(
        offset,
        number_annotation(annotations, DUE, 0),
        annotation(annotations, DELAY_KEY),
        block.format(index),
        block.exchange(index),
        block.routing_key(index),
        block.properties(index),
        block.body(index),
        annotation(annotations, RECURRENCE),
    )
