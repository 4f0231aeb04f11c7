"""The process of one node, alone or in a cluster: disk, threads and an event loop around a `Node`, which decides.

    process = NodeProcess(options, loop, tls, Alone)     # or the peers of a node of a cluster
    process.open()                      # the data folder; a node that is alone leads from here on
    await process.peers.start(endpoints)
    await process.led.wait()            # `process.app` is its broker, which has clients to serve

While the node follows, `step` asks it what is to be done, and `do` does that. Once it leads there is an `App`, whose
turns are the only ones. A process that has led and does so no longer begins anew (server/cluster/peers.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import forebay
from forebay.core.errors import DiskFull, StorageError
from forebay.core.options import Options
from forebay.log.folder.identity import alone_identity
from forebay.log.store import Job, Store
from forebay.log.wal import Commit
from forebay.node.group.lone_member import LoneMember
from forebay.node.node import Node
from forebay.node.ready import Ready
from forebay.node.telemetry.journal import Line
from forebay.node.wanted import store_options
from forebay.server.app import App
from forebay.server.faults import Faults
from forebay.server.listen import Closable, Endpoint, MakeProtocol, listen
from forebay.server.process import Peers, Process
from forebay.server.system.chance import SystemRandom
from forebay.server.system.clock import SystemClock
from forebay.server.system.commit_thread import make_commit_thread
from forebay.server.system.disk import DataDisk
from forebay.server.system.disk_work import DiskWork, Work
from forebay.server.system.notify import WATCHDOG, is_watched, notify
from forebay.server.transport.tls import TlsContexts

NANOSECONDS: Final = 1000  # a microsecond
logger = logging.getLogger("forebay")


class NodeProcess(Process):
    """The process of one node, from its start to its end.

    app  the broker with what serves its clients, while the node leads
    led  set once it does
    has_ended_work  the threads of the disk have ended
    """

    def __init__(
        self,
        options: Options,
        loop: asyncio.AbstractEventLoop,
        tls: TlsContexts,
        make_peers: Callable[[NodeProcess], Peers],
    ) -> None:
        self.options = options
        self.tls = tls
        self.loop = loop
        self.clock = SystemClock()
        self.chance = SystemRandom()
        self.faults = Faults()
        self.disk = DataDisk(options.data)
        self.app: App | None = None
        self.led = asyncio.Event()
        self.ended = False
        self.has_ended_work = False
        short = make_commit_thread(self.disk, self.commit_done)
        if short is not None:
            loop.add_reader(short.fileno, self.guard, short.came_back)
        self.work = DiskWork(self.commit_done, self.job_done, self.file_done, loop.call_soon_threadsafe, short)
        self.peers = make_peers(self)
        self.node = self.make_node()

    def make_node(self) -> Node:
        """Return the node, on this process's disk and clock."""
        built_us = Path(forebay.__file__).stat().st_mtime_ns // NANOSECONDS
        return Node(self.options, self.peers.group, self.clock, self.chance, built_us)

    def make_app(self) -> App:
        """Return the broker of a node that begins to lead, with what serves its clients."""
        return App(self)

    def open(self) -> None:
        """Open the data folder, and lead if this node is alone."""
        self.peers.prepare()
        for line in self.node.open():
            logger.warning("%s", line)
        self.peers.opened()

    # ---- what is to be done

    def step(self) -> None:
        """Carry out the node's requests between turns."""
        if self.ended:
            return
        if self.app is not None:
            self.app.step_group()
            return
        ready = self.node.take()
        self.do(ready)
        if ready.leads and not self.ended:
            self.lead()

    def do(self, ready: Ready) -> None:
        if ready.stop is not None:
            self.faults.end(ready.stop)
        if ready.commit is not None:
            self.work.submit(ready.commit)
        if ready.job is not None:
            self.work.submit_job(ready.job)
        if ready.growth is not None:
            self.work.files.put(ready.growth)
        if ready.lines:
            self.write_lines(ready.lines)
        self.peers.obey(ready)

    def write_lines(self, lines: Sequence[Line]) -> None:
        for level, words, given in lines:
            logger.log(level, words, *given)

    def lead(self) -> None:
        """Make the broker, and restore it from what the log holds."""
        app = self.app = self.make_app()
        try:
            app.recover()
        except DiskFull as error:
            self.peers.cannot_lead(error)
            return
        self.peers.begin_to_lead()
        self.led.set()
        self.step()

    # ---- what comes back from the disk

    def commit_done(self, commit: Commit, error: BaseException | None) -> None:
        """Release what a finished commit has made durable."""
        if self.app is None:
            self.guard(lambda: self.has_followed(commit, error))
        else:
            self.app.commit_done(commit, error)

    def has_followed(self, commit: Commit, error: BaseException | None) -> None:
        """Report to the leader which of its frames are on the disk."""
        self.peers.has_followed(error)
        self.node.synced(commit, error)
        self.step()

    def job_done(self, job: Job, error: BaseException | None) -> None:
        """Report a finished rewrite of files to the node."""
        if self.app is None:
            self.guard(lambda: self.node.job_done(job, error))
            self.guard(self.step)
        else:
            self.app.job_done(job, error)

    def file_done(self, work: Work, error: BaseException | None) -> None:
        """React to finished work on files: a reserve, a close, a removal, or the free space of the disk."""
        if not self.peers.has_file(work, error) and self.app is not None:
            self.app.file_done(work, error)

    # ---- the end

    def end_commits(self) -> None:
        if self.work.short is not None and not self.has_ended_work:
            self.loop.remove_reader(self.work.short.fileno)

    def end_work(self) -> None:
        if self.has_ended_work:
            return
        self.has_ended_work = True
        self.work.stop()
        self.disk.elsewhere = None
        self.node.member.store.log_room.is_ahead = False

    def guard(self, step: Callable[[], None]) -> None:
        try:
            step()
        except StorageError as error:
            self.faults.stop_storage(error)
        except Exception as error:  # noqa: BLE001  the process's boundary
            self.faults.stop(error)


class Alone(Peers):
    """The peers of a node that is alone: there are none."""

    def __init__(self, process: NodeProcess) -> None:
        self.process = process
        self.group = LoneMember(Store(process.disk, process.clock, store_options(process.options)))

    def prepare(self) -> None:
        alone_identity(self.process.disk, self.process.chance)

    def opened(self) -> None:
        self.process.step()

    async def start(self, endpoints: Sequence[Endpoint], is_told_to_stop: Callable[[], bool]) -> None:
        app = self.process.app
        if app is not None and is_watched():
            app.watchers.append(partial(notify, WATCHDOG))

    def fields(self) -> dict[str, object]:
        app = self.process.app
        return {} if app is None else dict(app.addresses)

    async def listen(self, make: MakeProtocol, endpoint: Endpoint) -> tuple[Closable, str]:
        return await listen(make, endpoint)
