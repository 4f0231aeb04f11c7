"""Messages found by their offset in a queue, or by their message id in all queues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from forebay.broker.redrive.dead_letter_queues import attempts_of, seal
from forebay.broker.vhost import Vhost
from forebay.core.errors import DamagedBlock
from forebay.log.block import Block
from forebay.message.subject import RecordSubject
from forebay.queue.queue import Queue

BLOCKS_A_STEP: Final = 200
OCTETS_A_STEP: Final = 2 << 20


@dataclass(frozen=True, slots=True)
class MessagePlace:
    """One message in the log of one queue."""

    queue: Queue
    offset: int


def subject_at(vhost: Vhost, queue: Queue, offset: int) -> RecordSubject | None:
    """Return the message at an offset, settled or not; None if the queue has none."""
    if not int(queue.start()) <= offset < int(queue.log.end):
        return None
    block = queue.log.block(offset)
    if block is None or block.base > offset or not queue.has(block, offset - block.base):
        return None
    return RecordSubject(queue.name, block, offset - block.base, vhost.turn.now_us, *attempts_of(queue, offset))


class Search:
    """A search for a message id in the logs of queues, the newest blocks first, a step at a time.

    found   places of messages that have it, those that are settled and still in the log among them
    blocks  looked through so far
    is_done everything was
    """

    def __init__(self, vhost: Vhost, queues: list[Queue], message_id: str) -> None:
        self.vhost = vhost
        self.message_id = message_id
        self.octets = message_id.encode()
        self.found: list[MessagePlace] = []
        self.blocks = 0
        self.is_done = False
        for queue in queues:
            seal(vhost, queue)
        self.left = [(queue, int(queue.log.end)) for queue in reversed(queues)]

    def step(self) -> None:
        """Search some more blocks, at most BLOCKS_A_STEP and about OCTETS_A_STEP bytes."""
        blocks, octets = BLOCKS_A_STEP, OCTETS_A_STEP
        while self.left and blocks and octets > 0:
            queue, end = self.left.pop()
            log = queue.log
            at = int(log.find(end - 1)) if end > int(queue.start()) else -1
            if at < log.first or at >= log.index.size():
                continue
            base = int(log.index.bases[at])
            try:
                block = log.kept_block(base)
            except DamagedBlock:
                block = None
            blocks -= 1
            self.blocks += 1
            if block is not None:
                octets -= int(block.octets())
                self.look(queue, block, end)
            if base > queue.start() and at > log.first:
                self.left.append((queue, base))
        self.is_done = not self.left

    def look(self, queue: Queue, block: Block, end: int) -> None:
        # One look at all octets of a block costs less than one at the properties of each of its records.
        if self.octets not in block.data:
            return
        for index in range(int(block.count)):
            offset = int(block.base) + index
            if offset >= end or offset < queue.start() or self.octets not in block.properties(index):
                continue
            subject = RecordSubject(queue.name, block, index, self.vhost.turn.now_us)
            if subject.property("message_id") == self.message_id and queue.has(block, index):
                self.found.append(MessagePlace(queue, offset))
