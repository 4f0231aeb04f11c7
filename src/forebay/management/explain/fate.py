"""The fate of a message that is settled, as far as the broker still knows: dead letters say where they died."""

from __future__ import annotations

from typing import Final

from forebay.broker.redrive.dead_letter_queues import dead_letter_queues, targets_of
from forebay.broker.vhost import Vhost
from forebay.core.errors import DamagedBlock
from forebay.core.units import US_PER_MS
from forebay.log.block import Block
from forebay.management.explain.reasons import Reason
from forebay.message.deaths import REDRIVEN
from forebay.message.subject import RecordSubject
from forebay.queue.queue import Queue
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text

BLOCKS_MAX: Final = 2_000  # blocks searched for one dead letter
OCTETS_MAX: Final = 32 << 20  # bytes of blocks searched for one dead letter
DEATH_MARK: Final = "dlq-id"


def death_of(vhost: Vhost, queue: Queue, group: WorkGroup, offset: int) -> Reason | None:
    """Return the reason that names where a dead letter has gone; None if its record is not found.

    The newest blocks of the queues that dead letters go to are looked through for its mark.
    """
    mark = f"{queue.id}-{group.id}-{offset}"
    targets = targets_of(vhost, queue)
    targets += [other for other in dead_letter_queues(vhost) if other is not queue and other not in targets]
    blocks, octets = BLOCKS_MAX, OCTETS_MAX
    for target in targets:
        log = target.log
        at = int(log.index.size())
        while at > log.first and blocks and octets > 0:
            at -= 1
            blocks -= 1
            try:
                block = log.kept_block(log.index.bases[at])
            except DamagedBlock:
                continue
            if block is None:
                continue
            octets -= int(block.octets())
            found = record_with(target, block, mark, vhost.turn.now_us)
            if found is not None:
                return death_at(target, found, group)
    return None


def record_with(queue: Queue, block: Block, mark: str, now_us: int) -> RecordSubject | None:
    """Return the record of a block whose death header equals `mark`; None if there is none."""
    octets = mark.encode()
    if octets not in block.data:
        return None
    for index in range(block.count):
        if octets not in block.annotations(index):
            continue
        subject = RecordSubject(queue.name, block, index, now_us)
        if subject.header(DEATH_MARK) == mark:
            return subject
    return None


def death_at(queue: Queue, letter: RecordSubject, group: WorkGroup) -> Reason:
    cause = letter.property("death_reason")
    cause = text(cause) if isinstance(cause, bytes) else str(cause)
    offset = int(letter.offset())
    fields: dict[str, object] = {"cause": cause, "queue": text(queue.name), "offset": offset}
    fields["time_ms"] = letter.property("death_ms")
    where = f"queue '{text(queue.name)}', offset {offset}"
    words = f"it died here ({cause}) and is a dead letter: {where}"
    if cause == REDRIVEN.decode():
        words = f"it died here, was sent back later, and is in {where}"
    return Reason("dead_lettered", words, fields, text(group.name))


def body_octets(queue: Queue, offset: int) -> int:
    """Return the body length in bytes of a message; 0 if the log no longer has it."""
    block = queue.log.block(offset)
    return 0 if block is None or offset < block.base else int(block.body_span(offset - block.base, 1))


def stuck_reason(vhost: Vhost, queue: Queue, group: WorkGroup, offset: int) -> Reason:
    """Return the reason why a dead letter has not been moved to its target."""
    cause = next((run.cause for run in group.dead_letters.runs if run.first <= offset < run.first + run.count), "")
    exchange = queue.limits.dead_letter_exchange or b""
    fields: dict[str, object] = {"cause": cause, "dead_letter_exchange": text(exchange)}
    targets = targets_of(vhost, queue)
    octets = body_octets(queue, offset)
    full = [target for target in targets if target.limits.refuses and target.refuses(octets)]
    retry_us = vhost.dead_letters.retry_at.get((int(queue.id), int(group.id)), 0)
    if retry_us:
        fields["retry_ms"] = retry_us // US_PER_MS
    if exchange and exchange not in vhost.catalog.bindings.exchanges:
        why = f"there is no exchange '{text(exchange)}' for dead letters"
    elif not targets:
        why = f"the exchange '{text(exchange)}' for dead letters leads it to no queue"
    elif full:
        why = f"queue '{text(full[0].name)}', where dead letters go, {full[0].refusal(octets)}"
        fields["full"] = [text(target.name) for target in full]
    else:
        why = "it is on its way to where dead letters go"
    return Reason("dead_letter_waiting", f"it died ({cause}), and {why}", fields, text(group.name))
