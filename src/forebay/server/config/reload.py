"""Putting new options in force while the broker runs.

Everything is checked before anything is changed. Sessions keep the limits that they began with; what is read from
`App.options` at each use needs nothing done here but to be replaced.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from forebay.broker.catalog.topology import FOREVER_MS
from forebay.broker.mqtt.session_rules import session_octets_of
from forebay.broker.vhost import Vhost
from forebay.broker.vhosts import Vhosts
from forebay.core.errors import INVALID, OptionError, RequestError
from forebay.core.option_table import option_fields
from forebay.core.options import Options
from forebay.core.units import US_PER_MS
from forebay.directory.logins.scram import make_scram
from forebay.management.control import Configuration
from forebay.management.definitions.configured import (
    declare_configured,
    unbind_configured,
    wanted_queues,
    wanted_routes,
)
from forebay.message.address import TOPIC_EXCHANGE
from forebay.node.logins import set_throttle
from forebay.queue.queue import SHARE
from forebay.routing.topic_trie import swap_key
from forebay.server.app import App
from forebay.server.auth.acl_file import load_acl
from forebay.server.config.checks import check_options
from forebay.server.config.sources import Loaded, OptionSource, placed, shown_value
from forebay.server.system.chance import SystemRandom
from forebay.server.telemetry.logs import change_log

TLS_PREFIX: Final = "tls_"
logger = logging.getLogger("forebay")


class Reloader(Configuration):
    """The options in force.

    followers  told after the broker has taken new options: what runs beside it
    """

    def __init__(self, app: App, source: OptionSource, loaded: Loaded) -> None:
        self.app = app
        self.source = source
        self.loaded = loaded
        self.followers: list[Callable[[Options], None]] = []

    def shown(self) -> list[dict[str, object]]:
        return replace(self.loaded, options=self.app.options).shown()

    def reload(self) -> dict[str, object]:
        old = self.app.options
        try:
            loaded = self.source.load()
            applied, restart = differences(old, loaded.options)
            effective = replace(old, **{name: getattr(loaded.options, name) for name in applied})
            with placed(loaded):
                check_options(effective)
                wanted_queues(self.app.vhosts, effective)
                wanted_routes(self.app.vhosts, effective)
        except OptionError as error:
            logger.error("the configuration is as before, since the new one is wrong: %s", error)
            raise RequestError(INVALID, str(error)) from None
        self.loaded = loaded
        put_in_force(self.app, old, effective)
        for follower in self.followers:
            follower(effective)
        changes = [
            {
                "name": name,
                "old": shown_value(Options, name, getattr(old, name)),
                "new": shown_value(Options, name, getattr(effective, name)),
            }
            for name in applied
        ]
        words = [", ".join(names) or "none" for names in (applied, restart)]
        logger.info("configuration read again; changed: %s; waiting for a restart: %s", *words)
        fields: dict[str, object] = {"applied": applied, "restart": restart}
        self.app.vhosts.events.note("config.reloaded", b"", fields)
        self.app.schedule()
        count = len(option_fields(Options)) - len(applied) - len(restart)
        return {"applied": changes, "restart": restart, "unchanged": count}


def differences(old: Options, new: Options) -> tuple[list[str], list[str]]:
    """Return the options that differ: those that can be changed while the broker runs, and the others."""
    changed = [(name, spec) for name, spec, _ in option_fields(Options) if getattr(old, name) != getattr(new, name)]
    return [name for name, spec in changed if spec.reloadable], [name for name, spec in changed if not spec.reloadable]


def put_in_force(app: App, old: Options, new: Options) -> None:
    """Put checked options in force in every part of the broker."""
    app.options = app.broker.options = new
    app.vhosts.options = new
    app.vhosts.directory.vhosts.default_queue_type = new.default_queue_type
    app.pressure.options = app.pressure.buffers.options = app.pressure.disk_answer.options = new
    app.broker.newcomers.options = app.broker.handshakes.options = new
    app.pressure.shares.set(new)
    app.rates.set(new)
    app.broker.is_rated = app.rates.is_on()
    app.stats.interval_s = new.mqtt_sys_interval_s
    set_throttle(app.auth.throttle, new)
    change_log(new)
    load_acl(app.vhosts.directory.users.acl, new.mqtt_acl)
    for vhost in app.vhosts.all():
        vhost.router.routes.clear()  # who publishes asks for a route again, and before that whether the rules allow it
        set_limits(vhost, new)
    set_users(app, old, new)
    declare_configured(app.vhosts, new)
    unbind_topics(app.vhosts, old, new)
    unbind_configured(app.vhosts, old, new)
    app.tell_of_events()
    if any(getattr(old, name) != getattr(new, name) for name in names_from(TLS_PREFIX)):
        app.tls.reload(new)
    elif app.tls.in_use():
        app.tls.reload()


def names_from(prefix: str) -> Sequence[str]:
    return [name for name, _, _ in option_fields(Options) if name.startswith(prefix)]


def set_users(app: App, old: Options, new: Options) -> None:
    """Apply the configured users and their permissions."""
    if new.users != old.users or new.mqtt_auth_methods != old.mqtt_auth_methods:
        app.auth.mechanisms = dict(make_scram(new.users, new.mqtt_auth_methods, SystemRandom()))
    app.auth.set_users(new.users, new.loopback_users)
    app.auth.set_shared_keys(new.amqp_shared_access_keys)
    parts = ("users", "administrators", "permissions")
    if any(getattr(old, name) != getattr(new, name) for name in parts):
        app.vhosts.directory.users.reconfigure(new.users, new.administrators, new.permissions)


def set_limits(vhost: Vhost, options: Options) -> None:
    """Apply the settings that a vhost took from the options when it was made."""
    vhost.catalog.visibility_ms = options.visibility_timeout_ms
    for queue in vhost.catalog.queues.values():
        if queue.kind != SHARE:
            queue.spec.visibility_ms = options.visibility_timeout_ms
    vhost.consumers.timeout_us = options.consumer_timeout_ms * US_PER_MS or FOREVER_MS * US_PER_MS
    vhost.router.address_queues = options.address_queues
    vhost.router.address_queues_max = options.address_queues_max
    vhost.upkeep.ephemeral_expiry_us = options.ephemeral_expiry_ms * US_PER_MS
    vhost.catalog.queue_type_relaxed = options.queue_type_equivalence_relaxed
    vhost.catalog.memory.client_octets_max = options.client_topology_octets_max
    vhost.catalog.memory.octets_max = options.vhost_topology_octets_max
    vhost.sessions.sessions_max = options.mqtt_sessions_max
    vhost.sessions.quota.octets_max = session_octets_of(options)
    vhost.retained.messages_max = options.mqtt_retained_max
    vhost.retained.octets_max = options.mqtt_retained_octets_max
    vhost.delayed.messages_max = options.mqtt_delayed_max
    if vhost.catalog.delivery_limit != options.delivery_limit:
        vhost.catalog.delivery_limit = options.delivery_limit
        for queue in vhost.catalog.queues.values():
            vhost.catalog.policies.govern_queue(queue, vhost.catalog.delivery_limit)
            vhost.turn.mark(queue)


def unbind_topics(vhosts: Vhosts, old: Options, new: Options) -> None:
    """Unbind queues that remain in the configuration from topics that do not. No queue is deleted."""
    vhost = vhosts.default()
    if vhost is None:
        return
    wanted = {entry.name: set(entry.topics) for entry in new.queues}
    for entry in old.queues:
        for topic in entry.topics:
            if entry.name in wanted and topic not in wanted[entry.name]:
                vhost.catalog.unbind(entry.name.encode(), TOPIC_EXCHANGE, swap_key(topic.encode()), {})
