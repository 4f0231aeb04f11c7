"""Groups of a queue that go, or go on elsewhere in the log, because somebody who administers says so."""

from __future__ import annotations

from mypy_extensions import i64

from forebay.broker.catalog.commands.queues import MoveGroup, RemoveGroup
from forebay.broker.catalog.owned_names import name_in
from forebay.broker.vhost import Vhost
from forebay.core.errors import NOT_FOUND, PRECONDITION, RequestError, note_half_change
from forebay.management.explain.reasons import count
from forebay.queue.group import Group
from forebay.queue.queue import SHARE, Queue, group_key
from forebay.queue.stream.stream_group import StreamGroup
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text


def is_reader(queue: Queue, name: bytes) -> bool:
    """Return whether a reader of this name holds messages of the queue."""
    return any(name_in(text(pin)) == text(name) for pin in queue.pins.by_name)


def find_group(queue: Queue, key: bytes) -> Group:
    """Return the group of that key. Raises RequestError(NOT_FOUND) for none, or for one consumer's own cursor."""
    group = None if key.startswith(b"\0") else queue.find_group(key)
    if group is None:
        reader = " (a reader of that name holds messages: release it)" if is_reader(queue, key) else ""
        raise RequestError(NOT_FOUND, f"no group '{text(key)}' on queue '{text(queue.name)}'{reader}")
    return group


def delete_group(vhost: Vhost, queue: Queue, group: Group, if_unused: bool) -> None:
    """Delete a group, and free messages that only it needed. Durable with this turn's commit.

    if_unused  only if it has no consumers, nothing is with one, and no dead letter waits; else they lose it
    raises     RequestError(PRECONDITION): for the queue's own group, a shared subscription's, or one in use
    """
    try:
        name = called(queue, group)
        check_not_shared(queue)
        if isinstance(group, WorkGroup) and not group.name and not group.filter:
            raise RequestError(PRECONDITION, f"group '': it is queue '{text(queue.name)}'s own, and goes with it")
        if if_unused:
            check_unused(group, name)
        for consumer in list(group.consumers):
            consumer.lost = f"{name} was deleted"
            vhost.turn.cancelled.append(consumer)
            vhost.consumers.cancel(consumer)
        if vhost.catalog.queues_by_id.get(queue.id) is not queue:
            return  # the group was deleted with its last consumer
        vhost.catalog.execute(RemoveGroup(int(queue.id), int(group.id)))
        settle_up(vhost, queue)
    except Exception as error:
        note_half_change(error)
        raise


def move_group(vhost: Vhost, queue: Queue, group: Group, offset: i64) -> None:
    """Move a group to an offset at once. Durable with this turn's commit.

    A work group begins anew there: what is below is settled, and what follows is ready as if it had never been handed
    out. Its consumers stay; what they hold is no longer theirs.
    raises  RequestError(PRECONDITION): while dead letters of the group wait, or for a shared subscription
    """
    try:
        check_not_shared(queue)
        if isinstance(group, WorkGroup) and queue.last_values is not None:
            why = "a last-value queue keeps nothing that was settled or replaced"
            raise RequestError(PRECONDITION, f"{called(queue, group)}: {why}")
        if isinstance(group, StreamGroup):
            group.move(offset)
            vhost.turn.mark(queue)
            vhost.upkeep.commit_streams()
            return
        assert isinstance(group, WorkGroup)
        if group.dead_letters.count:
            waiting = count(int(group.dead_letters.count), "waiting dead letter")
            raise RequestError(PRECONDITION, f"{called(queue, group)}: {waiting} would be lost")
        vhost.catalog.execute(MoveGroup(int(queue.id), int(group.id), int(offset)))
        vhost.dispatcher.early = [each for each in vhost.dispatcher.early if each.lease is None or each.lease.left]
        settle_up(vhost, queue)
    except Exception as error:
        note_half_change(error)
        raise


def settle_up(vhost: Vhost, queue: Queue) -> None:
    """Free messages that no group needs any more. Durable together with the change that caused it."""
    vhost.dispatcher.note_progress(queue)
    vhost.store.note_start(queue.log)
    vhost.turn.mark(queue)


def check_not_shared(queue: Queue) -> None:
    """Raise RequestError(PRECONDITION) for the queue of a shared subscription, whose messages sessions hold."""
    if queue.kind == SHARE:
        raise RequestError(PRECONDITION, f"queue '{text(queue.name)}' is a shared subscription: its members have it")


def check_unused(group: Group, name: str) -> None:
    """Raise RequestError(PRECONDITION) if a group has consumers, leased messages or waiting dead letters."""
    uses: list[str] = []
    if group.consumers:
        uses.append(count(len(group.consumers), "consumer"))
    if isinstance(group, WorkGroup) and group.leases.count:
        uses.append(f"{count(int(group.leases.count), 'message')} with consumers")
    if isinstance(group, WorkGroup) and group.dead_letters.count:
        uses.append(count(int(group.dead_letters.count), "waiting dead letter"))
    if uses:
        raise RequestError(PRECONDITION, f"{name} in use: {', '.join(uses)}")


def called(queue: Queue, group: Group) -> str:
    """Return the name of a group for use in errors."""
    return f"group '{text(group_key(group.name, group.filter))}' of queue '{text(queue.name)}'"
