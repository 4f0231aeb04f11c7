"""The state of a member that all its parts share."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.replica.messages import PeerMessage, encode_message
from forebay.replica.outcome import Outcome
from forebay.replica.register import View
from forebay.replica.replica_log import ReplicaLog
from forebay.replica.settings import ReplicaSettings

Entry = tuple[str, str]  # a store: node and store id

FOLLOWS: Final = 0
PREPARES: Final = 1  # the register names it leader, and its promise is on its way to the disk
LEADS: Final = 2

PAUSES: Final = 4  # a pause is a time without a tick of 1/PAUSES of `silence_us`


@final
class Standing:
    """The shared state of one member, from its start to its end.

    out                the work the member asks for until `Member.take` returns it
    view               the register as last seen
    role               FOLLOWS, PREPARES or LEADS
    epoch              the epoch in which it prepares or leads, or last did
    promised           the promised epoch: messages of a lower one are refused
    promised_durable   the promised epoch on disk, in `store.json` or in frames
    promised_at_start  the promised epoch when the member started: it may have led in that epoch
    commit             LSN up to which all frames are known to be committed
    confirmed          `commit`, or in asynchronous mode what the leader's own disk has, if that is more
    ticked_us          time of the last tick
    can_lead           the disk has room for what a leader writes at first. Without it the member does not take over
    is_stalled         the disk has not answered for too long, and no heartbeats are sent
    is_busy            the process is near its capacity, so members that catch up get less from it
    """

    def __init__(self, name: str, store_id: str, promised: i64, log: ReplicaLog, settings: ReplicaSettings) -> None:
        self.name = name
        self.store_id = store_id
        self.log = log
        self.settings = settings
        self.out = Outcome()
        self.view: View | None = None
        self.role: i64 = FOLLOWS
        self.epoch: i64 = 0
        before = max(promised, i64(log.end()[0]))
        self.promised: i64 = before
        self.promised_durable: i64 = before
        self.promised_at_start: i64 = before
        self.commit: i64 = 0
        self.confirmed: i64 = 0
        self.ticked_us: i64 = 0
        self.can_lead = True
        self.is_stalled = False
        self.is_busy = False

    def has_paused(self, now: i64) -> bool:
        """Return whether this process stood still until just now.

        Silence then means nothing until the inbox is read.
        """
        return now - self.ticked_us > self.settings.silence_us // PAUSES

    def is_in_sync(self) -> bool:
        """Return whether this member's store is in sync, according to the register as last seen."""
        view = self.view
        return view is not None and view.value.in_sync.get(self.name) == self.store_id

    def others(self) -> list[str]:
        """Return the names of the other members in the register as last seen, sorted."""
        view = self.view
        if view is None:
            return []
        return [name for name in sorted(view.value.members) if name != self.name]

    def say(self, peer: str, message: PeerMessage) -> None:
        self.out.messages.append((peer, encode_message(message)))
