"""The composition root: builds the parts, and runs the turn.

A turn is one pass of the event loop: every socket that had octets has been read and its session has decided; then all
that was published is sealed, handed out, given to the disk thread, and each connection is written once. The only
place from which a confirm can leave is `durable`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from forebay.broker.auth import NOWHERE, Auth, Place
from forebay.broker.configured import declare_configured
from forebay.broker.control.table import Control
from forebay.broker.judge import Principal, Proof, Undecided
from forebay.broker.scram import make_scram
from forebay.broker.shares_of_room import SharesOfRoom
from forebay.broker.throttle import Throttle
from forebay.broker.vhosts import Vhosts
from forebay.core.errors import DamagedBlock
from forebay.core.options import Options
from forebay.core.ports import Clock
from forebay.log.store import Job, Store
from forebay.log.wal import Commit
from forebay.server.acl_file import load_acl
from forebay.server.alarms import Alarms
from forebay.server.audit_log import AuditLog
from forebay.server.backends import make_backends
from forebay.server.chance import SystemRandom
from forebay.server.clock import SystemClock
from forebay.server.connections import OpenConnections
from forebay.server.definitions import import_definitions
from forebay.server.disk import DataDisk, DiskThread, store_options
from forebay.server.door import Door
from forebay.server.events import Announcer, EventLog, EventStream
from forebay.server.farewells import Farewells
from forebay.server.faults import CONNECTION, Faults
from forebay.server.figures import Figures
from forebay.server.handles import room_for_connections
from forebay.server.heap import resident_octets
from forebay.server.histograms import Histograms
from forebay.server.logins import Logins, note_logins, set_throttle
from forebay.server.net import Connection, Host
from forebay.server.peer import split_name
from forebay.server.pressure import Pressure
from forebay.server.protocols import make_session, protocol_of
from forebay.server.rates import Rates
from forebay.server.seconds import look_at
from forebay.server.sending import FileSender
from forebay.server.tls import Tls
from forebay.server.tracing import Tracer
from forebay.server.wanted import Wanted
from forebay.session.effects import Session

TICK_S: Final = 0.1
SECRET_OCTETS: Final = 32
NO_SESSION: Final = 0
MICROSECONDS: Final = 1_000_000
TICKS_A_SECOND: Final = 10
logger = logging.getLogger("forebay")
T = TypeVar("T")


class App(Host):
    """One broker process."""

    def __init__(self, options: Options, loop: asyncio.AbstractEventLoop, tls: Tls) -> None:
        self.options = options
        self.tls = tls
        self.loop = loop
        self.send_buffer_octets_max = options.send_buffer_octets_max
        self.clock: Clock = SystemClock()
        self.faults = Faults()
        self.histograms = Histograms()
        self.tracer: Tracer | None = None
        self.disk = DataDisk(options.data, self.histograms.synced)
        self.store = Store(self.disk, self.clock, store_options(options))
        self.vhosts = Vhosts(self.store, options)
        self.vhosts.common.secret = SystemRandom().octets(SECRET_OCTETS)
        self.wanted = Wanted(self.vhosts)
        mechanisms = make_scram(options.users, options.mqtt_auth_methods, SystemRandom())
        throttle = Throttle(0, 0)
        throttle.now_us = self.clock.now_us()  # of who logs in before the first tick
        self.auth = Auth(options.users, options.loopback_users, mechanisms, self.vhosts.users, throttle)
        self.auth.backends = make_backends(options)
        set_throttle(throttle, options)
        load_acl(self.vhosts.common.acl, options.mqtt_acl)
        self.audit_log = AuditLog(options.audit_log, loop.call_soon_threadsafe)
        self.logins = Logins(self.auth, self.login_concluded, loop.call_soon_threadsafe)
        self.sender = FileSender(loop.call_soon_threadsafe)
        self.thread = DiskThread(self.commit_done, self.job_done, loop.call_soon_threadsafe)
        self.connections: dict[int, Connection] = {}
        self.listed = OpenConnections(self.connections, self.touch)
        self.control = Control(self.vhosts, self.listed)
        self.handles = room_for_connections()
        self.open: set[Connection] = set()  # with and without a session
        self.figures = Figures(options, self.clock.now_us())
        self.totals = self.figures.totals
        self.next_session = 1
        self.proving: dict[Proof, asyncio.Future[None]] = {}  # of callers that have no session
        self.asked: list[asyncio.Future[None]] = []  # whoever waits for the disk with what this turn brings
        self.unwritten: list[tuple[int, asyncio.Future[None]]] = []  # the same, and what must be durable for it
        self.dirty: dict[Connection, None] = {}  # those that take part in this turn
        self.waiting: dict[Connection, None] = {}  # those whose session is told of every sync
        self.scheduled = False
        self.flush_due = False  # this turn takes to the disk also what nobody waits for
        shares = SharesOfRoom(self.vhosts, options)
        self.pressure = Pressure(options, self.store, shares, self.connections, self.touch, self.go_on)
        self.alarms = Alarms(self.pressure, self.vhosts, self.store)
        self.door = Door(self.pressure)
        self.farewells = Farewells()
        self.announcer = Announcer(self.vhosts)
        self.event_stream = EventStream(self.vhosts)
        self.event_log = EventLog()
        self.announcer.listeners += [self.event_stream, self.event_log]
        self.rates = Rates(options, loop, self.may_read)
        self.is_rated = self.rates.is_on()
        self.reads_put_off = 0  # how often a read held more than one turn is for
        self.ticks = 0
        self.addresses: dict[str, str] = {}  # where it listens, by the names of the options
        self.watchers: list[Callable[[], None]] = []  # called once a second, as long as turns come
        self.leaving = False  # about to stop: health checks say so
        self.stopping: asyncio.Event = asyncio.Event()
        self.idle: asyncio.Event = asyncio.Event()
        self.ended = False

    def recover(self) -> None:
        """Open the data directory and come to the state in which it was left."""
        recovery = self.store.open()
        for line in recovery.report:
            logger.warning("%s", line)
        now_us = self.clock.now_us()
        self.vhosts.recover(recovery.entries, now_us)
        self.store.start(self.vhosts.checkpoint())
        self.vhosts.sweep(now_us)
        declare_configured(self.vhosts, self.options)
        import_definitions(self.vhosts, self.options)
        self.tell_of_events()
        if self.figures.interval_s:
            self.tell_figures(now_us)

    def trace(self, tracer: Tracer) -> None:
        """From now on this one is told of messages on their way."""
        self.tracer = tracer
        self.vhosts.common.tracing = True

    def tell_of_events(self) -> None:
        """Have events told as the options say."""
        options = self.options
        self.event_stream.keep(options.events, options.events_max_age_s, options.events_octets_max)
        self.event_log.log(options.log_events)
        self.announcer.changed()

    # ---- connections

    def opened(self, connection: Connection) -> None:
        is_full = self.stopping.is_set() or len(self.open) >= min(self.options.connections_max, self.handles)
        if is_full or not self.rates.may_connect(connection.peer, connection.opened_us):
            connection.transport.abort()
        else:
            self.open.add(connection)

    def start_session(self, connection: Connection, data: bytes) -> Session:
        """The session that the first octets of a connection ask for."""
        id = self.next_session
        self.next_session += 1
        session = make_session(
            id,
            data,
            connection.default_protocol,
            self.vhosts,
            self.auth,
            self.options,
            connection.loopback,
            identity=connection.identity,
            control=self.control,
        )
        self.connections[id] = connection
        session.place = self.auth.places[id] = Place(split_name(connection.peer)[0], protocol_of(session))
        return session

    def seat(self, connection: Connection, make: Callable[[int], Session]) -> None:
        """Have a connection that came by no listener take part, with the session that is made for its number."""
        session = connection.session = make(self.next_session)
        self.next_session += 1
        self.connections[int(session.id)] = connection

    def touch(self, connection: Connection) -> None:
        """This connection takes part in the turn; one that has been closed, or was lost, does not."""
        if connection.closing:
            return
        self.dirty[connection] = None
        self.schedule()
        if self.pressure.is_crowded or self.vhosts.common.pressing is not None:
            self.pressure.check(connection)

    def now_us(self) -> int:
        return self.clock.now_us()

    def durable_lsn(self) -> int:
        return self.store.durable

    def schedule(self) -> None:
        if not self.scheduled:
            self.scheduled = True
            self.histograms.begin_turn()
            self.loop.call_soon(self.step, self.turn)

    def pause(self, connection: Connection, paused: bool) -> None:
        session = connection.session
        if session is not None and session.id in self.connections:
            session.vhost.pause(session.id, paused)
            self.pressure.paused(connection, paused, self.clock.now_us())
            self.touch(connection)  # a session may hold answers back while its connection takes no more

    def buffered(self, connection: Connection, octets: int) -> None:
        self.pressure.buffers.note(connection, octets)

    def is_tight(self, session: Session) -> bool:
        return self.pressure.buffers.is_too_much(int(session.vhost.fanout.octets))

    def read_less(self, connection: Connection) -> None:
        connection.transport.pause_reading()
        self.loop.call_soon(self.step, partial(self.read_on, connection))

    def read_on(self, connection: Connection) -> None:
        """The turn has come; read again where nothing is against it."""
        if self.may_read(connection) and not connection.closing and connection not in self.rates.waiting:
            connection.transport.resume_reading()

    def lost(self, connection: Connection) -> None:
        self.open.discard(connection)
        self.leave(connection)

    def failed(self, connection: Connection, error: Exception) -> None:
        if isinstance(error, DamagedBlock) and connection.session is not None and not connection.closing:
            connection.attempt(connection.session.dismiss, error.text)
            return self.touch(connection)
        self.faults.note(CONNECTION, f"the connection from {connection.peer}", error)
        if connection.session is not None:
            connection.session.reason = "an error of the broker's own"
        try:
            connection.break_off()
        except Exception as another:  # noqa: BLE001  what is wrong already may be too wrong to say so
            self.faults.note(CONNECTION, f"the goodbye to {connection.peer}", another)
            connection.closing = True
            connection.transport.abort()
        self.leave(connection)

    def leave(self, connection: Connection) -> None:
        """This connection takes part in nothing any more: nobody may write to it from here on."""
        self.dirty.pop(connection, None)
        self.waiting.pop(connection, None)
        self.pressure.forget(connection)
        session = connection.session
        if session is None or session.id not in self.connections:
            return
        del self.connections[session.id]
        self.auth.places.pop(session.id, None)
        self.rates.forget(connection)
        session.rights.usage.leave(session.id)
        if session.reason:
            logger.info("connection from %s ended: %s%s", connection.peer, session.reason, connection.named())
        try:
            self.figures.ended(session)
            if self.announcer.listening:
                self.announcer.ended(connection, session)
        except Exception as error:  # noqa: BLE001  what it held goes back all the same
            self.faults.note(CONNECTION, f"the account of the connection from {connection.peer}", error)
        self.step(partial(self.give_back, session))

    def give_back(self, session: Session) -> None:
        """Take back what a connection had; where that fails, others would wait for it in vain."""
        session.closed()
        session.vhost.touch()
        self.schedule()

    def end_taken(self) -> None:
        """Connections whose client has come back by another one [MQTT-3.1.4-3]."""
        for id in self.vhosts.take_taken():
            previous = self.connections.get(id)
            if previous is not None and previous.session is not None:
                self.announcer.taken_over(previous, previous.session)
                previous.attempt(previous.session.taken_over)
                if self.farewells.say(previous):
                    self.leave(previous)  # its turns are over all the same

    def begin_logins(self) -> None:
        """Have the passwords of this turn checked; what comes behind a login waits in the socket."""
        for proof in self.auth.proofs:
            if proof.connection in self.connections:
                self.connections[proof.connection].transport.pause_reading()
        self.logins.take()

    def login_concluded(self, proof: Proof) -> None:
        """The answer to a password is there; its connection may have gone meanwhile."""
        waiting = self.proving.pop(proof, None)
        if waiting is not None:
            if not waiting.done():
                waiting.set_result(None)
            return
        connection = self.connections.get(proof.connection)
        if connection is None or connection.session is None or connection.closing:
            return
        connection.attempt(connection.session.proven)
        connection.data_received(b"")  # what had come behind the login
        self.touch(connection)
        if self.may_read(connection):
            connection.transport.resume_reading()

    async def login(self, user: str, password: str, loopback: bool, place: Place = NOWHERE) -> Principal:
        """Who a caller without a session has proven to be; LoginRefused."""
        proof = self.auth.begin(NO_SESSION, user, password, place)
        if proof is None:
            principal = self.auth.check(user, password, loopback)
        else:
            waiting = self.proving[proof] = self.loop.create_future()
            self.begin_logins()
            await waiting
            principal = self.auth.conclude(proof, loopback)
        self.auth.throttle.succeeded(place.address, user)
        return principal

    def may_read(self, connection: Connection) -> bool:
        """Whether nothing holds a connection up but its rate."""
        session = connection.session
        if session is None or session.is_proving() or session.meter.is_over:
            return False
        return connection not in self.pressure.choked and connection not in self.pressure.holding.held

    def put_off(self, connection: Connection) -> None:
        """Others have their turn first; until then nothing more is read here."""
        self.reads_put_off += 1
        connection.transport.pause_reading()
        self.loop.call_soon(self.step, partial(self.go_on, connection))

    def go_on(self, connection: Connection) -> None:
        """The next turn has come, or nobody is waited for any more."""
        if connection not in self.pressure.holding.held:
            connection.data_received(b"")
        self.read_on(connection)

    async def decided(self, check: Callable[[], T]) -> T:
        """What a check says for a caller without a session, once everybody has been asked whom it needs."""
        while True:
            try:
                return check()
            except Undecided as error:
                await self.prove(error.proof)

    async def prove(self, proof: Proof) -> None:
        """Have a proof run for a caller without a session."""
        waiting = self.proving[proof] = self.loop.create_future()
        self.auth.proofs.append(proof)
        self.begin_logins()
        await waiting

    async def on_disk(self) -> None:
        """Everything that was done until now is on the disk; for callers without a session."""
        waiting = self.loop.create_future()
        self.asked.append(waiting)
        self.schedule()
        await waiting

    # ---- the turn

    def turn(self) -> None:
        if not self.scheduled:
            self.histograms.begin_turn()
        self.scheduled = False
        if self.ended:
            return
        now_us = self.clock.now_us()
        if self.vhosts.others:
            for connection in self.dirty:
                if connection.session is not None:
                    connection.session.vhost.touch()
        self.end_taken()
        if self.vhosts.deleted or self.vhosts.users.deleted:
            self.listed.end_deleted(self.vhosts)
        if self.auth.proofs:
            self.begin_logins()
        if self.auth.refusals or self.auth.accepted:
            note_logins(self.auth, self.figures, self.vhosts.common)
        if self.vhosts.common.audit.entries:
            self.audit_log.write(self.vhosts.common.audit.take(), now_us)
        if self.announcer.listening:
            self.announcer.tell(self.dirty, now_us)
        self.hand_out(now_us)
        self.vhosts.note_sessions()
        if self.store.checkpoint_due():
            self.store.rotate(self.vhosts.checkpoint())
        lsn = self.store.due_lsn()
        # At the end of a turn, and nowhere else: what belongs together is in one frame then.
        self.start_commit(self.store.flush() if self.flush_due else self.store.commit())
        self.flush_due = False
        durable = self.store.durable
        dirty = self.dirty
        self.dirty = {}
        if self.is_rated:
            self.rates.charge(dirty, now_us)
        for connection in dirty:
            session = connection.session
            if session is None or connection.closing:
                continue
            try:
                session.end_turn(lsn, durable)
                connection.flush()
                if (session.waiting() or session.hold_lsn > durable) and not connection.closing:
                    self.waiting[connection] = None
            except Exception as error:  # noqa: BLE001  the connection's boundary
                self.failed(connection, error)
        if self.asked:
            self.unwritten += [(lsn, each) for each in self.asked]
            self.asked = []
            self.answer_written(durable)
        if lsn > durable and self.waiting:
            self.histograms.await_disk(lsn)
        self.histograms.end_turn()
        if self.tracer is not None:
            self.tracer.turned(now_us)
        self.pressure.end_turn()
        if self.vhosts.has_work() or self.announcer.events.noted:
            self.schedule()

    def hand_out(self, now_us: int) -> None:
        """Give this turn's deliveries and cancellations to the sessions they are for."""
        tells = self.announcer.delivers
        buffers = self.pressure.buffers
        self.vhosts.common.looks.octets = buffers.turn_octets()
        deliveries = self.vhosts.end_turn(now_us)
        if deliveries:
            self.histograms.deliver(deliveries[-1], now_us)
        tracer = self.tracer
        if tracer is not None:
            sealed, self.vhosts.common.sealed = self.vhosts.common.sealed, []
            tracer.sealed(sealed, now_us)
        for delivery in deliveries:
            connection = self.connections.get(delivery.consumer.session_id)
            if connection is None or connection.session is None:
                continue  # closed in this very turn: `session_closed` has taken the lease back
            if buffers.is_tight and buffers.spares(connection, delivery):
                continue
            try:
                connection.session.deliver(delivery)
                buffers.send_early(connection)
            except Exception as error:  # noqa: BLE001  the connection's boundary
                self.failed(connection, error)
                continue
            if tracer is not None:
                tracer.delivered(delivery, connection.session.vhost, now_us)
            if tells:
                self.announcer.delivered(delivery, connection.session)
            self.dirty[connection] = None
        if self.vhosts.common.delivered:
            self.tell_delivered(now_us)
        if self.vhosts.common.woken:
            self.wake()
        for consumer in self.vhosts.take_cancelled():
            connection = self.connections.get(consumer.session_id)
            if connection is not None and connection.session is not None:
                connection.attempt(connection.session.cancelled, consumer)
                self.touch(connection)

    def tell_delivered(self, now_us: int) -> None:
        """Whoever follows deliveries hears also of those that sessions took before the turn's end."""
        delivered, self.vhosts.common.delivered = self.vhosts.common.delivered, []
        for delivery in delivered:
            connection = self.connections.get(delivery.consumer.session_id)
            if connection is None or connection.session is None:
                continue
            if self.tracer is not None:
                self.tracer.delivered(delivery, connection.session.vhost, now_us)
            if self.announcer.delivers:
                self.announcer.delivered(delivery, connection.session)

    def answer_written(self, durable: int) -> None:
        """Tell callers without a session that what they did is on the disk."""
        unwritten, self.unwritten = self.unwritten, []
        for lsn, waiting in unwritten:
            if lsn > durable:
                self.unwritten.append((lsn, waiting))
            elif not waiting.done():
                waiting.set_result(None)

    def wake(self) -> None:
        """Have connections take part whose wait for a queue is over."""
        woken, self.vhosts.common.woken = self.vhosts.common.woken, []
        for id in woken:
            if id in self.connections:
                self.touch(self.connections[id])

    def start_commit(self, commit: Commit | None) -> None:
        if commit is not None:
            self.histograms.begin_commit(commit.octets)
            self.thread.submit(commit)

    def commit_done(self, commit: Commit, error: BaseException | None) -> None:
        """A write and sync came back: from here on its records are durable, or nothing is."""
        if error is not None:
            self.faults.stop_storage(error)
            return
        self.histograms.end_commit()
        self.step(lambda: self.durable(self.store.synced(commit)))

    def durable(self, lsn: int) -> None:
        """Everything up to `lsn` is on disk: release what waited for it."""
        self.histograms.on_durable(lsn)
        self.vhosts.synced()
        waiting = self.waiting
        self.waiting = {}
        for connection in waiting:
            session = connection.session
            if session is None or session.id not in self.connections:
                continue
            try:
                session.on_durable(lsn)
                connection.flush()
                if (session.waiting() or session.hold_lsn > lsn) and not connection.closing:
                    self.waiting[connection] = None
            except Exception as error:  # noqa: BLE001  the connection's boundary
                self.failed(connection, error)
        if self.unwritten:
            self.answer_written(lsn)
        if self.farewells.held:
            self.farewells.written()
        self.pressure.written()
        self.turn()
        if self.stopping.is_set():
            self.start_commit(self.store.flush())
            if not self.store.in_flight():
                self.idle.set()

    # ---- time

    def tick(self) -> None:
        if self.ended:
            return
        self.ticks += 1
        now_us = self.clock.now_us()
        self.auth.throttle.now_us = now_us
        is_due = self.vhosts.tick(now_us)
        self.pressure.holding.tick()
        if self.ticks % TICKS_A_SECOND == 0:
            self.every_second(now_us)
        if is_due:
            self.schedule()
        self.loop.call_later(TICK_S, self.step, self.tick)

    def every_second(self, now_us: int) -> None:
        look_at(list(self.open), self.options, now_us)
        if (self.ticks // TICKS_A_SECOND) % max(1, self.options.auto_commit_interval_ms // 1000) == 0:
            self.vhosts.commit_streams()
        self.vhosts.sweep(now_us)
        self.histograms.every_second(self.ticks // TICKS_A_SECOND)
        self.pressure.every_second(self.ticks // TICKS_A_SECOND, self.disk.free_octets(), now_us)
        self.announcer.alarms(self.alarms.look())
        if self.figures.is_due(self.ticks // TICKS_A_SECOND):
            self.tell_figures(now_us)
        self.tls.look_at(self.ticks // TICKS_A_SECOND, self.options.tls_watch_s)
        for watcher in self.watchers:
            watcher()
        self.flush_due = True
        self.schedule()
        self.thread.submit_job(self.store.plan(self.wanted, now_us))

    def tell_figures(self, now_us: int) -> None:
        """Publish what has changed of the broker's figures."""
        sessions = [each.session for each in self.connections.values() if each.session is not None]
        self.figures.tell(self.vhosts.all(), sessions, resident_octets(), now_us)
        self.schedule()

    def job_done(self, job: Job, error: BaseException | None) -> None:
        if self.ended:
            return  # the files are closed by now; what the job has made is found at the next start, as after a crash
        try:
            self.store.done(job, error)
        except Exception as failure:  # noqa: BLE001  the task's boundary: a file is not what it should be, whatever says so
            self.faults.stop_storage(failure)

    # ---- the end

    def step(self, run: Callable[[], None]) -> None:
        """Do what the loop has called for. An error in it is our own: what is in memory proves nothing any more."""
        try:
            run()
        except Exception as error:  # noqa: BLE001  the process's boundary
            self.faults.stop(error)
