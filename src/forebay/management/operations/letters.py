"""Operations on dead letters; what they do is in `broker/redrive/dead_letter_queues.py`."""

from __future__ import annotations

import base64
import binascii
from functools import partial

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
from forebay.management.arguments import Arguments, refuse
from forebay.management.control import Control, operation, page
from forebay.management.needs import ENTER, READ_QUEUE
from forebay.management.operations.queues import list_messages, where_of
from forebay.queue.queue import Queue
from forebay.routing.exchange import text


@operation("dlq.list", need=ENTER)
def list_letter_queues(control: Control, given: Arguments) -> dict[str, object]:
    """List the dead-letter queues, with their messages by cause and by the queue where they died.

    In a long queue only the oldest messages are counted by cause and origin; `counted` is their number.
    """
    vhost = control.vhost(given)
    return page(given, [partial(summary_fields, vhost, queue) for queue in dead_letter_queues(vhost)])


@operation("dlq.show", need=READ_QUEUE)
def show_letters(control: Control, given: Arguments) -> dict[str, object]:
    """Show dead letters, as `queue.messages` shows messages; `death` has the fields of the last death."""
    return list_messages(control, given)


@operation("dlq.redrive", changes=True)
def redrive_letters(control: Control, given: Arguments) -> dict[str, object]:
    """Send dead letters back to where they died first, or to another queue.

    One request handles a portion of the queue; `next` is where to continue, until it is absent. Each message is in
    exactly one place at any time. Messages that consumers hold (`held`) are skipped. With `offsets`, settled messages
    are counted as `gone`, so you may repeat the request: no message is sent back twice. A message that cannot go to its
    target is skipped and counted as `refused`; `refusal` explains the first.
    """
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(given.octets("queue"))
    if "id" in given and given.whole("id") != queue.id:
        raise RequestError(PRECONDITION, f"id: queue '{text(queue.name)}' is number {queue.id}: it was made anew")
    ranges = given.ranges("offsets")
    first, limit, scan = portion_of(given)
    portion = redrive(vhost, queue.name, where_of(given), given.octets("to"), first, limit, ranges, scan)
    fields = portion_fields(queue, portion)
    if ranges is not None:
        fields["gone"] = portion.gone
        fields["refused"] = portion.refused
        if portion.refused:
            fields["refusal"] = portion.refusal
    return fields


@operation("dlq.purge", changes=True, need=READ_QUEUE)
def purge_letters(control: Control, given: Arguments) -> dict[str, object]:
    """Discard dead letters in portions, as `dlq.redrive` does."""
    vhost = control.vhost(given)
    queue = vhost.catalog.queue(given.octets("queue"))
    first, limit, scan = portion_of(given)
    return portion_fields(queue, discard(vhost, queue.name, where_of(given), first, limit, None, scan))


@operation("dlq.edit", changes=True)
def edit_letter(control: Control, given: Arguments) -> dict[str, object]:
    """Replace a message by a changed one, at the end of its queue."""
    vhost = control.vhost(given)
    key = given.octets("routing_key") if "routing_key" in given else None
    edit(vhost, given.octets("queue"), given.whole("offset"), body_of(given), given.table("headers"), key)
    return {}


def body_of(given: Arguments) -> bytes | None:
    if "body" in given:
        return given.octets("body")
    if "body_base64" not in given:
        return None
    try:
        return base64.b64decode(given.text("body_base64"), validate=True)
    except (binascii.Error, ValueError):
        raise refuse("body_base64", given.text("body_base64"), "is no base64") from None


def portion_of(given: Arguments) -> tuple[int, int, int]:
    """The offset to begin at, the number of messages to change, and the number to look at."""
    return given.whole("from"), given.whole("limit"), given.whole("scan")


def portion_fields(queue: Queue, portion: Portion) -> dict[str, object]:
    fields: dict[str, object] = {"done": portion.done, "held": portion.held, "scanned": portion.scanned}
    fields["end"] = int(queue.log.end)
    if portion.next is not None:
        fields["next"] = portion.next
    return fields


def summary_fields(vhost: Vhost, queue: Queue) -> dict[str, object]:
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
