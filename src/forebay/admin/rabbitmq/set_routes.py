"""The routes by which tools of RabbitMQ set and change things."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from forebay.admin.rabbitmq import (
    changes,
    definitions,
    limits,
    messages,
    parameters,
    permissions,
    policies,
    users,
    vhosts,
)
from forebay.admin.rabbitmq.node import extras

ROUTERS: Final[tuple[APIRouter, ...]] = (
    vhosts.router,
    users.router,
    permissions.router,
    policies.router,
    parameters.router,
    limits.router,
    changes.router,
    messages.router,
    extras.router,
    definitions.router,
)
