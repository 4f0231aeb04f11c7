"""Traces the events of messages in chosen queues, while somebody asks for them.

Without a trace a queue pays one check of a field that is None, for each run of messages. The latest events are kept in
memory, up to a limit, and are lost when the broker stops.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import DamagedBlock
from forebay.filter.parser import Filter
from forebay.log.queue_log import QueueLog
from forebay.queue.leases.lease import Consumer
from forebay.queue.properties import PropertyReader

PUBLISHED: Final = "published"
DELIVERED: Final = "delivered"
ACKED: Final = "acked"
RETURNED: Final = "returned"
REJECTED: Final = "rejected"
DIED: Final = "died"


@final
class TraceEvent:
    """One event of one message.

    connection  session of the consumer; 0 if there is none
    detail      the reason, if there is one
    """

    def __init__(
        self,
        time_us: i64,
        type: str,
        queue: bytes,
        group: bytes,
        offset: i64,
        message_id: str,
        consumer: Consumer | None,
        detail: str,
    ) -> None:
        self.time_us: i64 = time_us
        self.type = type
        self.queue = queue
        self.group = group
        self.offset: i64 = offset
        self.message_id = message_id
        self.connection: i64 = 0
        self.channel: i64 = 0
        self.tag = b""
        if consumer is not None:
            self.connection = consumer.session_id
            self.channel = consumer.channel
            self.tag = consumer.tag
        self.detail = detail


@final
class Trace:
    """One trace: its queues and messages, and the latest events.

    pattern  pattern of queue names
    where    filter that traced messages match; None for all
    seen     number of events so far, including dropped ones
    """

    def __init__(self, name: str, pattern: str, where: Filter | None, events_max: i64) -> None:
        self.name = name
        self.pattern = pattern
        self.where = where
        self.events_max: i64 = events_max
        self.seen: i64 = 0
        self.events: deque[TraceEvent] = deque()

    def add(self, event: TraceEvent) -> None:
        """Append an event, and drop the oldest one if there are too many."""
        self.seen += 1
        self.events.append(event)
        if len(self.events) > self.events_max:
            self.events.popleft()


@final
class QueueTrace:
    """The trace of one queue."""

    def __init__(self, trace: Trace, queue: bytes, log: QueueLog, properties: PropertyReader) -> None:
        self.trace = trace
        self.queue = queue
        self.log = log
        self.properties = properties

    def note(
        self, type: str, group: bytes, consumer: Consumer | None, first: i64, count: i64, now_us: i64, detail: str
    ) -> None:
        """Record an event of these records, for as many of them as the trace keeps."""
        trace = self.trace
        skipped = count - trace.events_max
        if skipped > 0:
            trace.seen += skipped
            first += skipped
            count -= skipped
        for offset in range(first, first + count):
            try:
                block = self.log.block(offset)
            except DamagedBlock:
                continue
            if block is None or block.base > offset:
                continue
            subject = self.properties.subject(self.queue, block, offset - block.base, 0, 0)
            where = trace.where
            if where is not None and not where.matches(subject):
                continue
            named = subject.property("message_id")
            message_id = named if isinstance(named, str) else ""
            trace.add(TraceEvent(now_us, type, self.queue, group, offset, message_id, consumer, detail))
