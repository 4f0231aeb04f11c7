"""/api/consumers: who takes messages from which queue."""

from __future__ import annotations

from starlette.responses import Response

from forebay.admin.http.paging import Wanted, answer_list
from forebay.admin.http.paths import VhostName
from forebay.admin.http.slices import sliced
from forebay.admin.login import Broker
from forebay.admin.openapi.shapes import CONSUMERS
from forebay.admin.rabbitmq.clients.connections import peer_of
from forebay.admin.rabbitmq.node.node import own_node
from forebay.admin.rights import Manager, check_vhost, seen_vhosts
from forebay.admin.web.router import RouteGroup
from forebay.broker.vhost import Vhost
from forebay.core.units import US_PER_MS
from forebay.message.shown import plain
from forebay.queue.group import Group
from forebay.queue.leases.lease import Consumer
from forebay.queue.queue import Queue
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text
from forebay.server.broker_view import BrokerView

Placed = tuple[Vhost, Queue, Consumer]
router = RouteGroup(prefix="/api", tags=["consumers"])


async def consumers_in(vhosts: list[Vhost]) -> list[Placed]:
    """Every consumer of these vhosts' queues, by vhost and queue."""
    queues = [(vhost, vhost.catalog.queues[name]) for vhost in vhosts for name in sorted(vhost.catalog.queues)]
    found = await sliced(queues, consumers_of)
    return [each for some in found for each in some]


def consumers_of(place: tuple[Vhost, Queue]) -> list[Placed]:
    vhost, queue = place
    return [(vhost, queue, consumer) for consumer in queue.consumers()]


def single_active(group: Group | None) -> Consumer | None:
    """The one consumer that is given everything; None where all are given something."""
    if not isinstance(group, WorkGroup) or not group.limits.single_active:
        return None
    if group.active() is None and group.consumers:
        return group.consumers[0]  # as the group will choose when there is something to deliver
    return group.active()


def status_of(group: Group | None, consumer: Consumer) -> str:
    """RabbitMQ's word for whether the consumer is given anything."""
    active = single_active(group)
    if active is None:
        return "up"
    return "single_active" if active is consumer else "waiting"


def channel_details(app: BrokerView, consumer: Consumer) -> dict[str, object]:
    """The channel that a consumer is on; empty where its connection is gone already."""
    id = int(consumer.session_id)
    name = app.clients.name(id)
    if not name:
        return {}
    host, port = peer_of(app.clients.peer(id))
    return {
        "name": f"{name} ({int(consumer.channel)})",
        "number": int(consumer.channel),
        "user": app.clients.user(id),
        "connection_name": name,
        "peer_host": host,
        "peer_port": port,
        "node": own_node(app),
    }


def consumer_fields(app: BrokerView, placed: Placed) -> dict[str, object]:
    """One consumer."""
    vhost, queue, consumer = placed
    group = queue.groups.get(int(consumer.group))
    status = status_of(group, consumer)
    return {
        "queue": {"name": text(queue.name), "vhost": text(vhost.name)},
        "consumer_tag": text(consumer.tag),
        "channel_details": channel_details(app, consumer),
        "ack_required": not consumer.no_ack,
        "exclusive": consumer.exclusive,
        "prefetch_count": int(consumer.prefetch),
        "active": status != "waiting",
        "activity_status": status,
        "arguments": plain(consumer.arguments or {}),
        "consumer_timeout": int(consumer.timeout_us // US_PER_MS),
        "forebay": {"group": text(consumer.group_name), "filter": consumer.filter, "held": int(consumer.held)},
    }


def tag_of(placed: Placed) -> str:
    return text(placed[2].tag)


@router.get("/consumers", responses=CONSUMERS)
async def list_consumers(app: Broker, caller: Manager, wanted: Wanted) -> Response:
    """Consumers of all queues that the caller may see."""
    found = await consumers_in(seen_vhosts(app, caller))
    return await answer_list(found, tag_of, lambda placed: consumer_fields(app, placed), wanted)


@router.get("/consumers/{vhost:name}", responses=CONSUMERS)
async def list_consumers_of_vhost(app: Broker, caller: Manager, vhost: VhostName, wanted: Wanted) -> Response:
    """Consumers of a vhost's queues."""
    found = await consumers_in([check_vhost(app, caller, vhost)])
    return await answer_list(found, tag_of, lambda placed: consumer_fields(app, placed), wanted)
