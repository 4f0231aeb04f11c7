"""Messages of an entity that go with the answer to a request: peeked ones, and those received by sequence number."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.contract import VhostContract
from forebay.log.block import Block
from forebay.message.formats.table import format_of
from forebay.queue.leases.lease import Consumer, Delivery
from forebay.queue.leases.page import DELAYED, LEASED, PAGE_BITS, RETURNED
from forebay.queue.queue import STREAM, Queue
from forebay.queue.work.attempts import failures_in
from forebay.queue.work.deferral import deferred_offsets
from forebay.queue.work.work_group import WorkGroup
from forebay.session.amqp10.outgoing.encode import DeliveryEncoder
from forebay.wire.amqp10.values import Map

SCANNED_MAX: Final = 50_000  # records that one request looks at
DEFERRED: Final = 1  # state of a message
VISIBLE: Final = (LEASED, RETURNED, DELAYED)


@final
class EntityMessages:
    """Encodes messages of one queue, each as a whole message of AMQP 1.0."""

    def __init__(self, vhost: VhostContract, queue: Queue) -> None:
        self.vhost = vhost
        self.queue = queue
        self.log = queue.log
        self.encoder = DeliveryEncoder(queue.kind == STREAM, queue.id, True)
        self.nobody = Consumer(0, queue.id, 0, 0, 0, b"", True, 0)

    def encode(self, delivery: Delivery, is_deferred: bool) -> bytes:
        """Return the message of a delivery of one record."""
        encoder = self.encoder
        encoder.entity_state = DEFERRED if is_deferred else 0
        encoder.prepare(delivery, delivery.index, self.vhost.now_us())
        body = encoder.body(delivery.block, delivery.index)
        return encoder.sections(body) + body

    def is_peeked(self, block: Block, index: i64, session: bytes | None) -> bool:
        """Return whether a record is the queue's, and of a message group if one is asked for."""
        if not self.queue.has(block, index):
            return False
        return session is None or format_of(block.format(index)).group_key(block.properties(index)) == session

    def peek(
        self, group: WorkGroup | None, first: i64, most: i64, octets_max: i64, session: bytes | None
    ) -> list[object]:
        """Return messages that are not settled, from an offset on, whoever holds them.

        group    None of a queue from which nobody has ever received
        most     messages, and `octets_max` of their octets
        session  message group that they are of; None for all
        """
        found: list[object] = []
        deferred: set[int] = set() if group is None else deferred_offsets(group, self.vhost.now_us())
        octets: i64 = 0
        block: Block | None = None
        end = self.log.end
        offset = max(first, self.queue.start())
        left: i64 = SCANNED_MAX
        while offset < end and len(found) < most and octets < octets_max and left > 0:
            left -= 1
            if group is not None:
                shown = next_visible(group, offset)
                if shown > offset:
                    offset = shown
                    continue
            if block is None or offset >= block.end:
                block = self.log.block(offset)
                if block is None:
                    break
            if block.base > offset:
                offset = block.base
                continue
            index = offset - block.base
            if self.is_peeked(block, index, session):
                delivery = Delivery(self.nobody, block, index, 1, None)
                if group is not None:
                    delivery.failures = failures_in(group.attempts.of(offset))
                message = self.encode(delivery, int(offset) in deferred)
                octets += len(message)
                found.append(Map([("message", message)]))
            offset += 1
        return found


def next_visible(group: WorkGroup, offset: i64) -> i64:
    """Return an offset if its record is not settled; else one behind it, up to which all are settled."""
    settlement = group.settlement
    if offset >= settlement.cursor:
        return offset
    page = settlement.pages.get(offset >> PAGE_BITS)
    if page is None:
        return min(((offset >> PAGE_BITS) + 1) << PAGE_BITS, settlement.cursor)
    return offset if page.states[offset - page.base] in VISIBLE else offset + 1
