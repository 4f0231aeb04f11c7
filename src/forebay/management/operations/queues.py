"""Operations on queues: what there is, what is in them, and how they come and go."""

from __future__ import annotations

import json
from functools import partial
from typing import Protocol, cast

from forebay.broker.catalog.owned_names import name_in
from forebay.broker.redrive.dead_letter_queues import SCANNED_AT_ONCE, LookBudget, offset_of, seal, walk
from forebay.broker.vhost import Vhost
from forebay.core.units import US_PER_MS
from forebay.filter.parser import Filter, parse
from forebay.management.arguments import PAGE_OCTETS_MAX, octets, refuse
from forebay.management.control import Control, OperationCaller, operation, page
from forebay.management.held_logs import held_log
from forebay.management.needs import CONFIGURE_QUEUE, DECLARE_QUEUE, ENTER, NO_SESSION, READ_QUEUE
from forebay.management.requests.dead_letters import DeadLetterShowRequest
from forebay.management.requests.fields import ListPage
from forebay.management.requests.queues import (
    DeletedMessages,
    GroupFields,
    KeyFields,
    MessageFields,
    MessagePage,
    PinFields,
    PinHolder,
    QueueDeclareRequest,
    QueueDeleteRequest,
    QueueDetails,
    QueueFields,
    QueueGlance,
    QueueListRequest,
    QueueMessagesRequest,
    QueuePurgeRequest,
    QueueShowRequest,
    QueueTruncateRequest,
    TruncateAnswer,
    ViewFields,
    ViewLeft,
    ViewSource,
)
from forebay.message.shown import plain, record_shown
from forebay.message.subject import RecordSubject
from forebay.queue.declaration.view_arguments import SOURCE, text_argument
from forebay.queue.group import Group
from forebay.queue.queue import KIND_NAMES, STREAM, Queue, group_key
from forebay.queue.source.reader import Keeper
from forebay.queue.source.retained import RetainedRecords
from forebay.queue.source.source import LogSource
from forebay.queue.stream.stream_group import StreamGroup
from forebay.queue.totals import GroupTotals
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text


@operation("queue.list", need=ENTER)
def list_queues(control: Control, given: QueueListRequest) -> ListPage[QueueFields]:
    """List the queues of a vhost by name, with statistics."""
    vhost = control.vhost(given)
    names = sorted(vhost.catalog.queues)
    return page(given, [partial(queue_fields, vhost.catalog.queues[name]) for name in names])


@operation("queue.show", need=ENTER)
def show_queue(control: Control, given: QueueShowRequest) -> QueueDetails:
    """Show a queue: statistics, declaration, effective policies, and groups."""
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(octets(given.queue))
    user, operator = vhost.catalog.policies.of_queue(queue, False), vhost.catalog.policies.of_queue(queue, True)
    return {
        **glance_of(queue),
        **view_fields(vhost, queue),
        **key_fields(queue),
        "groups": [group_fields(queue, group) for group in queue.groups.values()],
        "octets": int(queue.stored_octets()),
        "arguments": plain(queue.spec.arguments),
        "policy": None if user is None else user.name,
        "operator_policy": None if operator is None else operator.name,
        "start": int(queue.start()),
        "end": int(queue.log.end),
        "kept": int(queue.kept()),
        "pinned_by": pin_fields(queue),
    }


@operation("queue.declare", changes=True, need=DECLARE_QUEUE)
def declare_queue(control: Control, given: QueueDeclareRequest, caller: OperationCaller) -> QueueFields:
    """Declare a queue, or check that it exists with the same properties."""
    name = octets(given.queue)
    if not name:
        raise refuse("queue", "", "is no name")
    arguments = dict(given.arguments or {})
    if given.type is not None:
        arguments["x-queue-type"] = given.type
    vhost = control.vhost(given)
    queue = vhost.catalog.declare_queue(
        name, given.durable, False, given.auto_delete, arguments, NO_SESSION, caller.user
    )
    return queue_fields(queue)


@operation("queue.delete", changes=True, need=CONFIGURE_QUEUE)
def delete_queue(control: Control, given: QueueDeleteRequest) -> DeletedMessages:
    """Delete a queue with its messages; the answer counts the ready ones.

    Views of a stream keep what they still need of its log, and get nothing more: `views` names them.
    """
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(octets(given.queue))
    views = vhost.catalog.views_of(queue)
    answer: DeletedMessages = {"messages": int(vhost.catalog.delete_queue(queue.name, given.if_unused, given.if_empty))}
    if views:
        answer["views"] = views_left(views)
    return answer


@operation("queue.purge", changes=True, need=READ_QUEUE)
def purge_queue(control: Control, given: QueuePurgeRequest) -> DeletedMessages:
    """Delete all ready messages of a queue; the answer counts them.

    Views of a stream keep what they still need of its log: `views` names them.
    """
    vhost = control.vhost(given)
    name = octets(given.queue)
    answer: DeletedMessages = {"messages": int(vhost.upkeep.purge(name))}
    views = vhost.catalog.views_of(vhost.catalog.queue(name))
    if views:
        answer["views"] = views_left(views)
    return answer


@operation("queue.truncate", changes=True)
def truncate_queue(control: Control, given: QueueTruncateRequest) -> TruncateAnswer:
    """Delete a stream's records below an offset; `start` is its first offset afterwards.

    Records that a reader holds remain, with all later ones. Other queues keep unsettled messages. Views of the stream
    keep what they still need of its log: `views` names them.
    """
    vhost = control.vhost(given)
    name = octets(given.queue)
    answer: TruncateAnswer = {"start": int(vhost.upkeep.truncate(name, given.below))}
    views = vhost.catalog.views_of(vhost.catalog.queue(name))
    if views:
        answer["views"] = views_left(views)
    return answer


@operation("queue.messages", need=READ_QUEUE)
def list_messages(control: Control, given: QueueMessagesRequest | DeadLetterShowRequest) -> MessagePage:
    """Show unsettled messages of a queue, in the order of their offsets.

    No message is delivered. An answer may have fewer messages than `limit`, or none, and still have a `next`: a request
    examines at most 10,000 records and 64 MiB of bodies. `next` is absent when there are no more.
    """
    octets_max = given.body_octets_max
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(octets(given.queue))
    found, next = scan(vhost, queue, where_of(given), given.first, given.limit, given.scan)
    items: list[MessageFields] = []
    written = 0
    for subject in found:
        shown = message_fields(subject, octets_max)
        written += len(json.dumps(shown))
        if items and written > PAGE_OCTETS_MAX:
            next = offset_of(subject)
            break
        items.append(shown)
    answer: MessagePage = {"items": items}
    if next is not None:
        answer["next"] = next
    return answer


def scan(
    vhost: Vhost, queue: Queue, where: Filter | None, first: int, limit: int, looked_max: int = SCANNED_AT_ONCE
) -> tuple[list[RecordSubject], int | None]:
    """Up to `limit` messages from an offset on for which the filter holds, and the offset to go on from."""
    seal(vhost, queue)
    found: list[RecordSubject] = []
    look = LookBudget(looked_max)
    for message in walk(vhost, queue, first):
        enough = look.is_enough(message)
        if where is None or where.matches(message):
            found.append(message)
        if enough or len(found) == limit:
            return found, offset_of(message) + 1
    return found, None


class HasFilter(Protocol):
    """A request that chooses messages by a filter."""

    @property
    def where(self) -> str: ...


def where_of(given: HasFilter) -> Filter | None:
    """Return the filter that a request names, if any."""
    return parse(given.where) if given.where else None


def message_fields(subject: RecordSubject, body_octets_max: int) -> MessageFields:
    """Return a message, and of its body at most so many octets."""
    return cast("MessageFields", record_shown(subject, body_octets_max))


def queue_fields(queue: Queue) -> QueueFields:
    """Return a queue, as lists have it."""
    return {**glance_of(queue), "groups": len(queue.groups), "octets": int(queue.stored_octets())}


def glance_of(queue: Queue) -> QueueGlance:
    """Return the state of a queue in numbers, without its groups."""
    totals = GroupTotals(queue)
    return {
        "queue": text(queue.name),
        "type": KIND_NAMES[int(queue.kind)],
        "durable": queue.log.durable,
        "exclusive": queue.spec.exclusive,
        "auto_delete": queue.spec.auto_delete,
        "ready": int(queue.ready()),
        "unacked": int(totals.unacked),
        "dead_letters_waiting": int(totals.dead_letters),
        "consumers": int(queue.consumer_count()),
        "paused": queue.paused,
    }


def view_fields(vhost: Vhost, queue: Queue) -> ViewFields:
    """Return the stream of a view, or the views of a stream."""
    if queue.is_view:
        name = text_argument(queue.spec.arguments, SOURCE)
        stream = vhost.catalog.queues.get(name.encode())
        held = held_log(queue.source)
        is_holder = held is not None and held.view is queue
        source: ViewSource = {
            "stream": name,
            "deleted": stream is None or stream.source is not queue.source,
            "kept_messages": held.messages if held is not None and is_holder else 0,
            "kept_octets": held.octets if held is not None and is_holder else 0,
        }
        return {"source": source}
    views = vhost.catalog.views_of(queue)
    return {"views": [text(view.name) for view in views]} if views else {}


def key_fields(queue: Queue) -> KeyFields:
    """Return the number of keys of a last-value queue."""
    return {} if queue.last_values is None else {"keys": len(queue.last_values.by_key)}


def views_left(views: list[Queue]) -> list[ViewLeft]:
    """Return what each view of a stream keeps when the stream itself gives records up."""
    return [
        {"queue": text(view.name), "messages": int(view.wanted()), "offset": int(view.needed_from())} for view in views
    ]


def lowest_keeper(source: LogSource) -> Keeper | None:
    """Return the holder of a log's oldest records: a group, a pin or an unconsumed queue; None if there is none."""
    keeper = source.lowest_keeper()
    reader = source.lowest_reader() if source.is_shared else None
    if reader is not None and keeper is not None and keeper.offset <= reader.offset:
        if keeper.reader is reader.reader and keeper.free == keeper.offset:  # its only group: it goes with the queue
            keeper.free = reader.free
        return keeper
    if reader is None:
        return keeper
    if isinstance(reader.reader, RetainedRecords):
        return None
    return None if isinstance(reader.reader, Queue) and reader.reader.kind == STREAM else reader


def pin_fields(queue: Queue) -> PinFields | None:
    """Return the one for whom the log of a queue keeps its oldest records; None where it keeps nothing for anybody."""
    keeper = lowest_keeper(queue.source)
    if keeper is None:
        return None
    log = queue.log
    pin, group = keeper.pin, keeper.group
    holder: PinHolder = {}
    if pin is not None:
        renewed_us = int(pin.until_us - pin.ttl_us)
        holder = {
            "group": name_in(text(pin.name)),
            "kind": "reader",
            "consumers": 0,
            "active_ms": renewed_us // US_PER_MS,
        }
    elif group is not None:
        holder = {
            "group": text(group_key(group.name, group.filter)),
            "kind": "work",
            "consumers": len(group.consumers),
            "active_ms": int(group.active_us) // US_PER_MS or None,
        }
    else:
        holder = {"group": "", "kind": "queue", "consumers": 0, "active_ms": None}
    if keeper.reader is not queue and isinstance(keeper.reader, Queue):
        holder["queue"] = text(keeper.reader.name)
    octets_kept = int(log.octets_from(keeper.offset))
    return {
        **holder,
        "offset": int(keeper.offset),
        "messages": int(log.end - keeper.offset),
        "octets": octets_kept,
        "frees_messages": int(keeper.free - keeper.offset),
        "frees_octets": octets_kept - int(log.octets_from(keeper.free)),
    }


def group_fields(queue: Queue, group: Group) -> GroupFields:
    """Return the state of a group."""
    fields: GroupFields = {
        "queue": text(queue.name),
        "group": text(group.name),
        "filter": text(group.filter),
        "key": text(group_key(group.name, group.filter)),
        "kind": "work" if isinstance(group, WorkGroup) else "stream",
        "ready": int(group.ready()),
        "consumers": len(group.consumers),
        "cursor": int(group.next_offset()),
        "paused": group.paused,
        "consumer_filters": sorted({consumer.filter for consumer in group.consumers if consumer.filter}),
    }
    if isinstance(group, WorkGroup):
        fields["committed"] = int(group.settlement.advance())
        fields["leased"] = int(group.leases.count)
        fields["delivered"] = int(group.delivered)
        fields["settled"] = int(group.settled)
        fields["dead_letters_waiting"] = int(group.dead_letters.count)
    elif isinstance(group, StreamGroup):
        fields["committed"] = int(group.committed)
        fields["auto_commit"] = group.auto
    fields["active_ms"] = int(group.active_us) // US_PER_MS or None
    return fields
