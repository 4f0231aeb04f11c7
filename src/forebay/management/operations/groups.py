"""Operations on groups: who reads a queue, how far, and who holds what of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from forebay.broker.catalog.commands.queues import PauseGroup, PauseQueue
from forebay.broker.catalog.owned_names import name_in, owner_in
from forebay.broker.catalog.retention_pins import release
from forebay.broker.consuming.consumer_arguments import stream_start
from forebay.broker.redrive.dead_letter_queues import seal
from forebay.broker.vhost import Vhost
from forebay.core.errors import NOT_FOUND, RequestError
from forebay.core.units import US_PER_MS, US_PER_S
from forebay.management.arguments import octets, refuse
from forebay.management.control import Control, operation, page
from forebay.management.groups import delete_group, find_group, move_group
from forebay.management.needs import CONFIGURE_QUEUE, ENTER, READ_QUEUE
from forebay.management.operations.queues import group_fields
from forebay.management.requests.fields import EmptyAnswer, ListPage
from forebay.management.requests.groups import (
    ConsumerFields,
    ConsumerListRequest,
    GroupCommitRequest,
    GroupDeleteRequest,
    GroupListRequest,
    GroupPauseRequest,
    GroupReleaseRequest,
    GroupResumeRequest,
    GroupSeekRequest,
    LeaseExtendRequest,
    LeaseFields,
    LeaseListRequest,
    LeaseReleaseRequest,
    LeaseUntilAnswer,
    QueueUnsettledRequest,
)
from forebay.management.requests.queues import (
    GroupFields,
    OffsetAnswer,
    QueuePauseRequest,
    QueueResumeRequest,
    UnsettledAnswer,
)
from forebay.queue.leases.lease import UNTRIED, Consumer, Lease
from forebay.queue.queue import Queue
from forebay.queue.source.pins import RetentionPin
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text

OFFSETS_AT_ONCE: Final = 1 << 18  # offsets that one request scans
UNSETTLED_MAX: Final = 10_000  # ranges in one answer


@operation("group.list", need=ENTER)
def list_groups(control: Control, given: GroupListRequest) -> ListPage[GroupFields]:
    """List the groups of a vhost's queues, with their positions.

    `kind` is work, stream, or reader: a reader of blocks, whose hold keeps the messages from `cursor` on. `octets` is
    their size in the log; the hold ends in `seconds_left` unless it is renewed.
    """
    now_us = control.vhost(given).turn.now_us
    items: list[Callable[[], GroupFields]] = []
    for queue in chosen(control, given):
        items += [
            partial(group_fields, queue, group)
            for group in queue.groups.values()
            if not group.name.startswith(b"\0")  # the cursor of one consumer
        ]
        items += [partial(retention_pin_fields, queue, pin, now_us) for pin in queue.pins.by_name.values()]
    return page(given, items)


@operation("group.release", changes=True)
def release_group(control: Control, given: GroupReleaseRequest) -> EmptyAnswer:
    """End a reader's hold; messages that only it keeps are deleted. A reader that still reads holds the rest again."""
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(octets(given.queue))
    name = given.group
    found = [pin for pin in queue.pins.by_name if name_in(text(pin)) == name]
    if not found:
        raise RequestError(NOT_FOUND, f"no reader '{name}' holds messages of queue '{text(queue.name)}'")
    for pin in found:  # those of several users, where these have the same
        release(vhost.catalog, queue, pin)
    return {}


@operation("group.commit", changes=True, need=READ_QUEUE)
def commit_group(control: Control, given: GroupCommitRequest) -> EmptyAnswer:
    """Set the offset at which a stream group resumes."""
    vhost = control.vhost(given)
    vhost.settling.commit_offset(octets(given.queue), octets(given.group), given.offset)
    vhost.upkeep.commit_streams()
    return {}


@operation("group.seek", changes=True, need=READ_QUEUE)
def seek_group(control: Control, given: GroupSeekRequest) -> OffsetAnswer:
    """Move a group and its consumers to another position in the log at once; `offset` is the new position.

    `first` is the first offset that the log still has. A work group starts anew: lower offsets count as settled, and
    the others are ready, without deliveries or failures. Its consumers lose what they hold; their acknowledgements come
    too late. Messages that have expired or exceed a limit die as usual. Refused while dead letters of the group wait
    for their exchange.
    """
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(octets(given.queue))
    group = find_group(queue, octets(given.group))
    to = given.to
    if to == "resume":
        raise refuse("to", to, "is where it is")
    seal(vhost, queue)
    check_end(queue, to)
    first = queue.first_settled()
    offset = stream_start(queue, to, vhost.turn.now_us, argument="to", first=first)
    move_group(vhost, queue, group, offset)
    return {"offset": int(offset)}


@operation("queue.pause", changes=True, need=CONFIGURE_QUEUE)
def pause_queue(control: Control, given: QueuePauseRequest) -> EmptyAnswer:
    """Deliver nothing from a queue, to none of its groups, until it is resumed; also after a restart.

    Publishes are taken. What consumers hold stays with them, and they may settle it; times to live and limits go on.
    """
    set_queue_paused(control.vhost(given), octets(given.queue), True)
    return {}


@operation("queue.resume", changes=True, need=CONFIGURE_QUEUE)
def resume_queue(control: Control, given: QueueResumeRequest) -> EmptyAnswer:
    """Deliver from a paused queue again, but to groups that are paused themselves."""
    set_queue_paused(control.vhost(given), octets(given.queue), False)
    return {}


def set_queue_paused(vhost: Vhost, name: bytes, paused: bool) -> None:
    """Pause or resume a queue. Do nothing if it is in that state already."""
    queue = vhost.catalog.queue(name)
    if queue.paused != paused:
        vhost.catalog.execute(PauseQueue(int(queue.id), paused))


@operation("group.pause", changes=True, need=CONFIGURE_QUEUE)
def pause_group(control: Control, given: GroupPauseRequest) -> EmptyAnswer:
    """Deliver nothing to a group of a queue until it is resumed, as `queue.pause` does for all groups."""
    set_group_paused(control.vhost(given), octets(given.queue), octets(given.group), True)
    return {}


@operation("group.resume", changes=True, need=CONFIGURE_QUEUE)
def resume_group(control: Control, given: GroupResumeRequest) -> EmptyAnswer:
    """Deliver to a paused group again, unless its queue is paused."""
    set_group_paused(control.vhost(given), octets(given.queue), octets(given.group), False)
    return {}


def set_group_paused(vhost: Vhost, name: bytes, key: bytes, paused: bool) -> None:
    """Pause or resume the group of a key. Do nothing if it is in that state already."""
    queue = vhost.catalog.queue(name)
    group = find_group(queue, key)
    if group.paused != paused:
        vhost.catalog.execute(PauseGroup(int(queue.id), int(group.id), paused))


@operation("group.delete", changes=True, need=CONFIGURE_QUEUE)
def remove_group(control: Control, given: GroupDeleteRequest) -> EmptyAnswer:
    """Delete a work or stream group; messages that only it keeps are deleted.

    With `if_unused`, a group with consumers, messages that they hold, or waiting dead letters is refused; otherwise its
    consumers are cancelled, and those messages are lost. The queue's own, nameless group is deleted with its queue. A
    queue that loses its last work group keeps its messages for the next consumer.
    """
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(octets(given.queue))
    delete_group(vhost, queue, find_group(queue, octets(given.group)), given.if_unused)
    return {}


@operation("lease.list", need=ENTER)
def list_leases(control: Control, given: LeaseListRequest) -> ListPage[LeaseFields]:
    """List the messages that consumers hold unsettled, in ranges."""
    items = [
        partial(lease_fields, lease)
        for queue in chosen(control, given)
        for group in queue.groups.values()
        if isinstance(group, WorkGroup)
        for lease in group.leases.all_live()
    ]
    return page(given, items)


@operation("lease.release", changes=True, need=READ_QUEUE)
def release_lease(control: Control, given: LeaseReleaseRequest) -> EmptyAnswer:
    """Return a message from its consumer to the queue, which delivers it again; its late settlement has no effect."""
    vhost = control.vhost(given)
    offset = given.offset
    lease = vhost.settling.find_lease(octets(given.queue), octets(given.group), offset)
    if lease is None:
        raise RequestError(NOT_FOUND, f"offset: no consumer holds {offset} of queue '{given.queue}'")
    vhost.settling.nack(lease, offset, 1, 0, UNTRIED)
    return {}


@operation("lease.extend", changes=True, need=READ_QUEUE)
def extend_lease(control: Control, given: LeaseExtendRequest) -> LeaseUntilAnswer:
    """Let a consumer hold a message longer: until `until_ms`, which is never earlier than before."""
    vhost = control.vhost(given)
    offset = given.offset
    lease = vhost.settling.find_lease(octets(given.queue), octets(given.group), offset)
    if lease is None or not vhost.settling.extend(lease, offset, 1, given.extend_ms):
        raise RequestError(NOT_FOUND, f"offset: no consumer holds {offset} of queue '{given.queue}'")
    return {"until_ms": int(vhost.settling.deadline_us(lease, offset)) // US_PER_MS}


@operation("consumer.list", need=ENTER)
def list_consumers(control: Control, given: ConsumerListRequest) -> ListPage[ConsumerFields]:
    """List the consumers of a vhost's queues."""
    items = [partial(consumer_fields, consumer) for queue in chosen(control, given) for consumer in queue.consumers()]
    return page(given, items)


@operation("queue.unsettled", need=ENTER)
def list_unsettled(control: Control, given: QueueUnsettledRequest) -> UnsettledAnswer:
    """Show the unsettled offsets of a queue: `ranges` of [first, end), ascending; of a stream all.

    A reader of the log as a table also sees settled messages: these ranges exclude them. `id` is the queue's unique
    number; `start` and `end` are the log's bounds.
    """
    first = given.first
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(octets(given.queue))
    seal(vhost, queue)
    start, end = int(queue.start()), int(queue.log.end)
    stop = min(end, max(first, start) + OFFSETS_AT_ONCE)
    ranges = queue.needed(first, stop)
    if len(ranges) > UNSETTLED_MAX:
        stop = ranges[UNSETTLED_MAX][0]
        ranges = ranges[:UNSETTLED_MAX]
    shown = [[int(low), int(high)] for low, high in ranges]
    answer: UnsettledAnswer = {"id": int(queue.source.number), "start": start, "end": end, "ranges": shown}
    if stop < end:
        answer["next"] = stop
    return answer


def retention_pin_fields(queue: Queue, pin: RetentionPin, now_us: int) -> GroupFields:
    """Return the fields of a reader's retention pin."""
    log = queue.log
    return {
        "queue": text(queue.name),
        "group": name_in(text(pin.name)),
        "user": owner_in(text(pin.name)) or None,
        "filter": "",
        "key": name_in(text(pin.name)),
        "kind": "reader",
        "ready": max(int(log.readable_end()) - int(pin.offset), 0),
        "consumers": 0,
        "cursor": int(pin.offset),
        "octets": int(log.octets_from(pin.offset)),
        "seconds_left": max(int(pin.until_us) - now_us, 0) // US_PER_S,
    }


def check_end(queue: Queue, to: str) -> None:
    """Raise RequestError(INVALID) if `to` is an offset beyond the end of the queue."""
    digits = to.removeprefix("offset=")
    if digits.isascii() and digits.isdigit() and int(digits) > queue.log.end:
        raise refuse("to", to, f"is beyond the end of queue '{text(queue.name)}', which is offset {queue.log.end}")


def chosen(control: Control, given: GroupListRequest | LeaseListRequest | ConsumerListRequest) -> list[Queue]:
    """Return the queue that a request names, or all queues by name."""
    vhost = control.vhost(given)
    if given.queue is not None:
        return [vhost.catalog.queue(octets(given.queue))]
    return [vhost.catalog.queues[name] for name in sorted(vhost.catalog.queues)]


def lease_fields(lease: Lease) -> LeaseFields:
    consumer = lease.consumer
    return {
        "queue": text(consumer.queue_name),
        "group": text(consumer.group_name),
        "first": int(lease.first),
        "count": int(lease.count),
        "left": int(lease.left),
        "deliveries": int(lease.deliveries),
        "failures": int(lease.failures),
        "until_ms": int(lease.deadline_us) // US_PER_MS,
        "connection": int(consumer.session_id),
        "channel": int(consumer.channel),
        "consumer": text(consumer.tag),
    }


def consumer_fields(consumer: Consumer) -> ConsumerFields:
    return {
        "queue": text(consumer.queue_name),
        "group": text(consumer.group_name),
        "consumer": text(consumer.tag),
        "connection": int(consumer.session_id),
        "channel": int(consumer.channel),
        "acknowledges": not consumer.no_ack,
        "exclusive": consumer.exclusive,
        "priority": int(consumer.priority),
        "filter": consumer.filter,
        "held": int(consumer.held),
        "paused": consumer.paused,
    }
