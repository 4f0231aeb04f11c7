"""The hand-outs of a turn to sessions: deliveries, the end of waits, and that queues are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forebay.node.node import Node


def hand_out(node: Node, now_us: int) -> None:
    """Give this turn's deliveries and cancellations to the sessions they are for."""
    tells = node.announcer.delivers
    buffers = node.pressure.buffers
    common = node.common
    common.looks.octets = buffers.turn_octets()
    deliveries = node.vhosts.end_turn(now_us)
    if deliveries:
        node.out.delivery = deliveries[-1]
    gate = node.gate
    tracer = node.tracer
    if tracer is not None:
        sealed, common.sealed = common.sealed, []
        tracer.sealed(sealed, now_us)
    for delivery in deliveries:
        link = node.connections.get(delivery.consumer.session_id)
        if link is None or link.session is None:
            continue  # closed in this very turn: `session_closed` has taken the lease back
        if buffers.is_tight and buffers.spares(link, delivery):
            continue
        if gate is not None:
            gate.look_at(link, delivery, node.store.logs.stored)
        try:
            link.session.deliver(delivery)
            if gate is None:
                buffers.send_early(link)
        except Exception as error:  # noqa: BLE001  the connection's boundary
            node.failed(link, error)
            continue
        if tracer is not None:
            tracer.delivered(delivery, link.session.vhost, now_us)
        if tells:
            node.announcer.delivered(delivery, link.session)
        node.dirty[link] = None
    if common.delivered:
        tell_delivered(node, now_us)
    if common.woken:
        woken, common.woken = common.woken, []
        for id in woken:  # their wait for a queue is over
            if id in node.connections:
                node.touch(node.connections[id])
    for consumer in node.vhosts.take_cancelled():
        link = node.connections.get(consumer.session_id)
        if link is not None and link.session is not None:
            link.attempt_with(link.session.cancelled, consumer)
            node.touch(link)


def tell_delivered(node: Node, now_us: int) -> None:
    """Tell whoever follows deliveries also of those that sessions took before the turn's end."""
    delivered, node.common.delivered = node.common.delivered, []
    for delivery in delivered:
        link = node.connections.get(delivery.consumer.session_id)
        if link is None or link.session is None:
            continue
        if node.tracer is not None:
            node.tracer.delivered(delivery, link.session.vhost, now_us)
        if node.announcer.delivers:
            node.announcer.delivered(delivery, link.session)
