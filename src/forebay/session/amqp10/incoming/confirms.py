"""The dispositions that a client is owed for what it has published in one session.

A message is accepted once the frame of its turn is on disk. Deliveries of one session that follow each other are
accepted by one disposition.
"""

from __future__ import annotations

from collections import deque
from typing import final

from librt.strings import BytesWriter
from mypy_extensions import i64

from forebay.session.amqp10.link import LinkEndpoint
from forebay.session.traffic import Traffic
from forebay.wire.amqp10.outgoing import ACCEPTED_STATE, put_disposition
from forebay.wire.amqp10.performatives import ROLE_RECEIVER


@final
class ConfirmRun:
    """Consecutive deliveries by one link. A run never wraps: many clients compare delivery-ids as plain numbers."""

    def __init__(self, link: LinkEndpoint, first: i64) -> None:
        self.link = link
        self.first: i64 = first
        self.last: i64 = first


@final
class SessionConfirms:
    """The accepted deliveries of one session of which the client does not know yet.

    turn     of the turn in hand
    waiting  (lsn, runs): due once the lsn is on disk
    owed     deliveries in both
    traffic  counts of what the client has published in the session
    """

    def __init__(self, out: BytesWriter, channel: i64) -> None:
        self.out = out
        self.channel: i64 = channel
        self.turn: list[ConfirmRun] = []
        self.waiting: deque[tuple[int, list[ConfirmRun]]] = deque()
        self.owed: i64 = 0
        self.traffic = Traffic()

    def add(self, link: LinkEndpoint, delivery_id: i64) -> None:
        """Note a message that was taken, whose publisher waits for the disk."""
        self.owed += 1
        turn = self.turn
        if turn:
            run = turn[len(turn) - 1]
            if run.link is link and run.last + 1 == delivery_id:
                run.last = delivery_id
                return
        turn.append(ConfirmRun(link, delivery_id))

    def end_turn(self, lsn: int, durable: int) -> None:
        """Accept the messages of the turn as soon as `lsn` is on disk."""
        if not self.turn:
            return
        runs = self.turn
        self.turn = []
        if durable >= lsn and not self.waiting:
            self.write(runs)
        else:
            self.waiting.append((lsn, runs))

    def on_durable(self, durable: int) -> None:
        """Accept what is on disk now."""
        while self.waiting and self.waiting[0][0] <= durable:
            self.write(self.waiting.popleft()[1])

    def write(self, runs: list[ConfirmRun]) -> None:
        """Write dispositions, of whatever runs follow each other one. Links that are gone get none."""
        first: i64 = -1
        last: i64 = -1
        for run in runs:
            count = run.last - run.first + 1
            self.owed -= count
            if not run.link.is_attached:
                continue
            self.traffic.confirmed += count
            run.link.unsettled -= count
            if first >= 0 and run.first == last + 1:
                last = run.last
                continue
            if first >= 0:
                put_disposition(self.out, self.channel, ROLE_RECEIVER, first, last, True, ACCEPTED_STATE)
            first, last = run.first, run.last
        if first >= 0:
            put_disposition(self.out, self.channel, ROLE_RECEIVER, first, last, True, ACCEPTED_STATE)
