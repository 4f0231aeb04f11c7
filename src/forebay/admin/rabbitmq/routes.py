"""All routes of RabbitMQ's API: those by which its tools look, and those by which they set and change things."""

from __future__ import annotations

from typing import Final

from forebay.admin.rabbitmq import (
    changes,
    definitions,
    messages,
    parameters,
    permissions,
    policies,
    queues,
    replicas,
    users,
    vhosts,
)
from forebay.admin.rabbitmq.clients import channels, connections, consumers
from forebay.admin.rabbitmq.exchanges import bindings, exchanges
from forebay.admin.rabbitmq.node import extras, health, nodes, others, overview
from forebay.admin.web.router import RouteGroup

ROUTERS: Final[tuple[RouteGroup, ...]] = (
    overview.router,
    nodes.router,
    connections.router,
    channels.router,
    consumers.router,
    replicas.router,
    queues.router,
    exchanges.router,
    bindings.router,
    health.router,
    others.router,
    vhosts.router,
    users.router,
    permissions.router,
    policies.router,
    parameters.router,
    parameters.limits,
    changes.router,
    messages.router,
    extras.router,
    definitions.router,
)
