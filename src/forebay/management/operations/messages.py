"""Operations on single messages of queues, and on those that are chosen by a filter."""

from __future__ import annotations

from forebay.broker.consuming.consumer_arguments import stream_start
from forebay.broker.redrive.dead_letter_queues import Portion, attempts_of, discard, seal
from forebay.broker.redrive.redeliver import redeliver
from forebay.broker.redrive.redrive import RedriveTarget, move
from forebay.broker.redrive.settle_chosen import ACTIONS, settle_chosen
from forebay.broker.vhost import Vhost
from forebay.core.errors import NOT_FOUND, RequestError
from forebay.directory.permissions import Rights
from forebay.management.arguments import merged, octets, refuse
from forebay.management.control import Control, OperationCaller, operation
from forebay.management.groups import find_group
from forebay.management.needs import MOVE, READ_QUEUE
from forebay.management.operations.letters import portion_of
from forebay.management.operations.queues import message_fields, where_of
from forebay.management.operations.streams import check_offset
from forebay.management.requests.queues import (
    MessageFields,
    MessageShowRequest,
    PortionAnswer,
    QueueDiscardRequest,
    QueueMoveRequest,
    QueueRedeliverRequest,
    QueueSettleRequest,
    QueueTailRequest,
    SettledAnswer,
    TailAnswer,
)
from forebay.message.subject import RecordSubject
from forebay.queue.queue import Queue
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text


@operation("message.show", need=READ_QUEUE)
def show_message(control: Control, given: MessageShowRequest) -> MessageFields:
    """Show a message of a queue, settled or not, while the log has it; it is not delivered."""
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(octets(given.queue))
    seal(vhost, queue)
    offset = given.offset
    check_offset(queue, offset)
    return shown_at(vhost, queue, offset, given.body_octets_max)


@operation("queue.tail", need=READ_QUEUE)
def show_tail(control: Control, given: QueueTailRequest) -> TailAnswer:
    """Show the newest messages of a queue since an offset, settled or not; they are not delivered.

    Later messages have the offset `next` or a higher one; `skipped` counts messages since `from` that are not shown.
    """
    limit, octets_max = given.limit, given.body_octets_max
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(octets(given.queue))
    seal(vhost, queue)
    end = int(queue.log.end)
    since = min(given.first, end) if given.first is not None else end
    items: list[MessageFields] = []
    for offset in range(max(since, end - limit, int(queue.start())), end):
        try:
            items.append(shown_at(vhost, queue, offset, octets_max))
        except RequestError as error:
            if error.reason != NOT_FOUND:  # a record not found was settled, and is gone
                raise
    return {"items": items, "next": end, "skipped": end - since - len(items)}


def shown_at(vhost: Vhost, queue: Queue, offset: int, octets_max: int) -> MessageFields:
    """Return the fields of a message of the log. Raises RequestError(NOT_FOUND) if it is gone."""
    block = queue.log.block(offset)
    if block is None or block.base > offset:
        raise RequestError(NOT_FOUND, f"offset: {offset} of queue '{text(queue.name)}' was settled, and is gone")
    if not queue.has(block, offset - block.base):
        raise RequestError(NOT_FOUND, f"offset: {offset} is not of view '{text(queue.name)}': its filter left it out")
    subject = RecordSubject(queue.name, block, offset - block.base, vhost.turn.now_us, *attempts_of(queue, offset))
    return message_fields(subject, octets_max)


@operation("queue.move", changes=True, need=MOVE)
def move_messages(control: Control, given: QueueMoveRequest, caller: OperationCaller) -> PortionAnswer:
    """Move messages to another queue, or to an exchange.

    One request handles a portion of the queue; `next` is where to continue, until it is absent or behind the first
    answer's `end`. Each message is in exactly one place at any time, also after a crash. Messages that consumers hold
    (`held`) are skipped, and so are those that cannot go to the target: they are `refused`, and `refusal` explains the
    first. In the other queue, a message's time to live starts anew.
    """
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(octets(given.queue))
    first, limit, scan = portion_of(given)
    target = target_of(given, caller.rights)
    portion = move(vhost, queue.name, target, where_of(given), first, limit, merged(given.offsets), scan)
    fields = chosen_fields(queue, portion)
    fields["refused"] = portion.refused
    if portion.refused:
        fields["refusal"] = portion.refusal
    return fields


@operation("queue.discard", changes=True, need=READ_QUEUE)
def discard_messages(control: Control, given: QueueDiscardRequest) -> PortionAnswer:
    """Delete messages that match a filter, in portions as `queue.move` does."""
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(octets(given.queue))
    first, limit, scan = portion_of(given)
    portion = discard(vhost, queue.name, where_of(given), first, limit, merged(given.offsets), scan)
    return chosen_fields(queue, portion)


@operation("queue.redeliver", changes=True, need=READ_QUEUE)
def redeliver_messages(control: Control, given: QueueRedeliverRequest) -> PortionAnswer:
    """Deliver messages that a work group has settled to it once more, if the queue retains them (`x-retain`).

    They go in portions as with `queue.move`. Of messages between `since` and `until` those that the group has not
    settled are counted as `held`: it delivers them anyway. Each delivery says when it was asked for, in milliseconds
    since 1970, in the header `x-redelivered-at`. Messages that have expired or exceed a limit die as usual.
    """
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(octets(given.queue))
    group = find_group(queue, octets(given.group))
    if not isinstance(group, WorkGroup):
        raise refuse("group", given.group, "reads a stream: it can be moved to any offset (group.seek)")
    seal(vhost, queue)
    kept = queue.first_settled()
    now_us = vhost.turn.now_us
    start = stream_start(queue, given.since, now_us, argument="since", first=kept)
    end = int(stream_start(queue, given.until, now_us, argument="until", first=kept))
    first, limit, scan = portion_of(given)
    portion = redeliver(vhost, queue, group, where_of(given), max(first, int(start)), end, limit, scan)
    return {**chosen_fields(queue, portion), "end": end}


@operation("queue.settle", changes=True, need=READ_QUEUE)
def settle_messages(control: Control, given: QueueSettleRequest) -> SettledAnswer:
    """Acknowledge, cancel or expire messages of a group by offsets or a filter, in portions as `queue.move` does.

    Messages that consumers hold (`held`) are left unless the queue has `x-leasing: sublet`. `cancel` returns held
    messages, and leaves those that wait. An acknowledgement of offsets that are not published yet is `kept`, for
    `x-deferred-ack`.
    """
    if given.action not in ACTIONS:
        raise refuse("action", given.action, f"is none of {', '.join(ACTIONS)}")
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(octets(given.queue))
    first, limit, scan = portion_of(given)
    portion, kept = settle_chosen(
        vhost, queue.name, octets(given.group), given.action, where_of(given), first, limit, merged(given.offsets), scan
    )
    fields: SettledAnswer = {
        "done": portion.done,
        "held": portion.held,
        "gone": portion.gone,
        "kept": kept,
        "scanned": portion.scanned,
        "end": int(queue.log.end),
    }
    if portion.next is not None:
        fields["next"] = portion.next
    return fields


def target_of(given: QueueMoveRequest, rights: Rights | None) -> RedriveTarget:
    """Return the target of moved messages. Raises RequestError(INVALID) unless one queue or exchange is named."""
    key = octets(given.routing_key) if given.routing_key is not None else None
    if bool(given.to) == (given.exchange is not None):
        raise refuse("to", given.to, "and exchange: one of them says where they go")
    if given.to:
        if key is not None:
            raise refuse("routing_key", given.routing_key, "goes with an exchange only")
        return RedriveTarget(octets(given.to), b"", None, rights)
    return RedriveTarget(None, octets(given.exchange or ""), key, rights)


def chosen_fields(queue: Queue, portion: Portion) -> PortionAnswer:
    fields: PortionAnswer = {
        "done": portion.done,
        "held": portion.held,
        "gone": portion.gone,
        "scanned": portion.scanned,
        "end": int(queue.log.end),
    }
    if portion.next is not None:
        fields["next"] = portion.next
    return fields
