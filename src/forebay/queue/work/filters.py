"""Finds the ready records that match consumers' filters.

A filter belongs to its consumers: what it does not match stays ready for others, in order. Each filter is evaluated
once on each record, and again only when the record comes back: `Selector.next` says how far that has gone. Filters that
have come equally far are evaluated together, so that a body is parsed once for all of them.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.message import KEYED
from forebay.filter.parser import Filter
from forebay.log.block import Block
from forebay.queue.declaration.limits import Limits
from forebay.queue.leases.lease import Consumer
from forebay.queue.leases.page import PAGE_BITS, RETURNED, Page
from forebay.queue.properties import PropertyReader
from forebay.queue.ready.levels import PriorityLevels
from forebay.queue.ready.order import ENTRIES_SLACK, Order
from forebay.queue.ready.ready_queue import ReadyQueue
from forebay.queue.ready.selector import Selector, look_cost
from forebay.queue.work.attempts import deliveries_in, failures_in

LOOK_RECORDS: Final = 256  # records to evaluate before it is the next consumer's turn
TOGETHER_COST: Final = 1 << 13  # cost limit of filters evaluated together on one record
FOUND_MAX: Final = 4096  # a filter with more matches waiting is not evaluated along with others


@final
class ConsumerFilters:
    """The filters of a group's consumers.

    ready      the ready queue that they choose from
    selectors  one for each filter; `by_text`: the same by the filter's text
    woken_at   the cursor when all selectors were last woken; `spared`: how often they were not woken since
    is_lent    the ready queue is ordered only as long as some consumer has a filter
    """

    def __init__(self, limits: Limits, properties: PropertyReader, ready: ReadyQueue) -> None:
        self.limits = limits
        self.properties = properties
        self.ready = ready
        self.log = ready.log
        self.settlement = ready.settlement
        self.attempts = ready.attempts
        self.turn = ready.turn
        self.selectors: list[Selector] = []
        self.by_text: dict[str, Selector] = {}
        self.is_lent = False
        self.woken_at: i64 = -1
        self.spared: i64 = 0

    # ---- consumers

    def add(self, consumer: Consumer, filter: Filter) -> None:
        """Give a consumer that has no turn yet only records that the filter matches."""
        text = filter.written()
        found = self.by_text.get(text)
        if found is None:
            found = self.by_text[text] = self.add_selector(filter, consumer.queue_name)
        found.users += 1
        consumer.selector = found

    def add_selector(self, filter: Filter, queue: bytes) -> Selector:
        ready = self.ready
        if ready.order is None:
            ready.make_ordered(False)
            self.is_lent = True
        order = ready.order
        assert order is not None
        found = PriorityLevels(self.limits, order.returned is not None)
        selector = Selector(filter, queue, found, self.settlement.committed)
        self.selectors.append(selector)
        order.select_by(self.selectors)
        return selector

    def leave(self, consumer: Consumer) -> None:
        """Remove a consumer's filter. A filter without consumers is dropped."""
        selector = consumer.selector
        if selector is None:
            return
        consumer.selector = None
        selector.users -= 1
        if selector.users:
            return
        self.selectors.remove(selector)
        del self.by_text[selector.text]
        order = self.ready.order
        assert order is not None
        if not self.selectors:
            order.end_selection()
            if self.is_lent:
                self.ready.make_plain(order)
                self.is_lent = False

    def keep_ordered(self, returned_first: bool) -> None:
        """Keep the ready queue ordered from now on, whatever consumers there are."""
        if self.ready.order is None:
            self.ready.make_ordered(returned_first)
        self.is_lent = False

    def start_over(self) -> None:
        """Forget the evaluations, after the ready queue has started over."""
        order = self.ready.order
        if order is None:
            return
        for selector in self.selectors:
            selector.start_over(PriorityLevels(self.limits, order.returned is not None), self.settlement.committed)
        order.select_by(self.selectors)

    # ---- what is wanted

    def find_wanted(self, order: Order, selector: Selector) -> i64:
        """Return the next record that matches, or -1 if none is found yet or there is none."""
        if selector.again:
            self.look_again(order)
            if selector.again:
                return -1
        # Any record not evaluated yet may have the highest priority.
        while order.mode and selector.next < self.settlement.cursor:
            if self.turn.looks <= 0:
                return -1
            self.look(order, selector)
        first = self.first_found(order, selector)
        if first < 0 and selector.next < self.settlement.cursor:
            self.look(order, selector)
            first = self.first_found(order, selector)
        if first < 0 and selector.next >= self.settlement.cursor:
            selector.is_dry = True
        return first

    def first_found(self, order: Order, selector: Selector) -> i64:
        """Return the first of the matching records that still wait, or -1 if there is none."""
        found = selector.found
        while selector.size:
            first = found.next_first()
            gone = order.gone_length(first, found.chosen.length())
            may_change = selector.asks_attempts and len(self.attempts.by_offset) > 0
            if not gone and may_change and not self.still_wants(selector, first):
                gone = 1
            if not gone:
                return first
            found.chosen.take(gone)
            selector.size -= gone
        return -1

    def still_wants(self, selector: Selector, offset: i64) -> bool:
        """Return whether a filter that depends on the attempts still matches a record."""
        block = self.log.block(offset)
        if block is None or block.base > offset:
            return True  # the caller that takes it finds that it is gone
        attempts = self.attempts.of(offset)
        index = offset - block.base
        subject = self.properties.subject(selector.queue, block, index, deliveries_in(attempts), failures_in(attempts))
        return selector.filter.matches(subject)

    def found_length(self, order: Order, selector: Selector, most: i64) -> i64:
        """Return how many matching records from the chosen one on can be delivered together, at most `most`."""
        if selector.asks_attempts and self.attempts.by_offset:
            return 1
        found = selector.found
        return order.waiting_length(found.chosen.first(), min(found.next_length(), most))

    def take_found(self, order: Order, selector: Selector, count: i64) -> None:
        """Take `count` matching records out of the ready queue, the chosen one first."""
        selector.found.take_chosen(count)
        selector.size -= count
        order.count -= count

    # ---- looking

    def look(self, order: Order, selector: Selector) -> None:
        """Evaluate the next records for a filter, and for others that have come equally far."""
        first = selector.next
        together: list[Selector] = [selector]
        cost = self.first_cost(selector, first)
        for other in self.selectors:
            if other is not selector and other.next == first and other.size < FOUND_MAX and cost < TOGETHER_COST:
                cost += self.first_cost(other, first)
                together.append(other)
        page = self.settlement.pages.get(first >> PAGE_BITS)
        end = min(((first >> PAGE_BITS) + 1) << PAGE_BITS, self.settlement.cursor)
        self.turn.looks -= 1
        if page is not None:
            end = self.look_at(order, page, first, min(end, first + LOOK_RECORDS), together)
        for other in together:
            other.next = end

    def first_cost(self, selector: Selector, offset: i64) -> i64:
        """Return the cost of evaluating a filter on the record at `offset`.

        Costly filters may not all fit into one turn.
        """
        if not selector.filter.asks_body:
            return look_cost(selector.filter, 0)
        block = self.log.block(offset)
        if block is None or block.base > offset:
            return 0
        return look_cost(selector.filter, block.body_span(offset - block.base, 1))

    def look_at(self, order: Order, page: Page, first: i64, end: i64, together: list[Selector]) -> i64:
        """Evaluate the records [first, end) of a page, as far as the turn allows. Return the offset reached."""
        block: Block | None = None
        offset = first
        while offset < end and self.turn.looks > 0:
            if page.states[offset - page.base] == RETURNED:
                if block is None or offset >= block.end:
                    block = self.log.block(offset)
                if block is not None and block.base <= offset:
                    self.look_at_record(order, block, offset - block.base, together, True)
            offset += 1
        return offset

    def look_again(self, order: Order) -> None:
        """Evaluate the records that became ready after they were evaluated, as many as the turn allows."""
        offsets: set[int] = set()
        for selector in self.selectors:
            offsets |= selector.again
        for offset in sorted(offsets):
            if self.turn.looks <= 0:
                return
            block = self.log.block(offset) if order.waits(offset) else None
            together: list[Selector] = []
            cost: i64 = 0
            for selector in self.selectors:
                if offset in selector.again:
                    if cost >= TOGETHER_COST:
                        self.turn.looks = 0  # the other filters are evaluated in the next turn
                        break
                    cost += self.first_cost(selector, offset)
                    selector.again.remove(offset)
                    together.append(selector)
            if block is not None and block.base <= offset:
                self.look_at_record(order, block, offset - block.base, together, False)

    def look_at_record(self, order: Order, block: Block, index: i64, together: list[Selector], in_turn: bool) -> None:
        """Find out which of the filters match a waiting record."""
        offset = block.base + index
        if block.format(index) & KEYED and int(offset) not in order.keys:
            return  # the record is parked, and offered again when its turn comes
        attempts: i64 = self.attempts.of(offset) if self.attempts.by_offset else 0
        octets = block.body_span(index, 1)
        queue = together[0].queue
        subject = self.properties.subject(queue, block, index, deliveries_in(attempts), failures_in(attempts))
        looks = self.properties.looks
        for selector in together:
            is_wanted = selector.filter.matches(subject)
            self.turn.looks -= looks.charge(look_cost(selector.filter, octets), subject)
            if is_wanted:
                selector.find(offset, order.level(block, index), in_turn, attempts > 0)
        if looks.left <= 0:
            self.turn.looks = 0

    # ---- once a turn

    def wake(self, order: Order) -> None:
        """Evaluate the records that came since the last turn, and remove used-up entries.

        If only new consumers came, and no records, not every one of them has all filters woken.
        """
        for level in order.all_levels():
            order.tidy(level)
        if self.settlement.cursor == self.woken_at and self.spared < len(self.selectors):
            self.spared += 1
        else:
            self.woken_at = self.settlement.cursor
            self.spared = 0
            self.wake_all(order)
        if self.properties.looks.left <= 0:
            self.turn.looks = 0

    def wake_all(self, order: Order) -> None:
        for selector in self.selectors:
            if selector.next < self.settlement.cursor:
                selector.is_dry = False
            for level in selector.found.all_levels():
                selector.size -= order.tidy(level)
            if len(selector.again) > 2 * order.count + ENTRIES_SLACK:
                selector.again = {offset for offset in selector.again if order.waits(offset)}
