"""Which of the records that wait the consumers with filters want.

A filter is its consumer's: what it does not want stays ready for others, in order. Each record is looked at once for
each filter, and again only when it comes back: `Selector.next` says how far that has gone. Filters that have come
equally far look together, so that a body is parsed once for all of them.
"""

from __future__ import annotations

import heapq
from typing import Final

from mypy_extensions import i64

from forebay.core.message import KEYED
from forebay.filter.parser import Filter
from forebay.log.block import Block
from forebay.log.queue_log import QueueLog
from forebay.queue.facts import Facts
from forebay.queue.leases import PAGE_BITS, RETURNED, Consumer, Page
from forebay.queue.limits import Limits
from forebay.queue.line import Line
from forebay.queue.order import ENTRIES_SLACK, Order
from forebay.queue.selector import Selector, look_cost
from forebay.queue.waiting import FAILURE, Waiting

LOOK_RECORDS: Final = 256  # looked at before it is the next consumer's turn
TOGETHER_COST: Final = 1 << 13  # of filters that look at one record together
FOUND_MAX: Final = 4096  # wanted records that a filter may have waiting and still look on with others


class Selecting(Waiting):
    """The filters of a group's consumers.

    is_lent  the group is ordered only as long as some consumer has a filter
    """

    def __init__(
        self, id: i64, name: bytes, filter: bytes, log: QueueLog, start: i64, limits: Limits | None, facts: Facts | None
    ) -> None:
        super().__init__(id, name, filter, log, start, limits, facts)
        self.selectors: list[Selector] = []
        self.is_lent = False

    # ---- consumers

    def select(self, consumer: Consumer, filter: Filter) -> None:
        """From here on the consumer, which is not added yet, gets only what the filter wants."""
        text = filter.written()
        found: Selector | None = None
        for selector in self.selectors:
            if selector.text == text:
                found = selector
        if found is None:
            found = self.add_selector(filter, consumer.queue_name)
        found.users += 1
        consumer.selector = found

    def add_selector(self, filter: Filter, queue: bytes) -> Selector:
        if self.order is None:
            self.make_ordered(False)
            self.is_lent = True
        order = self.order
        assert order is not None
        selector = Selector(filter, queue, Line(self.limits, order.returned is not None), self.committed)
        self.selectors.append(selector)
        order.selectors = self.selectors
        return selector

    def detach(self, consumer: Consumer) -> None:
        super().detach(consumer)
        selector = consumer.selector
        if selector is None:
            return
        consumer.selector = None
        selector.users -= 1
        if selector.users:
            return
        self.selectors.remove(selector)
        order = self.order
        assert order is not None
        if not self.selectors:
            order.end_selection()
            if self.is_lent:
                self.make_plain(order)

    def keep_ordered(self, returned_first: bool) -> None:
        """Be ordered from now on, whatever consumers there are."""
        if self.order is None:
            self.make_ordered(returned_first)
        self.is_lent = False

    def make_plain(self, order: Order) -> None:
        """Hand out by age again."""
        self.order = None
        self.is_lent = False
        self.returned = order.take_all()
        heapq.heapify(self.returned)
        for _, count in self.returned:
            self.returned_count += count

    def wait_anew(self) -> None:
        super().wait_anew()
        order = self.order
        if order is None:
            return
        for selector in self.selectors:
            selector.start_over(Line(self.limits, order.returned is not None), self.committed)
        order.selectors = self.selectors

    # ---- what is wanted

    def find_wanted(self, order: Order, selector: Selector) -> i64:
        """The next record that is wanted; -1 where none is found yet, or there is none."""
        if selector.again:
            self.look_again(order)
            if selector.again:
                return -1
        # The one with the highest priority can be any of those not looked at.
        while order.mode and selector.next < self.cursor:
            if self.scan <= 0:
                return -1
            self.look(order, selector)
        first = self.first_found(order, selector)
        if first < 0 and selector.next < self.cursor:
            self.look(order, selector)
            first = self.first_found(order, selector)
        if first < 0 and selector.next >= self.cursor:
            selector.is_dry = True
        return first

    def first_found(self, order: Order, selector: Selector) -> i64:
        """The next of the records that were found wanted and still wait; -1 if there is none."""
        line = selector.line
        while selector.size:
            first = line.next_first()
            gone = order.gone_length(first, line.chosen.length())
            if not gone and selector.asks_attempts and self.attempts and not self.still_wants(selector, first):
                gone = 1
            if not gone:
                return first
            line.chosen.take(gone)
            selector.size -= gone
        return -1

    def still_wants(self, selector: Selector, offset: i64) -> bool:
        """Whether a filter that asks how often a record was handed out wants it now."""
        block = self.log.block(offset)
        if block is None or block.base > offset:
            return True  # whoever takes it finds that it is gone
        attempts = self.attempts.get(offset, 0)
        index = offset - block.base
        subject = self.facts.subject(selector.queue, block, index, attempts & (FAILURE - 1), attempts // FAILURE)
        return selector.filter.matches(subject)

    def found_length(self, order: Order, selector: Selector, most: i64) -> i64:
        """How many records from the chosen one on are wanted and wait, at most so many."""
        if selector.asks_attempts and self.attempts:
            return 1
        line = selector.line
        return order.waiting_length(line.chosen.first(), min(line.next_length(), most))

    def take_found(self, order: Order, selector: Selector, count: i64) -> None:
        """The chosen wanted one, and so many in all from it on, wait no more."""
        selector.line.take_chosen(count)
        selector.size -= count
        order.count -= count

    # ---- looking

    def look(self, order: Order, selector: Selector) -> None:
        """Look at the next records for a filter, and for those that have come as far."""
        first = selector.next
        together: list[Selector] = [selector]
        cost = self.first_cost(selector, first)
        for other in self.selectors:
            if other is not selector and other.next == first and other.size < FOUND_MAX and cost < TOGETHER_COST:
                cost += self.first_cost(other, first)
                together.append(other)
        page = self.pages.get(first >> PAGE_BITS)
        end = min(((first >> PAGE_BITS) + 1) << PAGE_BITS, self.cursor)
        self.scan -= 1
        if page is not None:
            end = self.look_at(order, page, first, min(end, first + LOOK_RECORDS), together)
        for other in together:
            other.next = end

    def first_cost(self, selector: Selector, offset: i64) -> i64:
        """The cost of this filter's look at the next record: those of many dear filters do not fit into one turn."""
        if not selector.filter.asks_body:
            return look_cost(selector.filter, 0)
        block = self.log.block(offset)
        if block is None or block.base > offset:
            return 0
        return look_cost(selector.filter, block.body_span(offset - block.base, 1))

    def look_at(self, order: Order, page: Page, first: i64, end: i64, together: list[Selector]) -> i64:
        """Look at the records [first, end) of a page, as many as a turn allows; how far that went."""
        block: Block | None = None
        offset = first
        while offset < end and self.scan > 0:
            if page.states[offset - page.base] == RETURNED:
                if block is None or offset >= block.end:
                    block = self.log.block(offset)
                if block is not None and block.base <= offset:
                    self.look_at_record(order, block, offset - block.base, together, True)
            offset += 1
        return offset

    def look_again(self, order: Order) -> None:
        """Look at what became ready since it was looked at, as many as a turn allows."""
        offsets: set[int] = set()
        for selector in self.selectors:
            offsets |= selector.again
        for offset in sorted(offsets):
            if self.scan <= 0:
                return
            block = self.log.block(offset) if order.waits(offset) else None
            together: list[Selector] = []
            cost: i64 = 0
            for selector in self.selectors:
                if offset in selector.again:
                    if cost >= TOGETHER_COST:
                        self.scan = 0  # the others look in the next turn
                        break
                    cost += self.first_cost(selector, offset)
                    selector.again.remove(offset)
                    together.append(selector)
            if block is not None and block.base <= offset:
                self.look_at_record(order, block, offset - block.base, together, False)

    def look_at_record(self, order: Order, block: Block, index: i64, together: list[Selector], in_turn: bool) -> None:
        """Find out which of the filters want a record that waits."""
        offset = block.base + index
        if block.format(index) & KEYED and int(offset) not in order.keys:
            return  # it is parked, and offered again when its turn comes
        attempts: i64 = self.attempts.get(offset, 0) if self.attempts else 0
        octets = block.body_span(index, 1)
        queue = together[0].queue
        subject = self.facts.subject(queue, block, index, attempts & (FAILURE - 1), attempts // FAILURE)
        looks = self.facts.looks
        for selector in together:
            held = selector.filter.matches(subject)
            self.scan -= looks.charge(look_cost(selector.filter, octets), subject)
            if held:
                selector.find(offset, order.level(block, index), in_turn, attempts > 0)
        if looks.left <= 0:
            self.scan = 0

    # ---- once a turn

    def wake(self, order: Order) -> None:
        """Look again at what came since the last turn; what was used up in lines goes."""
        for level in order.all_levels():
            order.tidy(level)
        for selector in self.selectors:
            if selector.next < self.cursor:
                selector.is_dry = False
            for level in selector.line.all_levels():
                selector.size -= order.tidy(level)
            if len(selector.again) > 2 * order.count + ENTRIES_SLACK:
                selector.again = {offset for offset in selector.again if order.waits(offset)}
