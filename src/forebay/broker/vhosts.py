"""The vhosts of one store: how they come and go, and everything that happens to all of them.

A turn does work only in those vhosts where something may have happened: where a connection took part or work was left
over.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.broker.catalog.commands.of_store import OF_STORE, StopInOrder
from forebay.broker.contract import VhostContract
from forebay.broker.internal_log import VHOSTS_MAX, vhost_of_log
from forebay.broker.read_offers import ReadOffers
from forebay.broker.session_rights import SessionRights
from forebay.broker.shared.parts import SharedParts
from forebay.broker.shared.turn_trace import SealedBlock
from forebay.broker.vhost import Vhost
from forebay.core.errors import (
    CONNECTION,
    INVALID,
    NOT_ALLOWED,
    NOT_FOUND,
    PRECONDITION,
    REFUSED,
    LimitReached,
    RequestError,
    note_half_change,
)
from forebay.core.options import Options
from forebay.core.stored.entry_kinds import BROKER, CATALOG, INTERNAL
from forebay.directory.command import Command, decoded
from forebay.directory.directory import Directory
from forebay.directory.logins.authorizer import Principal
from forebay.directory.permissions import Rights
from forebay.directory.vhost_commands import RemoveVhost, set_vhost
from forebay.directory.vhost_list import DEFAULT_VHOST, VhostEntry
from forebay.log.store import FrameEntry, Store
from forebay.message.address import NAME_OCTETS_MAX
from forebay.queue.counts import Counts
from forebay.queue.leases.lease import UNTRIED, Consumer, Delivery
from forebay.routing.exchange import text
from forebay.routing.flow import ExchangeCounts


@final
class EndedTurn:
    """The results of one turn of all vhosts.

    deliveries  for the sessions of their consumers to write
    synced_first  sessions whose deliveries leave once the disk has what the turn notes
    cancelled   consumers that lost their queue
    woken       connections whose wait for a queue is over
    early       deliveries that sessions took before, for whoever follows deliveries
    sealed      records that queues took in, for whoever traces messages
    """

    def __init__(
        self,
        deliveries: list[Delivery],
        synced_first: list[int],
        cancelled: list[Consumer],
        woken: list[int],
        early: list[Delivery],
        sealed: list[SealedBlock],
    ) -> None:
        self.deliveries = deliveries
        self.synced_first = synced_first
        self.cancelled = cancelled
        self.woken = woken
        self.early = early
        self.sealed = sealed


@final
class Departures:
    """The vhosts and users that are gone, whose connections are to end."""

    def __init__(self, vhosts: list[Vhost], users: list[str]) -> None:
        self.vhosts = vhosts
        self.users = users


@final
class Vhosts:
    """All vhosts, and what happens to all of them.

    directory  which there are, and who may do what in them
    shared   the parts that vhosts are made with
    events   what happens, for whoever listens
    read_offers  the other members of a group that reads may go to, while this node leads one
    lobby    of administrators that have entered no vhost; it is no vhost of the directory
    stopped_in_order  the broker that wrote the log did, so that nothing was held
    busy     those that took part in the turn
    syncing  those whose readers wait for the disk
    deleted  vhosts that are gone: see `departures`
    first_queues  how many there were at the start
    past_counts, past_queues, past_flow, past_moved  what was counted in them
    """

    def __init__(self, store: Store, options: Options, secret: bytes) -> None:
        self.store = store
        self.options = options
        self.shared = SharedParts(store, secret, options.filter_work_a_turn)
        self.events = self.shared.events
        self.read_offers: ReadOffers | None = None
        self.by_name: dict[bytes, Vhost] = {}
        self.by_number: dict[int, Vhost] = {}
        self.stopped_in_order = False
        self.directory = Directory(store, self.by_name, self.events, options.default_queue_type)
        self.directory.users.secret = secret
        self.follow()
        self.lobby: Vhost | None = None
        self.session_rights = SessionRights(self.directory.users, self.by_name)
        self.busy: list[Vhost] = []
        self.syncing: list[Vhost] = []
        self.deleted: list[Vhost] = []
        self.past_counts = Counts()
        self.past_queues: i64 = 0
        self.first_queues: i64 = 0
        self.past_flow = ExchangeCounts()
        self.past_moved = Counts()

    # ---- vhosts come and go

    def open(self, entry: VhostEntry) -> Vhost:
        """Make what is in a vhost of the directory."""
        vhost = Vhost(entry, self.store, self.options, self.shared)
        self.by_name[entry.name] = vhost
        self.by_number[entry.number] = vhost
        return vhost

    def default(self) -> Vhost | None:
        """Return the vhost of clients that name none, None if it is deleted."""
        return self.by_name.get(DEFAULT_VHOST)

    def opened(self, vhost: VhostContract) -> Vhost:
        """Return the vhost that a session is in, with all that its sessions do not see."""
        assert isinstance(vhost, Vhost)
        return vhost

    def enter_lobby(self) -> Vhost:
        """Return the vhost of an administrator that enters none: the default one, without that an empty one."""
        vhost = self.default() or self.lobby
        if vhost is None:
            nowhere = VhostEntry(VHOSTS_MAX, b"", self.directory.vhosts.new_settings())
            vhost = self.lobby = Vhost(nowhere, self.store, self.options, self.shared)
        return vhost

    def follow(self) -> None:
        """Open vhosts that are new in the directory, and close those that are in it no more."""
        entries = self.directory.vhosts.by_number
        for number in set(self.by_number) - set(entries):
            self.close(self.by_number[number])
        for number in sorted(set(entries) - set(self.by_number)):
            self.open(entries[number])

    def all(self) -> list[Vhost]:
        """Return every vhost, the oldest first."""
        return list(self.by_number.values())

    def find(self, name: bytes) -> Vhost:
        """The vhost of that name, about to be used; RequestError(NOT_ALLOWED) ends a connection that asks for none."""
        vhost = self.by_name.get(name)
        if vhost is None:
            raise RequestError(NOT_ALLOWED, f"vhost {text(name)} not found", CONNECTION)
        vhost.touch()
        return vhost

    def enter(self, name: bytes, principal: Principal, session_id: i64) -> Rights:
        """The rights of a connection in the vhost that it asks for; until `Vhost.session_closed` it counts there.

        raises  RequestError(NOT_ALLOWED), which ends the connection; Undecided
        """
        try:
            vhost = self.find(name)
            user = principal.user
            rights = self.directory.users.rights(principal, name)
            most = vhost.catalog.settings.connections_max
            rights.usage = self.directory.users.usage_of(user)
            try:
                if most >= 0 and session_id not in vhost.entered and len(vhost.entered) >= most:
                    limit = f"connection limit ({most}) is reached"
                    raise LimitReached(f"access to vhost '{text(name)}' refused for user '{user}': {limit}")
                rights.usage.enter(user, session_id)
            except LimitReached as error:
                self.events.note("limit.reached", name, {"user": user, "reason": error.text})
                raise
            vhost.entered.add(session_id)
            return rights
        except Exception as error:
            note_half_change(error)
            raise

    def leave(self, vhost: Vhost, rights: Rights, session_id: i64) -> None:
        """Take back what a connection has in a vhost, and what it counts there and for its user."""
        try:
            rights.usage.leave(session_id)
            vhost.session_closed(session_id)
        except Exception as error:
            note_half_change(error)
            raise

    def add(self, name: bytes) -> Vhost:
        """Make a vhost, or give the one there is.

        raises  RequestError: INVALID for a name that cannot be, REFUSED where there were too many ever
        """
        try:
            vhost = self.by_name.get(name)
            if vhost is not None:
                return vhost
            check_vhost_name(name)
            number = self.directory.vhosts.next_number
            if number >= VHOSTS_MAX:
                raise RequestError(REFUSED, f"vhost: no more than {VHOSTS_MAX} can be made in a broker's life")
            self.directory.change_vhosts(set_vhost(number, name, self.directory.vhosts.new_settings().fields()))
            self.follow()
            vhost = self.by_number[number]
            vhost.touch()
            vhost.finish_recovery(int(self.shared.next_turn.now_us), True)
            self.events.note("vhost.created", name, {})
            return vhost
        except Exception as error:
            note_half_change(error)
            raise

    def change(self, vhost: Vhost, settings: dict[str, object]) -> None:
        """Set some of the fields of `VhostSettings`; RequestError(INVALID) names the field and the value."""
        try:
            merged = vhost.catalog.settings.merged(settings)
            self.directory.change_vhosts(set_vhost(int(vhost.number), vhost.name, merged))
            self.events.note("vhost.changed", vhost.name, vhost.catalog.settings.fields())
        except Exception as error:
            note_half_change(error)
            raise

    def delete(self, name: bytes) -> None:
        """Delete a vhost with all that is in it; `departures` has its connections ended.

        raises  RequestError: NOT_FOUND, PRECONDITION where it is protected
        """
        try:
            vhost = self.by_name.get(name)
            if vhost is None:
                raise RequestError(NOT_FOUND, f"vhost: '{text(name)}' does not exist")
            if vhost.catalog.settings.protected:
                raise RequestError(PRECONDITION, f"vhost: '{text(name)}' is protected from deletion")
            self.directory.change_vhosts(RemoveVhost(int(vhost.number)))
            self.follow()
            self.deleted.append(vhost)
            self.shared.deletions.pending = True
            self.events.note("vhost.deleted", name, {})
        except Exception as error:
            note_half_change(error)
            raise

    def close(self, vhost: Vhost) -> None:
        """Forget a vhost and its logs."""
        del self.by_name[vhost.name]
        del self.by_number[int(vhost.number)]
        for those in (self.busy, self.syncing):
            if vhost in those:
                those.remove(vhost)
        self.directory.forget_vhost(vhost.name)
        vhost.abandon()
        self.past_counts.add(vhost.catalog.past_counts)
        self.past_queues += vhost.catalog.past_queues
        self.past_flow.add(vhost.catalog.past_flow)
        self.past_moved.add(vhost.dead_letters.moved_for)

    # ---- the turn

    def end_turn(self, now_us: i64) -> EndedTurn:
        """`Vhost.end_turn` of all that may have something to do."""
        next_turn, trace = self.shared.next_turn, self.shared.trace
        self.withdraw_wills()
        self.shared.next_turn.now_us = now_us
        out: list[Delivery] = []
        synced_first: list[int] = []
        cancelled: list[Consumer] = []
        self.busy = []
        touched, next_turn.vhosts = next_turn.vhosts, []
        for number in touched:
            vhost = self.by_number.get(number)
            if vhost is None:
                continue
            vhost.touched = False
            self.busy.append(vhost)
            deliveries = vhost.end_turn(now_us)
            if out:
                out += deliveries
            else:
                out = deliveries
            if vhost.turn.synced_first:
                synced_first += vhost.turn.take_synced_first()
            cancelled += vhost.turn.take_cancelled()
        self.shared.room.end_turn()
        self.shared.budgets.end_turn(now_us)
        ended = EndedTurn(out, synced_first, cancelled, next_turn.sessions, trace.early, trace.sealed)
        next_turn.sessions, trace.early, trace.sealed = [], [], []
        return ended

    def withdraw_wills(self) -> None:
        """Take back the wills due in this turn that their users may not publish any more."""
        for number in self.shared.next_turn.vhosts:
            vhost = self.by_number.get(number)
            if vhost is not None and vhost.sessions.wills:
                self.session_rights.withdraw_wills(vhost)

    def note_sessions(self) -> None:
        """Note in which packets the deliveries of a turn went out: see `Vhost.note_sessions`."""
        for vhost in self.busy:
            vhost.note_sessions()
            if vhost.turn.awaiting and vhost not in self.syncing:
                self.syncing.append(vhost)

    def note_progress(self) -> None:
        """Log what was settled since this turn looked at the queues: by its deliveries."""
        for vhost in self.busy:
            for queue in vhost.turn.dirty:
                vhost.dispatcher.note_progress(queue)

    def take_taken(self) -> list[int]:
        """Connections whose MQTT session another connection has taken."""
        taken: list[int] = []
        for number in self.shared.next_turn.vhosts:
            vhost = self.by_number.get(number)
            if vhost is not None and vhost.sessions.taken:
                taken += vhost.sessions.take_taken()
        return taken

    def departures(self) -> Departures:
        """The vhosts and users that have gone since the last call."""
        self.shared.deletions.pending = False
        deleted, self.deleted = self.deleted, []
        return Departures(deleted, self.directory.users.take_deleted())

    def has_work(self) -> bool:
        """True if another turn is due though nobody has sent anything."""
        found = bool(self.shared.next_turn.sessions)
        for vhost in self.busy:
            if vhost.has_work():
                vhost.touch()
                found = True
        return found

    def synced(self) -> None:
        """Take note that what the store had in hand is on disk."""
        if self.syncing:
            syncing, self.syncing = self.syncing, []
            for vhost in syncing:
                vhost.touch()
                vhost.dispatcher.synced()
                if vhost.turn.awaiting:
                    self.syncing.append(vhost)

    # ---- time

    def tick(self, now_us: i64) -> bool:
        """Do what time alone brings, several times a second; whether a turn is due."""
        self.shared.next_turn.now_us = now_us
        self.shared.next_turn.wake_overdue(now_us)
        if self.shared.crowding.count:
            self.shared.crowding.tick(now_us)
        self.session_rights.step()
        due = bool(self.shared.next_turn.sessions)
        for vhost in self.by_number.values():
            vhost.tick(now_us)
            if vhost.has_work():
                vhost.touch()
                due = True
        return due

    def sweep(self, now_us: i64) -> None:
        """Do what is due about once a second."""
        for vhost in self.by_number.values():
            vhost.sweep(now_us)
            vhost.touch()

    def take_leave(self) -> None:
        """Have no record count as failed whose consumer goes from here on: it goes because the broker does."""
        for vhost in self.by_number.values():
            vhost.consumers.parting = UNTRIED

    def commit_streams(self) -> None:
        """Log how far the stream groups have read."""
        for vhost in self.by_number.values():
            vhost.upkeep.commit_streams()

    def stop_in_order(self) -> None:
        """Note that all consumers are gone, and that none comes any more."""
        self.commit_streams()
        self.store.note(BROKER, 0, 0, StopInOrder().encoded(), True)
        self.stopped_in_order = True

    # ---- the disk

    def of_log(self, log: i64) -> Vhost | None:
        """The vhost that a log belongs to; None where it is nobody's any more."""
        number = vhost_of_log(int(log))
        if number < VHOSTS_MAX:
            return self.by_number.get(number)
        for vhost in self.by_number.values():
            if log in vhost.catalog.sources:
                return vhost
        return None

    def of_queue(self, id: i64) -> Vhost | None:
        """The vhost that a queue belongs to; None where it is gone."""
        for vhost in self.by_number.values():
            if id in vhost.catalog.queues_by_id:
                return vhost
        return None

    def needed(self, log: i64, first: i64, end: i64) -> list[tuple[int, int]]:
        """Return the intervals of a log within [first, end) that some reader still needs."""
        vhost = self.of_log(log)
        source = None if vhost is None else vhost.catalog.sources.get(log)
        return [] if source is None else source.needed(first, end)

    def checkpoint(self) -> list[FrameEntry]:
        """Everything durable, as recovery has to apply it."""
        entries = [FrameEntry(BROKER, 0, 0, command.encoded()) for command in self.directory.commands()]
        for vhost in self.by_number.values():
            entries += vhost.checkpoint()
        return entries

    def recover(self, entries: list[FrameEntry], now_us: int) -> None:
        """Apply what the log gave back, in its order."""
        for entry in entries:
            if entry.kind == BROKER:
                self.apply(decoded(OF_STORE, entry.payload))
                continue
            if entry.kind == CATALOG:
                vhost = self.by_number.get(entry.queue)
            else:
                vhost = self.of_log(entry.queue) if entry.kind == INTERNAL else self.of_queue(entry.queue)
            if vhost is not None:  # else it was deleted while others still wrote down what they did in it
                vhost.recover_entry(entry)
        self.shared.next_turn.now_us = now_us
        for vhost in self.by_number.values():
            vhost.finish_recovery(now_us, self.stopped_in_order)
            self.first_queues += len(vhost.catalog.queues)
        options = self.options
        self.directory.users.configure(options.users, options.administrators, options.permissions)

    def apply(self, command: Command) -> None:
        """Do what a command of recovery says that belongs to no vhost."""
        if isinstance(command, StopInOrder):
            self.stopped_in_order = True
            return
        self.directory.apply(command)
        self.follow()


def check_vhost_name(name: bytes) -> None:
    """RequestError(INVALID) for what can be no vhost's name."""
    if not name or len(name) > NAME_OCTETS_MAX:
        raise RequestError(INVALID, f"vhost: a name has 1 to {NAME_OCTETS_MAX} octets, '{text(name)}' has not")
