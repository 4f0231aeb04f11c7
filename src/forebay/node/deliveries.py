"""The output of a turn to sessions: deliveries, the end of waits, and that queues are gone."""

from __future__ import annotations

from typing import final

from forebay.broker.vhosts import Vhosts
from forebay.log.logs import Logs
from forebay.node.back_pressure.send_buffers import SendBuffers
from forebay.node.commit_gate import CommitGate
from forebay.node.link import Link
from forebay.node.telemetry.events import Announcer
from forebay.node.telemetry.tracing import Tracer
from forebay.queue.leases.lease import Delivery


@final
class Deliveries:
    """The last step of a turn: ends the vhosts' turn and gives their deliveries to the sessions.

    connections  by the session's number; the node's own
    """

    def __init__(
        self, vhosts: Vhosts, connections: dict[int, Link], announcer: Announcer, buffers: SendBuffers, logs: Logs
    ) -> None:
        self.vhosts = vhosts
        self.filter_budget = vhosts.shared.budgets.filters
        self.connections = connections
        self.announcer = announcer
        self.buffers = buffers
        self.logs = logs

    def run(
        self, now_us: int, gate: CommitGate | None, tracer: Tracer | None, dirty: dict[Link, None]
    ) -> Delivery | None:
        """Deliver; the last delivery, if there was one. The connections join those that the turn looks at."""
        tells = self.announcer.delivers
        buffers = self.buffers
        self.filter_budget.octets = buffers.turn_octets()
        ended = self.vhosts.end_turn(now_us)
        deliveries = ended.deliveries
        if tracer is not None:
            tracer.sealed(ended.sealed, now_us)
        for number in ended.synced_first:
            link = self.connections.get(number)
            if link is not None and link.session is not None:
                link.session.hold()
        for delivery in deliveries:
            link = self.connections.get(delivery.consumer.session_id)
            if link is None or link.session is None:
                continue  # closed in this very turn: `session_closed` has taken the lease back
            if buffers.is_tight and buffers.spares(link, delivery):
                continue
            if gate is not None:
                gate.look_at(link, delivery, self.logs.stored)
            try:
                link.session.deliver(delivery)
                if gate is None:
                    buffers.send_early(link)
            except Exception as error:  # noqa: BLE001  the connection's boundary
                link.broker.failed(link, error)
                continue
            if tracer is not None:
                tracer.delivered(delivery, self.vhosts.opened(link.session.vhost), now_us)
            if tells:
                self.announcer.delivered(delivery, link.session)
            dirty[link] = None
        if ended.early:
            self.tell_early(ended.early, now_us, tracer)
        for id in ended.woken:
            if id in self.connections:
                self.connections[id].broker.touch(self.connections[id])
        for consumer in ended.cancelled:
            link = self.connections.get(consumer.session_id)
            if link is not None and link.session is not None:
                link.attempt_with(link.session.cancelled, consumer)
                link.broker.touch(link)
        return deliveries[-1] if deliveries else None

    def tell_early(self, early: list[Delivery], now_us: int, tracer: Tracer | None) -> None:
        """Notify the tracer and the announcer of deliveries that sessions took before the turn's end."""
        for delivery in early:
            link = self.connections.get(delivery.consumer.session_id)
            if link is None or link.session is None:
                continue
            if tracer is not None:
                tracer.delivered(delivery, self.vhosts.opened(link.session.vhost), now_us)
            if self.announcer.delivers:
                self.announcer.delivered(delivery, link.session)
