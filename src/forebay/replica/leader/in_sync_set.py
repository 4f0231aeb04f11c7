"""The in-sync set as its leader sees and changes it.

A frame is committed once every store of the maximal set has synced it. The maximal set holds the in-sync stores of the
register as last seen, those of a pending change, and the joining stores. Only the leader decides who joins. A member
near the end of the log counts for the commit as soon as it joins, and is written to the register once it has synced
what was committed at that moment. Waiting for a member to reach the end would be in vain: under load none ever does.
"""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from forebay.replica.changes import Changes
from forebay.replica.leader.followers import Followers
from forebay.replica.leader.shipping import Shipping
from forebay.replica.promises import Promises
from forebay.replica.register import IN_SYNC, OPERATOR, View
from forebay.replica.standing import Entry, Standing


def entries_of(in_sync: dict[str, str]) -> set[Entry]:
    """Return the stores of an in-sync set as pairs of node and store id."""
    found: set[Entry] = set()
    for node, store_id in in_sync.items():
        found.add((node, store_id))
    return found


@mypyc_attr(allow_interpreted_subclasses=True)
class InSyncSet:
    """The in-sync set in one epoch.

    barrier  LSN of the first frame of this epoch: nothing is committed before that frame is
    stores   the in-sync stores of the register as last seen
    joining  the joining stores: the LSN each has to sync, and the time at which it began to join
    waiting  the stores that failed to join in time: when each may try again
    barred   stores being replaced by a copy: they never join in this epoch
    """

    def __init__(
        self,
        standing: Standing,
        changes: Changes,
        promises: Promises,
        followers: Followers,
        shipping: Shipping,
        barrier: i64,
    ) -> None:
        self.standing = standing
        self.changes = changes
        self.promises = promises
        self.followers = followers
        self.shipping = shipping
        self.barrier: i64 = barrier
        self.stores: set[Entry] = set()
        self.joining: dict[Entry, tuple[i64, i64]] = {}
        self.waiting: dict[Entry, i64] = {}
        self.barred: set[Entry] = set()

    def seen(self, view: View) -> None:
        self.stores = entries_of(view.value.in_sync)

    def counted(self) -> set[Entry]:
        """Return the maximal set: every store that the register names or may come to name through this leader."""
        found = set(self.stores)
        pending = self.changes.pending
        if pending is not None:
            found |= entries_of(pending.value.in_sync)
        found.update(self.joining)
        return found

    def counts(self, node: str) -> bool:
        return self.followers.entry(node) in self.counted()

    def bar(self, entry: Entry) -> bool:
        """Never count on this store again in this epoch.

        Return False, and bar nothing, if the store counts for the commit now.
        """
        if entry in self.counted():
            return False
        self.barred.add(entry)
        return True

    def synced(self, own: i64) -> i64:
        """Return the highest LSN that every store of the maximal set has synced.

        The leader itself has synced up to `own`.
        """
        least = own
        for entry in self.counted():
            if entry[0] != self.standing.name:
                least = min(least, self.followers.got(entry))
        return least

    def manage(self, now: i64) -> bool:
        """Propose stores to add to and remove from the in-sync set.

        Return whether a joining store was dropped. It no longer counts for the commit, so more may be committed now.
        """
        standing = self.standing
        view = standing.view
        if self.changes.pending is not None or view is None or view.value.epoch != standing.epoch:
            return False
        wanted = set(self.stores)
        for node in standing.others():
            self.take_in(node, wanted, now)
        let_go = self.let_go(view, wanted, now)
        self.put_out(view, wanted, now)
        minimum = self.minimum(view, wanted)
        if wanted != self.stores or minimum != view.value.min_in_sync:
            value = view.value.copy(IN_SYNC, standing.name)
            value.min_in_sync = minimum
            value.in_sync = {}
            for entry in wanted:
                value.in_sync[entry[0]] = entry[1]
                self.joining.pop(entry, None)
            self.changes.propose(value, now)
        return let_go

    def take_in(self, node: str, wanted: set[Entry], now: i64) -> None:
        """Let a live member that is not in sync begin to join, or add it to `wanted` once it has joined."""
        entry = self.followers.entry(node)
        if entry in self.stores or entry not in self.followers.answered or not self.followers.is_alive(entry, now):
            return
        if entry in self.barred or now < self.waiting.get(entry, now) or not self.may_grow(now):
            return
        if self.has_joined(entry, now):
            # The register has one store per node, so an older store of the node is replaced in the same change.
            for other in list(wanted):
                if other[0] == node:
                    wanted.discard(other)
            wanted.add(entry)

    def may_grow(self, now: i64) -> bool:
        """Return whether stores may be added.

        An earlier leader with a live promise knows no new members and may still deliver.
        """
        return self.promises.are_over(now)

    def has_joined(self, entry: Entry, now: i64) -> bool:
        joining = self.joining.get(entry)
        if joining is not None:
            return self.followers.got(entry) >= joining[0]
        if self.shipping.is_near(entry[0], now):
            self.joining[entry] = (self.target(), now)
        return False

    def target(self) -> i64:
        """Return the LSN a joining store has to sync.

        It then holds every committed frame, and counts for later commits.
        """
        return max(self.standing.commit, self.barrier)

    def let_go(self, view: View, wanted: set[Entry], now: i64) -> bool:
        """Drop stores that have been joining for too long or have left the group. Return whether any was dropped.

        Dropping them is safe, as no change of the register has named them.
        """
        settings = self.standing.settings
        is_any = False
        for entry, (_, since) in list(self.joining.items()):
            is_late = now - since > settings.join_us
            if (is_late or entry[0] not in view.value.members) and entry not in wanted:
                del self.joining[entry]
                self.waiting[entry] = now + settings.rejoin_us
                is_any = True
        return is_any

    def minimum(self, view: View, wanted: set[Entry]) -> int:
        """Return the `min_in_sync` to write.

        Restore the configured one, after a forced takeover, once enough are in sync.
        """
        configured = self.standing.settings.min_in_sync
        return configured if view.value.min_in_sync < configured <= len(wanted) else view.value.min_in_sync

    def put_out(self, view: View, wanted: set[Entry], now: i64) -> None:
        """Remove members that are silent, refused or stuck from `wanted`, as long as `min_in_sync` of them are left."""
        for entry in sorted(wanted):
            if entry[0] == self.standing.name or len(wanted) <= view.value.min_in_sync:
                continue
            if not self.followers.is_alive(entry, now):
                wanted.discard(entry)
                self.standing.out.events.append(f"{entry[0]!r} is put out of the in-sync set")

    def change_minimum(self, least: int, now: i64) -> str:
        """Propose `least` as the new `min_in_sync`. Return the reason of a refusal, or "" if it was proposed."""
        view = self.standing.view
        assert view is not None
        if least < 1 or least > len(self.stores):
            return f"min_in_sync is {least}, and {len(self.stores)} are in sync"
        if self.changes.pending is not None:
            return "another change of the register is under way"
        value = view.value.copy(OPERATOR, self.standing.name)
        value.min_in_sync = least
        self.changes.propose(value, now)
        return ""

    def remove(self, node: str, now: i64) -> str:
        """Propose that a member leaves the group. Return the reason of a refusal, or "" if it was proposed.

        Only the leader may remove a store of the in-sync set.
        """
        view = self.standing.view
        assert view is not None
        if node not in view.value.members:
            return f"{node!r} is no member"
        if self.changes.pending is not None:
            return "another change of the register is under way"
        value = view.value.copy(OPERATOR, self.standing.name)
        value.in_sync.pop(node, None)
        del value.members[node]
        if len(value.in_sync) < value.min_in_sync:
            return f"in sync would be {len(value.in_sync)}, min_in_sync is {value.min_in_sync}"
        self.changes.propose(value, now)
        return ""
