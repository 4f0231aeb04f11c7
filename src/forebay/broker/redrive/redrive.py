"""Messages that wait in a queue, moved to another by choice.

As dead letters move: what is appended elsewhere and what is settled by it are one frame of the write-ahead log, so that
after a crash each message is in one place.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from forebay.broker.publish.route import Route
from forebay.broker.redrive.dead_letter_queues import (
    SCANNED_AT_ONCE,
    Portion,
    carry,
    offset_of,
    select,
    work_of,
)
from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, REFUSED, RequestError, note_half_change
from forebay.directory.permissions import Rights
from forebay.filter.parser import Filter
from forebay.message.formats.conversion import for_exchange
from forebay.message.formats.table import format_of
from forebay.message.record import record_at
from forebay.message.rendered import rendered
from forebay.message.subject import RecordSubject
from forebay.routing.exchange import text


class RedriveTarget:
    """The target of messages: one queue, or what an exchange leads to.

    queue        None: to the exchange
    routing_key  None: that of each message
    rights       of whoever moves them, who must be allowed to publish there; None: he may do everything
    """

    def __init__(
        self, queue: bytes | None, exchange: bytes, routing_key: bytes | None, rights: Rights | None = None
    ) -> None:
        self.queue = queue
        self.exchange = exchange
        self.routing_key = routing_key
        self.rights = rights

    def check(self, vhost: Vhost, key: bytes) -> None:
        """RequestError(REFUSED) where a message of this routing key may not be published there; Undecided."""
        if self.rights is None:
            return
        if self.queue is not None:
            self.rights.check_publish(b"", self.queue, False)
        else:
            self.rights.check_publish(self.exchange, key, vhost.catalog.is_topic_exchange(self.exchange))


def move(
    vhost: Vhost,
    name: bytes,
    target: RedriveTarget,
    where: Filter | None,
    first: int,
    limit: int,
    ranges: list[tuple[int, int]] | None = None,
    scan: int = SCANNED_AT_ONCE,
) -> Portion:
    """Move messages that wait, nobody holds and the filter wants; each is in one place at any time.

    What cannot go is left, counted as `refused`, and does not hold up the others.
    raises  RequestError: NOT_FOUND without the queue, or the target; INVALID where they are one, or the queue a stream.
            Undecided, and nothing has moved
    """
    try:
        queue, group = work_of(vhost, name)
        if target.queue is None:
            vhost.catalog.check_exchange(target.exchange)
        elif vhost.catalog.queue(target.queue) is queue:
            raise RequestError(INVALID, f"to: '{text(name)}' is the queue itself")
        portion, chosen = select(vhost, queue, group, where, first, limit, ranges, scan)
        decide(vhost, target, chosen)
        carry(vhost, queue, group, portion, chosen, partial(send, vhost, target=target), True)
        return portion
    except Exception as error:
        note_half_change(error)
        raise


def decide(vhost: Vhost, target: RedriveTarget, chosen: list[RecordSubject]) -> None:
    """Undecided until it is known of each message whether it may go there."""
    if target.rights is not None:
        for key in {key_at(message, target) for message in chosen}:
            with suppress(RequestError):
                target.check(vhost, key)


def key_at(message: RecordSubject, target: RedriveTarget) -> bytes:
    """The routing key that a message has where it goes, in AMQP's words."""
    if target.routing_key is not None:
        return target.routing_key
    block, index = message.block, message.index
    return format_of(block.format(index)).amqp_address(block.exchange(index), block.routing_key(index))[1]


def send(vhost: Vhost, message: RecordSubject, target: RedriveTarget) -> None:
    """Append one message to where it goes; RequestError where it cannot go there."""
    record = record_at(message.block, message.index)
    key = key_at(message, target)
    target.check(vhost, key)
    if target.queue is not None:
        queue = vhost.catalog.queue(target.queue)
        vhost.mover.hand_over(Route(record.exchange, record.routing_key, [queue], None), record)
        return
    record = for_exchange(record)
    content = format_of(record.format).decode(rendered(record.format, record.properties, record.annotations))
    route = vhost.router.find_route(target.exchange, [key], content)
    if not route.queues and route.audience is None:
        raise RequestError(
            REFUSED,
            f"offset {offset_of(message)}: exchange '{text(target.exchange)}' leads routing key '{text(key)}' nowhere",
        )
    vhost.mover.hand_over(route, record)
