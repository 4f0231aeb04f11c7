"""The broker of a node that leads: vhosts, connections with their sessions, and the turn that serves them.

It has no socket, thread or clock of its own, and no part in the group. `node.py` makes it when the node leads, has it
make its turns, and calls `committed` when frames are durable wherever they have to be. That is the only place from
which a confirm can leave. What others are to do is gathered in `out`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import mypyc_attr

from forebay.broker.joining import Joining
from forebay.broker.limits.hold_reasons import LOGIN, SEND_BACKLOG
from forebay.broker.quota import Quota
from forebay.broker.vhosts import Vhosts
from forebay.core.errors import DamagedBlock
from forebay.core.options import Options
from forebay.core.ports import Clock, Random
from forebay.directory.logins.authorizer import Proof
from forebay.log.room import Growth
from forebay.log.store import FrameEntry, Job, Recovery, Store
from forebay.management.definitions.configured import declare_configured
from forebay.management.held_logs import HeldLogs
from forebay.management.table import Control
from forebay.node.back_pressure.flow_control import FlowControl
from forebay.node.back_pressure.newcomers import Newcomers
from forebay.node.back_pressure.pressure import Pressure
from forebay.node.back_pressure.rates import Rates
from forebay.node.commit_gate import NEWER, CommitGate
from forebay.node.connections import OpenConnections
from forebay.node.deliveries import Deliveries
from forebay.node.endings import Endings
from forebay.node.entry.handshakes import Handshakes
from forebay.node.fault_policy import stops_broker
from forebay.node.link import Link, LinkOwner
from forebay.node.logins import NodeLogins, make_auth
from forebay.node.ready import CONNECTION, OWN_STATE, STORAGE, Fault, Ready, Stop
from forebay.node.seconds import NO_LIMIT, Surroundings, look_at
from forebay.node.telemetry.alarms import Alarms
from forebay.node.telemetry.events import Announcer
from forebay.node.telemetry.journal import Journal
from forebay.node.telemetry.losses import tell_held_logs
from forebay.node.telemetry.stats import BrokerStats
from forebay.node.telemetry.tracing import Tracer
from forebay.node.wanted import Wanted
from forebay.session.handshake import Handshake
from forebay.session.session import Session

SECRET_OCTETS: Final = 32
TICKS_A_SECOND: Final = 10


@mypyc_attr(allow_interpreted_subclasses=True)
class NodeBroker(LinkOwner):
    """The broker of one node, with its connections and the turns that serve them.

    connections  connections with a handshake or a session, by its number
    open         all connections, also those that have sent nothing
    is_due       whether a turn is due
    dirty        connections that take part in the turn
    waiting      connections whose session is notified of every sync
    handles      how many connections the process may have
    gate         deliveries wait there for the commit in a group; None if the node is the whole group
    out          requests to the surroundings, as the next `take` returns them
    stopping     whether the broker shuts down, and admits no client
    ended        whether the broker has ended
    """

    def __init__(self, options: Options, store: Store, clock: Clock, chance: Random, built_us: int = 0) -> None:
        self.stats = BrokerStats(options, clock.now_us(), built_us)
        self.options = options
        self.clock = clock
        self.journal = Journal()
        self.surroundings = Surroundings()
        self.store = store
        self.vhosts = Vhosts(self.store, options, chance.octets(SECRET_OCTETS))
        shared = self.vhosts.shared
        super().__init__(self.stats.totals, shared.deletions)
        self.audit = shared.audit
        self.joins = shared.joins
        self.wanted = Wanted(self.vhosts)
        self.auth = make_auth(options, self.vhosts.directory.users, clock, chance)
        self.connections: dict[int, Link] = {}
        self.open: dict[Link, None] = {}  # in the order of arrival, so that runs are repeatable
        shares = Quota(self.vhosts, options)
        self.flow = FlowControl(clock)
        self.listed = OpenConnections(self.connections, self.flow, shares)
        self.control = Control(self.vhosts, self.listed)
        self.pressure = Pressure(
            options, self.store, shares, shared.crowding, self.connections, self.journal, self.flow
        )
        self.alarms = Alarms(self.pressure, self.vhosts, self.store, self.journal)
        self.held_logs = HeldLogs(self.vhosts)
        self.announcer = Announcer(self.vhosts)
        self.newcomers = Newcomers(options, self.journal, self.open)
        self.logins = NodeLogins(self.auth, self.stats, shared, self.connections, self.flow, self.newcomers)
        self.handshakes = Handshakes(options, self.vhosts, self.auth, self.control, self.stats, self.connections)
        self.rates = Rates(options, self.flow)
        self.is_rated = self.rates.is_on()
        self.deliveries = Deliveries(
            self.vhosts, self.connections, self.announcer, self.pressure.buffers, self.store.logs
        )
        self.endings = Endings(self.auth, self.pressure, self.rates, self.stats, self.announcer, self.journal)
        self.tracer: Tracer | None = None
        self.gate = CommitGate() if store.replicated else None
        self.handles = NO_LIMIT
        self.next_session = 1
        self.ticks = 0
        self.dirty: dict[Link, None] = {}
        self.waiting: dict[Link, None] = {}
        self.is_due = False
        self.flush_due = False  # this turn also commits frames that nobody waits for
        self.housekeeping_due = False  # this turn plans work on files
        self.stopping = False
        self.ended = False
        self.stopped: Stop | None = None
        self.out = Ready()

    # ---- the start

    def checkpoint(self) -> list[FrameEntry]:
        """Return the entries from which recovery restores all durable state."""
        return self.vhosts.checkpoint()

    def load_from(self, recovery: Recovery, epoch: int) -> None:
        """Restore the state that an open store has found, and write in this epoch from here on."""
        now_us = self.clock.now_us()
        self.vhosts.recover(recovery.entries, now_us)
        self.store.start(self.checkpoint(), epoch)
        self.vhosts.sweep(now_us)
        declare_configured(self.vhosts, self.options)

    def begin(self) -> None:
        """Begin to publish events and statistics."""
        self.announcer.configure(self.options)
        if self.stats.interval_s:
            self.tell_stats(self.clock.now_us())

    def trace(self, tracer: Tracer) -> None:
        """Set the tracer, which is notified of messages from now on."""
        self.tracer = tracer
        self.vhosts.shared.trace.is_on = True

    # ---- connections

    def opened(self, link: Link) -> None:
        """Admit a client that has connected, or cut it off if a limit forbids it."""
        link.limit(self.options.send_buffer_octets_max)
        link.opened_us = self.clock.now_us()
        self.totals.sockets += 1
        is_full = len(self.open) >= min(self.options.connections_max, self.handles)
        may_come = not self.stopping and self.rates.may_connect(link.peer, link.opened_us)
        if may_come and self.newcomers.make_room(is_full, link.opened_us):
            self.open[link] = None
            self.newcomers.add(link)
        else:
            self.cut(link)

    def note_unfinished(self, link: Link, octets: int) -> None:
        """Note the octets of an unfinished packet of a client that has not logged in."""
        self.newcomers.note(link, octets)

    def begin_handshake(self, link: Link, data: bytes) -> Handshake:
        """Return the handshake that the first bytes of a connection ask for."""
        self.next_session += 1
        return self.handshakes.begin(link, self.next_session - 1, data)

    def begin_session(self, link: Link) -> None:
        """Begin the session of a client that has logged in."""
        self.handshakes.finish(link)

    def seat(self, link: Link, make: Callable[[int], Session]) -> None:
        """Add a connection that came by no listener. `make` returns its session, given the session's number."""
        self.next_session += 1
        self.handshakes.seat(link, make(self.next_session - 1))

    def touch(self, link: Link) -> None:
        """Record that a connection takes part in the turn, unless it is closing or lost."""
        if link.closing:
            return
        self.dirty[link] = None
        self.is_due = True
        if self.pressure.is_crowded:
            self.pressure.check(link)

    def pause(self, link: Link, paused: bool) -> None:
        """Record that the connection accepts no more bytes for now, or accepts them again."""
        session = link.session
        if session is not None and session.id in self.connections:
            session.vhost.pause(session.id, paused)
            self.pressure.buffers.paused(link, paused)
            self.touch(link)  # a session may hold answers back while its connection takes no more

    def has_read(self, link: Link, session: Session) -> None:
        """Stop reading a connection for this turn if it has sent enough, or if too much waits to be sent."""
        if link.closing:
            return
        if session.meter.pressing is not None:
            self.pressure.slow_down(link, session.meter.pressing)
        if session.meter.is_over:
            self.flow.defer(link, session.meter.hold_reason())  # behind the turn, which it takes part in
        elif self.pressure.buffers.is_too_much(int(session.vhost.fanout.octets)):
            self.flow.hold(link, SEND_BACKLOG)

    # ---- how connections end

    def cut(self, link: Link) -> None:
        """End the connection at once."""
        link.closing = True
        self.out.cut.append(link)
        self.is_due = True

    def finish(self, link: Link) -> None:
        """Close a connection gracefully: send what is written, then discard input until the client closes.

        Were the socket closed with octets unread or on their way, a reset would answer them, which may take from the
        client what it was sent last. Whoever does not go is cut off.
        """
        if link.closing:
            return
        link.closing = True
        link.closing_us = self.clock.now_us()
        link.rest = b""
        link.parts = None
        self.out.close.append(link)
        self.is_due = True
        self.leave(link)

    def lost(self, link: Link) -> None:
        """Remove a connection that is gone."""
        link.closing = True
        self.open.pop(link, None)
        self.leave(link)

    def failed(self, link: Link, error: Exception) -> None:
        """End a connection whose handling raised an internal error, and the broker if the fault policy says so."""
        session = link.session
        if isinstance(error, DamagedBlock) and session is not None and not link.closing:
            link.attempt_with(session.dismiss, error.text)
            return self.touch(link)
        self.note_fault(f"the connection from {link.peer}", error)
        try:
            self.endings.break_off(link)
        except Exception as another:  # noqa: BLE001  what is wrong already may be too wrong to say so
            self.note_fault(f"the goodbye to {link.peer}", another)
            self.cut(link)
        self.leave(link)

    def note_fault(self, what: str, error: Exception) -> None:
        """Record an internal error that has ended something, and stop the node if shared state may be half changed."""
        if stops_broker(error):
            self.stop(OWN_STATE, error)
        else:
            self.out.faults.append(Fault(CONNECTION, what, error))
            self.is_due = True

    def stop(self, why: str, error: BaseException) -> None:
        """Stop the broker: from here on nothing becomes durable and no bytes are sent."""
        if self.stopped is None:
            self.stopped = Stop(why, error)
        self.is_due = True

    def has_stopped(self) -> bool:
        """Return whether the broker has stopped and must not go on."""
        return self.stopped is not None

    def leave(self, link: Link) -> None:
        """Remove a connection from the turn, the commit gate and its session."""
        self.dirty.pop(link, None)
        self.waiting.pop(link, None)
        if link.is_new:
            self.newcomers.forget(link)
        if self.gate is not None:
            self.gate.forget(link)
        if self.endings.leave(link):
            self.is_due = True

    def end_deleted(self) -> None:
        """End connections whose vhost or user is gone."""
        if self.deletions.pending:
            gone = self.vhosts.departures()
            self.listed.end_deleted(gone.vhosts, gone.users)

    # ---- answers

    def answered(self, answer: Proof | Joining) -> None:
        """Resume a connection whose proof has run or whose body is joined. Ignores a connection that is gone."""
        link = self.connections.get(answer.connection)
        if link is None or link.closing:
            return
        self.end_deleted()
        link.attempt_with(link.on_answer, answer)
        if not link.is_proving():
            self.flow.release(link, LOGIN)
        link.received(b"")  # bytes received after the login
        self.touch(link)

    def job_done(self, job: Job | Growth, error: BaseException | None = None) -> None:
        """Record that a file was rewritten, or that room was reserved, or why it was not."""
        if self.ended:
            return  # the files are closed by now; what the job has made is found at the next start, as after a crash
        try:
            if isinstance(job, Growth):
                self.store.grown(job, error)
                self.is_due = True
            else:
                self.store.done(job, error)
            self.look_at_files()
        except Exception as failure:  # noqa: BLE001  the task's boundary: a file is not what it should be, whatever says so
            self.stop(STORAGE, failure)

    def look_at_files(self) -> None:
        """Schedule a file rewrite that is due, if no other job runs."""
        if self.store.job_running is None and self.store.planner.rewrite_is_due(self.store.durable):
            self.housekeeping_due = self.is_due = True

    def committed(self, lsn: int) -> None:
        """Release output that waits for frames up to `lsn`. They are durable wherever they have to be."""
        self.is_due = True
        self.look_at_files()
        self.vhosts.synced()
        waiting = self.waiting
        self.waiting = {}
        for link in waiting:
            session = link.session
            if session is None or session.id not in self.connections:
                continue
            try:
                session.vhost.touch()
                session.on_durable(lsn)
                if self.gate is None or link not in self.dirty:  # the turn that follows has the frame it waits for
                    self.release(link, session, lsn)
            except Exception as failure:  # noqa: BLE001  the connection's boundary
                self.failed(link, failure)
        if self.endings.farewells:
            self.endings.synced(self.store.durable, self.clock.now_us())
        self.pressure.written()
        if self.gate is not None:
            self.pass_on(self.gate, lsn)

    # ---- the turn

    def take(self) -> Ready:
        """Return and clear the requests to the surroundings that were collected since the last call."""
        ready = self.out
        self.out = Ready()
        ready.stop = self.stopped
        ready.durable = self.store.durable
        ready.again_us = self.rates.due_us()
        if self.flow.changed:
            ready.reading, self.flow.changed = self.flow.changed, []
        if self.journal.lines:
            ready.lines = [*ready.lines, *self.journal.take()]
        return ready

    def turn(self) -> None:
        """Seal what has come in and was decided, deliver it, and commit it."""
        self.is_due = False
        if self.ended or self.has_stopped():
            return
        out = self.out
        now_us = out.now_us = self.clock.now_us()
        self.begin_turn(out, now_us)
        out.delivery = self.deliveries.run(now_us, self.gate, self.tracer, self.dirty)
        self.vhosts.note_sessions()
        if self.has_stopped():
            return
        store = self.store
        if self.housekeeping_due:
            self.housekeeping_due = False
            self.vhosts.note_progress()  # a rewrite rests on nothing but notes
            out.job = store.plan(self.wanted, now_us) or out.job
        if store.checkpoint_due():
            store.rotate(self.checkpoint())
        lsn = out.lsn = store.due_lsn()
        if self.gate is not None:
            self.gate.lsn = store.settled_lsn()
        # Only at the end of a turn, so that related entries are in one frame.
        out.commit = store.flush() if self.flush_due else store.commit()
        self.flush_due = False
        if store.log_room.is_ahead:
            out.growth = store.log_room.take_due(store.frame)
        durable = store.durable
        dirty = self.dirty
        self.dirty = {}
        if self.is_rated:
            self.rates.charge(dirty, now_us)
        for link in dirty:
            session = link.session
            if session is None or link.closing:
                if self.handshakes.end_turn(link):
                    self.out.send.append(link)
                continue
            try:
                session.end_turn(lsn, durable)
                self.release(link, session, durable)
            except Exception as error:  # noqa: BLE001  the connection's boundary
                self.failed(link, error)
        if self.gate is not None:
            self.pass_on(self.gate, durable)
        out.awaited = lsn > durable and bool(self.waiting)
        self.end_turn(now_us)

    def flush(self) -> None:
        """Commit all that is noted, also what nobody waits for."""
        self.out.commit = self.store.flush()

    def begin_turn(self, out: Ready, now_us: int) -> None:
        """Begin with what others have to do about what came in, and what was put off."""
        for link in self.flow.begin_turn():
            link.go_on()
        for link in self.dirty:
            if link.session is not None:
                link.session.vhost.touch()
        self.endings.end_taken(self.vhosts.take_taken(), self.store.durable, now_us)
        self.end_deleted()
        if self.auth.has_news or self.joins.waiting:
            out.proofs = self.logins.begin_turn()
        if self.audit.entries:
            out.audit = self.audit.take()
        if self.announcer.listening:
            out.events = self.announcer.tell(self.dirty, now_us)

    def release(self, link: Link, session: Session, durable: int) -> None:
        """Send what the session has written, as far as what it says is on the disk; close if it says so."""
        if session.hold_lsn > durable:
            self.waiting[link] = None
            link.waits = NEWER  # with what it may be delivered until then
        elif self.gate is not None and self.gate.keeps(link, session, durable):
            self.pressure.buffers.note(link, link.waiting_octets())
            link.look_at_buffer()
            if session.waiting():
                self.waiting[link] = None
        elif session.closing and not link.is_sending():
            self.finish(link)
        else:
            self.out.send.append(link)
            if session.waiting():
                self.waiting[link] = None

    def pass_on(self, gate: CommitGate, durable: int) -> None:
        """Send to connections the output that the commit gate releases."""
        for link in gate.pass_on(durable, self.dirty):
            session = link.session
            if session is None or session.id not in self.connections:
                continue
            if session.closing and not link.kept_octets and not link.is_sending():
                self.finish(link)
                continue
            self.out.send.append(link)
            if link.paused and not link.full and not link.kept_octets:
                link.fill(False)

    def open_gate(self, is_open: bool) -> None:
        """Open or close the commit gate: a leader may deliver from the next turn on, or no longer."""
        gate = self.gate
        if gate is not None and gate.is_open != is_open:
            gate.is_open = is_open
            self.is_due = True

    def end_turn(self, now_us: int) -> None:
        """End the turn, and schedule the next one if work is left."""
        if self.tracer is not None:
            self.tracer.turned(now_us)
        self.pressure.end_turn()
        if self.flow.end_turn() or self.vhosts.has_work() or self.announcer.events.noted:
            self.is_due = True

    def sent(self) -> None:
        """Update send buffers. Call once all output of the turn was given to the connections."""
        if self.pressure.buffers.is_tight:
            self.pressure.buffers.look()

    def abandon(self) -> None:
        """End at once: another node leads, and may not have what is in memory here. Nothing more leaves.

        What the store has given out for the disk is still to be run, as the store waits for it.
        """
        self.ended = True
        out, left = self.out, Ready()
        left.commit, left.job, left.growth, left.faults = out.commit, out.job, out.growth, out.faults
        left.anew, left.lines = out.anew, out.lines
        self.out = left

    # ---- time

    def tick(self, now_us: int) -> None:
        """Advance timers. Call every tenth of a second."""
        if self.ended:
            return
        self.ticks += 1
        self.auth.throttle.now_us = now_us
        if self.vhosts.tick(now_us):
            self.is_due = True
        self.pressure.tick(self.surroundings.asked_us, now_us)
        if self.flow.changed:
            self.is_due = True
        if self.ticks % TICKS_A_SECOND == 0:
            self.every_second(now_us)

    def every_second(self, now_us: int) -> None:
        """Do the work that is due once a second: limits, stream commits, alarms and stats."""
        second = self.ticks // TICKS_A_SECOND
        around = self.surroundings
        look_at(list(self.open), self.options, now_us)
        if second % max(1, self.options.auto_commit_interval_ms // 1000) == 0:
            self.vhosts.commit_streams()
        self.vhosts.sweep(now_us)
        self.newcomers.every_second()
        self.pressure.every_second(around.memory_octets, around.free_octets, now_us)
        self.announcer.alarms(self.alarms.look())
        tell_held_logs(self.held_logs, self.journal, now_us)
        if self.stats.is_due(second):
            self.tell_stats(now_us)
        self.flush_due = True
        self.is_due = True
        self.housekeeping_due = True

    def wake(self, now_us: int) -> None:
        """Release publishers within their rate again. Call at the time `Ready.again_us`."""
        self.rates.resume(now_us)
        self.is_due = True

    def tell_stats(self, now_us: int) -> None:
        """Publish what has changed of the broker's stats."""
        sessions = [each.session for each in self.connections.values() if each.session is not None]
        self.stats.tell(self.vhosts, sessions, now_us)
        self.is_due = True
