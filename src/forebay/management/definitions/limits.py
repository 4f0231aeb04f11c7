"""Limits of vhosts and users under the names that RabbitMQ has for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, RequestError
from forebay.directory.users import Users
from forebay.directory.vhost_settings import UNLIMITED

# RabbitMQ's names of limits, and ours of the settings; the last of vhosts is ours alone.
OF_VHOSTS: Final = {
    "max-connections": "connections_max",
    "max-queues": "queues_max",
    "max-octets": "octets_max",
}
OF_USERS: Final = {
    "max-connections": "connections_max",
    "max-channels": "channels_max",
}


def limits_of(vhost: Vhost) -> dict[str, object]:
    """Return the limits that are set for a vhost, by RabbitMQ's names."""
    settings = vhost.catalog.settings.fields()
    return {limit: settings[field] for limit, field in OF_VHOSTS.items() if settings[field] != UNLIMITED}


def limits_of_user(users: Users, name: str) -> dict[str, object]:
    """Return the limits that are set for a user, by RabbitMQ's names."""
    limits = users.limits.get(name, {})
    return {limit: limits[field] for limit, field in OF_USERS.items() if field in limits}


def limit_settings(limits: Mapping[str, object], fields: Mapping[str, str]) -> dict[str, object]:
    """Return limits by forebay's names. Raises RequestError(INVALID). As with RabbitMQ, below 0 is no limit.

    fields  OF_VHOSTS or OF_USERS
    """
    settings: dict[str, object] = {}
    for limit, value in limits.items():
        if limit not in fields:
            raise RequestError(INVALID, f"limit: '{limit}' is no limit; the limits are {', '.join(fields)}")
        if isinstance(value, bool) or not isinstance(value, int):
            raise RequestError(INVALID, f"{limit}: {value!r} is no whole number")
        settings[fields[limit]] = max(value, UNLIMITED)
    return settings
