"""Limits of vhosts under the names that RabbitMQ has for them."""

from __future__ import annotations

from typing import Final

from forebay.broker.vhost import Vhost
from forebay.broker.vhost_settings import UNLIMITED
from forebay.core.errors import INVALID, RequestError

# RabbitMQ's names of limits, and ours of the settings; the third is ours alone.
FIELDS: Final = {
    "max-connections": "connections_max",
    "max-queues": "queues_max",
    "max-octets": "octets_max",
}


def limits_of(vhost: Vhost) -> dict[str, object]:
    """The limits that are set for a vhost, by RabbitMQ's names."""
    settings = vhost.settings.facts()
    return {limit: settings[field] for limit, field in FIELDS.items() if settings[field] != UNLIMITED}


def limit_settings(limits: dict[str, object]) -> dict[str, object]:
    """Limits by our names; RequestError(INVALID) for what is none. As with RabbitMQ, any number below 0 is no limit."""
    settings: dict[str, object] = {}
    for limit, value in limits.items():
        if limit not in FIELDS:
            raise RequestError(INVALID, f"limit: '{limit}' is none; known are {', '.join(FIELDS)}")
        if isinstance(value, bool) or not isinstance(value, int):
            raise RequestError(INVALID, f"{limit}: {value!r} is no whole number")
        settings[FIELDS[limit]] = max(value, UNLIMITED)
    return settings
