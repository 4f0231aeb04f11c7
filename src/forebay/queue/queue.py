"""A queue: a name, limits and consumer groups over a source log."""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from forebay.core.errors import DamagedBlock
from forebay.core.option_names import QUORUM_TYPE, STREAM_TYPE
from forebay.log.block import Block
from forebay.queue.counts import Counts, SampledNumbers
from forebay.queue.declaration.limits import DROP_HEAD, Limits, last_value_expression
from forebay.queue.declaration.spec import QueueSpec
from forebay.queue.group import Group
from forebay.queue.last_value.last_values import LastValues
from forebay.queue.last_value.replacing import find_last_values, settle_replaced
from forebay.queue.leases.lease import Consumer, Delivery
from forebay.queue.properties import NoProperties, PropertyReader
from forebay.queue.source.intake import Intake
from forebay.queue.source.pins import RetentionPins
from forebay.queue.source.reader import Keeper, SourceReader
from forebay.queue.source.retained import RetainedRecords
from forebay.queue.source.source import LogSource
from forebay.queue.stream.browse_group import BrowseGroup
from forebay.queue.stream.stream_group import StreamGroup
from forebay.queue.trace import QueueTrace
from forebay.queue.turn import SCAN_RECORDS
from forebay.queue.watch import Watch
from forebay.queue.work.work_group import WorkGroup

CLASSIC: Final = 1
STREAM: Final = 2
EPHEMERAL: Final = 3
SHARE: Final = 4  # the queue of an MQTT shared subscription
QUORUM: Final = 5  # RabbitMQ's quorum semantics, on this one node
KIND_NAMES: Final = {
    CLASSIC: "classic",
    STREAM: "stream",
    EPHEMERAL: "ephemeral",
    SHARE: "mqtt share",
    QUORUM: "quorum",
}


@final
class Queue(SourceReader):
    """A queue of any kind.

    id           number in the write-ahead log, never reused
    source       the log that the queue reads, of which it keeps what it needs; other queues may read the same source
    log          the log of the source
    is_view      the source belongs to another queue, and nothing is published to this one
    intake       the input filter of a view
    released     every lower offset is settled in all groups, was purged or truncated, or is over a limit of the stream
    met_marks    marks of records that came into the source by another queue, and that this one has to look into
    limits       the limits in force; the same object for the queue's life
    crash_end    records below it were in the queue when a broker crashed, and may have been delivered
    groups       groups by id
    browsers     browsers by number, which is negative: they are no groups, and none of their state is logged
    work_groups  number of work groups; a classic queue has none until the first consumer comes, and then keeps
                 everything
    next_group   number of the next group, which no earlier group has had
    last_values  None except for a last-value queue
    keyed        messages of one message group are delivered one at a time, because some message named its group
    paused       an administrator has paused deliveries to the consumers of all groups
    crowded      the queue holds more than its share, and its publishers are slowed down
    has_early_acks  some group keeps acknowledgements of records that are not published yet
    dirty        the queue is in the vhost's list of queues to visit in this turn
    by_address   nobody declared the queue: the first use of its address created it
    declared_by  name of the user that declared the queue; empty if no user did
    unused_since_us  time since which the queue is unused; 0 while it is used, or until the next tick records the time
    pins         retention pins of records that stay for readers of blocks
    retained     settled records that stay in the log; None if the queue retains none
    watches      readers that wait for more
    trace        the trace of its messages; None if it is not traced
    sampled      numbers of the queue when it was last sampled
    """

    def __init__(
        self,
        id: i64,
        name: bytes,
        kind: i64,
        spec: QueueSpec,
        source: LogSource,
        properties: PropertyReader | None = None,
    ) -> None:
        self.id = id
        self.name = name
        self.kind = kind
        self.spec = spec
        self.limits = Limits()  # the creator of the queue applies the limits in force
        self.source = source
        self.log = source.log
        self.is_view = i64(source.number) != id
        self.intake: Intake | None = None
        self.released: i64 = 0
        self.met_marks: i64 = 0
        self.counts = Counts()
        self.properties: PropertyReader = NoProperties() if properties is None else properties
        expression = last_value_expression(spec) if spec.arguments else None
        self.last_values: LastValues | None = None if expression is None else LastValues(expression, self.counts)
        self.crash_end: i64 = 0
        self.keyed = False
        self.groups: dict[int, Group] = {}
        self.group_ids: dict[bytes, int] = {}
        self.browsers: dict[int, BrowseGroup] = {}
        self.work_groups: i64 = 0
        self.next_group: i64 = 1
        self.crowded = False
        self.has_early_acks = False
        self.paused = False
        self.dirty = False
        self.timed = False  # its vhost visits it on timer ticks
        self.owner: i64 = 0  # session of an exclusive queue
        self.had_consumer = False
        self.by_address = False
        self.declared_by = ""
        self.unused_since_us: i64 = 0
        self.pins = RetentionPins()
        self.retained: RetainedRecords | None = None
        self.watches: list[Watch] = []
        self.trace: QueueTrace | None = None
        self.sampled = SampledNumbers()
        source.add_reader(self)

    def follow_retention(self) -> None:
        """Retain settled records from now on if the limits in force ask for it, and none if they no longer do."""
        retained = self.retained
        if self.limits.retains and retained is None:
            self.retained = RetainedRecords(self.log)
            self.source.add_reader(self.retained)
        elif retained is not None and not self.limits.retains:
            self.retained = None
            self.source.remove_reader(retained)

    def find_group(self, key: bytes) -> Group | None:
        """Return the group with this key: its name, or `name@filter` if it has a filter."""
        id = self.group_ids.get(key)
        return None if id is None else self.groups[id]

    def add_group(self, id: i64, name: bytes, filter: bytes, work: bool, start: i64, auto: bool) -> Group:
        """Create a group whose first record is `start`, or the first of the queue if that comes later."""
        start = max(start, self.released)
        group: Group
        if work:
            work_group = WorkGroup(id, name, filter, self.log, start, self.limits, self.properties)
            work_group.ready_queue.expiry.perishable = self.kind != SHARE
            if self.intake is not None:
                work_group.key_filter.take_from(self.intake)
                work_group.settlement.intake = self.intake
            if self.last_values is not None:
                work_group.ready_queue.last_values = self.last_values
                self.last_values.settlements.append(work_group.settlement)
            if self.is_ordered():
                work_group.ready_queue.make_ordered(self.kind == QUORUM)
            self.work_groups += 1
            group = work_group
        else:
            group = StreamGroup(id, name, filter, self.log, start, auto, self.limits, self.properties)
            if self.intake is not None:
                group.key_filter.take_from(self.intake)
        group.counts = self.counts
        group.reader.crash_end = self.crash_end
        group.trace = self.trace
        self.groups[id] = group
        self.group_ids[group_key(name, filter)] = id
        if id >= self.next_group:
            self.next_group = id + 1
        return group

    def mark_crash(self, end: i64) -> None:
        """Record that records below `end` may have been delivered before a crash."""
        self.crash_end = end
        for group in self.groups.values():
            group.reader.crash_end = end

    def is_ordered(self) -> bool:
        """Return whether the queue's work groups do not deliver by age, whatever consumers there are."""
        limits = self.limits
        has_order = limits.priority_mode != 0 or limits.fair_key is not None
        return self.keyed or has_order or self.intake is not None or self.last_values is not None

    def make_keyed(self) -> None:
        """Deliver the messages of each message group one at a time from now on, in their order."""
        self.keyed = True
        for group in self.groups.values():
            if isinstance(group, WorkGroup):
                group.filters.keep_ordered(self.kind == QUORUM)

    def is_full(self, messages: i64 = 0, octets: i64 = 0) -> bool:
        """Return whether a limit of the queue refuses a publish.

        messages, octets  count and bytes of messages to be published before this one
        """
        limits = self.limits
        if limits.overflow == DROP_HEAD:
            return False
        if self.last_values is not None:
            return self.last_values.is_full(messages, octets, limits)
        if self.work_groups == 0:  # without a work group, only this turn's records count
            octets += self.log.writer.bodies.size()
            return 0 <= limits.max_messages <= self.ready() + messages or 0 <= limits.max_octets <= octets
        for group in self.groups.values():
            if isinstance(group, WorkGroup):
                kept = group.ready() + group.dead_letters.count + self.log.writer.count
                if 0 <= limits.max_messages <= kept + messages:
                    return True
                if limits.max_octets >= 0:
                    group.ready_queue.measure()
                    if group.ready_queue.octets.count + self.log.writer.bodies.size() + octets >= limits.max_octets:
                        return True
        return False

    def refuses(self, body_octets: i64, messages: i64 = 0, octets: i64 = 0) -> bool:
        """Return whether the queue refuses a message with a body of this length.

        The other arguments are as for `is_full`.
        """
        return self.is_too_long(body_octets) or self.is_full(messages, octets)

    def is_too_long(self, body_octets: i64) -> bool:
        """Return whether a body of this length is over the limit, however few messages there are."""
        return 0 <= self.limits.max_body_octets < body_octets

    def refusal(self, body_octets: i64) -> str:
        """Return the reason why the queue refuses a message with a body of this length."""
        if self.is_too_long(body_octets):
            return f"takes no message above {self.limits.max_body_octets} octets, and this one has {body_octets}"
        return "is full"

    def has(self, block: Block, index: i64) -> bool:
        """Return whether the queue has a record of its log. A view with a filter takes only some of them."""
        return self.intake is None or self.intake.wants(block, index)

    def needs_group(self) -> bool:
        """Return whether the queue's limits need a work group to enforce them, even without a consumer."""
        limits = self.limits
        if self.kind in (STREAM, SHARE):
            return False
        has_ttl = limits.message_ttl_us >= 0 or len(limits.earlier_ttls) > 0
        has_own = self.intake is not None or self.last_values is not None
        return has_own or has_ttl or limits.max_messages >= 0 or limits.max_octets >= 0

    def counts_deliveries(self) -> bool:
        """Return whether the queue acts on failed deliveries, so that redeliveries over AMQP carry their count."""
        limits = self.limits
        return self.kind == QUORUM or limits.delivery_limit >= 0 or limits.max_deliveries > 0 or limits.max_cancels > 0

    def set_trace(self, trace: QueueTrace | None) -> None:
        """Trace the queue's messages from now on, or stop tracing them if `trace` is None."""
        self.trace = trace
        for group in self.groups.values():
            group.trace = trace

    def group_of(self, consumer: Consumer) -> Group | None:
        """Return the group, or the browser, that a consumer belongs to."""
        group = self.groups.get(consumer.group)
        return group if group is not None else self.browsers.get(consumer.group)

    def drop_group(self, group: Group) -> None:
        if isinstance(group, WorkGroup):
            self.work_groups -= 1
            if self.last_values is not None:
                self.last_values.settlements.remove(group.settlement)
                self.last_values.forget_settled(self.start())
        del self.groups[group.id]
        del self.group_ids[group_key(group.name, group.filter)]

    def consumers(self) -> list[Consumer]:
        found: list[Consumer] = []
        for group in self.groups.values():
            found += group.consumers
        return found

    def browsing(self) -> list[Consumer]:
        """Return the consumers of all browsers."""
        found: list[Consumer] = []
        for browser in self.browsers.values():
            found += browser.consumers
        return found

    def consumer_count(self) -> i64:
        count: i64 = 0
        for group in self.groups.values():
            count += len(group.consumers)
        return count

    def ready(self) -> i64:
        """Return the number of records that some group can deliver now. Count a record of several groups once.

        All groups go through one log in one direction. The group with the most ready records has all that the others
        have, except for records that returned to these from further ahead.
        """
        if self.kind == STREAM or self.work_groups == 0:
            return self.log.end - self.start() + self.log.writer.count
        most: i64 = 0
        for group in self.groups.values():
            if isinstance(group, WorkGroup):
                most = max(most, group.ready())
        return most + self.log.writer.count

    def wanted(self) -> i64:
        """Return the number of messages that are ready, held, or dead and still here, as RabbitMQ counts them."""
        if self.kind == STREAM or self.work_groups == 0:
            return self.ready()
        most: i64 = 0
        for group in self.groups.values():
            if isinstance(group, WorkGroup):
                most = max(most, group.ready() + group.leases.count + group.dead_letters.count)
        return most + self.log.writer.count

    def own_ready(self) -> i64:
        """Return the number of records that a consumer without a group name can get now."""
        group = self.find_group(b"")
        if group is None or self.kind == STREAM:
            return self.log.end - self.start() + self.log.writer.count
        return group.ready() + self.log.writer.count

    def dispatch(self, now_us: i64, out: list[Delivery]) -> bool:
        """Deliver records to every group. Return whether a limit of the turn left some for the next."""
        more = self.last_values is not None and settle_replaced(self.last_values, list(self.groups.values()))
        most = self.properties.looks.octets
        for group in self.groups.values():
            if group.reader.damage is not None:
                if isinstance(group, WorkGroup):
                    group.expire(now_us)
                continue
            try:
                if group.consumers and not group.paused and not self.paused:
                    group.turn.most_octets = most
                    if group.dispatch(now_us, out):
                        more = True
                    elif group.draining:
                        group.end_drain()
                else:
                    if group.draining:
                        group.end_drain()
                    if isinstance(group, WorkGroup):
                        group.turn.looks = SCAN_RECORDS
                        group.expire(now_us)
                if isinstance(group, WorkGroup) and group.look_after(now_us):
                    more = True
            except DamagedBlock as error:
                group.reader.halt(error)
        return (len(self.browsers) > 0 and self.dispatch_copies(now_us, out)) or more

    def dispatch_copies(self, now_us: i64, out: list[Delivery]) -> bool:
        """Deliver to browsers copies of the records that no group has taken in this turn. Return as `dispatch`."""
        more = False
        for browser in self.browsers.values():
            browser.turn.most_octets = self.properties.looks.octets
            group = self.find_group(group_key(browser.name, browser.filter))
            browser.shown = group if isinstance(group, WorkGroup) else None
            try:
                if browser.reader.damage is None and browser.dispatch(now_us, out):
                    more = True
                elif browser.draining:
                    browser.end_drain()
            except DamagedBlock as error:
                browser.reader.halt(error)
        return more

    # ---- retention in the source

    def start(self) -> i64:
        """Return the first offset of the queue."""
        return max(self.log.start, self.released)

    def kept(self) -> i64:
        """Return the first offset that readers of blocks can have, of the queue or of one of its retention pins."""
        if not self.is_view and not self.source.is_shared:
            return self.log.kept
        first = self.start() if self.retained is None else self.retained.needed_from()
        return max(self.log.kept, min(first, self.pins.floor()))

    def first_settled(self) -> i64:
        """Return the first offset of the queue, settled or not, to which its groups can be moved back."""
        if self.is_view:
            return self.log.start
        return self.start() if self.retained is None else self.retained.needed_from()

    def release(self, below: i64) -> bool:
        """Release the records below an offset, which no work group has to settle. Return whether there were any."""
        before = self.start()
        self.released = max(self.released, min(below, self.log.end))
        if self.released <= before:
            return False
        if self.source.is_shared:
            for group in self.groups.values():
                if isinstance(group, StreamGroup):
                    group.pass_over(self.released)  # the log may keep lower records for other queues
        if self.last_values is not None:
            self.last_values.forget_settled(self.released)
        self.source.truncate()
        return True

    def find_last_values(self) -> None:
        """Find the latest record of each key of a last-value queue, in recovery."""
        if self.last_values is not None:
            find_last_values(self.last_values, self.log, self.name, self.start(), self.properties)

    def released_note(self) -> bytes:
        """Return the queue's start as a note for the write-ahead log."""
        out = BytesWriter()
        write_i64_le(out, self.released)
        return out.getvalue()

    def restore_released(self, note: bytes) -> None:
        """Apply a note of `released_note` in recovery."""
        self.released = max(self.released, read_i64_le(note, 0))

    def needed_from(self) -> i64:
        """Return the offset below which every work group has settled, or the queue has released, every record."""
        floor = self.start()
        first = True
        if self.kind != STREAM:
            for group in self.groups.values():
                if isinstance(group, WorkGroup):
                    committed = group.settlement.advance()
                    if first or committed < floor:
                        floor = committed
                    first = False
            self.released = max(self.released, floor)
        return floor

    def stored_octets(self) -> i64:
        """Return the bytes of the log, which count for the first of the queues over it only."""
        return self.log.octets if self.source.readers[0] is self else 0

    def needed(self, first: i64, end: i64) -> list[tuple[int, int]]:
        """Return the intervals within [first, end) that a consumer may still need."""
        first = max(first, self.start())
        if first >= end:
            return []
        groups = [group for group in self.groups.values() if isinstance(group, WorkGroup)]
        if self.kind == STREAM or len(groups) != 1:
            # A record settled by one group may be needed by another. `needed_from` gives the floor of all groups.
            return [(first, end)]
        return groups[0].settlement.unsettled(first, end)

    def pinned_from(self) -> i64:
        return self.pins.floor()

    def keepers(self) -> list[Keeper]:
        """Return the retention pins and work groups that hold records in the log.

        The work groups of a stream hold none.
        """
        found: list[Keeper] = []
        if self.kind != STREAM:
            for group in self.groups.values():
                if isinstance(group, WorkGroup):
                    found.append(Keeper(self, group, None, group.settlement.advance()))
        for pin in self.pins.by_name.values():
            found.append(Keeper(self, None, pin, pin.offset))
        return found


def group_key(name: bytes, filter: bytes) -> bytes:
    """Return the key of a group. Groups of one name with different filters are different groups."""
    return name + b"@" + filter if filter else name


def kind_of(spec: QueueSpec) -> i64:
    """Return the kind of a queue with this declaration."""
    return QUORUM if spec.type == QUORUM_TYPE else STREAM if spec.type == STREAM_TYPE else CLASSIC
