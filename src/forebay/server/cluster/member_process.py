"""The process of one node of a cluster: sockets, threads, etcd and an event loop around a `GroupMember`, which decides.

While the node follows, its disk threads write what the leader sends. Once it leads there is a broker (`LeaderApp`) on
the same store. A process that has led and does so no longer begins anew (`begin_anew`): it must forget what nobody else
may ever have had, as after a crash.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from forebay.core.errors import DiskFull, PeerError, RequestError, StorageError
from forebay.core.option_cluster import REDIRECT
from forebay.core.options import Options
from forebay.core.ports import RegisterListener
from forebay.core.units import US_PER_MS
from forebay.log.store import Job
from forebay.log.wal import Commit
from forebay.node.group_member import GroupMember, GroupReady
from forebay.node.peer import Peer
from forebay.replica.membership import PresentNode
from forebay.replica.outcome import Change
from forebay.replica.register import (
    MemberAddresses,
    RegisterError,
    RegisterValue,
    View,
    decode_addresses,
    decode_register,
    encode_addresses,
    encode_register,
    founding,
)
from forebay.server.cluster.administration import ClusterState
from forebay.server.cluster.clients.arrivals import Arrivals
from forebay.server.cluster.clients.elsewhere import Elsewhere
from forebay.server.cluster.clients.follower_http import FollowerHttp
from forebay.server.cluster.clients.listeners import ClientListeners
from forebay.server.cluster.clients.refusing import Refusals
from forebay.server.cluster.clients.relay import Relay
from forebay.server.cluster.cluster_node import ClusterNode
from forebay.server.cluster.copying import ASK, COPY, GIVE_UP, CopySource, Filling
from forebay.server.cluster.draining import DRAIN, LOOK_S, PART_S, Draining
from forebay.server.cluster.leader_app import LeaderApp
from forebay.server.cluster.links.links import LinkListener, Links
from forebay.server.cluster.node_stats import STATS, decode_stats
from forebay.server.cluster.own_disk import OwnDisk
from forebay.server.cluster.reads.grants import GRANT
from forebay.server.cluster.reads.serving import FollowerReads
from forebay.server.cluster.register.register import make_register
from forebay.server.cluster.settings import ClusterSettings, replica_settings
from forebay.server.faults import Faults, end_process
from forebay.server.listen import Endpoint
from forebay.server.system.chance import SystemRandom
from forebay.server.system.clock import SystemClock
from forebay.server.system.commit_thread import load_commit_thread
from forebay.server.system.disk import DataDisk
from forebay.server.system.disk_work import Work, Worker
from forebay.server.system.replacement import Replacement
from forebay.server.telemetry.logs import flush_log
from forebay.server.transport.tls import TlsContexts

TICK_S: Final = 0.02
NANOSECONDS: Final = 1000  # a microsecond
HAND_OVER_S: Final = 3.0
EXIT_CONFIGURATION: Final = 1
LAST_SIGNAL_S: Final = 0.01
COPY_MARK: Final = bytes((COPY,))
STATS_MARK: Final = bytes((STATS,))
DRAIN_MARK: Final = bytes((DRAIN,))
GRANT_MARK: Final = bytes((GRANT,))
logger = logging.getLogger("forebay")


class MemberProcess(ClusterNode, RegisterListener, LinkListener):
    """One node of a cluster.

    group      what it is a process for
    listeners  for clients
    app        the broker, while it leads
    source     of copies of its files, while it leads
    filling    of this node's folder by such a copy: there is no store until that is done
    own_disk   calls that the loop does not wait for
    led        set once it leads
    is_to_lead  it does as soon as what the last leader sent is written
    leaving    it hands over to another before it ends
    handed_over  set once another leads
    watchers   called at each look at the clock
    is_told_to_stop  a signal has come that ends the process
    told_lost  the log says that the record is gone
    asked      changes of the register whose outcome is not known, by number
    nodes      who is there, as the register says
    state      the cluster as administrators see it
    reads      readers of blocks that it serves while it does not
    draining   whether this node serves clients, or others do
    http       what comes over HTTP while it does not lead
    """

    def __init__(
        self, options: Options, settings: ClusterSettings, loop: asyncio.AbstractEventLoop, tls: TlsContexts
    ) -> None:
        self.options = options
        self.settings = settings
        self.loop = loop
        self.tls = tls
        self.faults = Faults()
        self.disk = DataDisk(options.data)
        self.chance = SystemRandom()
        self.group = GroupMember(
            settings.node, self.disk, SystemClock(), self.chance, options, replica_settings(settings)
        )
        self.commits = Worker("commit", self.commit_done, loop.call_soon_threadsafe)
        self.jobs = Worker("housekeeping", self.job_done, loop.call_soon_threadsafe)
        timeout_us = settings.options.replica_timeout_ms * US_PER_MS
        self.own_disk = OwnDisk(self.group, self.disk, timeout_us, self.file_done, loop.call_soon_threadsafe)
        self.register = make_register(settings, self)
        self.register.may_stay = lambda: not self.own_disk.silence.is_silent()
        self.arrivals = Arrivals()
        self.links = Links(settings, self.group.identity.store, self, self.now_us, self.chance.octets, self.arrivals)
        self.relay = Relay(self.links, options.connections_max)
        self.refusals = Refusals(settings.node, settings.options.clients == REDIRECT, options.connections_max)
        self.listeners = ClientListeners(self.make_elsewhere, self.arrivals)
        self.relay.here = self.listeners.makers
        self.app: LeaderApp | None = None
        self.asked: dict[int, Change] = {}
        self.nodes: dict[str, PresentNode] = {}
        self.next_change = 1
        self.second_us = 0
        self.told_lost = False
        self.ended = False
        self.source: CopySource | None = None
        self.filling = Filling(self)
        self.is_to_lead = False
        self.leaving = False
        self.draining = Draining(self)
        self.reads = FollowerReads(self, self.filling)
        self.state = ClusterState(self, self.draining, self.reads)
        self.http = FollowerHttp(self, self.draining, self.filling)
        self.elsewhere = Elsewhere(self, self.state, self.draining, self.reads, self.http)
        self.led = asyncio.Event()
        self.handed_over = asyncio.Event()
        self.watchers: list[Callable[[], None]] = []
        self.is_told_to_stop: Callable[[], bool] = lambda: False
        self.replacement = Replacement()

    def make_elsewhere(self, endpoint: Endpoint, peer: Peer | None) -> asyncio.Protocol:
        return self.elsewhere.make(endpoint, peer)

    def now_us(self) -> int:
        """The time of the clock that never goes back."""
        return time.monotonic_ns() // NANOSECONDS

    def open(self) -> None:
        """Open the data folder, as a follower."""
        self.group.open()
        for line in self.group.found.report:
            logger.warning("%s", line)
        self.own_disk.tell_room(True, self.group.look_whether_it_can_lead())
        load_commit_thread()

    async def start(self) -> None:
        """Take part: from here on others can lead this node, and it can lead them."""
        self.own_disk.begin()
        await self.links.start()
        self.group.replica.start(self.now_us())
        self.register.start()
        self.register.be_present(self.settings.node, self.group.identity.store, encode_addresses(self.own_addresses()))
        self.step()
        self.loop.call_later(TICK_S, self.guard, self.tick)

    # ---- from the register

    def seen(self, revision: int, value: bytes) -> None:
        if revision == 0:
            self.found()
            return
        try:
            record = decode_register(value)
        except RegisterError as error:
            logger.error("etcd: the record of the cluster cannot be used: %s", error)
            return
        self.links.want({name: each.peer for name, each in record.members.items()})
        self.check_belongs(record)
        self.tell_relay(record)
        self.guard(lambda: self.group.replica.seen(View(revision, record), self.now_us()))
        self.guard(self.step)

    def tell_relay(self, record: RegisterValue) -> None:
        """Clients that come here go to whoever leads, unless that is this node."""
        leader = record.members[record.leader]
        self.refusals.addresses = leader.clients
        if record.leader == self.settings.node:
            self.relay.lead("", "")
        else:
            self.relay.lead(record.leader, leader.peer)

    def check_belongs(self, record: RegisterValue) -> None:
        """End the process where its folder holds what the cluster has never had: to join would take that away."""
        own = record.in_sync.get(self.settings.node)
        if self.group.is_foreign and own != self.group.identity.store:
            logger.critical(
                "%s holds the data of a broker that stood alone, and the cluster '%s' is there already, led by '%s': "
                "start this node with an empty data directory",
                self.disk.root,
                record.cluster,
                record.leader,
            )
            end_process(EXIT_CONFIGURATION)
        if not self.group.join(record.group, own == self.group.identity.store):
            logger.critical(
                "%s is of another cluster than '%s', though its folder or its name may be the same: it is of group %s, "
                "and the record in etcd is of group %s. Start this node with an empty data directory",
                self.disk.root,
                record.cluster,
                self.group.identity.group or "none",
                record.group,
            )
            end_process(EXIT_CONFIGURATION)

    def found(self) -> None:
        """Be the first member, which leads, as there is no record; unless there must have been one."""
        if self.asked:
            return
        if self.group.identity.promised:
            if not self.told_lost:
                self.told_lost = True
                logger.error(
                    "cluster: etcd has no record of the cluster, and this node was in it already. Bring etcd back from "
                    "a backup, or have the node with the newest data lead: forebay cluster force"
                )
            return
        record = founding(
            self.settings.options.name,
            self.settings.node,
            self.group.identity.store,
            self.own_addresses(),
            self.settings.options.quorum(),
            self.group.found_group(),
        )
        record.epoch = max(1, int(self.group.replica.standing.promised_at_start) + 1)
        self.ask(Change(0, record))

    def outcome(self, number: int, outcome: str, why: str) -> None:
        change = self.asked.pop(number, None)
        if why:
            logger.warning("etcd: a change of the cluster's record is %s: %s", outcome, why)
        if change is not None and change.revision:
            self.group.replica.outcome(change, outcome, self.now_us())
            self.guard(self.step)

    def present(self, nodes: Mapping[tuple[str, str], bytes]) -> None:
        self.nodes = {}
        for (node, store_id), said in nodes.items():
            try:
                self.nodes[node] = PresentNode(store_id, decode_addresses(node, said))
            except RegisterError as error:
                logger.error("etcd: %s", error)

    def reached(self, why: str) -> None:
        if why:
            logger.warning("etcd: %s", why)
        else:
            logger.info("etcd answers")

    def own_addresses(self) -> MemberAddresses:
        """The addresses at which others and clients find this node."""
        settings = self.settings
        clients = {name: settings.client_address(name, each) for name, each in self.listeners.addresses.items()}
        return MemberAddresses(settings.address(self.links.address), clients)

    # ---- from other nodes

    def connected(self, node: str, store: str) -> None:
        self.group.replica.connected(node, self.now_us())
        self.guard(self.step)

    def reset(self, node: str, why: str) -> None:
        if not self.ended:
            self.group.replica.reset(node, self.now_us())
            self.guard(self.step)

    def refused(self, node: str, tried_us: int) -> None:
        self.group.replica.refused(node, tried_us, self.now_us())
        self.guard(self.step)

    def message(self, node: str, octets: bytes) -> None:
        if octets[:1] == COPY_MARK:
            self.guard(lambda: self.take_copy(node, octets))
            return
        if octets[:1] == STATS_MARK:
            stats = self.state.stats[node] = decode_stats(octets)
            self.guard(lambda: self.draining.heard(node, stats.drained))
            return
        if octets[:1] == GRANT_MARK:
            self.reads.told(node, octets)
            return
        if octets[:1] == DRAIN_MARK:
            self.guard(lambda: self.draining.told(node, octets))
            return
        if self.filling.taker is not None or not self.group.may_hear():
            return  # there is no store, as it is being filled, or none that may promise anything
        try:
            self.group.replica.message(node, octets, self.now_us())
        except PeerError:
            raise  # the end of that connection, and of nothing else
        except Exception as error:  # noqa: BLE001  the process's boundary
            self.faults.stop(error)
        self.guard(self.step)

    def bulk_ready(self, node: str) -> None:
        """Do nothing: nothing goes by it yet."""

    # ---- copies of the files

    def take_copy(self, node: str, octets: bytes) -> None:
        """A message about a copy has come."""
        if len(octets) > 1 and octets[1] in (ASK, GIVE_UP):
            if self.source is not None:
                self.source.told(node, octets[1] == ASK)
            return
        self.filling.take(node, octets)

    # ---- from the disk

    def commit_done(self, commit: Commit, error: BaseException | None) -> None:
        """Frames of the leader are on the disk, or cannot be."""
        self.guard(lambda: self.followed(commit, error))

    def followed(self, commit: Commit, error: BaseException | None) -> None:
        if isinstance(error, DiskFull) and self.is_to_lead:
            self.cannot_lead(error)
            return
        if isinstance(error, DiskFull):
            self.own_disk.tell_full(error)
            self.group.not_written(commit, self.now_us())
        elif error is not None:
            raise error
        else:
            self.own_disk.tell_full(None)
            self.group.written(commit, self.now_us())
        self.step()

    def file_done(self, work: Work, error: BaseException | None) -> None:
        """The disk has answered something beside frames."""
        if not self.ended:
            self.guard(lambda: self.own_disk.came_back(work, error, self.now_us()))
            self.guard(self.step)

    def job_done(self, job: Job, error: BaseException | None) -> None:
        """Files are rewritten as the leader has told."""
        self.guard(lambda: self.group.store.done(job, error))
        self.guard(self.step)

    # ---- what is to be done

    def tick(self) -> None:
        """Look at the clock."""
        if self.ended:
            return
        now = self.now_us()
        for watcher in self.watchers:
            watcher()
        if self.filling.taker is not None:
            self.filling.look(now)
            self.loop.call_later(TICK_S, self.guard, self.tick)
            return
        if self.source is not None:
            self.source.look()
        else:
            self.own_disk.try_room(self.group.room.trial(now))
        self.own_disk.look(self.app is not None, now)
        if now >= self.second_us:
            self.second_us = now + 1000 * US_PER_MS
            self.every_second(now)
        self.draining.look(now)
        self.reads.look(now)
        self.group.replica.tick(now)
        self.group.replica.admit(self.nodes, now)
        self.step()
        self.state.look(now)
        if self.app is not None:
            self.app.check_lease()
        self.loop.call_later(TICK_S, self.guard, self.tick)

    def every_second(self, now: int) -> None:
        """Have files rewritten, here or by others as they are here."""
        if self.app is not None:
            self.group.tell_orders(now)
            return
        self.own_disk.ask()
        job = self.group.housekeep(now)
        if job is not None:
            self.jobs.put(job)

    def step(self) -> None:
        """Do all that the member asks for."""
        if self.ended or self.filling.taker is not None:
            return
        if self.app is not None:
            self.app.step_group()
            return
        ready = self.group.take(self.now_us())
        if not self.obey(ready):
            return
        self.is_to_lead = self.is_to_lead or ready.leads
        job = self.group.store.job_running
        if self.is_to_lead and job is not None:
            job.stop()
        elif self.is_to_lead and not self.group.under_way:
            self.is_to_lead = False
            self.lead()

    def obey(self, ready: GroupReady) -> bool:
        for line in ready.events:
            logger.info("cluster: %s", line)
        if ready.deposed and self.leaving:
            self.ended = True
            self.handed_over.set()
            return False
        if ready.deposed:
            self.begin_anew(f"{self.group.leader or 'another node'} leads in epoch {self.group.epoch}")
            return False
        self.pass_on(ready)
        if ready.copy_from:
            self.filling.begin(ready.copy_from)
        elif ready.needs_copy:
            self.filling.begin_empty(ready.needs_copy)
        return not ready.copy_from and not ready.needs_copy

    def pass_on(self, ready: GroupReady) -> None:
        """Give others what is theirs to do."""
        for peer, octets in ready.messages:
            self.links.send(peer, octets)
        for commit in ready.commits:
            self.commits.put(commit)
        if ready.read:
            self.register.read()
        if ready.change is not None:
            self.ask(ready.change)

    def ask(self, change: Change) -> None:
        """Have the register changed."""
        number = self.next_change
        self.next_change += 1
        self.asked[number] = change
        self.register.change(number, int(change.revision), encode_register(change.value))

    def lead(self) -> None:
        """Begin to serve clients, on what the log tells."""
        began = self.now_us()
        self.source = CopySource(self.group.store, self.links, self.group.replica.standing)
        app = self.app = LeaderApp(self, self.options, self.loop, self.tls)
        try:
            app.recover()
        except DiskFull as error:
            self.cannot_lead(error)
            return
        self.state.recovery_ms = (self.now_us() - began) // US_PER_MS
        logger.info("cluster: leads after %d ms of recovery", self.state.recovery_ms)
        self.led.set()
        self.step()

    def cannot_lead(self, error: DiskFull) -> None:
        """Leave it to others: who connects hears that nobody leads here, and takes over if it is in sync."""
        logger.error("cluster: the disk is full, so this node cannot lead: %s", error)
        self.begin_anew("another is to lead, or this node once its disk has room")

    def begin_anew(self, why: str) -> None:
        """Forget everything that is not on the disk: the process is another from here on."""
        logger.warning("cluster: begins anew as a follower: %s", why)
        self.ended = True
        if self.app is not None:
            self.app.abandon()
        if self.draining.is_drained and self.app is not None:
            self.draining.part()
            self.await_clients(self.now_us() + int(PART_S * 1000) * US_PER_MS)
        else:
            self.cut_clients()
            self.end_process()

    def await_clients(self, until_us: int) -> None:
        """Begin anew once clients have gone that were told to, or when time is up."""
        if self.app is not None and self.app.open and self.now_us() < until_us:
            self.loop.call_later(LOOK_S, self.await_clients, until_us)
        else:
            self.cut_clients()
            self.end_process()

    def end_process(self) -> None:
        if self.own_disk.silence.is_silent():
            self.own_disk.await_answer(self, self.end_process)
            return
        self.replacement.prepare()
        # Two timers: between them the loop hears of a signal that came before, however late the first one is.
        self.loop.call_later(LAST_SIGNAL_S, self.loop.call_later, LAST_SIGNAL_S, self.replace_process)

    def replace_process(self) -> None:
        """Have the same command run in the place of this process."""
        flush_log()
        self.draining.keep_for_next()
        self.replacement.begin(self.is_told_to_stop())

    # ---- the end

    def hung_up(self) -> None:
        """SIGHUP, while the node does not lead."""
        logger.info("the configuration is read again when this node leads, or starts")

    def ended_serving(self, serving: asyncio.Task[None]) -> None:
        """An error while a broker began to serve is the end of the process."""
        if not serving.cancelled() and (error := serving.exception()) is not None:
            self.faults.stop(error)

    def serve_waiting(self) -> None:
        """Serve the clients that came while nobody led."""
        for client in self.relay.waiting():
            client.seat(self.listeners.make(client.endpoint, client.peer))

    async def hand_over(self) -> bool:
        """Have another member lead, so that clients go on with it at once; False where none can, or time is up.

        From there on this process may write nothing more, and its clients are cut off.
        """
        self.leaving = True
        self.note_streams()
        try:
            self.group.replica.drain(self.now_us())
        except RequestError as error:
            logger.info("cluster: nobody takes over: %s", error.text)
        else:
            self.step()
            with suppress(TimeoutError):
                async with asyncio.timeout(HAND_OVER_S):
                    await self.handed_over.wait()
        self.leaving = self.handed_over.is_set()
        return self.leaving

    def is_drained(self, node: str) -> bool:
        return self.draining.says(node)

    def is_writing_aside(self) -> bool:
        return self.own_disk.is_writing()

    def tell_stats(self) -> None:
        self.state.tell_stats()

    def cut_clients(self) -> None:
        """End every client's connection at once."""
        if self.app is not None:
            for connection in list(self.app.open):
                connection.transport.abort()

    async def stop(self) -> None:
        """Take part no more; the files stay as they are."""
        self.ended = True
        self.listeners.close()
        await self.relay.stop()
        self.reads.stop()
        await self.links.stop()
        await self.register.stop()
        if self.own_disk.silence.is_silent():
            self.faults.leave_disk(self.options.drain_timeout_ms)
        self.commits.stop()
        self.jobs.stop()
        self.own_disk.files.stop()
        if self.app is None:
            self.disk.close_all()

    def guard(self, step: Callable[[], None]) -> None:
        """Do what the loop has called for. An error in it is our own, and the end of the process."""
        try:
            step()
        except StorageError as error:
            self.faults.stop_storage(error)
        except Exception as error:  # noqa: BLE001  the process's boundary
            self.faults.stop(error)
