"""The way of what is appended in one place and settled in another: dead letters, redrives, moves, delayed messages.

What `send` appends is in the frame of this turn. Whoever calls settles the record where it was in the same turn if it
is ACCEPTED, and leaves it there if not: after a crash it is where it was, or wherever its route leads. Records of one
sender arrive in the order of his calls.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64, u8

from forebay.broker.publish.delayed import DelayedMessage
from forebay.broker.publish.headers import read_publish_headers
from forebay.broker.publish.outcome import NO_ROOM, PublishOutcome
from forebay.broker.publish.publishing import Publishing
from forebay.broker.publish.route import Route
from forebay.broker.shared.queue_shares import QueueShares
from forebay.core.errors import REFUSED, RequestError, note_half_change
from forebay.core.message import ACCEPTED, EXPIRES, KEYED, REJECTED
from forebay.message.formats.table import format_of
from forebay.message.record import StoredRecord
from forebay.queue.queue import Queue
from forebay.routing.cut_work import STEPS_A_TURN
from forebay.routing.exchange import text

DELAYED_AT_ONCE: Final = 10_000  # messages whose time has come that one tick publishes
RETRY_US: Final = 1_000_000  # after which a delayed message for which the disk had no room is tried again


@final
class Mover:
    """Appends the records of one vhost where they go next."""

    def __init__(self, publishing: Publishing, shares: QueueShares) -> None:
        self.publishing = publishing
        self.shares = shares

    def send(
        self, route: Route, record: StoredRecord, whole: bool, owed: bool, source: Queue | None = None
    ) -> PublishOutcome:
        """Append a record with the words of this route: ACCEPTED, or nobody has it.

        whole   to all queues of the route or to none; else REJECTED is only what all of them refuse
        owed    the broker has taken it long ago: no session's quota refuses it
        source  queue that it leaves, whose publishers wait where a target is over its share
        """
        if whole:
            full = refusing_queues(route, len(record.body))
            if full:
                return PublishOutcome(
                    REJECTED, f"queue '{text(full[0].name)}' {full[0].refusal(len(record.body))}", full
                )
        stored = record.format & ~(EXPIRES | KEYED) | format_of(record.format).marks(record.properties)
        outcome = self.publishing.publish(route, u8(stored), record.properties, record.body, record.annotations, owed)
        pressing = outcome.pressing
        if source is not None and isinstance(pressing, Queue):
            self.shares.crowd_behind(source, pressing)
        refusing = len(outcome.queues)
        if refusing and (refusing < len(route.queues) or route.audience is not None or route.copies):
            return PublishOutcome(ACCEPTED, outcome.reason, outcome.queues, pressing)
        return outcome

    def hand_over(self, route: Route, record: StoredRecord) -> None:
        """Append a record that somebody moves by choice to all queues of a route; RequestError(REFUSED) if not."""
        for target in route.queues:
            self.publishing.catalog.refuse_view(target, "cannot publish")
        outcome = self.send(route, record, True, False)
        if outcome.status != REJECTED:
            return
        if outcome.queues:
            raise RequestError(REFUSED, outcome.reason)
        names = ", ".join([f"'{text(target.name)}'" for target in route.queues])
        raise RequestError(REFUSED, f"queue {names} does not take it: {outcome.reason}")

    # ---- delayed messages

    def release(self, now_us: i64) -> None:
        """Publish the delayed messages whose time has come; those for which the disk has no room wait on.

        The rest waits for the next call where to find their ways has taken long.
        """
        delayed = self.publishing.delayed
        work = self.publishing.router.uncut
        work.spent = 0
        for _ in range(DELAYED_AT_ONCE):
            messages = delayed.due(now_us, 1)
            if not messages:
                return
            if self.publish_due(messages[0]) is NO_ROOM:
                delayed.put_back(messages[0], now_us + RETRY_US)
            elif messages[0].recurrence:
                delayed.put_next(messages[0], now_us)
            if work.spent >= STEPS_A_TURN:
                return

    def publish_due(self, message: DelayedMessage) -> PublishOutcome:
        """Publish a message whose time has come. NO_ROOM alone is a reason to try again."""
        try:
            publishing = self.publishing
            format = format_of(message.format)
            if format.keys_are_topics:
                return publishing.publish_topic(message.topic, u8(message.format), message.properties, message.body)
            headers = read_publish_headers(format, message.properties)
            try:
                route = publishing.router.route(message.exchange, message.topic)
                route = publishing.route_with_headers(route, headers, u8(message.format))
            except RequestError as error:  # its exchange is gone
                return PublishOutcome(REJECTED, error.text)
            record = StoredRecord(
                message.format, message.exchange, message.topic, headers.properties, message.body, b""
            )
            return self.send(route, record, False, True)
        except Exception as error:
            note_half_change(error)
            raise


def refusing_queues(route: Route, octets: i64) -> list[Queue]:
    """Return the queues of a route that would refuse a message with a body of `octets` bytes."""
    return [queue for queue in route.queues if queue.limits.refuses and queue.refuses(octets)]
