"""A queue: a name, limits and groups over a source."""

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
SHARE: Final = 4  # of an MQTT shared subscription
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
    """One queue of any kind.

    id       number in the write-ahead log, never used again
    source   the log that it reads, of which it keeps what it needs; other queues may stand over the same one
    log      of the source
    is_view  the source is another queue's: nothing is published to this one
    intake   of a view with a filter on its input
    released every lower offset is settled in all of its groups, was purged, truncated, or is over a limit of the stream
    met_marks  marks of records that came into the source by another queue, and that this one has to look into
    limits   what is in force; this one object for the queue's life
    crash_end  records below it were in the queue when a broker crashed: they may have been delivered
    groups   by group id
    browsers by number, which is negative: they are no groups, and nothing of them is written down
    work_groups  how many of them take work; a classic queue has none until somebody consumes, and keeps everything then
    next_group   number of the next group: none has that of one before it
    last_values  None but for a last-value queue
    keyed    messages of one group are delivered one at a time: some message named its group
    paused   somebody who administers wants nothing to be delivered to the consumers of any group
    crowded  it holds more than its share, so that those who publish to it are slowed down
    has_early_acks  some group keeps acknowledgements of records to come
    dirty    in the vhost's list of queues that this turn has to look at
    by_address  nobody declared it: it was made by the first who used its address
    declared_by  name of the user that declared it; empty if no user did
    unused_since_us  0: somebody uses it, or the next tick is to note since when nobody does
    pins     of records that stay for readers of blocks
    retained  the records that stay in the log though they are settled; None: the queue retains none
    watches  readers that wait for more
    trace    somebody wants to know what happens to its messages
    sampled  its numbers when they were sampled last
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
        self.limits = Limits()  # whoever makes the queue puts in force what applies to it
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
        self.timed = False  # its vhost looks at it as time goes by
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
        """The group of that key: its name, or `name@filter` where it has a filter."""
        id = self.group_ids.get(key)
        return None if id is None else self.groups[id]

    def add_group(self, id: i64, name: bytes, filter: bytes, work: bool, start: i64, auto: bool) -> Group:
        """Make a group whose first record is `start`, or the first of the queue if that comes later."""
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
        """Take records below an offset for such as may have been delivered before a crash."""
        self.crash_end = end
        for group in self.groups.values():
            group.reader.crash_end = end

    def is_ordered(self) -> bool:
        """Return whether its work groups deliver otherwise than by age, whoever consumes."""
        limits = self.limits
        has_order = limits.priority_mode != 0 or limits.fair_key is not None
        return self.keyed or has_order or self.intake is not None or self.last_values is not None

    def make_keyed(self) -> None:
        """Deliver messages of one group one at a time from now on, in their order."""
        self.keyed = True
        for group in self.groups.values():
            if isinstance(group, WorkGroup):
                group.filters.keep_ordered(self.kind == QUORUM)

    def is_full(self, messages: i64 = 0, octets: i64 = 0) -> bool:
        """True if a publish has to be refused, by the limits of a queue that refuses.

        messages, octets  to come before it
        """
        limits = self.limits
        if limits.overflow == DROP_HEAD:
            return False
        if self.last_values is not None:
            return self.last_values.is_full(messages, octets, limits)
        if self.work_groups == 0:  # no turn has ended yet with something in it
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
        """True if it does not take a message with such a body; the rest as for `is_full`."""
        return self.is_too_long(body_octets) or self.is_full(messages, octets)

    def is_too_long(self, body_octets: i64) -> bool:
        """True if no message with such a body is taken, however few there are."""
        return 0 <= self.limits.max_body_octets < body_octets

    def refusal(self, body_octets: i64) -> str:
        """The reason for which the queue does not take a message with such a body."""
        if self.is_too_long(body_octets):
            return f"takes no message above {self.limits.max_body_octets} octets, and this one has {body_octets}"
        return "is full"

    def has(self, block: Block, index: i64) -> bool:
        """Return whether a record of the log is the queue's: a view with a filter takes only some."""
        return self.intake is None or self.intake.wants(block, index)

    def needs_group(self) -> bool:
        """True if its limits need a work group to look after them though nobody consumes."""
        limits = self.limits
        if self.kind in (STREAM, SHARE):
            return False
        has_ttl = limits.message_ttl_us >= 0 or len(limits.earlier_ttls) > 0
        has_own = self.intake is not None or self.last_values is not None
        return has_own or has_ttl or limits.max_messages >= 0 or limits.max_octets >= 0

    def counts_deliveries(self) -> bool:
        """Return whether the queue goes by how often its messages failed, so that redeliveries over AMQP say it."""
        limits = self.limits
        return self.kind == QUORUM or limits.delivery_limit >= 0 or limits.max_deliveries > 0 or limits.max_cancels > 0

    def set_trace(self, trace: QueueTrace | None) -> None:
        """Write down what happens to the queue's messages from now on; with None, no longer."""
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
        """Return the consumers that browse."""
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
        """Records that consumers of some group could get now; one that several groups could deliver counts once.

        Groups go through one log in one direction: the one that has most ready has all that others have, but for what
        came back to these from further ahead.
        """
        if self.kind == STREAM or self.work_groups == 0:
            return self.log.end - self.start() + self.log.writer.count
        most: i64 = 0
        for group in self.groups.values():
            if isinstance(group, WorkGroup):
                most = max(most, group.ready())
        return most + self.log.writer.count

    def wanted(self) -> i64:
        """The messages that are ready, held, or dead and still here: all that RabbitMQ counts as a queue's messages."""
        if self.kind == STREAM or self.work_groups == 0:
            return self.ready()
        most: i64 = 0
        for group in self.groups.values():
            if isinstance(group, WorkGroup):
                most = max(most, group.ready() + group.leases.count + group.dead_letters.count)
        return most + self.log.writer.count

    def own_ready(self) -> i64:
        """Records that a consumer without a group name could get now."""
        group = self.find_group(b"")
        if group is None or self.kind == STREAM:
            return self.log.end - self.start() + self.log.writer.count
        return group.ready() + self.log.writer.count

    def dispatch(self, now_us: i64, out: list[Delivery]) -> bool:
        """Deliver records to every group; whether a limit of the turn left some for the next."""
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
        """Deliver copies to browsers of what no group has taken in this turn; return as `dispatch`."""
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

    # ---- what it needs of its source

    def start(self) -> i64:
        """Return the first offset of the queue."""
        return max(self.log.start, self.released)

    def kept(self) -> i64:
        """Return the first offset that readers of blocks can have: of the queue, or of one of its retention pins."""
        if not self.is_view and not self.source.is_shared:
            return self.log.kept
        first = self.start() if self.retained is None else self.retained.needed_from()
        return max(self.log.kept, min(first, self.pins.floor()))

    def first_settled(self) -> i64:
        """Return the first offset that the queue has, settled or not, which its groups can be moved back to."""
        if self.is_view:
            return self.log.start
        return self.start() if self.retained is None else self.retained.needed_from()

    def release(self, below: i64) -> bool:
        """Give up the records below an offset, which no work group has to settle; return whether there were any."""
        before = self.start()
        self.released = max(self.released, min(below, self.log.end))
        if self.released <= before:
            return False
        if self.source.is_shared:
            for group in self.groups.values():
                if isinstance(group, StreamGroup):
                    group.pass_over(self.released)  # the log may keep what is below for others
        if self.last_values is not None:
            self.last_values.forget_settled(self.released)
        self.source.truncate()
        return True

    def find_last_values(self) -> None:
        """Find the latest record of each key, in recovery."""
        if self.last_values is not None:
            find_last_values(self.last_values, self.log, self.name, self.start(), self.properties)

    def released_note(self) -> bytes:
        """Return where the queue starts, for the write-ahead log."""
        out = BytesWriter()
        write_i64_le(out, self.released)
        return out.getvalue()

    def restore_released(self, note: bytes) -> None:
        """Apply what `released_note` gave, in recovery."""
        self.released = max(self.released, read_i64_le(note, 0))

    def needed_from(self) -> i64:
        """Return the offset below which everything is settled in every work group, or was given up."""
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
        """Return the octets of the log, which count for the first of the queues over it."""
        return self.log.octets if self.source.readers[0] is self else 0

    def needed(self, first: i64, end: i64) -> list[tuple[int, int]]:
        """Return the intervals within [first, end) that a consumer may still need."""
        first = max(first, self.start())
        if first >= end:
            return []
        groups = [group for group in self.groups.values() if isinstance(group, WorkGroup)]
        if self.kind == STREAM or len(groups) != 1:
            # What one of several groups has settled another may need; the floor of all is in `needed_from`.
            return [(first, end)]
        return groups[0].settlement.unsettled(first, end)

    def pinned_from(self) -> i64:
        return self.pins.floor()

    def keepers(self) -> list[Keeper]:
        """Return the retention pins and work groups; of a stream work groups keep nothing."""
        found: list[Keeper] = []
        if self.kind != STREAM:
            for group in self.groups.values():
                if isinstance(group, WorkGroup):
                    found.append(Keeper(self, group, None, group.settlement.advance()))
        for pin in self.pins.by_name.values():
            found.append(Keeper(self, None, pin, pin.offset))
        return found


def group_key(name: bytes, filter: bytes) -> bytes:
    """Same name and another filter is another group."""
    return name + b"@" + filter if filter else name


def kind_of(spec: QueueSpec) -> i64:
    """The kind of a queue that is declared so."""
    return QUORUM if spec.type == QUORUM_TYPE else STREAM if spec.type == STREAM_TYPE else CLASSIC
