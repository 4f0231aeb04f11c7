"""Operations on dead letters; what they do is in `broker/redrive/dead_letter_queues.py`."""

from __future__ import annotations

import base64
import binascii
from functools import partial
from typing import Protocol

from forebay.broker.redrive.dead_letter_queues import (
    DeadLetterSummary,
    Portion,
    dead_letter_queues,
    discard,
    edit,
    redrive,
    summary,
)
from forebay.broker.vhost import Vhost
from forebay.core.errors import PRECONDITION, RequestError
from forebay.management.arguments import merged, octets, refuse
from forebay.management.control import Control, operation, page
from forebay.management.needs import ENTER, READ_QUEUE
from forebay.management.operations.queues import list_messages, where_of
from forebay.management.requests.dead_letters import (
    DeadLetterEditRequest,
    DeadLetterListRequest,
    DeadLetterPurgeRequest,
    DeadLetterQueueFields,
    DeadLetterRedriveRequest,
    DeadLetterShowRequest,
)
from forebay.management.requests.fields import EmptyAnswer, ListPage
from forebay.management.requests.queues import MessagePage, PortionAnswer
from forebay.queue.queue import Queue
from forebay.routing.exchange import text


@operation("dlq.list", need=ENTER)
def list_letter_queues(control: Control, given: DeadLetterListRequest) -> ListPage[DeadLetterQueueFields]:
    """List the dead-letter queues, with their messages by cause and by the queue where they died.

    In a long queue only the oldest messages are counted by cause and origin; `counted` is their number.
    """
    vhost = control.vhost(given)
    return page(given, [partial(summary_fields, vhost, queue) for queue in dead_letter_queues(vhost)])


@operation("dlq.show", need=READ_QUEUE)
def show_letters(control: Control, given: DeadLetterShowRequest) -> MessagePage:
    """Show dead letters, as `queue.messages` shows messages; `death` has the fields of the last death."""
    return list_messages(control, given)


@operation("dlq.redrive", changes=True)
def redrive_letters(control: Control, given: DeadLetterRedriveRequest) -> PortionAnswer:
    """Send dead letters back to where they died first, or to another queue.

    One request handles a portion of the queue; `next` is where to continue, until it is absent. Each message is in
    exactly one place at any time. Messages that consumers hold (`held`) are skipped. With `offsets`, settled messages
    are counted as `gone`, so you may repeat the request: no message is sent back twice. A message that cannot go to its
    target is skipped and counted as `refused`; `refusal` explains the first.
    """
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(octets(given.queue))
    if given.id is not None and given.id != queue.source.number:
        raise RequestError(
            PRECONDITION, f"id: queue '{text(queue.name)}' is number {queue.source.number}: it was made anew"
        )
    ranges = merged(given.offsets)
    first, limit, scan = portion_of(given)
    portion = redrive(vhost, queue.name, where_of(given), octets(given.to), first, limit, ranges, scan)
    fields = portion_fields(queue, portion)
    if ranges is not None:
        fields["gone"] = portion.gone
        fields["refused"] = portion.refused
        if portion.refused:
            fields["refusal"] = portion.refusal
    return fields


@operation("dlq.purge", changes=True, need=READ_QUEUE)
def purge_letters(control: Control, given: DeadLetterPurgeRequest) -> PortionAnswer:
    """Discard dead letters in portions, as `dlq.redrive` does."""
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(octets(given.queue))
    first, limit, scan = portion_of(given)
    return portion_fields(queue, discard(vhost, queue.name, where_of(given), first, limit, None, scan))


@operation("dlq.edit", changes=True)
def edit_letter(control: Control, given: DeadLetterEditRequest) -> EmptyAnswer:
    """Replace a message by a changed one, at the end of its queue."""
    vhost = control.vhost(given)
    key = octets(given.routing_key) if given.routing_key is not None else None
    edit(vhost, octets(given.queue), given.offset, body_of(given), given.headers, key)
    return {}


def body_of(given: DeadLetterEditRequest) -> bytes | None:
    if given.body is not None:
        return octets(given.body)
    if given.body_base64 is None:
        return None
    try:
        return base64.b64decode(given.body_base64, validate=True)
    except (binascii.Error, ValueError):
        raise refuse("body_base64", given.body_base64, "is no base64") from None


class InPortions(Protocol):
    """A request that goes through a queue in portions."""

    @property
    def first(self) -> int: ...

    @property
    def limit(self) -> int: ...

    @property
    def scan(self) -> int: ...


def portion_of(given: InPortions) -> tuple[int, int, int]:
    """Return the offset to begin at, the number of messages to change, and the number to look at."""
    return given.first, given.limit, given.scan


def portion_fields(queue: Queue, portion: Portion) -> PortionAnswer:
    end = int(queue.log.end)
    fields: PortionAnswer = {"done": portion.done, "held": portion.held, "scanned": portion.scanned, "end": end}
    if portion.next is not None:
        fields["next"] = portion.next
    return fields


def summary_fields(vhost: Vhost, queue: Queue) -> DeadLetterQueueFields:
    found: DeadLetterSummary = summary(vhost, queue)
    return {
        "queue": text(found.name),
        "messages": found.messages,
        "held": found.held,
        "counted": found.counted,
        "complete": found.complete,
        "causes": found.causes,
        "origins": found.origins,
        "oldest_ms": found.oldest_ms,
        "newest_ms": found.newest_ms,
    }
