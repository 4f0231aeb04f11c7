"""The leader's side of replication: sends frames, and commits what the maximal in-sync set has synced.

The leader never truncates its own log. Its first frame is the barrier: nothing is committed, confirmed or delivered
before the barrier is committed. In asynchronous mode frames are confirmed once the barrier is on the leader's disk. The
leader delivers only while every store of the maximal set has answered a heartbeat that was sent within the lease.
"""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from forebay.replica.changes import Changes
from forebay.replica.leader.followers import NEVER, Followers
from forebay.replica.leader.in_sync_set import InSyncSet
from forebay.replica.leader.orders import Orders
from forebay.replica.leader.shipping import Shipping
from forebay.replica.messages import (
    Acknowledgement,
    CopyAsk,
    Heartbeat,
    HeartbeatAnswer,
    Interval,
    RunsDiffer,
)
from forebay.replica.promises import Promises
from forebay.replica.register import TRANSFER, View
from forebay.replica.standing import Entry, Standing


@mypyc_attr(allow_interpreted_subclasses=True)
class Leading:
    """The state of a member that leads, in one epoch.

    barrier  LSN of its first frame
    own      the highest LSN synced on the local disk
    """

    def __init__(self, standing: Standing, changes: Changes, promises: Promises, now: i64) -> None:
        end = i64(standing.log.end()[1])
        self.standing = standing
        self.changes = changes
        self.promises = promises
        self.barrier: i64 = end + 1
        self.own: i64 = 0
        self.heartbeat_us: i64 = now
        self.followers = self.make_followers(end, now)
        self.shipping = self.make_shipping()
        self.in_sync = self.make_in_sync()
        self.orders = Orders(standing)

    def make_followers(self, end: i64, now: i64) -> Followers:
        return Followers(self.standing.settings, end, now)

    def make_shipping(self) -> Shipping:
        return Shipping(self.standing, self.followers, self.barrier)

    def make_in_sync(self) -> InSyncSet:
        return InSyncSet(self.standing, self.changes, self.promises, self.followers, self.shipping, self.barrier)

    def seen(self, view: View) -> None:
        self.in_sync.seen(view)
        self.commit()

    def appended(self, lsn: i64, now: i64) -> None:
        """Send new frames to the other members; `lsn` is the last frame of the log.

        The local disk may not have it yet.
        """
        assert lsn >= self.barrier, f"frame {lsn} comes before the barrier {self.barrier}"
        self.followers.appended(lsn, now)
        counted = self.in_sync.counted()
        for node in self.standing.others():
            self.shipping.flush(node, self.followers.entry(node) in counted, now)

    def written(self, lsn: i64) -> None:
        self.own = max(self.own, lsn)
        self.commit()

    def commit(self) -> None:
        standing = self.standing
        if self.own >= self.barrier and standing.settings.is_async:
            standing.confirmed = max(standing.confirmed, self.own)
        view = standing.view
        if view is None or len(self.in_sync.stores) < view.value.min_in_sync:
            return
        lsn = self.in_sync.synced(self.own)
        if lsn >= self.barrier and lsn > standing.commit:
            standing.commit = lsn
            standing.confirmed = max(standing.confirmed, lsn)

    def on_answer(self, peer: str, message: HeartbeatAnswer, now: i64) -> None:
        entry = (peer, message.store_id)
        before = self.followers.answered.get(entry, NEVER)
        self.followers.answer(entry, message.sent_us, now)
        if now - before > self.standing.settings.put_out_us:
            self.shipping.again(peer, self.in_sync.counts(peer), now)

    def on_acknowledgement(self, peer: str, message: Acknowledgement, now: i64) -> None:
        entry = (peer, message.store_id)
        if self.followers.acknowledge(entry, message.lsn):
            self.shipping.acknowledged(peer, message.lsn, self.in_sync.counts(peer), now)
            self.orders.tell(peer, message.lsn)
            self.commit()
            joining = self.in_sync.joining.get(entry)
            if joining is not None and message.lsn >= joining[0]:
                self.manage(now)

    def on_mismatch(self, peer: str, message: RunsDiffer, now: i64) -> None:
        self.followers.store_ids[peer] = message.store_id
        self.shipping.mismatch(peer, message.runs, self.in_sync.counts(peer), now)

    def on_copy_ask(self, peer: str, message: CopyAsk) -> None:
        if self.in_sync.bar((peer, message.store_id)):
            self.shipping.grant_copy(peer, message.store_id)

    def connected(self, peer: str, now: i64) -> None:
        if peer in self.standing.others():
            self.beat(peer, now)
            self.orders.again(peer, self.followers.got(self.followers.entry(peer)))
            self.shipping.again(peer, self.in_sync.counts(peer), now)

    def refused(self, peer: str, tried: i64, now: i64) -> None:
        for entry in self.in_sync.stores:
            if entry[0] == peer:
                self.followers.refused(entry, tried)
        self.manage(now)

    def manage(self, now: i64) -> None:
        if not self.standing.has_paused(now) and self.in_sync.manage(now):
            self.commit()

    def tick(self, now: i64) -> None:
        if now >= self.heartbeat_us and not self.standing.is_stalled:
            self.heartbeat_us = now + self.standing.settings.heartbeat_us
            counted = self.in_sync.counted()
            for node in self.standing.others():
                self.beat(node, now)
                self.shipping.check(node, self.followers.entry(node) in counted, now)

    def beat(self, node: str, now: i64) -> None:
        self.standing.say(node, Heartbeat(self.standing.epoch, now, self.standing.commit))

    def can_deliver(self, now: i64) -> bool:
        """Return whether deliveries may be sent at the time `now`."""
        if self.standing.commit < self.barrier or self.is_stopped() or not self.may_deliver(now):
            return False
        lease = self.standing.settings.lease_us
        for entry in self.leased():
            if entry[0] != self.standing.name and now - self.followers.answered.get(entry, NEVER) >= lease:
                return False
        return True

    def leased(self) -> set[Entry]:
        """Return the stores that must have answered within the lease for this member to deliver.

        Any of them may become the leader without this member's knowledge.
        """
        return self.in_sync.counted()

    def is_stopped(self) -> bool:
        """Return whether leadership is being handed over. The next leader may deliver at once, so this one must not."""
        return self.changes.hands_over()

    def may_deliver(self, now: i64) -> bool:
        """Return whether every promise to an earlier leader has expired. Until then that leader may still deliver."""
        return self.promises.are_over(now)

    def rewritten(self, number: i64, last: i64, wanted: dict[int, list[Interval]]) -> None:
        """Order every member to rewrite this WAL file, too, once it has all of the file's frames."""
        self.orders.add(number, last, wanted)
        for node in self.standing.others():
            self.orders.tell(node, self.followers.got(self.followers.entry(node)))

    def keep_from(self) -> i64:
        """Return the LSN from which frames are kept for members that lack them; 1 if the progress of one is unknown."""
        least = self.standing.commit
        for node in self.standing.others():
            got = self.followers.got(self.followers.entry(node))
            copy = self.shipping.copies.get(node)
            if copy is not None:
                got = copy[1]
            elif got == 0:
                got = 1
            least = min(least, got)
        return least

    def heir(self, now: i64, avoided: set[str]) -> str:
        """Return the in-sync follower that has the most frames and is not in `avoided`; "" if there is none."""
        best = ""
        most: i64 = 0
        for entry in sorted(self.in_sync.stores):
            got = self.followers.got(entry)
            is_other = entry[0] != self.standing.name and entry[0] not in avoided
            if is_other and got > most and self.followers.is_alive(entry, now):
                best = entry[0]
                most = got
        return best

    def transfer(self, to: str, now: i64) -> str:
        """Propose to hand leadership over to the in-sync member `to`.

        Return the reason of a refusal, or "" if proposed.
        """
        view = self.standing.view
        assert view is not None
        store_id = view.value.in_sync.get(to)
        if to == self.standing.name or store_id is None or view.value.epoch != self.standing.epoch:
            return f"{to!r} is no follower that is in sync"
        entry = (to, store_id)
        if self.followers.got(entry) < self.barrier or not self.followers.is_alive(entry, now):
            return f"{to!r} has not caught up"
        if self.changes.pending is not None:
            return "another change of the register is under way"
        value = view.value.copy(TRANSFER, self.standing.name)
        value.epoch = view.value.epoch + 1
        value.leader = to
        self.changes.propose(value, now)
        return ""
