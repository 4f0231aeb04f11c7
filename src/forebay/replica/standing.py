"""The standing of a member: all that its parts share."""

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
PREPARES: Final = 1  # it is to lead, and its promise is on its way to the disk
LEADS: Final = 2

PAUSES: Final = 4  # without a tick for this part of the time of silence


@final
class Standing:
    """The standing of one member, from its start to its end.

    out                what it asks for until somebody takes it
    view               the register as last seen
    role               FOLLOWS, PREPARES, LEADS
    epoch              in which it prepares or leads; else that of the last time
    promised           it refuses whatever is of a lower epoch
    promised_durable   the same, as `store.json` or the frames on the disk have it
    promised_at_start  the same, when it started: it may have led in that epoch
    commit             all frames up to here are committed, as far as it knows
    confirmed          the same, or in asynchronous mode what the leader's own disk has, if that is more
    ticked_us          when the last tick was
    can_lead           its disk has room for what a leader begins with: else it takes over from nobody
    is_stalled         its disk has not answered for too long: it sends no heartbeats
    is_busy            its process has about all that it can do: members that catch up get less from it
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
        """True if this process stood still until just now: silence means nothing before the inbox is read."""
        return now - self.ticked_us > self.settings.silence_us // PAUSES

    def is_in_sync(self) -> bool:
        """True if this very store is in sync, as the register was last seen."""
        view = self.view
        return view is not None and view.value.in_sync.get(self.name) == self.store_id

    def others(self) -> list[str]:
        """The other members, as the register was last seen, sorted."""
        view = self.view
        if view is None:
            return []
        return [name for name in sorted(view.value.members) if name != self.name]

    def say(self, peer: str, message: PeerMessage) -> None:
        self.out.messages.append((peer, encode_message(message)))
