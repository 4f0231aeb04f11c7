"""Deliveries of a group: consumers with credit, and leases as runs.

A lease is a run of consecutive offsets delivered to one consumer at one moment. One byte in the page of a group tells
whether a record is still leased. Records outside any page need no memory at all.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.log.block import Block
from forebay.queue.leases.page import Page
from forebay.queue.ready.selector import Selector

UNLIMITED: Final = 1 << 60  # credit of a consumer without a prefetch limit
LEASE_US: Final = 30_000_000  # default time that a consumer may hold a record, µs

# How records come back from a consumer.
UNTRIED: Final = 0  # not tried: they never reached the consumer, or were taken away from it by another client
FAILED: Final = 1  # held too long, or the consumer was lost, or it reported a failure
NACKED: Final = 2  # given back by the consumer: the queue's limits tell whether that counts as a failure


class Consumer:
    """A consumer of one group, in the session `session_id`. It can take `credit` more messages.

    Its session chooses how it gets credit: by a window, where each record that the consumer no longer holds makes room
    for another, or by `flow` alone.

    refills      the consumer has a window
    backlog_max  number of records that it may hold, whatever its window and its credit allow
    withheld     credit that it gets once it holds fewer records: see `backlog_max`
    settles_at_send  a record is settled when it is sent. Unless `no_ack` is set, an acknowledgement earns more credit
    tells_lease  its deliveries carry the end of their lease
    drains   credit that is left when there is nothing more to deliver is lost
    """

    def __init__(
        self, id: i64, queue: i64, group: i64, session_id: i64, channel: i64, tag: bytes, no_ack: bool, credit: i64
    ) -> None:
        self.id = id
        self.queue = queue  # id of the queue; negative for a topic subscription
        self.log_number = queue  # number of the log that the queue reads
        self.group = group  # id of the group within the queue
        self.session_id = session_id
        self.channel = channel
        self.tag = tag
        self.no_ack = no_ack
        self.credit: i64 = credit
        self.refills = credit < UNLIMITED
        self.backlog_max: i64 = UNLIMITED
        self.withheld: i64 = 0
        self.settles_at_send = no_ack
        self.tells_lease = False
        self.drains = False
        self.paused = False  # its connection accepts no more bytes for now
        self.exclusive = False
        self.priority: i64 = 0  # consumers with a higher priority are served first
        self.served_at: i64 = 0  # the number of its last delivery, in a group whose consumers have filters
        self.prefetch: i64 = 0  # requested prefetch limit; 0 for no limit
        self.timeout_us: i64 = LEASE_US  # time that it may hold a record
        self.cancels = False  # it is cancelled when it has held a record longer than that
        self.timed_out = False  # it was cancelled for that reason
        self.lost = ""  # reason why deliveries ended, unless its queue was deleted
        self.held: i64 = 0  # number of records that it holds
        self.qos: i64 = 1  # QoS of a topic subscription
        self.queue_name = b""
        self.group_name = b""
        self.selector: Selector | None = None  # set for a work group's consumer with a filter
        self.filter = ""  # filter on messages; empty for every message
        self.headers = ""  # origin headers of deliveries over AMQP; empty for the broker's option
        self.counts = False  # redeliveries over AMQP carry their count, even if the queue goes by no count
        self.arguments: dict[str, object] | None = None  # as declared, for people; None if there were none

    def can_take(self) -> bool:
        """Return whether the consumer has room for a record now, and its filter may find one."""
        if self.credit <= 0 or self.paused:
            return False
        selector = self.selector
        return selector is None or not selector.is_dry

    def set_window(self, size: i64) -> None:
        """Set the window: the number of records that the consumer may hold; UNLIMITED for any number."""
        size = min(size, self.backlog_max)
        self.credit = size - self.held
        self.withheld = 0
        self.refills = size < UNLIMITED
        self.drains = False

    def flow(self, credit: i64, drains: bool) -> None:
        """Grant credit for `credit` more records. Settling a record does not grant more."""
        room = max(self.backlog_max - self.held, 0)
        self.credit = min(credit, room)
        self.withheld = credit - self.credit
        self.refills = False
        self.drains = drains

    def lend(self, count: i64) -> None:
        """Record the delivery of `count` records that the consumer has to settle."""
        self.credit -= count
        self.held += count

    def send(self, count: i64) -> None:
        """Record the delivery of `count` records that the consumer does not hold."""
        if not self.refills:
            self.credit -= count

    def release(self, count: i64) -> None:
        """Record that the consumer no longer holds `count` records, and grant it the credit that this frees."""
        self.held -= count
        if self.refills:
            self.credit += count
        elif self.withheld:
            granted = min(self.withheld, max(self.backlog_max - self.held - self.credit, 0))
            self.withheld -= granted
            self.credit += granted


@final
class Lease:
    """A consumer's lease on a run of `count` consecutive offsets from `first` on.

    left        number of its records that are neither settled nor returned
    holes       offsets that left the lease one by one, and may be leased to another consumer by now
    tag         the session's own delivery tag or packet identifier of the first record
    deliveries  how often these records have been delivered, this time included
    failures    how often they came back after a failure
    """

    def __init__(self, consumer: Consumer, page: Page | None, first: i64, count: i64, deadline_us: i64) -> None:
        self.consumer = consumer
        self.page = page
        self.first: i64 = first
        self.count: i64 = count
        self.left: i64 = count
        self.deadline_us: i64 = deadline_us
        self.deliveries: i64 = 1
        self.failures: i64 = 0
        self.tag: i64 = 0
        self.holes: set[int] | None = None


@final
class Encoded:
    """The records of one delivery as bytes of a protocol.

    starts       position of each record's bytes, and the end of the last record
    marks        position at which to fill in each record's packet identifier; -1 where it has none
    count        number of records, including records that cannot be sent, which have no bytes
    body_octets  bytes of the bodies
    """

    def __init__(self, octets: bytes, starts: list[int], marks: list[int], count: i64, body_octets: i64) -> None:
        self.octets = octets
        self.starts = starts
        self.marks = marks
        self.count: i64 = count
        self.body_octets: i64 = body_octets


@final
class Encodings:
    """The encodings that deliveries of the same records share, one for all consumers that get the same bytes."""

    def __init__(self) -> None:
        self.made: dict[int, Encoded] = {}  # by the session's own key


@final
class Delivery:
    """The delivery of the records block[index .. index + count) to one consumer.

    lease        the lease; None if the records need no settlement
    deliveries   how often the records have been delivered, as far as is known, this time included
    redelivered  the records have been delivered before, or may have been: see `LogReader.crash_end`
    """

    def __init__(self, consumer: Consumer, block: Block, index: i64, count: i64, lease: Lease | None) -> None:
        self.consumer = consumer
        self.block = block
        self.index: i64 = index
        self.count: i64 = count
        self.lease = lease
        self.deliveries: i64 = 1
        self.failures: i64 = 0
        self.redelivered = False
        self.encodings: Encodings | None = None
