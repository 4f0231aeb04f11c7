"""Messages that are out at a client and not settled yet, remembered as runs of consecutive tags.

A tag is the number of a delivery within one channel or session; it grows by one with each and never wraps. A client
that settles in order costs a counter; the tags that it settles out of order are the holes of their run.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.consuming.settling_contract import SettlingContract
from forebay.queue.counts import Counts
from forebay.queue.leases.lease import FAILED, NACKED, UNTRIED, Lease

SETTLED_RUNS_MAX: Final = 64  # settled runs behind an unsettled one before they are taken out

# How a delivery is settled.
ACCEPT: Final = 0
RETURN: Final = 1  # to the queue, which says whether that is a failure
RETURN_FAILED: Final = 2  # to the queue, as something went wrong with it
RETURN_UNTRIED: Final = 3  # to the queue, as the client never had it
REJECT: Final = 4  # to the dead letters
BY_DEFAULT: Final = 5  # as the holder has it where the client does not say
REFUSE_UNTRIED: Final = 6  # as RETURN_UNTRIED, and never to this consumer again: see `DeliveryHolder.undeliverable_how`
REFUSE_FAILED: Final = 7  # as RETURN_FAILED, and the same
SETTLED: Final = 8  # its queue has settled it already, or has taken it back


class DeliveryHolder:
    """The consumer's side of deliveries that are not settled.

    unsettled    messages that are out at the client
    default_how  how these are settled where the client does not say
    """

    def __init__(self) -> None:
        self.unsettled: i64 = 0
        self.default_how: i64 = RETURN_UNTRIED

    def undeliverable_how(self, how: i64) -> i64:
        """Return how messages are settled that this holder cannot take: REJECT, or `how` the client asks for."""
        return how


@final
class UnsettledRun:
    """Records of one lease, delivered under consecutive tags.

    tag, end  tag of the first delivery, and the one behind the last
    first     offset of the first record
    next      lowest tag that is not settled
    applied   tags below it are settled in the queue as well; those from it to `next` wait for `apply_acknowledged`
    left      number of tags that are not settled
    holes     tags above `next` that are settled
    """

    def __init__(self, holder: DeliveryHolder, lease: Lease, tag: i64, first: i64, count: i64) -> None:
        self.holder = holder
        self.lease = lease
        self.tag: i64 = tag
        self.first: i64 = first
        self.end: i64 = tag + count
        self.next: i64 = tag
        self.applied: i64 = tag
        self.left: i64 = count
        self.holes: set[int] | None = None

    def is_settled(self, tag: i64) -> bool:
        """Return whether a tag of this run is settled."""
        holes = self.holes
        return tag < self.next or (holes is not None and tag in holes)


@final
class UnsettledDeliveries:
    """The unsettled deliveries of one channel or session, in the order of their tags.

    counts     of the deliveries and acknowledgements
    head       index of the first run with unsettled deliveries
    unsettled  number of all that are, but of those that the broker has taken back
    absent     holds what the broker has taken back and the client may still settle, without an effect
    """

    def __init__(self, settling: SettlingContract, counts: Counts) -> None:
        self.settling = settling
        self.counts = counts
        self.runs: list[UnsettledRun] = []
        self.head: i64 = 0
        self.unsettled: i64 = 0
        self.settled_runs: i64 = 0
        self.absent = DeliveryHolder()

    def add(self, holder: DeliveryHolder, lease: Lease, tag: i64, first: i64, count: i64) -> None:
        """Remember deliveries of the records from offset `first` on, whose first tag is higher than all before."""
        if lease.tag == 0:
            lease.tag = tag
        self.runs.append(UnsettledRun(holder, lease, tag, first, count))
        holder.unsettled += count
        self.unsettled += count

    def acknowledge_next(self, tag: i64) -> bool:
        """Accept the lowest unsettled delivery, if that is the one with this tag and not the last of its run.

        The queue hears of it with `apply_acknowledged`, so that acknowledgements in order reach it as one interval.
        """
        if self.head >= len(self.runs):
            return False
        run = self.runs[self.head]
        if tag != run.next or run.holes is not None or run.left == 1 or run.holder is self.absent:
            return False
        run.next = tag + 1
        run.left -= 1
        run.holder.unsettled -= 1
        self.unsettled -= 1
        return True

    def apply_acknowledged(self) -> None:
        """Tell the queue what `acknowledge_next` has accepted."""
        if self.head < len(self.runs):
            self.apply_accepted(self.runs[self.head])

    def apply_accepted(self, run: UnsettledRun) -> None:
        """Accept in the queue what is accepted of a run and not applied yet."""
        if run.applied < run.next:
            self.counts.acked += run.next - run.applied
            self.settling.ack(run.lease, run.first + run.applied - run.tag, run.next - run.applied)
            run.applied = run.next

    def holds(self, tag: i64) -> bool:
        """Return whether the delivery with a tag is unsettled."""
        at = self.find(tag)
        return at < len(self.runs) and not self.runs[at].is_settled(tag)

    def settle(self, first: i64, last: i64, how: i64, delay_ms: i64 = 0) -> i64:
        """Settle all unsettled deliveries with tags from `first` to `last`; return how many these were.

        Walks the runs, not the tags: a range may be as wide as it likes.
        """
        at = self.find(first)
        count: i64 = 0
        while at < len(self.runs):
            run = self.runs[at]
            if run.tag > last:
                break
            start, stop = max(first, run.next), min(last + 1, run.end)
            if run.left and start < stop:
                count += self.settle_in(run, start, stop, how, delay_ms)
            at += 1
        if count:
            self.forget_settled()
        return count

    def modify(self, first: i64, last: i64, annotations: bytes) -> None:
        """Give the messages of unsettled deliveries between two tags message annotations, see `Settling.modify`."""
        at = self.find(first)
        while at < len(self.runs) and self.runs[at].tag <= last:
            run = self.runs[at]
            at += 1
            if run.left:
                start, stop = max(first, run.next), min(last + 1, run.end)
                if start < stop:
                    self.settling.modify(run.lease, run.first + start - run.tag, stop - start, annotations)

    def extend(self, first: i64, last: i64, most: i64) -> i64:
        """Let the consumers hold messages as long as if these were delivered now; return how many were looked at.

        most  of the unsettled deliveries between two tags, the first ones
        """
        at = self.find(first)
        count: i64 = 0
        while count < most and at < len(self.runs) and self.runs[at].tag <= last:
            run = self.runs[at]
            at += 1
            start = max(first, run.next)
            stop = min(last + 1, run.end, start + most - count)
            if run.left and start < stop:
                self.settling.extend(run.lease, run.first + start - run.tag, stop - start, 0)
                count += stop - start
        return count

    def unsettled_ranges(self, first: i64, last: i64) -> list[tuple[int, int]]:
        """Return the first and last tags of consecutive unsettled deliveries between two tags."""
        found: list[tuple[int, int]] = []
        at = self.find(first)
        while at < len(self.runs) and self.runs[at].tag <= last:
            run = self.runs[at]
            at += 1
            start, stop = max(first, run.next), min(last + 1, run.end)
            while run.left and start < stop:
                end = start
                while end < stop and (run.holes is None or end not in run.holes):
                    end = stop if run.holes is None else end + 1
                if end > start:
                    if found and found[len(found) - 1][1] == start - 1:
                        found[len(found) - 1] = (found[len(found) - 1][0], int(end - 1))
                    else:
                        found.append((int(start), int(end - 1)))
                start = end + 1
        return found

    def find(self, tag: i64) -> i64:
        """Return the index of the first unsettled run that ends behind a tag; the number of runs if none does."""
        low = self.head
        high = i64(len(self.runs))
        while low < high:
            middle = (low + high) >> 1
            if self.runs[middle].end <= tag:
                low = middle + 1
            else:
                high = middle
        return low

    def settle_in(self, run: UnsettledRun, start: i64, stop: i64, how: i64, delay_ms: i64) -> i64:
        """Settle what is unsettled of the tags [start, stop) of a run; return how many these were."""
        holes = run.holes
        count = stop - start
        if how == ACCEPT and holes is None and start == run.next:
            run.next = stop
            self.apply_accepted(run)
        elif holes is None:
            self.apply_accepted(run)
            self.apply(run, start, count, how, delay_ms)
            if start == run.next:
                run.next = run.applied = stop
            else:
                run.holes = set(range(start, stop))
        else:
            count = self.settle_between(run, holes, start, stop, how, delay_ms)
        run.left -= count
        if run.left == 0:
            self.settled_runs += 1
        run.holder.unsettled -= count
        if run.holder is not self.absent:
            self.unsettled -= count
        return count

    def settle_between(self, run: UnsettledRun, holes: set[int], start: i64, stop: i64, how: i64, delay_ms: i64) -> i64:
        """Settle what is unsettled of the tags [start, stop) of a run with holes; return how many these were."""
        count: i64 = 0
        begun = start
        self.apply_accepted(run)
        while start < stop:
            end = start
            while end < stop and end not in holes:
                end += 1
            if end > start:
                self.apply(run, start, end - start, how, delay_ms)
                count += end - start
            start = end + 1
        if begun <= run.next:
            self.close_holes(run, holes, stop)
            run.applied = run.next
        else:
            for tag in range(begun, stop):
                holes.add(tag)
        return count

    def close_holes(self, run: UnsettledRun, holes: set[int], stop: i64) -> None:
        """Move `next` to `stop`, and over the holes behind it; forget the holes below `next`."""
        while run.next < stop or run.next in holes:
            holes.discard(run.next)
            run.next += 1
        if not holes:
            run.holes = None

    def apply(self, run: UnsettledRun, tag: i64, count: i64, how: i64, delay_ms: i64) -> None:
        """Settle records of a run in their queue."""
        if how == BY_DEFAULT:
            how = run.holder.default_how
        if how >= REFUSE_UNTRIED:
            how = run.holder.undeliverable_how(how)
        first = run.first + tag - run.tag
        if how == ACCEPT:
            self.counts.acked += count
            self.settling.ack(run.lease, first, count)
        elif how == REJECT:
            self.settling.reject(run.lease, first, count)
        elif how == RETURN_FAILED:
            self.settling.nack(run.lease, first, count, delay_ms, FAILED)
        elif how in (REFUSE_UNTRIED, REFUSE_FAILED):
            self.settling.refuse(run.lease, first, count, delay_ms, FAILED if how == REFUSE_FAILED else UNTRIED)
        elif how != SETTLED:
            self.settling.nack(run.lease, first, count, delay_ms, UNTRIED if how == RETURN_UNTRIED else NACKED)

    def take_back(self, holder: DeliveryHolder, how: i64) -> None:
        """Settle everything that is out at one holder."""
        if holder.unsettled == 0:
            return
        for run in self.runs:
            if run.holder is holder and run.left:
                self.settle_in(run, run.next, run.end, how, 0)
        self.forget_settled()

    def take_back_all(self, how: i64) -> None:
        """Settle everything that is out."""
        for run in self.runs:
            if run.left:
                self.settle_in(run, run.next, run.end, how, 0)
        self.forget_settled()

    def withdraw(self, holder: DeliveryHolder) -> None:
        """Return to the queue what is out at one holder; the client may settle it still, without an effect."""
        if holder.unsettled == 0:
            return
        for run in self.runs:
            if run.holder is holder and run.left:
                self.apply_accepted(run)
                self.apply(run, run.next, run.end - run.next, RETURN, 0)
                run.holder = self.absent
                self.absent.unsettled += run.left
                self.unsettled -= run.left
        holder.unsettled = 0

    def forget(self, holder: DeliveryHolder) -> None:
        """Forget what is out at one holder: its queue is gone, or has taken all of it back."""
        if holder.unsettled == 0:
            return
        for run in self.runs:
            if run.holder is holder and run.left:
                self.unsettled -= run.left
                run.left = 0
                run.next = run.applied = run.end
                self.settled_runs += 1
        holder.unsettled = 0
        self.forget_settled()

    def forget_all(self) -> None:
        """Forget everything that is out: the queues take it back when its consumers are gone."""
        for run in self.runs:
            run.holder.unsettled = 0
        self.runs.clear()
        self.head = 0
        self.unsettled = 0
        self.settled_runs = 0

    def forget_settled(self) -> None:
        """Pass over settled runs at the head; take them out once they are many."""
        runs = self.runs
        head = self.head
        while head < len(runs) and runs[head].left == 0:
            head += 1
        self.head = head
        if head == len(runs):
            runs.clear()
            self.head = 0
            self.settled_runs = 0
        elif self.settled_runs > SETTLED_RUNS_MAX and self.settled_runs * 2 > len(runs):
            self.runs = [run for run in runs if run.left]
            self.head = 0
            self.settled_runs = 0
