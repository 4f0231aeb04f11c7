"""Readings of a broker: values at one moment, which a process that answers for others could be sent."""

from __future__ import annotations

from dataclasses import replace

from msgspec import Struct

from forebay.broker.limits.hold_reasons import QUEUE_SHARE, SEND_BUFFER
from forebay.core.metrics import Totals
from forebay.node.back_pressure.pressure import DISK, MEMORY
from forebay.node.broker import NodeBroker
from forebay.node.telemetry.losses import sessions_over_quota
from forebay.session.traffic import Traffic


class LogReading(Struct, frozen=True):
    """The files and the cache of the node's log, and how far it is written.

    pending_octets  accepted, and not on the disk yet
    full            the disk has no room for more messages
    rewriting       files are rewritten in the background
    last, durable   the last frame, and the last that is on the disk
    damaged_blocks  those that a reader has asked for
    """

    pending_octets: int
    full: bool
    rewriting: bool
    last: int
    durable: int
    wal_files: int
    wal_octets: int
    segment_files: int
    segment_octets: int
    cache_octets: int
    cache_blocks: int
    blocks_read: int
    octets_read: int
    damaged_blocks: int


class IntakeReading(Struct, frozen=True):
    """The resources that are short, and the clients that are held back for it.

    low_memory, low_disk  there is too little
    is_over_limit    nobody who publishes is read
    disk_fault       that the disk does not answer, in words; "" while it does
    disk_unanswered_s  seconds for which it has not
    choked           publishers that are not read
    slow_ended       connections ended because they did not read
    """

    low_memory: bool
    low_disk: bool
    is_over_limit: bool
    disk_fault: str
    disk_unanswered_s: float
    choked: int
    send_buffer_octets: int
    slow_ended: int


class LoadReading(Struct, frozen=True):
    """The clients' demands on the broker, and the limits that they have met.

    slow_readers     connections that do not read
    slowed           publishers slowed down because a queue is over its share
    held             connections that are held, by reason
    newcomers        connections without a login, and `login_octets` that they have sent in unfinished packets
    newcomers_ended  connections ended before a login
    connections_refused, rate_limited  by a rate limit: connections, and times that one was not read
    logins_put_off   logins refused without a check
    reads_put_off    reads that had more than fits into a turn
    filters_put_off, filters_cut  filters that had to stop
    """

    slow_readers: int
    slowed: int
    held: dict[str, int]
    newcomers: int
    login_octets: int
    newcomers_ended: int
    connections_refused: int
    rate_limited: int
    logins_put_off: int
    reads_put_off: int
    queues_over_share: int
    sessions_over_quota: int
    filters_put_off: int
    filters_cut: int


class ClientsReading(Struct, frozen=True):
    """The connections of a broker, and the logins since its start.

    started_us      time at which the broker started
    open            connections, with and without a login
    sessions        those with a login, and `sessions_begun` since the start
    logins, refused_logins  by protocol
    """

    started_us: int
    open: int
    sessions: int
    sessions_begun: int
    logins: dict[str, int]
    refused_logins: dict[str, int]


class Readings:
    """The readings of one broker, each made when it is asked for."""

    def __init__(self, broker: NodeBroker) -> None:
        self._broker = broker

    def clients(self) -> ClientsReading:
        """Return the number of connections and logins."""
        broker = self._broker
        return ClientsReading(
            started_us=broker.stats.topics.started_us,
            open=len(broker.open),
            sessions=len(broker.connections),
            sessions_begun=broker.next_session - 1,
            logins=dict(broker.stats.logins),
            refused_logins=dict(broker.stats.refused_logins),
        )

    def traffic(self) -> Traffic:
        """Return the counts of all AMQP connections, the closed ones too."""
        sessions = [each.session for each in self._broker.connections.values()]
        return self._broker.stats.traffic(session for session in sessions if session is not None)

    def totals(self) -> Totals:
        """Return the totals of the broker, as far as its clients do not count themselves."""
        return replace(self._broker.totals)

    def totals_of_ended(self) -> Totals:
        """Return the totals as if all connections had ended: those of open ones are the caller's to add."""
        totals = replace(self._broker.totals)
        self._broker.stats.begin(totals)
        return totals

    def log(self) -> LogReading:
        """Return the state of the log."""
        store = self._broker.store
        logs = store.logs
        segment_files, segment_octets = logs.segment_totals()
        return LogReading(
            pending_octets=int(store.pending()),
            full=bool(store.full),
            rewriting=store.job_running is not None,
            last=int(store.lsn) - 1,
            durable=int(store.durable),
            wal_files=len(store.wals),
            wal_octets=sum(wal.tail for wal in store.wals),
            segment_files=segment_files,
            segment_octets=segment_octets,
            cache_octets=int(logs.cache.octets),
            cache_blocks=int(logs.cache.count),
            blocks_read=int(logs.files.reads),
            octets_read=int(logs.files.octets_read),
            damaged_blocks=len(logs.files.damages),
        )

    def intake(self, now_us: int) -> IntakeReading:
        """Return what the broker lacks."""
        pressure = self._broker.pressure
        alarms = pressure.alarms()
        return IntakeReading(
            low_memory=MEMORY in alarms,
            low_disk=DISK in alarms,
            is_over_limit=pressure.over_limit(),
            disk_fault=self.disk_fault(),
            disk_unanswered_s=pressure.disk_answer.waited_s(now_us),
            choked=pressure.choked(),
            send_buffer_octets=pressure.buffers.total,
            slow_ended=pressure.buffers.ended_slow,
        )

    def load(self) -> LoadReading:
        """Return what clients ask of the broker."""
        broker = self._broker
        filters = broker.vhosts.shared.budgets.filters
        return LoadReading(
            slow_readers=len(broker.flow.held[SEND_BUFFER]),
            slowed=len(broker.flow.held[QUEUE_SHARE]),
            held=broker.listed.view.counts(),
            newcomers=len(broker.newcomers.links),
            login_octets=broker.newcomers.octets,
            newcomers_ended=sum(broker.newcomers.ended.values()),
            connections_refused=broker.rates.refused,
            rate_limited=broker.rates.slowed,
            logins_put_off=broker.auth.throttle.put_off,
            reads_put_off=broker.flow.put_off,
            queues_over_share=len(broker.vhosts.shared.shares.crowded),
            sessions_over_quota=sessions_over_quota(broker.vhosts),
            filters_put_off=int(filters.put_off),
            filters_cut=int(filters.cut),
        )

    # ---- asked so often that a whole reading would cost too much

    def open_connections(self) -> int:
        """Return the number of connections, with and without a login."""
        return len(self._broker.open)

    def is_over_limit(self) -> bool:
        """Return whether nobody who publishes is read."""
        return self._broker.pressure.over_limit()

    def alarms(self) -> list[str]:
        """Return the resources of which there is too little, memory and disk."""
        return self._broker.pressure.alarms()

    def alarm_names(self) -> list[str]:
        """Return the alarms that are set."""
        return self._broker.alarms.names()

    def disk_fault(self) -> str:
        """Return that the disk does not answer, in words; "" while it does."""
        return self._broker.pressure.disk_answer.words() if self._broker.store.no_answer else ""
