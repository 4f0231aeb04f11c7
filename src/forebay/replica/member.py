"""One member of a group. It leads, follows or catches up, and asks for the I/O that replication needs.

Pure: no I/O, no clock, no random numbers. All input comes by method calls, with the time in microseconds of a monotonic
clock. After any calls, `take` returns what they ask for as one value. Do all of that before the store is given anything
else. Each part has its own rules:

    register, changes     one compare-and-set at a time, and when its outcome is known
    promises, suspicion   a follower's promise to its leader, and when the follower takes over
    following             verified, synced, acknowledged
    leader/               the barrier, the commit, the lease;
                          which stores count for these, and how stores join and leave the in-sync set;
                          send windows, and how a member catches up

A member lives as long as its process and its folder. After a restart, or once its folder was replaced by a copy, there
is a new member. A member leads an epoch at most once, and never one that it may have promised before its start.
"""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from forebay.core.errors import NOT_ALLOWED, PRECONDITION, RequestError
from forebay.core.ports import UNKNOWN
from forebay.replica.changes import Changes
from forebay.replica.following import Following
from forebay.replica.leader.leading import Leading
from forebay.replica.membership import Membership, PresentNode
from forebay.replica.messages import (
    Acknowledgement,
    Append,
    CopyAsk,
    CopyGrant,
    CopyOffer,
    Heartbeat,
    HeartbeatAnswer,
    Interval,
    PeerMessage,
    RefusedEpoch,
    RewriteOrder,
    RunsDiffer,
    decode_message,
)
from forebay.replica.outcome import FOLLOWER, LEADER, LEARNER, PREPARING, Change, Outcome
from forebay.replica.preference import Preference
from forebay.replica.promises import Promises
from forebay.replica.register import FORCED, TRANSFER, RegisterValue, View
from forebay.replica.replica_log import ReplicaLog
from forebay.replica.settings import ReplicaSettings
from forebay.replica.standing import FOLLOWS, LEADS, PREPARES, Standing
from forebay.replica.status import MemberStatus, status_of
from forebay.replica.suspicion import Suspicion


@mypyc_attr(allow_interpreted_subclasses=True)
class Member:
    """The public interface of replication.

    standing  the state that all parts share
    leading   the leader's side; None while the member does not lead
    led       the epoch that it last led, or prepared to lead
    avoided   members that leadership is not handed over to
    read_us   time at which the register is to be read next
    """

    def __init__(
        self, name: str, store_id: str, promised_epoch: i64, log: ReplicaLog, settings: ReplicaSettings
    ) -> None:
        self.settings = settings
        self.standing = Standing(name, store_id, promised_epoch, log, settings)
        self.changes = self.make_changes()
        self.promises = self.make_promises()
        self.suspicion = self.make_suspicion()
        self.following = self.make_following()
        self.membership = Membership(settings.members_max, settings.replace_us)
        self.preference = Preference(settings)
        self.leading: Leading | None = None
        self.led: i64 = -1
        self.avoided: set[str] = set()
        self.read_us: i64 = 0

    def make_changes(self) -> Changes:
        return Changes(self.standing)

    def make_promises(self) -> Promises:
        return Promises(self.standing.name, self.settings)

    def make_suspicion(self) -> Suspicion:
        return Suspicion(self.standing, self.changes)

    def make_following(self) -> Following:
        return Following(self.standing, self.promises, self.suspicion)

    def make_leading(self, now: i64) -> Leading:
        return Leading(self.standing, self.changes, self.promises, now)

    # Input.

    def start(self, now: i64) -> None:
        """Start the member. Call once, before any other method."""
        if self.standing.promised_at_start > 0:
            self.promises.start(now)
        self.suspicion.start(now)
        self.standing.ticked_us = now
        self.read_us = now
        self.tick(now)

    def tick(self, now: i64) -> None:
        """Advance timers. Call about every 50 ms.

        After a pause of the process, deliver all pending messages first, or a live leader looks dead.
        """
        if now >= self.read_us:
            self.read_us = now + self.settings.read_us
            self.standing.out.read = True
        self.changes.tick(now)
        leading = self.leading
        if leading is not None:
            leading.tick(now)
            leading.manage(now)
            if self.preference.is_due(leading, self.avoided, now):
                self.prefer(leading, now)
        elif not self.standing.has_paused(now):
            self.suspicion.suspect(now)
        self.standing.ticked_us = now

    def message(self, peer: str, octets: bytes, now: i64) -> None:
        """Handle a message from an authenticated member. Raise PeerError if it breaks the protocol."""
        message = decode_message(octets)
        if isinstance(message, RefusedEpoch):
            if message.epoch > self.standing.promised:
                self.adopt(message.epoch, now)
                self.standing.out.read = True
        elif self.is_current(peer, message.epoch, now):
            leading = self.leading
            if leading is not None:
                self.to_leader(leading, peer, message, now)
            elif self.standing.role == FOLLOWS:
                self.to_follower(peer, message, now)

    def to_leader(self, leading: Leading, peer: str, message: PeerMessage, now: i64) -> None:
        if isinstance(message, Acknowledgement):
            leading.on_acknowledgement(peer, message, now)
        elif isinstance(message, HeartbeatAnswer):
            leading.on_answer(peer, message, now)
        elif isinstance(message, RunsDiffer):
            leading.on_mismatch(peer, message, now)
        elif isinstance(message, CopyAsk):
            leading.on_copy_ask(peer, message)

    def to_follower(self, peer: str, message: PeerMessage, now: i64) -> None:
        if isinstance(message, Append):
            self.following.on_append(peer, message, now)
        elif isinstance(message, Heartbeat):
            self.following.on_heartbeat(peer, message, now)
        elif isinstance(message, RewriteOrder):
            self.following.on_rewrite(message)
        elif isinstance(message, CopyOffer):
            self.following.on_copy_offer(peer)
        elif isinstance(message, CopyGrant):
            self.following.on_copy_grant(peer, message)

    def is_current(self, peer: str, epoch: i64, now: i64) -> bool:
        """Return whether a message of `epoch` may be handled.

        Refuse a lower epoch than the promised one, and adopt a higher one.
        """
        standing = self.standing
        if epoch < standing.promised:
            standing.say(peer, RefusedEpoch(standing.promised))
            return False
        if epoch > standing.promised:
            self.adopt(epoch, now)
            standing.out.read = True
        return True

    def connected(self, peer: str, now: i64) -> None:
        """Handle a new connection to a member. What was in flight on an older connection may be lost."""
        if self.leading is not None:
            self.leading.connected(peer, now)

    def reset(self, peer: str, now: i64) -> None:
        """Handle the end of a connection by connecting anew. A reset does not prove that the member is dead."""
        self.standing.out.probe.append(peer)

    def refused(self, peer: str, tried_us: i64, now: i64) -> None:
        """Record that a member's machine refused a connection attempt begun at `tried_us`. Its process is dead."""
        self.promises.refused(peer, tried_us)
        if self.leading is not None:
            self.leading.refused(peer, tried_us, now)
        else:
            self.suspicion.refused(peer, tried_us, now)

    def seen(self, view: View, now: i64) -> None:
        """Handle any view of the register: an answer, a read or a watch. Views may be late and out of order."""
        standing = self.standing
        if standing.view is not None and view.revision <= standing.view.revision:
            self.changes.seen_same(view.revision)
            return
        standing.view = view
        self.changes.seen(view.revision)
        value = view.value
        if value.epoch > standing.promised:
            self.adopt(value.epoch, now)
        if value.epoch < standing.promised:
            return
        if self.leading is not None:
            self.leading.seen(view)
        elif value.leader == standing.name and self.may_lead(value.epoch):
            self.prepare(value, now)

    def outcome(self, change: Change, what: str, now: i64) -> None:
        """Handle the outcome of a change: WON, LOST or UNKNOWN, as the register's port defines them.

        An outcome decides nothing by itself. The next view of the register does.
        """
        if what != UNKNOWN and change is self.changes.pending:
            self.standing.out.read = True

    def appended(self, lsn: i64, now: i64) -> None:
        """Record that this leader's log ends with the frame `lsn`, and send new frames to the other members.

        The frames are on their way to the local disk.
        """
        assert self.leading is not None
        self.leading.appended(lsn, now)

    def written(self, epoch: i64, lsn: i64, now: i64) -> None:
        """Record that the local disk has synced frames up to `lsn`.

        For a leader these are the frames it has appended in `epoch`. For a follower these are the frames of the
        `Taking` of `epoch` whose `last` is `lsn`, and all frames before them.
        """
        if self.leading is not None:
            if epoch == self.standing.epoch:
                self.leading.written(lsn)
        elif self.standing.role == FOLLOWS:
            self.following.written(epoch, lsn)

    def mismatched(self, epoch: i64, now: i64) -> None:
        """Handle the store's refusal of a `Taking` of this epoch."""
        if self.standing.role == FOLLOWS:
            self.following.mismatched(epoch)

    def no_room(self) -> None:
        """Record that the disk had no room for the leader's frames. Accept no frames until `has_room`."""
        self.following.no_room()

    def has_room(self) -> None:
        """Record that the disk has room again, and accept frames."""
        if self.standing.role == FOLLOWS:
            self.following.has_room()

    def promised(self, epoch: i64, now: i64) -> None:
        """Record that the promise of `epoch` is synced in `store.json`."""
        standing = self.standing
        if epoch <= standing.promised_durable:
            return
        standing.promised_durable = epoch
        if standing.role == PREPARES and standing.promised_durable >= standing.epoch:
            self.begin(now)
        elif standing.role == FOLLOWS:
            self.following.acknowledge()

    def rewritten(self, number: i64, last: i64, wanted: dict[int, list[Interval]], now: i64) -> None:
        """Record that this leader has rewritten a WAL file, and order the other members to do so.

        number  number of the WAL file
        last    LSN of the file's last frame
        wanted  offsets of each queue that the file keeps
        """
        if self.leading is not None:
            self.leading.rewritten(number, last, wanted)

    # Changes of role.

    def adopt(self, epoch: i64, now: i64) -> None:
        """Adopt a higher epoch: stop leading, promise the epoch, and follow its leader."""
        standing = self.standing
        if standing.role != FOLLOWS:
            standing.out.events.append(f"leads no more: epoch {epoch} has begun")
        standing.role = FOLLOWS
        standing.promised = epoch
        standing.out.promise = epoch
        self.leading = None
        self.changes.forget()
        self.following.begin(epoch)
        self.suspicion.hear(now)

    def may_lead(self, epoch: i64) -> bool:
        """Return whether this process may lead `epoch`.

        A process leads an epoch at most once, and after a restart only epochs later than those it may have promised
        before.
        """
        standing = self.standing
        return self.is_new(epoch) and standing.role == FOLLOWS and standing.is_in_sync()

    def is_new(self, epoch: i64) -> bool:
        return epoch > self.standing.promised_at_start and epoch != self.led

    def prepare(self, value: RegisterValue, now: i64) -> None:
        """Prepare to lead an epoch, and begin to lead once its promise is on disk."""
        standing = self.standing
        if value.why == TRANSFER:
            self.promises.void(value.by)  # the old leader stopped delivering before it sent the change
        standing.role = PREPARES
        standing.epoch = value.epoch
        self.led = value.epoch
        if standing.promised_durable >= standing.epoch:
            self.begin(now)
        else:
            standing.out.promise = standing.epoch

    def begin(self, now: i64) -> None:
        standing = self.standing
        assert standing.view is not None
        standing.role = LEADS
        self.leading = self.make_leading(now)
        self.leading.seen(standing.view)
        standing.out.events.append(f"leads in epoch {standing.epoch}")

    # Requests of operators. A refusal raises RequestError with the reason.

    def transfer(self, to: str, now: i64) -> None:
        """Hand leadership over to another in-sync member. Deliveries stop at once.

        Do nothing if this member, which leads, is `to`: a repeated request whose answer was lost succeeds. Raise
        RequestError if this member does not lead or the other cannot.
        """
        leading = self.leader()
        if to != self.standing.name:
            self.demand(leading.transfer(to, now))

    def remove(self, node: str, now: i64) -> None:
        """Remove a member from the group.

        Raise RequestError unless this member leads: a leader has an intact store itself.
        """
        leading = self.leader()
        if node == self.standing.name:
            raise RequestError(PRECONDITION, f"{node!r} leads: transfer that first")
        self.demand(leading.in_sync.remove(node, now))

    def admit(self, present: dict[str, PresentNode], now: i64) -> None:
        """Add present nodes that are not members to the group, as far as there is room.

        Do nothing unless this member leads.
        """
        leading = self.leading
        view = self.standing.view
        if leading is None or view is None or view.value.epoch != self.standing.epoch:
            return
        if self.changes.pending is None:
            value = self.membership.change(view.value, present, now)
            if value is not None:
                self.changes.propose(value, now)

    def drain(self, now: i64) -> None:
        """Hand leadership over to the best follower, because this node is to stop."""
        leading = self.leader()
        heir = leading.heir(now, self.avoided)
        self.demand("" if heir else "no other member is in sync and has caught up")
        self.demand(leading.transfer(heir, now))

    def prefer(self, leading: Leading, now: i64) -> None:
        """Hand leadership over to the preferred leader, which is able to lead."""
        if not leading.transfer(self.settings.preferred, now):
            self.standing.out.events.append(f"hands over to {self.settings.preferred}, the preferred leader")

    def change_minimum(self, least: int, now: i64) -> None:
        """Propose `least` as the new `min_in_sync`: nothing is committed by fewer members."""
        self.demand(self.leader().in_sync.change_minimum(least, now))

    def force(self, now: i64, may_lose: bool = False) -> None:
        """Take over alone, with `min_in_sync` 1. The other in-sync members are dropped from the set, and join again.

        Nothing committed is lost if this store is in sync. With `may_lose` a store that is not in sync may take over,
        and what it lacks is lost for ever.
        """
        standing = self.standing
        view = standing.view
        if view is None:
            raise RequestError(PRECONDITION, "the register has not been seen yet")
        if standing.name not in view.value.members:
            raise RequestError(PRECONDITION, f"{standing.name!r} is no member")
        if not standing.is_in_sync() and not may_lose:
            raise RequestError(PRECONDITION, f"the store of {standing.name!r} is not in sync: it may lack messages")
        if self.changes.pending is not None:
            raise RequestError(PRECONDITION, "another change of the register is under way")
        value = view.value.copy(FORCED, standing.name)
        value.epoch = max(view.value.epoch, standing.promised) + 1
        value.leader = standing.name
        value.in_sync = {standing.name: standing.store_id}
        value.min_in_sync = 1
        told = "" if standing.is_in_sync() else ", from a store that is not in sync: what it lacks is lost"
        standing.out.events.append(f"is forced to go on alone in epoch {value.epoch}{told}")
        self.changes.propose(value, now)

    def leader(self) -> Leading:
        if self.leading is None:
            raise RequestError(NOT_ALLOWED, f"{self.standing.name!r} does not lead")
        return self.leading

    def demand(self, why_not: str) -> None:
        if why_not:
            raise RequestError(PRECONDITION, why_not)

    # Queries.

    def can_deliver(self, now: i64) -> bool:
        """Return whether committed messages may be delivered or read at the time `now`."""
        return self.leading is not None and self.leading.can_deliver(now)

    def role(self) -> str:
        """Return the member's role: LEARNER, FOLLOWER, PREPARING or LEADER."""
        if self.standing.role == LEADS:
            return LEADER
        if self.standing.role == PREPARES:
            return PREPARING
        return FOLLOWER if self.standing.is_in_sync() else LEARNER

    def status(self, now: i64) -> MemberStatus:
        """Return the member's status, for people."""
        return status_of(self.standing, self.role(), self.following.leader, self.leading, now)

    def take(self) -> Outcome:
        """Return the work to be done since the last call, with the member's current role and commit index."""
        standing = self.standing
        out = standing.out
        standing.out = Outcome()
        out.role = self.role()
        out.epoch = standing.promised if standing.role == FOLLOWS else standing.epoch
        out.leader = standing.name if standing.role == LEADS else self.following.leader
        out.commit = standing.commit
        out.confirmed = standing.confirmed
        out.is_copied = self.leading is not None and bool(self.leading.shipping.copies)
        out.keep_from = standing.commit if self.leading is None else self.leading.keep_from()
        return out
