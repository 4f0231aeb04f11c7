"""Ships frames to the other members: tracks how far each was sent, and limits what is in flight.

A leader begins with the frames behind its barrier. It goes back to where the logs diverge once a member reports that it
lacks the frame before. Without progress the leader goes back to what was acknowledged, with twice the patience each
time. Nothing else shows that a connection has lost frames, except a reset or an answer after a long silence.
"""

from __future__ import annotations

from collections import deque

from mypy_extensions import i64, mypyc_attr

from forebay.core.units import US_PER_S
from forebay.log.shipment import Shipment
from forebay.replica.leader.followers import Followers
from forebay.replica.messages import Append, CopyGrant, CopyOffer, Run
from forebay.replica.replica_log import last_common
from forebay.replica.settings import ReplicaSettings
from forebay.replica.standing import Standing


class SendWindow:
    """The send window of one member.

    next        LSN of the next frame to send
    under_way   last LSN and bytes of each message that is sent and not acknowledged
    octets      bytes of all these messages
    base        LSN of the last frame that is not in flight
    budget      bytes that may be sent now to a member that is not in sync, whose rate is limited
    budget_us   time at which the budget was last filled
    patience_us time without progress after which frames in flight count as lost
    sent_us     time at which something was last sent
    mismatch_us time at which a mismatch was last handled
    needs_copy  the WAL files no longer hold the frames that the member lacks
    is_counted  the member's disk counts for the commit
    total       bytes ever sent to the member
    others      the largest `total` of a counted member when the budget was last filled; -1 before the first time
    """

    def __init__(self, next_lsn: i64, now: i64, settings: ReplicaSettings) -> None:
        self.next: i64 = next_lsn
        self.base: i64 = next_lsn - 1
        self.under_way: deque[tuple[int, int]] = deque()
        self.octets: i64 = 0
        self.budget: i64 = 0
        self.budget_us: i64 = now
        self.patience_us: i64 = settings.heartbeat_us
        self.sent_us: i64 = now
        self.mismatch_us: i64 = -(1 << 62)
        self.needs_copy = False
        self.is_counted = False
        self.total: i64 = 0
        self.others: i64 = -1

    def go_to(self, next_lsn: i64) -> None:
        """Resume sending at `next_lsn`. Count all frames in flight as lost."""
        self.next = next_lsn
        self.base = next_lsn - 1
        self.under_way.clear()
        self.octets = 0

    def acknowledged(self, lsn: i64) -> None:
        while self.under_way and self.under_way[0][0] <= lsn:
            self.octets -= self.under_way.popleft()[1]
        self.base = max(self.base, lsn)
        self.next = max(self.next, lsn + 1)
        self.needs_copy = False

    def is_open(self, settings: ReplicaSettings) -> bool:
        return self.octets < settings.window_octets_max and self.next - 1 - self.base < settings.window_frames_max

    def sent(self, last: i64, octets: i64, now: i64) -> None:
        self.under_way.append((int(last), int(octets)))
        self.octets += octets
        self.total += octets
        self.next = last + 1
        self.sent_us = now


@mypyc_attr(allow_interpreted_subclasses=True)
class Shipping:
    """The shipping of frames to all other members, in one epoch.

    begin    LSN of the barrier: the first frame to send
    copies   of each member that copies the files: the store being replaced, and the end of the log when the copy began,
             from where the member will need frames
    offered  members that were offered a copy, so that the event is reported once
    windows  the send window of each member
    """

    def __init__(self, standing: Standing, followers: Followers, begin: i64) -> None:
        self.standing = standing
        self.settings = standing.settings
        self.followers = followers
        self.begin: i64 = begin
        self.copies: dict[str, tuple[str, i64]] = {}
        self.offered: set[str] = set()
        self.windows: dict[str, SendWindow] = {}

    def window(self, node: str, now: i64) -> SendWindow:
        window = self.windows.get(node)
        if window is None:
            window = self.windows[node] = SendWindow(self.begin, now, self.settings)
        return window

    def flush(self, node: str, is_counted: bool, now: i64) -> None:
        """Send a member the frames it has not been sent, as far as its window and its budget allow."""
        window = self.window(node, now)
        window.is_counted = is_counted
        if window.needs_copy or self.is_copying(node):
            return
        if not is_counted:
            self.refill(window, now)
        burst: i64 = self.settings.learner_burst
        while window.next <= self.followers.end and window.is_open(self.settings):
            is_near = self.followers.end - window.next < self.settings.join_frames_max
            if not is_counted and not is_near and (window.budget <= 0 or burst <= 0):
                return
            octets = self.send(node, window, now)
            if octets == 0:
                return
            window.budget -= octets
            burst -= octets

    def refill(self, window: SendWindow, now: i64) -> None:
        """Fill the budget of a member that is not in sync, by time and by what the in-sync members were sent.

        The budget protects the disk and the network of the leader. But a learner has to be sent more than the in-sync
        members, or it would never catch up under load: half as much again, or a quarter more while the leader is busy,
        because what the learner is sent is then taken from the publishers.
        """
        is_busy = self.standing.is_busy
        rate = self.settings.busy_octets_s if is_busy else self.settings.learner_octets_s
        spent = min(now - window.budget_us, i64(US_PER_S))
        window.budget_us = now
        others: i64 = 0
        for each in self.windows.values():
            if each.is_counted:
                others = max(others, each.total)
        more: i64 = 0
        if window.others >= 0:
            gained = max(others - window.others, 0)
            more = gained * 5 // 4 if is_busy else gained * 3 // 2
        window.others = others
        window.budget = min(window.budget + max(spent * rate // US_PER_S, more), max(rate // 8, more))

    def send(self, node: str, window: SendWindow, now: i64) -> i64:
        """Send one message of frames. Return its size in bytes, or 0 if there was nothing to send."""
        log = self.standing.log
        prev = window.next - 1
        shipments = log.frames_from(int(window.next), int(self.settings.append_octets_max))
        prev_epoch = log.epoch_of(int(prev)) if prev > 0 else 0
        if shipments is None or prev_epoch is None:
            self.offer_copy(node, window)
            return 0
        if not shipments:
            return 0
        octets: i64 = 0
        for each in shipments:
            octets += i64(len(each.octets))
        self.say(node, prev, prev_epoch, shipments)
        window.sent(shipments[-1].last, max(octets, 1), now)
        return max(octets, 1)

    def say(self, node: str, prev: i64, prev_epoch: i64, shipments: list[Shipment]) -> None:
        standing = self.standing
        standing.say(node, Append(standing.epoch, prev, prev_epoch, standing.commit, shipments))

    def offer_copy(self, node: str, window: SendWindow) -> None:
        window.needs_copy = True
        self.standing.say(node, CopyOffer(self.standing.epoch))
        if node not in self.offered:
            self.offered.add(node)
            self.standing.out.events.append(f"{node!r} needs a copy: frame {window.next} is in no WAL file any more")

    def grant_copy(self, node: str, store_id: str) -> None:
        """Allow a store to be replaced. The grant is repeated with each heartbeat until the node has another store."""
        if node not in self.copies or self.copies[node][0] != store_id:
            self.copies[node] = (store_id, self.followers.end)
        self.standing.say(node, CopyGrant(self.standing.epoch, store_id))

    def is_copying(self, node: str) -> bool:
        """Return whether the store of a node is being replaced by a copy. It needs no frames."""
        copy = self.copies.get(node)
        return copy is not None and copy[0] == self.followers.store_ids.get(node, "")

    def check(self, node: str, is_counted: bool, now: i64) -> None:
        """Send frames again that seem lost, or ask a member that has acknowledged nothing how far it is.

        Call once per heartbeat.
        """
        followers = self.followers
        if self.is_copying(node):
            self.grant_copy(node, self.copies[node][0])
            return
        got = followers.got(followers.entry(node))
        if got >= followers.end:
            return
        window = self.window(node, now)
        is_stuck = followers.note(node, now)
        if not is_stuck:
            window.patience_us = self.settings.heartbeat_us
        if got == 0 and (not window.under_way or now - window.sent_us >= window.patience_us):
            self.ask(node, window)
        elif is_stuck and now - window.sent_us >= window.patience_us:
            window.patience_us = min(window.patience_us * 2, self.settings.heartbeat_us * 16)
            window.go_to(got + 1)
            window.needs_copy = False
            self.flush(node, is_counted, now)
        else:
            self.flush(node, is_counted, now)

    def ask(self, node: str, window: SendWindow) -> None:
        """Ask a member whether it has the leader's last frame. Its answer tells how far the two logs are the same."""
        end = self.followers.end
        epoch = self.standing.log.epoch_of(int(end)) if end > 0 else 0
        assert epoch is not None, f"the last frame, {end}, is not in the log"
        window.go_to(end + 1)
        self.say(node, end, epoch, [])

    def mismatch(self, node: str, runs: list[Run], is_counted: bool, now: i64) -> None:
        """Go back to where the logs diverge, after a member has reported that it lacks the frame before."""
        window = self.window(node, now)
        if not self.is_copying(node) and now - window.mismatch_us > self.settings.mismatch_us:
            window.mismatch_us = now
            window.needs_copy = False
            window.go_to(last_common(self.standing.log.runs(), runs) + 1)
            self.flush(node, is_counted, now)

    def acknowledged(self, node: str, lsn: i64, is_counted: bool, now: i64) -> None:
        window = self.window(node, now)
        window.acknowledged(lsn)
        if not self.is_copying(node):
            self.copies.pop(node, None)
            self.offered.discard(node)
        window.patience_us = self.settings.heartbeat_us
        self.flush(node, is_counted, now)

    def again(self, node: str, is_counted: bool, now: i64) -> None:
        """Resume behind the last acknowledged frame, after a new connection or a long silence.

        Frames in flight may be lost.
        """
        window = self.window(node, now)
        got = self.followers.got(self.followers.entry(node))
        window.patience_us = self.settings.heartbeat_us
        window.needs_copy = False
        if got > 0:
            window.go_to(got + 1)
            self.flush(node, is_counted, now)
        elif not self.is_copying(node):
            self.ask(node, window)

    def is_near(self, node: str, now: i64) -> bool:
        """Return whether a member lacks so few frames that it may join.

        It then counts for the commit before it has them.
        """
        window = self.window(node, now)
        got = self.followers.got(self.followers.entry(node))
        return (
            got > 0
            and self.followers.end - got <= self.settings.join_frames_max
            and window.next > self.followers.end
            and window.octets <= self.settings.join_octets_max
        )
