"""The delivery of messages to very many MQTT clients, spread over turns.

A run of messages for a wide audience is sealed, and stored where it has to be, in the turn in which it was published:
what was confirmed is in the sessions' log then, whoever has it already. The clients get it in parts, so that nobody
waits for all of them. Runs are served one after the other. Whoever has published one publishes nothing more before its
batch is done: so every client gets the messages of a publisher in their order.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.mqtt.audience import Recipient
from forebay.broker.mqtt.client_session import ClientSession
from forebay.log.block import Block
from forebay.queue.leases.lease import Encodings

POINTS_A_TURN: Final = 5_000
ONLINE_POINTS: Final = 5  # of a delivery to a client that is there, and to one that is not
OFFLINE_POINTS: Final = 1


@final
class WideRun:
    """Consecutive messages, block[index .. index + count), for many recipients.

    at         the next recipient
    passed_by  clients that have been given the messages out of turn
    """

    def __init__(
        self, recipients: list[Recipient], block: Block, index: i64, count: i64, encodings: Encodings | None
    ) -> None:
        self.recipients = recipients
        self.block = block
        self.index: i64 = index
        self.count: i64 = count
        self.encodings = encodings
        self.at: i64 = 0
        self.passed_by: dict[ClientSession, None] = {}

    def first(self) -> i64:
        """Return the offset of the first message."""
        return self.block.base + self.index


@final
class Batch:
    """The wide runs that were published in one turn.

    done  all of them have been delivered
    """

    def __init__(self) -> None:
        self.runs: list[WideRun] = []
        self.next: i64 = 0
        self.done = False


@final
class WideDeliveries:
    """The wide runs of a vhost that are not delivered yet.

    open     the batch of this turn; None while nobody has published anything wide in it
    batches  the oldest first
    most     points of a turn
    left     points of this turn
    """

    def __init__(self) -> None:
        self.most: i64 = POINTS_A_TURN
        self.open: Batch | None = None
        self.batches: list[Batch] = []
        self.left: i64 = POINTS_A_TURN

    def has_work(self) -> bool:
        """Return whether somebody has published anything wide that is not delivered yet."""
        return self.open is not None or bool(self.batches)

    def ticket(self) -> Batch:
        """Return the batch of this turn."""
        batch = self.open
        if batch is None:
            batch = self.open = Batch()
        return batch

    def add(
        self, recipients: list[Recipient], block: Block, index: i64, count: i64, encodings: Encodings | None
    ) -> None:
        """Add a run to the batch of this turn."""
        self.ticket().runs.append(WideRun(recipients, block, index, count, encodings))

    def begin(self) -> None:
        """Begin to deliver at the end of a turn: what is published from here on is of the next one."""
        self.left = self.most
        batch = self.open
        if batch is not None:
            self.open = None
            if batch.runs:
                self.batches.append(batch)
            else:
                batch.done = True

    def run(self) -> WideRun | None:
        """Return the run to go on with; None if there is none, or this turn has had enough."""
        while self.batches:
            batch = self.batches[0]
            while batch.next < len(batch.runs):
                run = batch.runs[batch.next]
                if run.at < len(run.recipients):
                    return run if self.left > 0 else None
                batch.next += 1
            batch.done = True
            self.batches.pop(0)
        return None

    def waiting(self, place: i64) -> list[WideRun]:
        """Return the runs with recipients left of this kind: DIRECT or LOGGED."""
        found: list[WideRun] = []
        batches = self.batches if self.open is None else [*self.batches, self.open]
        for batch in batches:
            for run in batch.runs:
                if run.at < len(run.recipients) and run.recipients[0].queue == place:
                    found.append(run)
        return found
