"""The requests of a member to the process around it."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.log.shipment import Shipment
from forebay.replica.messages import RewriteOrder
from forebay.replica.register import RegisterValue

# Roles, as shown to people.
LEARNER: Final = "learner"
FOLLOWER: Final = "follower"
PREPARING: Final = "preparing"
LEADER: Final = "leader"


@final
class Change:
    """A compare-and-set of the register: write `value` if the register is still at `revision`."""

    def __init__(self, revision: i64, value: RegisterValue) -> None:
        self.revision: i64 = revision
        self.value = value


@final
class Taking:
    """Frames that the store has to add behind a frame it already has.

    epoch       epoch of the leader that sent the frames
    prev_lsn    LSN of the frame before, 0 for none
    prev_epoch  epoch of that frame
    shipments   the frames
    last        LSN up to which the log is verified once the store has added the frames. When all frames up to it are
                synced, whether these or older ones, call `Member.written(epoch, last, now)`
    """

    def __init__(self, epoch: i64, prev_lsn: i64, prev_epoch: i64, shipments: list[Shipment], last: i64) -> None:
        self.epoch: i64 = epoch
        self.prev_lsn: i64 = prev_lsn
        self.prev_epoch: i64 = prev_epoch
        self.shipments = shipments
        self.last: i64 = last


@final
class Outcome:
    """The work that a step asks for, in the order of the fields. Empty fields ask for nothing.

    takings    frames for the store, one after the other
    promise    epoch to write to `store.json` and sync, followed by `Member.promised`; 0 for none
    messages   member and bytes of each message, in order for each member
    read       the register has to be read, followed by `Member.seen`
    change     change of the register, followed by `Member.outcome`, and by `Member.seen` with what the register then
               says
    probe      members to connect to anew, followed by `Member.connected`, or by `Member.refused` with the time at which
               the attempt began
    rewrites   WAL files that the store has to rewrite as ordered
    copy_from  the member whose files replace this store; "" for none. The resulting store has its own id and its own
               `Member`, which starts as after a restart. Repeated until then
    events     log messages for people

    The state of the member, in every outcome:

    role       LEARNER, FOLLOWER, PREPARING or LEADER. A node that becomes LEADER, or leads in a new epoch, begins a new
               WAL file, whose first frame is the barrier, and has all its frames reported by `Member.appended`. A node
               that no longer leads, or leads in a new epoch, first gives up its vhosts and what they have not yet
               written to the log
    epoch      the epoch in which it leads or follows
    leader     the leader as far as it is known, else ""
    commit     LSN up to which all frames are committed
    confirmed  LSN up to which publishes may be confirmed: `commit`, or in asynchronous mode what the local disk has
    keep_from  LSN from which WAL files are kept for members that catch up, as far as there is room. The file with the
               frame `commit` stays in any case, on every node: in-sync members have that frame, and it may be the last
               that they have in common
    is_copied  a member is copying the files, and needs all frames from there on, however many
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
