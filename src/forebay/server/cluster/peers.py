"""The peers of a node of a cluster: links, etcd, and clients that come to this node, around its `GroupMember`.

The process is the same as of a node that is alone (server/node_process.py). A process that has led and does so no
longer begins anew (`begin_anew`): it must forget what nobody else may ever have had, as after a crash.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from forebay.core.errors import DiskFull, PeerError, RequestError
from forebay.core.option_cluster import REDIRECT
from forebay.core.ports import RegisterListener
from forebay.core.units import US_PER_MS
from forebay.node.back_pressure.disk_room import RoomTrial
from forebay.node.group.group_member import CANNOT_LEAD, NO_ROOM_TO_LEAD, GroupMember
from forebay.node.peer import Peer
from forebay.node.ready import Ready
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
from forebay.server.cluster.clients.scrape import TellMetrics
from forebay.server.cluster.cluster_node import ClusterNode
from forebay.server.cluster.copying import ASK, COPY, GIVE_UP, CopySource, Filling
from forebay.server.cluster.draining import DRAIN, LOOK_S, PART_S, Draining
from forebay.server.cluster.links.links import LinkListener, Links
from forebay.server.cluster.load import LeaderLoad
from forebay.server.cluster.node_stats import STATS, decode_stats
from forebay.server.cluster.own_disk import OwnDisk, Promise
from forebay.server.cluster.reads.grants import GRANT
from forebay.server.cluster.reads.offers import Offers
from forebay.server.cluster.reads.serving import FollowerReads
from forebay.server.cluster.register.register import make_register
from forebay.server.cluster.settings import ClusterSettings, replica_settings
from forebay.server.faults import end_process
from forebay.server.listen import Closable, Endpoint, MakeProtocol
from forebay.server.node_process import NodeProcess
from forebay.server.system.disk_work import Work
from forebay.server.system.notify import WATCHDOG, is_watched, notify
from forebay.server.system.replacement import Replacement, heed_signals
from forebay.server.telemetry.logs import flush_log

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


class ClusterPeers(ClusterNode, RegisterListener, LinkListener):
    """The peers of one node.

    source     of copies of its files, while it leads
    filling    of this node's folder by such a copy: there is no store until that is done
    own_disk   calls that the loop does not wait for
    leaving    it hands over to another before it ends
    handed_over  set once another leads
    watchers   called at each look at the clock
    is_told_to_stop  a signal has come that ends the process
    told_lost  the log says that the record is gone
    asked      changes of the register whose outcome is not known, by number
    state      view of the cluster for administrators
    reads      readers of blocks that it serves while it does not
    draining   whether this node serves clients, or others do
    http       what comes over HTTP while it does not lead; it comes by `http_listeners`, too, while it leads
    """

    def __init__(
        self,
        settings: ClusterSettings,
        http_listeners: Sequence[Endpoint],
        tell_metrics: TellMetrics | None,
        process: NodeProcess,
    ) -> None:
        self.process = process
        self.http_listeners = http_listeners
        self.settings = settings
        options = process.options
        self.group = GroupMember(
            settings.node, process.disk, process.clock, process.chance, options, replica_settings(settings), self
        )
        timeout_us = settings.options.replica_timeout_ms * US_PER_MS
        self.own_disk = OwnDisk(self.group, process.disk, timeout_us, process.work.files)
        self.register = make_register(settings, self)
        self.register.may_stay = lambda: not self.own_disk.silence.is_silent()
        self.arrivals = Arrivals()
        random = process.chance
        self.links = Links(settings, self.group.identity.store, self, self.now_us, random.octets, self.arrivals)
        self.relay = Relay(self.links, options.connections_max)
        self.refusals = Refusals(settings.node, settings.options.clients == REDIRECT, options.connections_max)
        self.listeners = ClientListeners(self.make_elsewhere, self.arrivals)
        self.relay.here = self.listeners.makers
        self.asked: dict[int, Change] = {}
        self.nodes: dict[str, PresentNode] = {}
        self.next_change = 1
        self.second_us = 0
        self.told_lost = False
        self.source: CopySource | None = None
        self.filling = Filling(self)
        self.leaving = False
        self.draining = Draining(self)
        self.reads = FollowerReads(self, self.filling)
        self.state = ClusterState(self, self.draining, self.reads)
        self.http = FollowerHttp(self, self.draining, self.filling)
        self.elsewhere = Elsewhere(self, self.state, self.draining, self.reads, self.http)
        self.elsewhere.tell_metrics = tell_metrics
        self.handed_over = asyncio.Event()
        self.watchers: list[Callable[[], None]] = [LeaderLoad(self).look]
        self.is_told_to_stop: Callable[[], bool] = lambda: False
        self.replacement = Replacement()

    def make_elsewhere(self, endpoint: Endpoint, peer: Peer | None) -> asyncio.Protocol:
        return self.elsewhere.make(endpoint, peer)

    def now_us(self) -> int:
        """Return the time of the monotonic clock, in microseconds."""
        return time.monotonic_ns() // NANOSECONDS

    def opened(self) -> None:
        self.own_disk.tell_room(True, self.group.look_whether_it_can_lead())

    async def start(self, endpoints: Sequence[Endpoint], is_told_to_stop: Callable[[], bool]) -> None:
        heed_signals()
        self.is_told_to_stop = is_told_to_stop
        self.process.loop.add_signal_handler(signal.SIGHUP, self.hung_up)
        await self.listeners.open([*endpoints, *self.http_listeners])
        self.own_disk.begin()
        await self.links.start()
        self.group.replica.start(self.now_us())
        self.register.start()
        self.register.be_present(self.settings.node, self.group.identity.store, encode_addresses(self.own_addresses()))
        if is_watched():
            self.watchers.append(partial(notify, WATCHDOG))
        self.step()
        self.tick_later()

    def fields(self) -> dict[str, object]:
        return {"node": self.settings.node, **self.listeners.addresses}

    def guard(self, step: Callable[[], None]) -> None:
        """Run a callback of the event loop. An error in it is the broker's own, and ends the process."""
        self.process.guard(step)

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
        """Relay clients that come here to the node that leads, unless that is this node."""
        leader = record.members[record.leader]
        self.refusals.addresses = leader.clients
        if record.leader == self.settings.node:
            self.relay.lead("", "")
        else:
            self.relay.lead(record.leader, leader.peer)

    def check_belongs(self, record: RegisterValue) -> None:
        """End the process if its folder holds data that the cluster has never had: to join would delete it."""
        own = record.in_sync.get(self.settings.node)
        if self.group.is_foreign and own != self.group.identity.store:
            logger.critical(
                "%s holds the data of a broker that stood alone, and the cluster '%s' is there already, led by '%s': "
                "start this node with an empty data directory",
                self.process.disk.root,
                record.cluster,
                record.leader,
            )
            end_process(EXIT_CONFIGURATION)
        if not self.group.join(record.group, own == self.group.identity.store):
            logger.critical(
                "%s is of another cluster than '%s', though its folder or its name may be the same: it is of group %s, "
                "and the record in etcd is of group %s. Start this node with an empty data directory",
                self.process.disk.root,
                record.cluster,
                self.group.identity.group or "none",
                record.group,
            )
            end_process(EXIT_CONFIGURATION)

    def found(self) -> None:
        """Found the cluster as its first member and leader if there is no record, and there cannot have been one."""
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
        """Return the addresses at which other nodes and clients find this node."""
        settings = self.settings
        clients = {name: settings.client_address(name, each) for name, each in self.listeners.addresses.items()}
        return MemberAddresses(settings.address(self.links.address), clients)

    # ---- from other nodes

    def connected(self, node: str, store: str) -> None:
        self.group.replica.connected(node, self.now_us())
        self.guard(self.step)

    def reset(self, node: str, why: str) -> None:
        if not self.process.ended:
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
            self.process.faults.stop(error)
        self.guard(self.step)

    def bulk_ready(self, node: str) -> None:
        """Do nothing, as no message of this node waits for bulk."""

    # ---- copies of the files

    def take_copy(self, node: str, octets: bytes) -> None:
        """Handle a message about a copy: a member's request for one, or a part of the copy that this node receives."""
        if len(octets) > 1 and octets[1] in (ASK, GIVE_UP):
            if self.source is not None:
                self.source.told(node, octets[1] == ASK)
            return
        self.filling.take(node, octets)

    # ---- from the disk

    def has_followed(self, error: BaseException | None) -> None:
        if not self.group.is_to_lead and (error is None or isinstance(error, DiskFull)):
            self.own_disk.tell_full(error)

    def has_file(self, work: Work, error: BaseException | None) -> bool:
        if self.process.app is not None and not isinstance(work, Promise | RoomTrial):
            return False
        if not self.process.ended:
            self.guard(lambda: self.own_disk.came_back(work, error, self.now_us()))
            self.guard(self.step)
        return True

    # ---- what is to be done

    def tick(self) -> None:
        """Do the periodic work, and schedule the next tick."""
        if not self.process.ended:
            self.look()
            self.tick_later()

    def look(self) -> None:
        """Do the periodic work for the group."""
        now = self.now_us()
        for watcher in self.watchers:
            watcher()
        if self.filling.taker is not None:
            self.filling.look(now)
            return
        if self.source is not None:
            self.source.look()
        else:
            self.own_disk.try_room(self.group.room.trial(now))
        self.own_disk.look(self.process.app is not None, now)
        if now >= self.second_us:
            self.second_us = now + 1000 * US_PER_MS
            self.every_second(now)
        self.draining.look(now)
        self.reads.look(now)
        self.group.replica.tick(now)
        self.group.replica.admit(self.nodes, now)
        self.step()
        self.state.look(now)
        if self.process.app is not None:
            self.process.app.check_lease()

    def tick_later(self) -> None:
        self.process.loop.call_later(TICK_S, self.guard, self.tick)

    def every_second(self, now: int) -> None:
        """Do the group's work of a second, and ask the disk of a follower how much room it has."""
        if self.process.app is None:
            self.own_disk.ask()
        self.group.every_second(now)

    def step(self) -> None:
        if self.filling.taker is None:
            self.process.step()

    def obey(self, ready: Ready) -> None:
        app = self.process.app
        if app is not None and ready.commit is not None:
            app.histograms.ship(ready.commit.lsn)
        if app is not None and ready.committed:
            app.histograms.on_committed(ready.committed)
        if ready.anew and self.leaving:
            self.process.ended = True
            self.handed_over.set()
            return
        if ready.anew:
            self.begin_anew(ready.anew)
            return
        for peer, octets in ready.messages:
            self.links.send(peer, octets)
        if ready.read:
            self.register.read()
        if ready.change is not None:
            self.ask(ready.change)
        if ready.copy_from:
            self.filling.begin(ready.copy_from)
        elif ready.needs_copy:
            self.filling.begin_empty(ready.needs_copy)
        if ready.leads:
            self.state.began_us = self.now_us()

    def ask(self, change: Change) -> None:
        """Request a change of the register."""
        number = self.next_change
        self.next_change += 1
        self.asked[number] = change
        self.register.change(number, int(change.revision), encode_register(change.value))

    def begin_to_lead(self) -> None:
        app = self.process.app
        assert app is not None
        self.source = CopySource(self.group.store, self.links, self.group.replica.standing)
        app.vhosts.read_offers = Offers(self)
        app.addresses = dict(self.listeners.addresses)
        app.control.cluster = self.state
        self.state.recovery_ms = (self.now_us() - self.state.began_us) // US_PER_MS
        logger.info("cluster: leads after %d ms of recovery", self.state.recovery_ms)

    async def listen(self, make: MakeProtocol, endpoint: Endpoint) -> tuple[Closable, str]:
        return self.listeners.serve(make, endpoint.name)

    def cannot_lead(self, error: DiskFull) -> None:
        logger.error(CANNOT_LEAD, error)
        self.begin_anew(NO_ROOM_TO_LEAD)

    def begin_anew(self, why: str) -> None:
        """Start over as another process, which knows only what is on the disk."""
        logger.warning("cluster: begins anew as a follower: %s", why)
        process = self.process
        process.ended = True
        process.node.abandon()
        if self.draining.is_drained and process.app is not None:
            self.draining.part()
            self.await_clients(self.now_us() + int(PART_S * 1000) * US_PER_MS)
        else:
            self.cut_clients()
            self.end_process()

    def await_clients(self, until_us: int) -> None:
        """Start over once the clients that were sent away are gone, or when time is up."""
        app = self.process.app
        if app is not None and app.open and self.now_us() < until_us:
            self.process.loop.call_later(LOOK_S, self.await_clients, until_us)
        else:
            self.cut_clients()
            self.end_process()

    def end_process(self) -> None:
        if self.own_disk.silence.is_silent():
            self.own_disk.await_answer(self, self.end_process)
            return
        self.replacement.prepare()
        # Two timers: between them the loop hears of a signal that came before, however late the first one is.
        self.process.loop.call_later(LAST_SIGNAL_S, self.process.loop.call_later, LAST_SIGNAL_S, self.replace_process)

    def replace_process(self) -> None:
        """Run the same command again in the place of this process."""
        flush_log()
        self.draining.keep_for_next()
        self.replacement.begin(self.is_told_to_stop())

    # ---- the end

    def hung_up(self) -> None:
        """Log on SIGHUP that a node which does not lead reads its configuration later."""
        logger.info("the configuration is read again when this node leads, or starts")

    def begin_to_serve(self) -> None:
        for client in self.relay.waiting():
            client.seat(self.listeners.make(client.endpoint, client.peer))

    def serves(self) -> None:
        self.state.tell_take_over()

    async def hand_over(self) -> bool:
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
        app = self.process.app
        if app is not None:
            for connection in list(app.open):
                connection.transport.abort()

    async def leave(self, hurry: asyncio.Event) -> None:
        await self.draining.leave(hurry)

    async def part(self, hurry: asyncio.Event) -> None:
        await self.draining.parted(hurry)

    def close_listeners(self) -> None:
        self.listeners.close()

    async def stop(self) -> None:
        process = self.process
        process.ended = True
        self.listeners.close()
        await self.relay.stop()
        self.reads.stop()
        await self.links.stop()
        await self.register.stop()
        if self.own_disk.silence.is_silent():
            process.faults.leave_disk(process.options.drain_timeout_ms)
        process.end_commits()
        process.end_work()  # which `drain` has done already if it took leave of the clients
        if process.app is None:
            process.disk.close_all()
