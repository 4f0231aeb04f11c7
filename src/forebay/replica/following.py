"""A follower's side: it takes the leader's frames, and says what it has verified and synced.

An acknowledgement is never the log's end: a log may have frames at its end that this leader does not have. What is
verified is what stands, in one piece, behind a frame that the leader has, too. A log is cut only by the store, and only
where a frame of this leader has another epoch than the one that stands there.
"""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from forebay.replica.messages import (
    Acknowledgement,
    Append,
    CopyAsk,
    CopyGrant,
    Heartbeat,
    HeartbeatAnswer,
    RewriteOrder,
    RunsDiffer,
)
from forebay.replica.outcome import Taking
from forebay.replica.promises import Promises
from forebay.replica.standing import Standing
from forebay.replica.suspicion import Suspicion


@mypyc_attr(allow_interpreted_subclasses=True)
class Following:
    """The state of one member that follows, in one epoch at a time.

    epoch    the one that it has promised
    leader   who sends heartbeats and frames in this epoch; "" until one has come
    matched  the highest LSN that is verified against that leader, written or not
    synced   the highest of these that is on the own disk
    told     the leader's commit index
    is_full  the own disk has no room: what the leader sends is not taken, and not answered
    """

    def __init__(self, standing: Standing, promises: Promises, suspicion: Suspicion) -> None:
        self.standing = standing
        self.promises = promises
        self.suspicion = suspicion
        self.epoch: i64 = standing.promised
        self.leader = ""
        self.matched: i64 = 0
        self.synced: i64 = 0
        self.told: i64 = 0
        self.is_full = False

    def begin(self, epoch: i64) -> None:
        """A higher epoch: nothing is verified against its leader, and frames of the one before must not be taken."""
        self.epoch = epoch
        self.leader = ""
        self.matched = 0
        self.synced = 0
        self.told = 0
        self.standing.out.takings.clear()
        self.standing.out.rewrites.clear()
        self.standing.out.copy_from = ""

    def on_heartbeat(self, peer: str, message: Heartbeat, now: i64) -> None:
        standing = self.standing
        self.leader = peer
        self.suspicion.hear(now)
        self.promises.give(peer, now)
        standing.say(peer, HeartbeatAnswer(message.epoch, message.sent_us, standing.store_id))
        self.learn(message.commit)

    def on_append(self, peer: str, message: Append, now: i64) -> None:
        standing = self.standing
        self.leader = peer
        self.suspicion.hear(now)
        if self.is_full:
            self.learn(message.commit)
            return
        if not self.stands(message):
            standing.say(peer, RunsDiffer(message.epoch, standing.store_id, standing.log.runs()))
            return
        last = message.prev_lsn
        if message.shipments:
            last = message.shipments[-1].last
        if last > self.matched:
            self.matched = last
            self.take(message)
        elif self.synced > 0:
            self.acknowledge()
        self.learn(message.commit)

    def stands(self, message: Append) -> bool:
        """The frame before is in the log as the leader has it. What is verified up to there need not be looked up."""
        if message.prev_lsn <= self.matched:
            return True
        epoch = self.standing.log.epoch_of(int(message.prev_lsn))
        return epoch is not None and epoch == message.prev_epoch

    def take(self, message: Append) -> None:
        out = self.standing.out
        out.takings.append(Taking(message.epoch, message.prev_lsn, message.prev_epoch, message.shipments, self.matched))

    def written(self, epoch: i64, lsn: i64) -> None:
        """All that was verified up to here in this epoch is synced."""
        if epoch == self.epoch and lsn > self.synced:
            self.synced = lsn
            self.matched = max(self.matched, lsn)
            self.acknowledge()
            self.learn(self.told)

    def acknowledge(self) -> None:
        """Only once the promise is on the disk: this leader counts on it."""
        standing = self.standing
        if self.leader and self.synced > 0 and standing.promised_durable >= self.epoch:
            standing.say(self.leader, Acknowledgement(self.epoch, self.synced, standing.store_id))

    def learn(self, commit: i64) -> None:
        """The leader's commit index; of the own frames only what is verified and synced is surely what it counts."""
        self.told = max(self.told, commit)
        standing = self.standing
        standing.commit = max(standing.commit, min(self.told, self.synced))
        standing.confirmed = standing.commit

    def no_room(self) -> None:
        """The disk had no room for what the store has taken: nothing of it is there, and nothing more is taken."""
        self.is_full = True
        self.standing.out.takings.clear()
        self.matched = self.synced

    def has_room(self) -> None:
        """Tell the leader how far this log goes: it takes frames again."""
        self.is_full = False
        self.mismatched(self.epoch)

    def mismatched(self, epoch: i64) -> None:
        """The store has not taken frames, as those before them do not stand there, or were spoilt on the way."""
        standing = self.standing
        if epoch != self.epoch:
            return
        standing.out.takings.clear()
        self.matched = self.synced
        if self.leader:
            standing.say(self.leader, RunsDiffer(epoch, standing.store_id, standing.log.runs()))

    def on_rewrite(self, message: RewriteOrder) -> None:
        self.standing.out.rewrites.append(message)

    def on_copy_offer(self, peer: str) -> None:
        """A store in the in-sync set is never replaced: others count on what is in it."""
        standing = self.standing
        self.leader = peer
        if standing.view is None or standing.view.value.epoch < self.epoch or standing.is_in_sync():
            standing.out.read = True
        else:
            standing.say(peer, CopyAsk(self.epoch, standing.store_id))

    def on_copy_grant(self, peer: str, message: CopyGrant) -> None:
        """An offer may be late, and this store in sync by now; after the leader's grant it never will be."""
        if message.store_id == self.standing.store_id and not self.standing.is_in_sync():
            self.standing.out.copy_from = peer
