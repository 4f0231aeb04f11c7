"""Bugs that somebody might make, planted: the simulation has to find each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from forebay.broker.internal_log import DEDUPLICATION_LOG, DELAYED_LOG, RETAINED_LOG, SESSIONS_LOG
from forebay.core.ports import Clock, Disk
from forebay.core.stored.entry_kinds import BROKER, CATALOG, CURSOR, INTERNAL, RETURNS, SETTLED
from forebay.log.block import Block
from forebay.log.queue_log import QueueLog
from forebay.log.store import Commit, FrameEntry
from forebay.log.stored import Recovery, StoreOptions
from forebay.log.wal import GatheredFrame
from forebay.node.ready import Ready
from forebay.queue.work.work_group import WorkGroup
from tests.simulation.broker import Broker, SimBroker, SimStore
from tests.simulation.disk import SimDisk
from tests.simulation.kinds import DEAD
from tests.stores import SMALL, TestClock


class HastyCommit(Commit):
    """Says that it is done, and does what the one before it should have done."""

    def __init__(self, store: HastyStore, commit: Commit) -> None:
        super().__init__(commit.disk, commit.frames, commit.finished)
        self.store = store

    def run(self) -> None:
        late, self.store.late = self.store.late, self
        if late is not None:
            super(HastyCommit, late).run()
        self.ran = True


class HastyStore(SimStore):
    """Has everything written one commit later."""

    late: HastyCommit | None = None

    def flush(self) -> Commit | None:
        commit = super().flush()
        if commit is not None:
            commit = self.commit_running = HastyCommit(self, commit)
        return commit


class ConfirmsEarly(SimBroker):
    """Confirms what goes to the disk with the next commit."""

    @classmethod
    def make_store(cls, disk: Disk, clock: Clock) -> SimStore:
        return HastyStore(disk, clock, SMALL)


class LosesSettlements(SimBroker):
    """Leaves out of the checkpoint what was settled."""

    def checkpoint(self) -> list[FrameEntry]:
        return [entry for entry in super().checkpoint() if entry.kind != SETTLED]


class CountsLater(SimStore):
    """Writes down nothing of what comes back, or may."""

    def note(self, kind: int, queue: int, group: int, payload: bytes, urgent: bool) -> None:
        if kind != RETURNS:
            super().note(kind, queue, group, payload, urgent)


class ForgetsCounts(SimBroker):
    """Loses with a crash how often messages were delivered."""

    @classmethod
    def make_store(cls, disk: Disk, clock: Clock) -> SimStore:
        return CountsLater(disk, clock, SMALL)


class SendsFirst(SimBroker):
    """Sends what is delivered at most once before the disk has its settlement."""

    def turn(self) -> None:
        for vhost in self.vhosts.by_number.values():
            for queue in vhost.catalog.queues.values():
                queue.limits.notes_deliveries = False
        super().turn()


def without(entries: list[FrameEntry], field: str) -> list[FrameEntry]:
    """These entries with nothing in this field of what sessions keep."""
    out: list[FrameEntry] = []
    for entry in entries:
        if entry.kind == INTERNAL and entry.queue == SESSIONS_LOG and entry.payload[0] >= 0x80:
            fields = msgspec.msgpack.decode(entry.payload)
            if fields.get("op") == "kept":
                fields[field] = []
                entry = FrameEntry(entry.kind, entry.queue, entry.group, msgspec.msgpack.encode(fields))  # noqa: PLW2901
        out.append(entry)
    return out


class ForgetsBacklogs(SimBroker):
    """Leaves out of the checkpoint what waits for sessions."""

    def checkpoint(self) -> list[FrameEntry]:
        return without(super().checkpoint(), "waiting")


class ForgetsReceived(SimBroker):
    """Leaves out of the checkpoint which publishes of QoS 2 have come: what PUBREC was sent for."""

    def checkpoint(self) -> list[FrameEntry]:
        return without(super().checkpoint(), "received")


class ParcelStore(SimStore):
    """Writes dead letters a frame later than what they were settled by."""

    def append(self, log: QueueLog, block: Block) -> None:
        frame = self.frame
        fits = frame is not None and self.log_room.fits(frame)
        if frame is not None and log.name.startswith(DEAD) and frame.pieces and fits and frame.file.named:
            frame.file.tail = frame.end()
            self.ready.append(frame)
            self.lsn += 1
            self.frame = GatheredFrame(self.lsn, frame.file, 0)
        super().append(log, block)


class SettlesFirst(SimBroker):
    """Settles what has died before the dead letter is stored."""

    @classmethod
    def make_store(cls, disk: Disk, clock: Clock) -> SimStore:
        return ParcelStore(disk, clock, SMALL)


class IdleStore(SimStore):
    """Never hurries."""

    def hurry(self) -> None:
        pass


class PurgesLater(SimBroker):
    """Answers a purge before it is on the disk."""

    @classmethod
    def make_store(cls, disk: Disk, clock: Clock) -> SimStore:
        return IdleStore(disk, clock, SMALL)


class ForgetfulStore(SimStore):
    """Does not write down which delayed messages have gone."""

    def note(self, kind: int, queue: int, group: int, payload: bytes, urgent: bool) -> None:
        if kind != INTERNAL or queue != DELAYED_LOG:
            super().note(kind, queue, group, payload, urgent)


class DelaysTwice(SimBroker):
    """Publishes a delayed message again after a restart."""

    @classmethod
    def make_store(cls, disk: Disk, clock: Clock) -> SimStore:
        return ForgetfulStore(disk, clock, SMALL)


class RecallsRetained(SimBroker):
    """Leaves out of the checkpoint which retained messages have been replaced or removed."""

    def checkpoint(self) -> list[FrameEntry]:
        return [entry for entry in super().checkpoint() if (entry.kind, entry.queue) != (INTERNAL, RETAINED_LOG)]


class KindStore(SimStore):
    """Does not write down that a user was deleted."""

    def note(self, kind: int, queue: int, group: int, payload: bytes, urgent: bool) -> None:
        if kind != BROKER or msgspec.msgpack.decode(payload).get("op") != "user-delete":
            super().note(kind, queue, group, payload, urgent)


class KeepsUsers(SimBroker):
    """Has users back after a restart that were deleted."""

    @classmethod
    def make_store(cls, disk: Disk, clock: Clock) -> SimStore:
        return KindStore(disk, clock, SMALL)


class PlaceStore(SimStore):
    """Does not write down where readers of a stream have come to."""

    def note(self, kind: int, queue: int, group: int, payload: bytes, urgent: bool) -> None:
        if kind != CURSOR:
            super().note(kind, queue, group, payload, urgent)


class ForgetsPlaces(SimBroker):
    """Has groups of readers begin anew after a restart."""

    @classmethod
    def make_store(cls, disk: Disk, clock: Clock) -> SimStore:
        return PlaceStore(disk, clock, SMALL)


class PasswordStore(SimStore):
    """Writes down of a user only its password and tags of first."""

    def __init__(self, disk: Disk, clock: Clock, options: StoreOptions) -> None:
        super().__init__(disk, clock, options)
        self.known: set[str] = set()

    def note(self, kind: int, queue: int, group: int, payload: bytes, urgent: bool) -> None:
        fields = msgspec.msgpack.decode(payload) if kind == BROKER else {}
        if fields.get("op") == "user":
            if fields["name"] in self.known:
                return
            self.known.add(fields["name"])
        super().note(kind, queue, group, payload, urgent)


class KeepsPasswords(SimBroker):
    """Has users' old passwords back after a restart."""

    @classmethod
    def make_store(cls, disk: Disk, clock: Clock) -> SimStore:
        return PasswordStore(disk, clock, SMALL)


class OldStore(SimStore):
    """Does not write down which publishes it knows."""

    def append(self, log: QueueLog, block: Block) -> None:
        if log.queue != DEDUPLICATION_LOG:
            super().append(log, block)


class ForgetsPublishes(SimBroker):
    """Takes a publish again after a restart, though it has a name that was taken."""

    @classmethod
    def make_store(cls, disk: Disk, clock: Clock) -> SimStore:
        return OldStore(disk, clock, SMALL)


class CommandStore(SimStore):
    """Does not write down changes of one sort."""

    def __init__(self, disk: Disk, clock: Clock, options: StoreOptions, kind: int, op: str) -> None:
        super().__init__(disk, clock, options)
        self.kind: Final = kind
        self.op: Final = op

    def note(self, kind: int, queue: int, group: int, payload: bytes, urgent: bool) -> None:
        if kind != self.kind or msgspec.msgpack.decode(payload).get("op") != self.op:
            super().note(kind, queue, group, payload, urgent)


class KeepsVhosts(SimBroker):
    """Has vhosts back after a restart that were deleted."""

    @classmethod
    def make_store(cls, disk: Disk, clock: Clock) -> SimStore:
        return CommandStore(disk, clock, SMALL, BROKER, "vhost-delete")


class KeepsGroups(SimBroker):
    """Has groups of work queues back after a restart that were deleted."""

    @classmethod
    def make_store(cls, disk: Disk, clock: Clock) -> SimStore:
        return CommandStore(disk, clock, SMALL, CATALOG, "group-delete")


class MovesBack(SimBroker):
    """Has groups of work queues where they were before somebody had them go on elsewhere."""

    @classmethod
    def make_store(cls, disk: Disk, clock: Clock) -> SimStore:
        return CommandStore(disk, clock, SMALL, CATALOG, "group-move")


class OneGroupStore(SimStore):
    """Writes down what any group of a queue has settled as settled by its first."""

    def note(self, kind: int, queue: int, group: int, payload: bytes, urgent: bool) -> None:
        super().note(kind, queue, 1 if kind == SETTLED else group, payload, urgent)


class MixesGroups(SimBroker):
    """Takes after a restart what one group of a work queue has settled for what another has."""

    @classmethod
    def make_store(cls, disk: Disk, clock: Clock) -> SimStore:
        return OneGroupStore(disk, clock, SMALL)


class MixesVhosts(SimBroker):
    """Has what is retained in "/" in all other vhosts."""

    def begin_turn(self, out: Ready, now_us: int) -> None:
        super().begin_turn(out, now_us)
        for vhost in self.vhosts.all():
            vhost.retained = self.vhosts.by_name[b"/"].retained


class ForgetsRefusals(SimBroker):
    """Delivers again to a link of AMQP 1.0 what the link has said it cannot take."""

    def begin_turn(self, out: Ready, now_us: int) -> None:
        super().begin_turn(out, now_us)
        for vhost in self.vhosts.all():
            for queue in vhost.catalog.queues.values():
                for group in queue.groups.values():
                    if isinstance(group, WorkGroup) and group.ready_queue.refused.waiting:
                        for consumer in list(group.consumers):
                            group.ready_queue.release_refused(consumer.id)
                        vhost.turn.mark(queue)


class KeepsReplaced(SimBroker):
    """Leaves what was replaced in a last-value queue where it is."""

    def begin_turn(self, out: Ready, now_us: int) -> None:
        for vhost in self.vhosts.all():
            for queue in vhost.catalog.queues.values():
                if queue.last_values is not None:
                    queue.last_values.replaced = []
        super().begin_turn(out, now_us)


class LosesLatest(SimBroker):
    """Takes after a crash a message of a last-value queue for replaced if it was the latest of its key."""

    def load_from(self, recovery: Recovery, epoch: int) -> None:
        super().load_from(recovery, epoch)
        for vhost in self.vhosts.all():
            for queue in vhost.catalog.queues.values():
                if queue.last_values is not None and queue.last_values.by_offset:
                    offset = next(iter(queue.last_values.by_offset))
                    queue.last_values.replaced.append(offset)


class TakesCrashesForStops(SimBroker):
    """Delivers as new what somebody may have had when the broker crashed."""

    def load_from(self, recovery: Recovery, epoch: int) -> None:
        self.vhosts.stopped_in_order = True
        super().load_from(recovery, epoch)


class BeginsViewsAnew(SimBroker):
    """Gives a view after a start all that the log of its stream has, unless a group says better."""

    def load_from(self, recovery: Recovery, epoch: int) -> None:
        super().load_from(recovery, epoch)
        for vhost in self.vhosts.all():
            for queue in vhost.catalog.queues.values():
                if queue.is_view:
                    queue.released = 0


class ForgetsInputFilters(SimBroker):
    """Gives a view after a start everything that comes into its stream."""

    def load_from(self, recovery: Recovery, epoch: int) -> None:
        super().load_from(recovery, epoch)
        for vhost in self.vhosts.all():
            for queue in vhost.catalog.queues.values():
                queue.intake = None
                for group in queue.groups.values():
                    group.key_filter.intake = None


class ForgetsTimers(SimBroker):
    """Looks at no queue after a start, whatever is due there, until somebody touches it."""

    def load_from(self, recovery: Recovery, epoch: int) -> None:
        super().load_from(recovery, epoch)
        for vhost in self.vhosts.all():
            for queue in vhost.turn.timed:
                queue.timed = False
            vhost.turn.timed = []


class LyingDisk(SimDisk):
    """Names segments that it has not synced."""

    def sync(self, handle: int) -> None:
        if not self.handles[handle][0].startswith("queues/"):
            super().sync(handle)


def planted(kind: type[SimBroker]) -> Callable[[SimDisk, TestClock], Broker]:
    return lambda disk, clock: Broker(disk, clock, kind)


NODES: Final[dict[str, type[SimBroker]]] = {
    "a confirm before the sync": ConfirmsEarly,
    "a settlement lost when the log changes files": LosesSettlements,
    "a backlog that is not restored": ForgetsBacklogs,
    "a PUBREC forgotten": ForgetsReceived,
    "a dead letter settled before it is stored": SettlesFirst,
    "a purge undone by a crash": PurgesLater,
    "a delayed message twice": DelaysTwice,
    "a retained message that is back when the log changes files": RecallsRetained,
    "a user's deletion undone by a restart": KeepsUsers,
    "the place of readers forgotten": ForgetsPlaces,
    "a changed password undone by a restart": KeepsPasswords,
    "a publish taken twice, as its name is forgotten": ForgetsPublishes,
    "a vhost's deletion undone by a restart": KeepsVhosts,
    "a group's deletion undone by a restart": KeepsGroups,
    "a group that is back where it was": MovesBack,
    "a group that has settled what another has": MixesGroups,
    "a retained message that comes through to another vhost": MixesVhosts,
    "a message back at a link that cannot take it": ForgetsRefusals,
    "a replaced message that stays": KeepsReplaced,
    "the latest message of a key lost": LosesLatest,
    "a message that is not marked after a crash": TakesCrashesForStops,
    "a view that begins anew": BeginsViewsAnew,
    "a filter of a view lost by a restart": ForgetsInputFilters,
    "a timer that a start does not set": ForgetsTimers,
    "a number of deliveries that a crash loses": ForgetsCounts,
    "a delivery at most once before its settlement is on the disk": SendsFirst,
}
