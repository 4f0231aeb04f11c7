"""All routes of RabbitMQ's API."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from forebay.admin.rabbitmq import bindings, exchanges, queues
from forebay.admin.rabbitmq.clients import channels, connections, consumers
from forebay.admin.rabbitmq.node import health, nodes, others, overview

ROUTERS: Final[tuple[APIRouter, ...]] = (
    overview.router,
    nodes.router,
    connections.router,
    channels.router,
    consumers.router,
    queues.router,
    exchanges.router,
    bindings.router,
    health.router,
    others.router,
)
