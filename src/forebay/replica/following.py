"""The follower's side of replication: accepts the leader's frames, and reports what it has verified and synced.

An acknowledgement is never simply the end of the log: a log may end in frames that this leader does not have. Verified
frames form one piece behind a frame that the leader has, too. Only the store truncates a log, and only where the
leader's frame at that place has another epoch than the store's.
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
    """The state of a member that follows, in one epoch at a time.

    epoch    the promised epoch
    leader   the node that sends heartbeats and frames in this epoch; "" until the first one has come
    matched  the highest LSN verified against that leader, written or not
    synced   the highest verified LSN on the local disk
    told     the leader's commit index, as last received
    is_full  the local disk has no room: frames from the leader are neither stored nor answered
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
        """Begin a higher epoch.

        Nothing is verified against its leader yet, so drop frames and orders of the epoch before.
        """
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
        """Return whether the local log has the frame before `message` in the same epoch.

        Verified frames need no lookup.
        """
        if message.prev_lsn <= self.matched:
            return True
        epoch = self.standing.log.epoch_of(int(message.prev_lsn))
        return epoch is not None and epoch == message.prev_epoch

    def take(self, message: Append) -> None:
        out = self.standing.out
        out.takings.append(Taking(message.epoch, message.prev_lsn, message.prev_epoch, message.shipments, self.matched))

    def written(self, epoch: i64, lsn: i64) -> None:
        """Record that the frames verified in `epoch` are synced up to `lsn`, and acknowledge them."""
        if epoch == self.epoch and lsn > self.synced:
            self.synced = lsn
            self.matched = max(self.matched, lsn)
            self.acknowledge()
            self.learn(self.told)

    def acknowledge(self) -> None:
        """Acknowledge the synced frames. Wait until the promise of this epoch is on disk: the leader relies on it."""
        standing = self.standing
        if self.leader and self.synced > 0 and standing.promised_durable >= self.epoch:
            standing.say(self.leader, Acknowledgement(self.epoch, self.synced, standing.store_id))

    def learn(self, commit: i64) -> None:
        """Record the leader's commit index. Count a local frame as committed only if it is verified and synced here."""
        self.told = max(self.told, commit)
        standing = self.standing
        standing.commit = max(standing.commit, min(self.told, self.synced))
        standing.confirmed = standing.commit

    def no_room(self) -> None:
        """Record that the disk had no room for frames passed to the store.

        None of them is there, and no more are accepted.
        """
        self.is_full = True
        self.standing.out.takings.clear()
        self.matched = self.synced

    def has_room(self) -> None:
        """Accept frames again, and send the leader the runs of this log so that it knows where to resume."""
        self.is_full = False
        self.mismatched(self.epoch)

    def mismatched(self, epoch: i64) -> None:
        """Drop pending frames of `epoch` that the store has refused, and send the leader the runs of this log.

        The store refuses frames if the frame before them is missing, or if they were corrupted on the way.
        """
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
        """Ask the leader for a copy of its files, unless this store is in sync.

        Other members rely on the content of an in-sync store. If it is in sync, or the register as last seen is out of
        date, read the register instead.
        """
        standing = self.standing
        self.leader = peer
        if standing.view is None or standing.view.value.epoch < self.epoch or standing.is_in_sync():
            standing.out.read = True
        else:
            standing.say(peer, CopyAsk(self.epoch, standing.store_id))

    def on_copy_grant(self, peer: str, message: CopyGrant) -> None:
        """Start copying the leader's files if the grant names this store and the store is not in sync.

        The offer may have come late, so that this store is in sync by now. After the grant the leader never adds this
        store to the in-sync set.
        """
        if message.store_id == self.standing.store_id and not self.standing.is_in_sync():
            self.standing.out.copy_from = peer
