"""The clients' side of the process of a node that leads: sockets, logins and the loop's turns around its broker.

A turn is one pass of the event loop: every socket that had octets has been read and its session has decided; then the
node makes its turn, and what it is ready with is done: its commit is given to the disk thread, and each connection is
written once. Which confirms may leave, `Node.synced` decides.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, TypeVar, cast

from forebay.broker.joining import Joining
from forebay.core.units import S_PER_US
from forebay.directory.logins.authorizer import Principal, Proof, Undecided
from forebay.directory.logins.login import NOWHERE, LoginContext, LoginRefused
from forebay.log.room import Growth
from forebay.log.store import Job
from forebay.log.wal import Commit
from forebay.management.directory_reader import DirectoryReader
from forebay.node.broker import TICKS_A_SECOND
from forebay.node.peer import Peer
from forebay.node.ready import Ready
from forebay.node.telemetry.events import Told
from forebay.node.telemetry.tracing import Tracer
from forebay.server.auth.acl_file import load_acl
from forebay.server.auth.backends import make_backends
from forebay.server.auth.logins import Logins
from forebay.server.config.definitions import import_definitions
from forebay.server.connection_reader import ConnectionReader
from forebay.server.listen import Closable, Endpoint, MakeProtocol
from forebay.server.net import Connection, Host
from forebay.server.process import Process
from forebay.server.readings import Readings
from forebay.server.system.disk import FreeSpace
from forebay.server.system.disk_work import Work
from forebay.server.system.handles import room_for_connections
from forebay.server.system.heap import Heap, resident_octets
from forebay.server.system.small_file import DataFolder
from forebay.server.telemetry.audit_log import AuditLog
from forebay.server.telemetry.event_log import EventLog
from forebay.server.telemetry.histograms import Histograms
from forebay.server.transport.coap_traffic import CoapTraffic
from forebay.server.transport.door import Door
from forebay.server.transport.sending import FileSender
from forebay.session.session import Session

TICK_S: Final = 0.1
NO_SESSION: Final = 0
TRIM_S: Final = 5  # between two attempts to return memory to the system
KIB: Final = 1024
ROUNDING_S: Final = 0.001  # the loop counts milliseconds: a timer may be as much too early
logger = logging.getLogger("forebay")
T = TypeVar("T")


class App(Host):
    """A broker, from when its node begins to lead to the end of the process.

    process  the process of the node
    broker   serves the clients; its parts are attributes here, too
    asked  callers that wait until this turn's changes are on the disk
    unwritten  the same, and what must be durable for it
    proving  proofs that callers without a session wait for
    addresses  of its listeners, by option name
    watchers  called once a second, as long as turns come
    leaving  the broker is about to stop, which health checks report
    """

    def __init__(self, process: Process) -> None:
        self.process = process
        self.options = process.options
        self.tls = process.tls
        self.loop = loop = process.loop
        self.clock = process.clock
        self.faults = process.faults
        self.heap = Heap()
        self.histograms = Histograms()
        self.disk = process.disk
        self.disk.synced = self.histograms.synced
        self.node = process.node
        self.broker = broker = self.node.lead()
        self.store = broker.store
        self.readings = Readings(broker)
        self.clients = ConnectionReader(broker)
        self.vhosts = broker.vhosts
        self.directory = DirectoryReader(self.vhosts.directory)
        self.auth = broker.auth
        self.auth.backends = make_backends(self.options)
        load_acl(self.vhosts.directory.users.acl, self.options.mqtt_acl)
        self.control = broker.control
        self.stats = broker.stats
        self.totals = broker.totals
        self.pressure = broker.pressure
        self.alarms = broker.alarms
        self.announcer = broker.announcer
        self.rates = broker.rates
        self.newcomers = broker.newcomers
        self.flow = broker.flow
        self.folder = DataFolder(process.disk)
        self.connections = cast("dict[int, Connection]", broker.connections)
        self.open = cast("dict[Connection, None]", broker.open)
        broker.handles = room_for_connections()
        self.audit_log = AuditLog(self.options.audit_log, loop.call_soon_threadsafe)
        self.logins = Logins(self.auth, self.login_concluded, loop.call_soon_threadsafe)
        self.sender = FileSender(loop.call_soon_threadsafe)
        self.door = Door(self.pressure)
        self.coap = CoapTraffic()
        self.event_log = EventLog()
        self.announcer.listeners.append(self.event_log)
        self.proving: dict[Proof, asyncio.Future[None]] = {}
        self.asked: list[asyncio.Future[None]] = []
        self.unwritten: list[tuple[int, asyncio.Future[None]]] = []
        self.scheduled = False
        self.alarm_us = 0  # time of the next scheduled wake-up; 0 for none
        self.addresses: dict[str, str] = {}
        self.watchers: list[Callable[[], None]] = []
        self.leaving = False
        self.idle: asyncio.Event = asyncio.Event()

    def recover(self) -> None:
        """Recover the state that the log holds, import the configured definitions, and start the broker."""
        self.disk.elsewhere = None  # the loop waits for the disk
        self.look_around()
        self.node.load()
        self.process.write_lines(self.broker.journal.take())
        import_definitions(self.vhosts, self.options)
        self.event_log.log(self.options.log_events)
        self.broker.begin()
        self.disk.elsewhere = self.process.work.files.put
        self.store.log_room.is_ahead = True
        self.look()

    def tell_of_events(self) -> None:
        """Apply the options on which events are logged and announced."""
        self.event_log.log(self.options.log_events)
        self.announcer.configure(self.options)

    def trace(self, tracer: Tracer) -> None:
        """Report messages on their way to a tracer from now on."""
        self.broker.trace(tracer)

    # ---- connections

    def new_connection(self, peer: Peer) -> Connection:
        """Make the connection of a client that comes by no listener."""
        return Connection(self, "", peer)

    def seat(self, connection: Connection, make: Callable[[int], Session]) -> None:
        """Add a connection that came by no listener, with the session that `make` returns for its number."""
        self.broker.seat(connection, make)

    def shut_down_sessions(self, kind: type[asyncio.Transport]) -> None:
        """Shut down every session over this kind of transport, with its protocol's goodbye."""
        for connection in list(self.connections.values()):
            if isinstance(connection.transport, kind) and connection.session is not None:
                connection.attempt(connection.session.shut_down)
                self.touch(connection)

    def touch(self, connection: Connection) -> None:
        """Mark a connection as one that the coming turn serves, and schedule that turn."""
        self.broker.touch(connection)
        self.look()

    def now_us(self) -> int:
        """Return the time of the broker's clock, in microseconds."""
        return self.clock.now_us()

    def hurry(self) -> None:
        """Write settlements with the next commit."""
        self.store.hurry()

    def debt_of_user(self, user: str, messages: int, octets: int) -> float:
        """Charge a user for published messages; return the seconds after which the debt is paid."""
        return self.rates.debt_of_user(user, messages, octets, self.now_us())

    def certificate_expiry(self) -> datetime | None:
        """Return when the certificate of the TLS listeners expires; None where there is none."""
        return self.tls.expiry()

    async def listen(self, make: MakeProtocol, endpoint: Endpoint) -> tuple[Closable, str]:
        """Open a listener; return it and its actual address. Raises OptionError if it cannot be opened."""
        return await self.process.peers.listen(make, endpoint)

    # ---- callers without a session

    def login_concluded(self, answer: Proof | Joining) -> None:
        """Resume the caller or session that waits for a finished password check, or for a joined message body."""
        waiting = self.proving.pop(answer, None) if isinstance(answer, Proof) else None
        if waiting is None:
            self.broker.answered(answer)
            self.look()
        elif not waiting.done():
            waiting.set_result(None)

    async def login(self, user: str, password: str, loopback: bool, place: LoginContext = NOWHERE) -> Principal:
        """Return the user that a caller without a session has proven to be. Raises LoginRefused."""
        proof = self.auth.begin(NO_SESSION, user, password, place)
        if proof is None:
            principal = self.auth.check(user, password, loopback)
        else:
            await self.run(proof)
            principal = self.auth.conclude(proof, loopback)
        self.auth.throttle.succeeded(place.address, user)
        return principal

    def refuse_login(self, place: LoginContext, error: LoginRefused) -> None:
        """Record the refused login of a caller without a session."""
        self.auth.refuse_at(place, error)
        self.schedule()

    async def decided(self, check: Callable[[], T]) -> T:
        """Return the result of a check for a caller without a session, after all backends it needs have been asked."""
        while True:
            try:
                return check()
            except Undecided as error:
                await self.ask(error.proof)

    async def ask(self, proof: Proof) -> None:
        """Put a proof to the backend that decides about it, and wait for the answer; for callers without a session."""
        self.auth.ask(proof)
        await self.run(proof)

    async def run(self, proof: Proof) -> None:
        """Run a proof that was handed in, among all others, and wait for its end."""
        waiting = self.proving[proof] = self.loop.create_future()
        self.logins.take(self.broker.logins.take_proofs())
        await waiting

    async def on_disk(self) -> None:
        """Wait until everything done so far is on the disk; for callers without a session."""
        waiting = self.loop.create_future()
        self.asked.append(waiting)
        self.schedule()
        await waiting

    def answer_written(self, durable: int) -> None:
        """Wake callers without a session whose changes, up to the LSN `durable`, are on the disk."""
        unwritten, self.unwritten = self.unwritten, []
        for lsn, waiting in unwritten:
            if lsn > durable:
                self.unwritten.append((lsn, waiting))
            elif not waiting.done():
                waiting.set_result(None)

    # ---- the turn

    def schedule(self) -> None:
        if not self.scheduled:
            self.scheduled = True
            self.histograms.begin_turn()
            self.loop.call_soon(self.process.guard, self.turn)

    def turn(self) -> None:
        """Make the node's turn, and carry out what the turn asks for."""
        histograms = self.histograms
        if not self.scheduled:
            histograms.begin_turn()
        self.scheduled = False
        broker = self.broker
        if broker.ended:
            return
        ready = self.node.turn()
        self.do(ready)
        if ready.delivery is not None:
            histograms.deliver(ready.delivery, ready.now_us)
        if self.asked:
            self.unwritten += [(ready.lsn, each) for each in self.asked]
            self.asked = []
            self.answer_written(ready.durable)
        if ready.awaited:
            histograms.await_disk(ready.lsn)
        histograms.end_turn()
        broker.sent()
        if ready.again_us:
            self.wake_at(ready.again_us)
        if broker.is_due and not self.scheduled:
            self.schedule()

    def do(self, ready: Ready) -> None:
        """Carry out the node's requests: commits, aborts, writes to connections."""
        if ready.commit is not None:
            self.histograms.begin_commit(ready.commit.octets)
        if ready.committed:
            self.histograms.on_durable(ready.committed)
        self.process.do(ready)
        self.note(ready)
        if ready.cut:
            for cut in cast("list[Connection]", ready.cut):
                cut.transport.abort()
        for link in ready.send:
            try:
                link.flush()
            except Exception as error:  # noqa: BLE001  the connection's boundary
                self.broker.failed(link, error)
        if ready.close:
            for ended in cast("list[Connection]", ready.close):
                ended.attempt(ended.end)
        if ready.reading:
            for held in cast("list[Connection]", ready.reading):
                held.obey()
        if ready.proofs:
            self.logins.take(ready.proofs)
        if ready.committed and self.unwritten:
            self.answer_written(ready.committed)

    def note(self, ready: Ready) -> None:
        """Report a turn's faults, audit entries and events, before clients see the results of the turn."""
        for fault in ready.faults:
            self.faults.count(fault)
        if ready.audit:
            self.audit_log.write(list(ready.audit), ready.now_us)
        if ready.events:
            self.tell(ready.events)

    def tell(self, events: Sequence[Told]) -> None:
        """Pass events on to the listeners."""
        for listener in self.announcer.listeners:
            listener.hear(events)

    def flush(self) -> None:
        """Write everything noted to the log, also what nobody waits for."""
        self.do(self.node.flush())

    def commit_done(self, commit: Commit, error: BaseException | None) -> None:
        """Release what a finished commit has made durable, before anything else is done."""
        self.histograms.end_commit()
        self.process.guard(lambda: self.synced(commit, error))

    def synced(self, commit: Commit, error: BaseException | None) -> None:
        """Report a finished commit to the node, release its results, and begin the next commit."""
        self.node.synced(commit, error)
        self.do(self.node.take())
        self.turn()
        if self.broker.stopping:
            self.flush()
            if not self.store.in_flight():
                self.idle.set()

    def step_group(self) -> None:
        """Carry out the group's requests between turns. What the group has committed leaves at once.

        Whatever else that brings is of the next turn, with what has come from sockets by then.
        """
        self.do(self.node.take())
        self.look()

    def check_lease(self) -> None:
        """Release deliveries while the lease is valid, and hold them back while it is not."""
        self.node.check_lease()
        self.look()

    def file_done(self, work: Work, error: BaseException | None) -> None:
        """React to finished work on files: a reserve, a close, a removal, or the free space of the disk."""
        if isinstance(work, Growth):
            self.node.job_done(work, error)
            self.look()
            return
        if isinstance(work, FreeSpace):
            self.broker.surroundings.asked_us = 0
        if error is not None:
            logger.error("data: %s", error)

    def job_done(self, job: Job, error: BaseException | None) -> None:
        """Report a finished rewrite of files to the node."""
        self.node.job_done(job, error)
        self.look()

    # ---- time

    def tick(self) -> None:
        """Advance the broker's timers by a tick of a tenth of a second, and schedule the next tick."""
        broker = self.broker
        if broker.ended:
            return
        is_second = (broker.ticks + 1) % TICKS_A_SECOND == 0
        if is_second:
            self.look_around()
        broker.tick(self.clock.now_us())
        if is_second:
            self.look_after()
        self.look()
        self.loop.call_later(TICK_S, self.process.guard, self.tick)

    def every_second(self, now_us: int) -> None:
        """Do the work of a second that is over, independently of the ticks."""
        self.look_around()
        self.broker.every_second(now_us)
        self.look_after()
        self.look()

    def look_around(self) -> None:
        """Report memory and free disk to the node. Return memory to the system when it is short, and periodically."""
        resident = resident_octets()
        if resident > self.options.memory_octets_max or self.broker.ticks // TICKS_A_SECOND % TRIM_S == 0:
            self.heap.trim()
            resident = resident_octets()
        around = self.broker.surroundings
        around.memory_octets = resident
        around.free_octets = self.disk.free_octets()
        if self.disk.elsewhere is not None and not around.asked_us:
            around.asked_us = self.clock.now_us()
            self.disk.elsewhere(FreeSpace(self.disk))
        self.totals.memory_octets = resident
        self.totals.memory_octets_peak = max(resident, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB)

    def look_after(self) -> None:
        """Do the periodic work of this process alone, about once a second."""
        second = self.broker.ticks // TICKS_A_SECOND
        self.histograms.every_second(second)
        self.tls.look_at(second, self.options.tls_watch_s)
        for watcher in self.watchers:
            watcher()

    def wake_at(self, due_us: int) -> None:
        """Schedule a wake-up of the node at `due_us`, unless an earlier one is scheduled."""
        if self.alarm_us and self.alarm_us <= due_us:
            return
        self.alarm_us = due_us
        wait_s = max(0, due_us - self.clock.now_us()) * S_PER_US
        self.loop.call_later(wait_s + ROUNDING_S, self.process.guard, self.wake)

    def wake(self) -> None:
        """Wake the node, as the condition that it waits for may have changed."""
        self.alarm_us = 0
        self.broker.wake(self.clock.now_us())
        self.look()
