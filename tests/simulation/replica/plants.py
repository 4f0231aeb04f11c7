"""Bugs that somebody might make in a member, planted: each has to be found, by a storm or by a scenario."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from forebay.replica.changes import Changes
from forebay.replica.following import Following
from forebay.replica.leader.followers import Followers
from forebay.replica.leader.in_sync_set import InSyncSet, entries_of
from forebay.replica.leader.leading import Leading
from forebay.replica.member import Member
from forebay.replica.messages import Acknowledgement, Append, decode_message
from forebay.replica.promises import Promises
from forebay.replica.replica_log import ReplicaLog
from forebay.replica.settings import ReplicaSettings
from forebay.replica.standing import FOLLOWS, Entry, Standing
from forebay.replica.suspicion import Suspicion
from tests.simulation.replica.logs import SimLog


def with_leading(made: type[Leading]) -> type[Member]:
    class Planted(Member):
        def make_leading(self, now: int) -> Leading:
            return made(self.standing, self.changes, self.promises, now)

    return Planted


def with_set(made: type[InSyncSet]) -> type[Member]:
    class PlantedLeading(Leading):
        def make_in_sync(self) -> InSyncSet:
            return made(self.standing, self.changes, self.promises, self.followers, self.shipping, self.barrier)

    return with_leading(PlantedLeading)


def with_followers(made: type[Followers]) -> type[Member]:
    class PlantedLeading(Leading):
        def make_followers(self, end: int, now: int) -> Followers:
            return made(self.standing.settings, end, now)

    return with_leading(PlantedLeading)


def with_following(made: type[Following]) -> type[Member]:
    class Planted(Member):
        def make_following(self) -> Following:
            return made(self.standing, self.promises, self.suspicion)

    return Planted


def with_promises(made: type[Promises]) -> type[Member]:
    class Planted(Member):
        def make_promises(self) -> Promises:
            return made(self.standing.name, self.settings)

    return Planted


def with_changes(made: type[Changes]) -> type[Member]:
    class Planted(Member):
        def make_changes(self) -> Changes:
            return made(self.standing)

    return Planted


class OnlyTheConfirmed(InSyncSet):
    def counted(self) -> set[Entry]:
        return set(self.stores)


class AlreadyShrunk(InSyncSet):
    def counted(self) -> set[Entry]:
        pending = self.changes.pending
        return (self.stores if pending is None else entries_of(pending.value.in_sync)) | set(self.joining)


class GrowsDuringPromises(InSyncSet):
    def may_grow(self, now: int) -> bool:
        return True


class JoinsBeforeBarrier(InSyncSet):
    def target(self) -> int:
        return self.standing.commit


class TakesInAtOnce(InSyncSet):
    def has_joined(self, entry: Entry, now: int) -> bool:
        return self.followers.got(entry) >= self.target()


class TakesUnknownForFailed(Changes):
    def overdue(self, now: int) -> None:
        self.forget()
        self.standing.out.read = True


class TakesSameForFailed(Changes):
    def seen_same(self, revision: int) -> None:
        if self.pending is not None and revision == self.pending.revision:
            self.forget()


class AcknowledgesUnsynced(Following):
    def take(self, message: Append) -> None:
        super().take(message)
        self.standing.say(self.leader, Acknowledgement(self.epoch, self.matched, self.standing.store_id))


class AcknowledgesEnd(Following):
    def acknowledge(self) -> None:
        end = self.standing.log.end()[1]
        if self.leader:
            self.standing.say(self.leader, Acknowledgement(self.epoch, end, self.standing.store_id))


class LooksNotBefore(Following):
    def stands(self, message: Append) -> bool:
        message.prev_lsn = min(message.prev_lsn, self.standing.log.end()[1])
        message.prev_epoch = self.standing.log.epoch_of(message.prev_lsn) or 0
        return True


class KeepsOldTakings(Following):
    def begin(self, epoch: int) -> None:
        takings = list(self.standing.out.takings)
        super().begin(epoch)
        self.standing.out.takings = takings


class AcknowledgesBeforePromise(Following):
    def acknowledge(self) -> None:
        if self.leader and self.synced > 0:
            self.standing.say(self.leader, Acknowledgement(self.epoch, self.synced, self.standing.store_id))


class RefusedVoidsAll(Promises):
    def refused(self, peer: str, tried: int) -> None:
        self.until = {}


class StartsWithoutPromise(Promises):
    def start(self, now: int) -> None:
        self.until = {}


class StartsImpatient(Suspicion):
    def start(self, now: int) -> None:
        super().start(now - 2 * self.standing.settings.silence_us)


class RestartsWithoutWaiting(Member):
    def make_promises(self) -> Promises:
        return StartsWithoutPromise(self.standing.name, self.settings)

    def make_suspicion(self) -> Suspicion:
        return StartsImpatient(self.standing, self.changes)


class LeasesFromReceipt(Followers):
    def answer(self, entry: Entry, sent: int, now: int) -> None:
        super().answer(entry, now, now)


class LeasesTheConfirmed(Leading):
    def leased(self) -> set[Entry]:
        return self.in_sync.stores


class HandsOverUnstopped(Leading):
    def is_stopped(self) -> bool:
        return False


class DeliversDuringPromises(Leading):
    def may_deliver(self, now: int) -> bool:
        return True


class CutsOwnTail(Leading):
    def __init__(self, standing: Standing, changes: Changes, promises: Promises, now: int) -> None:
        log = standing.log
        assert isinstance(log, SimLog)
        del log.frames[standing.commit :]
        super().__init__(standing, changes, promises, now)


class BeginsWithoutBarrier(Leading):
    def __init__(self, standing: Standing, changes: Changes, promises: Promises, now: int) -> None:
        super().__init__(standing, changes, promises, now)
        self.barrier = self.in_sync.barrier = self.barrier - 1
        self.shipping.begin = max(self.barrier, 1)


class TrustsItsLog(BeginsWithoutBarrier):
    def __init__(self, standing: Standing, changes: Changes, promises: Promises, now: int) -> None:
        super().__init__(standing, changes, promises, now)
        standing.commit = max(standing.commit, self.barrier)


class FollowsLower(Member):
    def is_current(self, peer: str, epoch: int, now: int) -> bool:
        if epoch < self.standing.promised and self.standing.role == FOLLOWS:
            if epoch != self.following.epoch:
                self.following.begin(epoch)
            return True
        return super().is_current(peer, epoch, now)


class CountsAnyEpoch(Member):
    def message(self, peer: str, octets: bytes, now: int) -> None:
        message = decode_message(octets)
        if isinstance(message, Acknowledgement) and self.leading is not None and message.epoch < self.standing.epoch:
            self.to_leader(self.leading, peer, message, now)
        else:
            super().message(peer, octets, now)


class LeadsAgain(Member):
    def is_new(self, epoch: int) -> bool:
        return True


class TakesResetForDeath(Member):
    def reset(self, peer: str, now: int) -> None:
        self.refused(peer, now, now)


class LeasesLong(Member):
    def __init__(
        self, name: str, store_id: str, promised_epoch: int, log: ReplicaLog, settings: ReplicaSettings
    ) -> None:
        settings.lease_us = settings.silence_us * 5 // 2
        super().__init__(name, store_id, promised_epoch, log, settings)


# What is wrong with the member; and with what is around it.
MEMBERS: Final[dict[str, type[Member]]] = {
    "commit_ignores_add": with_set(OnlyTheConfirmed),
    "shrink_early": with_set(AlreadyShrunk),
    "unknown_as_failed": with_changes(TakesUnknownForFailed),
    "ack_before_sync": with_following(AcknowledgesUnsynced),
    "accept_lower": FollowsLower,
    "cut_own_tail": with_leading(CutsOwnTail),
    "no_barrier": with_leading(TrustsItsLog),
    "no_prev_check": with_following(LooksNotBefore),
    "lease_long": LeasesLong,
    "restart_same_epoch": LeadsAgain,
    "ack_log_end": with_following(AcknowledgesEnd),
    "lease_confirmed_isr": with_leading(LeasesTheConfirmed),
    "transfer_no_stop": with_leading(HandsOverUnstopped),
    "restart_no_wait": RestartsWithoutWaiting,
    "lease_from_receipt": with_followers(LeasesFromReceipt),
    "same_rev_is_failed": with_changes(TakesSameForFailed),
    "deliver_during_promise": with_leading(DeliversDuringPromises),
    "refused_voids_all": with_promises(RefusedVoidsAll),
    "add_during_promise": with_set(GrowsDuringPromises),
    "add_before_barrier": with_set(JoinsBeforeBarrier),
    "ack_any_epoch": CountsAnyEpoch,
    "reset_is_death": TakesResetForDeath,
    "no_join": with_set(TakesInAtOnce),
    "no_barrier_but_acks": with_leading(BeginsWithoutBarrier),
    "ack_before_promise": with_following(AcknowledgesBeforePromise),
    "old_takings_kept": with_following(KeepsOldTakings),
}
AROUND: Final[dict[str, frozenset[str]]] = {
    "no_uuid": frozenset({"no_uuid"}),
    "trunc_not_durable": frozenset({"trunc_not_durable"}),
    "promise_volatile": frozenset({"promise_volatile"}),
    "operator_removes_isr": frozenset({"operator_removes_isr"}),
    "no_barrier": frozenset({"no_barrier"}),
    "no_barrier_but_acks": frozenset({"no_barrier"}),
}
Planted = Callable[[str, str, int, ReplicaLog, ReplicaSettings], Member]
