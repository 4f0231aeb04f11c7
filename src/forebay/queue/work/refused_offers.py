"""Offers records that some consumers have refused (ready/refused.py) to the other consumers."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.log.block import Block
from forebay.queue.fairness import Fairness, SingleActive
from forebay.queue.leases.lease import Consumer
from forebay.queue.properties import PropertyReader
from forebay.queue.ready.ready_queue import ReadyQueue
from forebay.queue.ready.selector import look_cost
from forebay.queue.work.attempts import deliveries_in, failures_in


@final
class RefusedOffer:
    """A record that some consumers have refused, offered to another consumer."""

    def __init__(self, consumer: Consumer, block: Block, offset: i64) -> None:
        self.consumer = consumer
        self.block = block
        self.offset: i64 = offset


@final
class RefusedOffers:
    """Finds a consumer for each waiting record of a group that others have refused."""

    def __init__(self, ready: ReadyQueue, properties: PropertyReader) -> None:
        self.ready = ready
        self.properties = properties

    def assign(self, consumers: list[Consumer], fairness: Fairness, most: i64) -> list[RefusedOffer]:
        """Take out records that can be delivered in this turn, at most `most`, with a consumer for each."""
        candidates = candidates_of(consumers, fairness)
        if not candidates:
            return []
        turn = self.ready.turn
        credit = [each.credit for each in candidates]
        made: list[RefusedOffer] = []
        octets: i64 = 0
        for offset in sorted(self.ready.refused.waiting):
            if turn.looks <= 0 or octets >= turn.octets or i64(len(made)) >= most:
                break
            turn.looks -= 1
            block = self.block_of(offset)
            if block is None:
                continue
            for index, consumer in enumerate(candidates):
                if credit[index] > 0 and self.takes(consumer, block, offset):
                    credit[index] -= 1
                    octets += block.body_span(offset - block.base, 1)
                    made.append(self.take(consumer, block, offset))
                    break
        return made

    def take(self, consumer: Consumer, block: Block, offset: i64) -> RefusedOffer:
        """Take one refused record out of the waiting ones, for a consumer."""
        self.ready.refused.waiting.discard(int(offset))
        return RefusedOffer(consumer, block, offset)

    def take_first(self, consumer: Consumer) -> RefusedOffer | None:
        """Take out the first record that a consumer has not refused. Return None if there is none."""
        for offset in sorted(self.ready.refused.waiting):
            block = self.block_of(offset)
            if block is not None and self.takes(consumer, block, offset):
                return self.take(consumer, block, offset)
        return None

    def take_expired(self, now_us: i64) -> list[int]:
        """Take out the refused records that have expired, and return their offsets."""
        ready = self.ready
        if not ready.refused.waiting or not ready.expiry.perishable:
            return []
        expired = [each for each in sorted(ready.refused.waiting) if ready.expiry.at(each) < now_us]
        ready.refused.waiting.difference_update(expired)
        return expired

    def block_of(self, offset: i64) -> Block | None:
        """Return the block of a waiting record. Return None, and settle the record, if the log has it no longer."""
        block = self.ready.log.block(offset)
        if block is None or block.base > offset:
            self.ready.settle(offset, 1)
            return None
        return block

    def takes(self, consumer: Consumer, block: Block, offset: i64) -> bool:
        """Return whether a consumer has not refused a record, and its filter matches."""
        ready = self.ready
        if not ready.refused.may_take(offset, consumer.id):
            return False
        selector = consumer.selector
        if selector is None:
            return True
        index = offset - block.base
        attempts: i64 = ready.attempts.of(offset)
        deliveries, failures = deliveries_in(attempts), failures_in(attempts)
        subject = self.properties.subject(selector.queue, block, index, deliveries, failures)
        cost = look_cost(selector.filter, block.body_span(index, 1))
        ready.turn.looks -= self.properties.looks.charge(cost, subject)
        return selector.filter.matches(subject)


def candidates_of(consumers: list[Consumer], fairness: Fairness) -> list[Consumer]:
    """Return the consumers that can take records now. With a single active consumer, that is the only one."""
    if isinstance(fairness, SingleActive):
        active = fairness.next(consumers, b"")
        return [] if active is None else [active]
    return [each for each in consumers if each.credit > 0 and not each.paused]
