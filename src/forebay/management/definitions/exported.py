"""The definitions of a broker, as RabbitMQ's files have them.

Each function makes one entry; who writes a file goes through what there is, in portions or at once.
"""

from __future__ import annotations

from typing import Final

from forebay.broker.catalog.policies import Policy
from forebay.broker.vhost import Vhost
from forebay.directory.logins.passwords import exported_hash
from forebay.management.directory_reader import UserReading
from forebay.message.shown import plain
from forebay.queue.queue import CLASSIC, QUORUM, STREAM, Queue
from forebay.routing.exchange import Binding, Exchange, text

Entry = dict[str, object]

EXPORTED_KINDS: Final = (CLASSIC, QUORUM, STREAM)
RESERVED: Final = b"amq."
EVERYTHING: Final = ("vhosts", "users", "permissions", "topic_permissions", "parameters", "global_parameters")
OF_VHOST: Final = ("policies", "queues", "exchanges", "bindings")


def user_entry(user: UserReading) -> Entry:
    """Return the entry of a user, with the stored hash of its password."""
    hash, algorithm = exported_hash(user.hash or user.exported)
    return {
        "name": user.name,
        "password_hash": hash,
        "hashing_algorithm": algorithm,
        "tags": list(user.tags),
        "limits": user.limits or {},
    }


def vhost_entry(vhost: Vhost) -> Entry:
    """Return the entry of a vhost, without its queues and exchanges."""
    return {"name": text(vhost.name), **metadata(vhost), "metadata": metadata(vhost)}


def metadata(vhost: Vhost) -> Entry:
    """Return the metadata of a vhost: description, tags, default queue type and deletion protection."""
    settings = vhost.catalog.settings
    said: Entry = {
        "description": settings.description,
        "tags": list(settings.tags),
        "default_queue_type": settings.default_queue_type,
    }
    if settings.protected:
        said["protected_from_deletion"] = True
    return said


def policy_entry(vhost: Vhost, policy: Policy) -> Entry:
    """Return the entry of a policy, with the field names of RabbitMQ's API."""
    return {"vhost": text(vhost.name), "name": policy.name, **policy_value(policy)}


def policy_value(policy: Policy) -> Entry:
    """Return the value of a policy: pattern, target type, definition and priority."""
    return {
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }


def queues_of(vhost: Vhost) -> list[Queue]:
    """Return the queues of a vhost that are exported, sorted by name: those that survive a restart.

    The reserved queue is not among them: every broker has its own.
    """
    return [queue for _, queue in sorted(vhost.catalog.queues.items()) if is_exported(vhost, queue)]


def is_exported(vhost: Vhost, queue: Queue) -> bool:
    return queue.kind in EXPORTED_KINDS and queue.log.durable and queue is not vhost.catalog.fallback


def queue_entry(vhost: Vhost, queue: Queue) -> Entry:
    """Return the entry of a queue, as it was declared."""
    return {
        "name": text(queue.name),
        "vhost": text(vhost.name),
        "durable": True,
        "auto_delete": queue.spec.auto_delete,
        "arguments": plain(queue.spec.arguments),
    }


def exchanges_of(vhost: Vhost) -> list[Exchange]:
    """Return the declared exchanges of a vhost, sorted by name, without predefined ones."""
    known = sorted(vhost.catalog.bindings.exchanges.items())
    return [exchange for name, exchange in known if name and not name.startswith(RESERVED)]


def exchange_entry(vhost: Vhost, exchange: Exchange) -> Entry:
    """Return the entry of an exchange, as it was declared."""
    return {
        "name": text(exchange.name),
        "vhost": text(vhost.name),
        "type": text(exchange.kind),
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": plain(exchange.arguments),
    }


def bindings_of(vhost: Vhost) -> list[Binding]:
    """Return the bindings of a vhost that are exported: those whose source and destination are exported."""
    found: list[Binding] = []
    for binding in vhost.catalog.bindings.list_all():
        queue = vhost.catalog.queues_by_id.get(binding.destination)
        if binding.destination < 0 or (queue is not None and is_exported(vhost, queue)):
            found.append(binding)
    return found


def binding_entry(vhost: Vhost, binding: Binding) -> Entry:
    """Return the entry of a binding."""
    return {
        "source": text(binding.exchange),
        "vhost": text(vhost.name),
        "destination": text(binding.label),
        "destination_type": "exchange" if binding.destination < 0 else "queue",
        "routing_key": text(binding.routing_key),
        "arguments": plain(binding.arguments),
    }
