"""The requests of a member to the world around it."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.log.shipment import Shipment
from forebay.replica.messages import RewriteOrder
from forebay.replica.register import RegisterValue

# Roles, as people are told.
LEARNER: Final = "learner"
FOLLOWER: Final = "follower"
PREPARING: Final = "preparing"
LEADER: Final = "leader"


@final
class Change:
    """A compare-and-set of the register: this value, if it is still at this revision."""

    def __init__(self, revision: i64, value: RegisterValue) -> None:
        self.revision: i64 = revision
        self.value = value


@final
class Taking:
    """Frames for the store to take, behind a frame that stands there.

    epoch  of the leader that they come from
    last   the store has verified all up to here once it has taken them. Once all that, whether these frames brought it
           or it was there before, is synced: `Member.written(epoch, last, now)`
    """

    def __init__(self, epoch: i64, prev_lsn: i64, prev_epoch: i64, shipments: list[Shipment], last: i64) -> None:
        self.epoch: i64 = epoch
        self.prev_lsn: i64 = prev_lsn
        self.prev_epoch: i64 = prev_epoch
        self.shipments = shipments
        self.last: i64 = last


@final
class Outcome:
    """The work that a step asks for, in the order of the fields; empty fields ask for nothing.

    takings    for the store, one after the other
    promise    epoch to be written to `store.json`, synced; then `Member.promised`; 0 for none
    messages   member and octets, in their order for each member
    read       the register is to be read; then `Member.seen`
    change     of the register; then `Member.outcome`, and `Member.seen` with what the register says by then
    probe      members to connect to anew; then `Member.connected`, or `Member.refused` with the time when that began
    rewrites   WAL files that the store is to rewrite as told
    copy_from  the member whose files this store is to be replaced by; "" for none. The store that comes of it has an id
               of its own, and a `Member` of its own, which starts as after a restart. Said again until then
    events     for people

    How the member stands, in every outcome:

    role       LEARNER, FOLLOWER, PREPARING, LEADER. Whoever becomes LEADER, or is it in another epoch than before,
               begins a new WAL file, whose first frame is the barrier, and has all its frames reported by
               `Member.appended`; whoever is it no longer, or in another epoch, first gives up its vhosts and what they
               have not yet given to the log
    epoch      in which it leads, or which it follows
    leader     as far as it is known; else ""
    commit     all frames up to here are committed
    confirmed  what has come in up to here may be confirmed: the same, but in asynchronous mode what is on the own disk
    keep_from  WAL files with the frames from here on are kept for members that catch up, as far as there is room. The
               file with the frame `commit` stays in any case, whoever leads: members in sync have that frame, and it
               may be the last that they have in common
    is_copied  a member makes a copy of the files, and needs frames from there on however many they are
    """

    def __init__(self) -> None:
        self.takings: list[Taking] = []
        self.promise: i64 = 0
        self.messages: list[tuple[str, bytes]] = []
        self.read = False
        self.change: Change | None = None
        self.probe: list[str] = []
        self.rewrites: list[RewriteOrder] = []
        self.copy_from = ""
        self.events: list[str] = []
        self.role = FOLLOWER
        self.epoch: i64 = 0
        self.leader = ""
        self.commit: i64 = 0
        self.confirmed: i64 = 0
        self.keep_from: i64 = 0
        self.is_copied = False
