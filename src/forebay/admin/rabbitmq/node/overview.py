"""/api/overview: the broker at a glance."""

from __future__ import annotations

import sys
from typing import Final

from starlette.responses import Response

from forebay import __version__
from forebay.admin.http.answer import as_json
from forebay.admin.http.paging import Wanted, answer_one
from forebay.admin.http.slices import sliced
from forebay.admin.login import Broker
from forebay.admin.openapi.shapes import CLUSTER_NAME, OVERVIEW
from forebay.admin.rabbitmq.clients.connections import open_connections
from forebay.admin.rabbitmq.node.node import (
    RATES_MODE,
    SPOKEN_VERSION,
    contexts,
    exchange_types,
    listeners,
    own_node,
)
from forebay.admin.rights import Manager, is_monitor, seen_vhosts
from forebay.admin.samples.rates import BROKER, SAMPLE_S, Sum, sum_of, traffic_numbers
from forebay.admin.samples.rates import NODE as NODE_FIELDS
from forebay.admin.samples.windows import Asked, Sampled
from forebay.admin.web.router import RouteGroup
from forebay.broker.vhost import Vhost
from forebay.directory.parameters import CLUSTER_NAME as CLUSTER_NAME_PARAMETER
from forebay.server.broker_view import BrokerView
from forebay.session.traffic import Traffic

PRODUCT: Final = "forebay"
STATS: Final = BROKER.counters

router = RouteGroup(prefix="/api", tags=["overview"])


async def summed(vhosts: list[Vhost]) -> Sum:
    """The totals of the queues and exchanges of these vhosts now."""
    total = Sum()
    for own in await sliced(vhosts, sum_of):
        total.add(own)
    return total


def cluster_name(app: BrokerView) -> str:
    """The name that an administrator has given it, else the configuration's; of a single broker its node's."""
    cluster = app.control.cluster
    own = own_node(app) if cluster is None else cluster.name
    return str(app.directory.global_parameters().get(CLUSTER_NAME_PARAMETER, own))


def settled_fields(app: BrokerView) -> dict[str, object]:
    """The fields that do not change while the broker runs."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    return {
        "management_version": SPOKEN_VERSION,
        "rabbitmq_version": SPOKEN_VERSION,
        "product_name": PRODUCT,
        "product_version": __version__,
        "erlang_version": "",
        "erlang_full_version": "",
        "forebay": {"python_version": python, "sample_s": SAMPLE_S},
        "rates_mode": RATES_MODE,
        "sample_retention_policies": {"global": [600, 86_400], "basic": [600, 86_400], "detailed": [60]},
        "exchange_types": exchange_types(),
        "disable_stats": False,
        "enable_queue_totals": False,
        "is_op_policy_updating_enabled": True,
        "default_queue_type": default_queue_type(app),
        "statistics_db_event_queue": 0,
        "node": own_node(app),
        "cluster_name": cluster_name(app),
        "cluster_tags": {},
        "node_tags": {},
    }


def default_queue_type(app: BrokerView) -> str:
    """Return the type of queues declared without one in the default vhost; without that vhost, in a new one."""
    vhost = app.vhosts.default()
    return app.directory.default_queue_type() if vhost is None else vhost.catalog.settings.default_queue_type


@router.get("/overview", responses=OVERVIEW)
async def show_overview(app: Broker, caller: Manager, rates: Sampled, wanted: Wanted, asked: Asked) -> Response:
    """The broker at a glance: messages and objects, of the vhosts that the caller may see."""
    vhosts = seen_vhosts(app, caller)
    total = await summed(vhosts)
    connections = open_connections(app, caller)
    traffic = rates.usage.traffic() if is_monitor(caller) else Traffic()
    if is_monitor(caller):
        total.counts.add(app.vhosts.past_counts)
        total.flow.add(app.vhosts.past_flow)
    numbers = [*traffic_numbers(traffic), *total.numbers()]
    series = rates.broker if is_monitor(caller) else None
    fields = settled_fields(app)
    fields["message_stats"] = rates.stats(series, BROKER, numbers, asked.messages, 0, STATS)
    fields["queue_totals"] = rates.stats(series, BROKER, numbers, asked.lengths, STATS, len(numbers))
    fields["object_totals"] = {
        "connections": len(connections),
        "channels": app.clients.channel_count(connections),
        "exchanges": sum(len(vhost.catalog.bindings.exchanges) for vhost in vhosts),
        "queues": sum(len(vhost.catalog.queues) for vhost in vhosts),
        "consumers": sum(len(each) for vhost in vhosts for each in vhost.consumers.by_session.values()),
    }
    if is_monitor(caller):
        usage = rates.usage.numbers(traffic)
        fields["churn_rates"] = rates.stats(rates.node, NODE_FIELDS, usage, asked.messages, 0, NODE_FIELDS.counters)
        fields["listeners"] = listeners(app)
        fields["contexts"] = contexts(app)
    return answer_one(fields, wanted)


@router.get("/cluster-name", responses=CLUSTER_NAME)
async def show_cluster_name(app: Broker, caller: Manager) -> Response:
    """The cluster's name: as an administrator has set it, else as configured, else that of the one node."""
    return as_json({"name": cluster_name(app)})
