"""The reasons why a work group has not delivered a message, or what became of it there."""

from __future__ import annotations

from typing import Final

from forebay.core.message import KEYED
from forebay.core.units import US_PER_MS
from forebay.filter.parts import first_miss
from forebay.management.control import Connections
from forebay.management.explain.reasons import Reason, consumer_fields, count, duration, named
from forebay.message.shown import plain
from forebay.message.subject import RecordSubject
from forebay.queue.declaration.limits import STRICT
from forebay.queue.leases.lease import Consumer, Lease
from forebay.queue.leases.page import DEAD_LETTER, DELAYED, LEASED, PAGE_BITS, SETTLED
from forebay.queue.queue import Queue
from forebay.queue.ready.expiry import NEVER
from forebay.queue.ready.order import Order
from forebay.queue.work.attempts import FAILURE
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text

READY: Final = "ready"
STATES: Final = {LEASED: "leased", SETTLED: "settled", DEAD_LETTER: "dead_letter_waiting", DELAYED: "delayed"}
LOOKED_AT_MAX: Final = 10_000  # entries of a queue's order that are counted for one answer


def state_in(group: WorkGroup, offset: int) -> str:
    """Return the state of a record in a group: ready, leased, delayed, dying or settled."""
    if offset >= group.settlement.cursor:
        return READY
    page = group.settlement.pages.get(offset >> PAGE_BITS)
    return "settled" if page is None else STATES.get(int(page.states[offset - page.base]), READY)


class WorkReasons:
    """The reasons of one group for one message, which is in the log."""

    def __init__(
        self, queue: Queue, group: WorkGroup, subject: RecordSubject, now_us: int, connections: Connections
    ) -> None:
        self.queue = queue
        self.group = group
        self.subject = subject
        self.offset = int(subject.offset())
        self.now_us = now_us
        self.connections = connections
        self.found: list[Reason] = []

    def add(self, code: str, words: str, **fields: object) -> None:
        self.found.append(Reason(code, words, fields, text(self.group.name)))

    def reasons(self) -> list[Reason]:
        """Return the reasons for the message, unsorted, without those of its dead-lettering."""
        state = state_in(self.group, self.offset)
        if state == "settled":
            replaced = ", or replaced by a newer one of its key" if self.queue.last_values is not None else ""
            ends = f"acknowledged, discarded or purged{replaced}, or it died with nowhere to go"
            self.add("settled", f"it was settled: {ends}")
        elif state == "leased":
            self.leased()
        elif state == "delayed":
            self.resting()
        elif state == READY:
            self.waiting()
        if state in ("leased", "delayed", READY):
            self.limits()
        return self.found

    # ---- out, or to come back

    def leased(self) -> None:
        lease = self.group.leases.find(self.offset)
        if lease is None:
            return
        fields = self.lease_fields(lease)
        held = f"held by {named(fields)} for {duration(self.now_us - self.since_us(lease))}"
        rest_us = self.deadline_us(lease) - self.now_us
        until = f"; it returns in {duration(rest_us)} unless it is settled" if rest_us < 1 << 50 else ""
        reads = ", whose connection does not read," if lease.consumer.paused else ""
        times = count(int(lease.deliveries), "delivery").replace("deliverys", "deliveries")
        self.add("leased", f"{held}{reads} after {times}{until}", **fields)

    def deadline_us(self, lease: Lease) -> int:
        return max(int(lease.deadline_us), self.group.leases.extended.get(self.offset, 0))

    def since_us(self, lease: Lease) -> int:
        """Return the time of delivery in microseconds, or a later one if the lease was extended."""
        return min(int(lease.deadline_us - lease.consumer.timeout_us), self.now_us)

    def lease_fields(self, lease: Lease) -> dict[str, object]:
        fields = consumer_fields(lease.consumer, self.connections)
        fields["since_ms"] = self.since_us(lease) // US_PER_MS
        fields["until_ms"] = self.deadline_us(lease) // US_PER_MS
        fields["deliveries"] = int(lease.deliveries)
        fields["failures"] = int(lease.failures)
        fields["connection_paused"] = lease.consumer.paused
        return fields

    def resting(self) -> None:
        for due_us, first, length in self.group.delayed.heap:
            if first <= self.offset < first + length:
                due = due_us if due_us > 0 else self.now_us
                words = f"it came back, and is delivered again in {duration(due - self.now_us)}"
                self.add("retry_delay", words, not_before_ms=due // US_PER_MS)

    def limits(self) -> None:
        limit = int(self.group.limits.delivery_limit)
        attempts = self.attempts()
        failures = attempts // FAILURE
        lease = self.group.leases.find(self.offset)
        failures = failures if lease is None else int(lease.failures)
        if 0 <= limit <= failures:
            words = f"it has failed {failures} times, and the delivery limit is {limit}: it dies at the next failure"
            self.add("near_delivery_limit", words, failures=failures, delivery_limit=limit)

    def attempts(self) -> int:
        return self.group.attempts.of(self.offset)

    # ---- waiting

    def waiting(self) -> None:
        group = self.group
        subject = self.subject
        expiry = group.ready_queue.expiry
        expiry_us = int(expiry.of(subject.block, subject.index)) if expiry.perishable else NEVER
        if expiry_us < self.now_us:
            words = f"it expired {duration(self.now_us - expiry_us)} ago, and dies when it comes to the head"
            self.add("expired", words, expired_ms=expiry_us // US_PER_MS)
        if group.filter and not group.key_filter.wants(subject.block, subject.index):
            words = f"the group's filter '{text(group.filter)}' does not match its key: it is passed over"
            self.add(
                "group_filter", words, filter=text(group.filter), key=text(subject.block.routing_key(subject.index))
            )
            return
        self.barrier()
        ahead = self.ahead()
        if ahead:
            self.add("waits_behind", f"{count(ahead, 'message')} are delivered before it", ahead=ahead)
        self.exclusive()
        if self.queue.paused or group.paused:
            who = f"queue '{text(self.queue.name)}'" if self.queue.paused else f"group '{text(group.name)}'"
            self.add("paused", f"{who} is paused: nothing is delivered until somebody resumes it")
            return
        if not group.consumers:
            self.add("no_consumers", f"queue '{text(self.queue.name)}' has no consumers{self.in_group()}")
            return
        takers = [consumer for consumer in group.consumers if self.could_take(consumer)]
        if takers and not any(reason.code in ("message_group", "waits_behind") for reason in self.found):
            fields = consumer_fields(takers[0], self.connections)
            self.add("next", f"nothing holds it up: {named(fields)} is given it next", **fields)

    def in_group(self) -> str:
        return f" in group '{text(self.group.name)}'" if self.group.name else ""

    def exclusive(self) -> None:
        owner = int(self.queue.owner)
        if owner:
            words = f"queue '{text(self.queue.name)}' is exclusive: only connection {owner} may consume"
            self.add("exclusive", words, connection=owner)

    def could_take(self, consumer: Consumer) -> bool:
        """Return whether a consumer could take the message now. Adds a reason for each obstacle."""
        fields = consumer_fields(consumer, self.connections)
        who = named(fields)
        able = True
        if self.group.limits.single_active and consumer is not self.active():
            self.add("not_active", f"{who} waits: another one is the single active consumer", **fields)
            able = False
        if consumer.paused:
            self.add("connection_paused", f"{who} does not read what it was sent", **fields)
            able = False
        if not self.group.ready_queue.refused.may_take(self.offset, consumer.id):
            self.add("undeliverable_here", f"{who} has said that it cannot take it", **fields)
            able = False
        if 0 < self.group.limits.max_backlog <= self.group.leases.count:
            words = f"{who} waits: its group holds {self.group.leases.count} messages, as many as x-max-backlog allows"
            self.add("max_backlog", words, held=int(self.group.leases.count), **fields)
            able = False
        if consumer.credit <= 0:
            held = int(consumer.held)
            words = f"{who} holds {count(held, 'message')}, as many as its prefetch allows"
            self.add("no_credit", words, held=held, prefetch=held + int(consumer.credit), **fields)
            able = False
        return self.is_wanted(consumer, who, fields) and able

    def active(self) -> Consumer | None:
        consumers = self.group.consumers
        active = self.group.active()
        return active if active is not None else consumers[0] if consumers else None

    def is_wanted(self, consumer: Consumer, who: str, fields: dict[str, object]) -> bool:
        selector = consumer.selector
        if selector is None:
            return True
        missed = first_miss(selector.filter, self.subject)
        if missed is None:
            return True
        said = ", ".join(f"{place} is {said_as(value)}" for place, value in missed.values.items())
        words = f"{who} wants only {consumer.filter}, and {missed.text} does not hold" + (f": {said}" if said else "")
        values = {place: plain(value) for place, value in missed.values.items()}
        self.add("filter", words, filter=consumer.filter, part=missed.text, values=values, **fields)
        return False

    # ---- what stands before it

    def barrier(self) -> None:
        """Add the reason if the record waits behind others of its message group."""
        order = self.group.ready_queue.order
        block, index = self.subject.block, self.subject.index
        if order is None or not block.format(index) & KEYED:
            return
        key = order.properties.key(block, index)
        behind = order.busy.get(key)
        if behind is None or (self.offset < self.group.settlement.cursor and self.offset not in behind):
            return  # the record is the first of its message group
        first = next((offset for offset, each in order.keys.items() if each == key), None)
        place = sum(1 for offset in behind if offset < self.offset)
        fields: dict[str, object] = {"key": text(key), "first": first, "behind": place + 1}
        words = f"message group '{text(key)}' is delivered one at a time"
        if first is not None:
            words += f", and offset {first} stands before it: {self.state_words(first, fields)}"
        self.add("message_group", words, **fields)

    def state_words(self, offset: int, fields: dict[str, object]) -> str:
        """Describe the state of the message at another offset, and set `state` and its holder in `fields`."""
        state = state_in(self.group, offset)
        fields["state"] = state
        lease = self.group.leases.find(offset)
        if lease is None:
            return "it is " + state
        holder = consumer_fields(lease.consumer, self.connections)
        fields["holder"] = holder
        fields["since_ms"] = self.since_us(lease) // US_PER_MS
        return f"{named(holder)} has held it for {duration(self.now_us - self.since_us(lease))}"

    def ahead(self) -> int:
        """Return the number of ready messages before this one, by priority and age."""
        group = self.group
        order = group.ready_queue.order
        if self.offset >= group.settlement.cursor:
            waiting = int(group.ready_queue.returned_count) if order is None else int(order.count)
            return waiting + self.offset - int(group.settlement.cursor)
        if order is None:
            returned = group.ready_queue.returned
            return sum(min(length, self.offset - first) for first, length in returned if first < self.offset)
        return self.ahead_in(order)

    def ahead_in(self, order: Order) -> int:
        block, index = self.subject.block, self.subject.index
        if order.ranked is not None:
            own_place = (int(order.level(block, index)), self.offset)
            entries = order.ranked.ranked_runs()[:LOOKED_AT_MAX]
            return sum(count for rank, first, count in entries if (rank, first) < own_place)
        own = order.levels[order.level(block, index)]
        if block.format(index) & KEYED and self.offset not in order.keys:
            return 0  # its message group holds it up, not other messages
        ahead = 0
        for level in order.all_levels():
            # Those of a higher level go first; with two levels at two to one, so do the older of the other.
            if level is not own and order.mode == STRICT and self.is_above(order, level, own):
                ahead += int(level.count)
            elif level is own or order.mode != STRICT:
                runs = level.all_runs()[:LOOKED_AT_MAX]
                ahead += sum(min(length, self.offset - first) for first, length in runs if first < self.offset)
        return ahead

    def is_above(self, order: Order, level: object, own: object) -> bool:
        if level is order.returned:
            return True
        places = {id(each): place for place, each in enumerate(order.levels)}
        return places[id(level)] > places[id(own)]


def said_as(value: object) -> str:
    """Return a value for use in a sentence."""
    return "not there" if value is None else repr(plain(value))
