"""Deliveries of a group: consumers with credit, and leases as runs.

A lease is a run of consecutive offsets given to one consumer at one moment. Whether one record of it is still leased
is one octet in the page of its group; records outside any page need no memory at all.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.log.block import Block
from forebay.queue.leases.page import Page
from forebay.queue.ready.selector import Selector

UNLIMITED: Final = 1 << 60  # credit of a consumer without a prefetch limit
LEASE_US: Final = 30_000_000  # how long a consumer may hold a record where nobody says otherwise

# How records come back from who held them.
UNTRIED: Final = 0  # nobody has tried them: they never reached the consumer, or somebody else took them away
FAILED: Final = 1  # they took too long, their consumer is lost, or it says that they failed
NACKED: Final = 2  # the consumer gives them back: the queue says whether that is a failure


class Consumer:
    """Somebody who takes records: `credit` more at once, to session `session_id`.

    How credit comes is its session's choice: by a window, in which every record that the consumer holds no more makes
    room for another, or by `flow` alone.

    refills      it has a window
    backlog_max  records that it may hold, whatever its window and its credit allow
    withheld     credit that it gets once it holds fewer: see `backlog_max`
    settles_at_send  what is delivered to it is settled by that; unless it has `no_ack`, it acknowledges for more
    tells_lease  its deliveries say when their lease ends
    drains   credit that is left when there is nothing more to deliver is lost
    """

    def __init__(
        self, id: i64, queue: i64, group: i64, session_id: i64, channel: i64, tag: bytes, no_ack: bool, credit: i64
    ) -> None:
        self.id = id
        self.queue = queue  # id of the queue; negative for a topic subscription
        self.log_number = queue  # of the log that the queue reads
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
        self.paused = False  # its connection takes no more octets for now
        self.exclusive = False
        self.priority: i64 = 0  # whoever has a higher one is served first
        self.served_at: i64 = 0  # the number of its last delivery, in a group whose consumers have filters
        self.prefetch: i64 = 0  # how many it asked for at once; 0 for no limit
        self.timeout_us: i64 = LEASE_US  # how long it may hold a record
        self.cancels = False  # it is cancelled when it has held one longer
        self.timed_out = False  # it was
        self.lost = ""  # why it gets nothing any more, where that is not that its queue was deleted
        self.held: i64 = 0  # records that it holds
        self.qos: i64 = 1  # of a topic subscription
        self.queue_name = b""
        self.group_name = b""
        self.selector: Selector | None = None  # of a work group's consumer with a filter
        self.filter = ""  # it wants only what this says; empty: everything
        self.headers = ""  # what deliveries over AMQP say of their origin; empty: as the broker's option says
        self.counts = False  # redeliveries over AMQP say how often, whatever the queue counts
        self.arguments: dict[str, object] | None = None  # as they were given, for people; None where there were none

    def can_take(self) -> bool:
        """True if it would take a record now, if there is one that it wants."""
        if self.credit <= 0 or self.paused:
            return False
        selector = self.selector
        return selector is None or not selector.is_dry

    def set_window(self, size: i64) -> None:
        """Let it hold so many records from now on; UNLIMITED for any number."""
        size = min(size, self.backlog_max)
        self.credit = size - self.held
        self.withheld = 0
        self.refills = size < UNLIMITED
        self.drains = False

    def flow(self, credit: i64, drains: bool) -> None:
        """Let it have so many more from now on; what it settles gives it none."""
        room = max(self.backlog_max - self.held, 0)
        self.credit = min(credit, room)
        self.withheld = credit - self.credit
        self.refills = False
        self.drains = drains

    def lend(self, count: i64) -> None:
        """Note that so many records are delivered to it, to be settled."""
        self.credit -= count
        self.held += count

    def send(self, count: i64) -> None:
        """Note that so many records are delivered to it, which it does not hold."""
        if not self.refills:
            self.credit -= count

    def release(self, count: i64) -> None:
        """Note that it holds so many records no more."""
        self.held -= count
        if self.refills:
            self.credit += count
        elif self.withheld:
            granted = min(self.withheld, max(self.backlog_max - self.held - self.credit, 0))
            self.withheld -= granted
            self.credit += granted


@final
class Lease:
    """`count` records from offset `first` on, leased to one consumer.

    left        records of it that are neither settled nor returned
    holes       offsets that left the lease one by one and may be leased to somebody else by now
    tag         the session's own: delivery tag or packet identifier of the first record
    deliveries  how often these records have been delivered, this time included
    failures    how often they came back because something had gone wrong
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
    """The records of one delivery in a protocol's octets.

    starts       where each record's octets begin, and the end of the last
    marks        where each record's packet identifier is to be filled in; -1 where it has none
    count        records in it; those that cannot be sent have no octets
    body_octets  of their bodies
    """

    def __init__(self, octets: bytes, starts: list[int], marks: list[int], count: i64, body_octets: i64) -> None:
        self.octets = octets
        self.starts = starts
        self.marks = marks
        self.count: i64 = count
        self.body_octets: i64 = body_octets


@final
class Encodings:
    """The encoding that deliveries of the same records to many share: made once for all to whom they look alike."""

    def __init__(self) -> None:
        self.made: dict[int, Encoded] = {}  # by the session's own key


@final
class Delivery:
    """Records block[index .. index + count) for one consumer.

    lease        None where nothing is to be settled
    deliveries   how often they have been delivered, as far as is known, this time included
    redelivered  they have been delivered before, or may have been: see `LogReader.crash_end`
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
