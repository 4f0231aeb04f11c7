"""The vhosts and queues that the configuration names, and the queue that is there when it names none."""

from __future__ import annotations

from typing import Final

from forebay.broker.vhosts import Vhosts
from forebay.core.errors import OptionError
from forebay.core.option_groups import STREAM, QueueOptions
from forebay.core.options import Options
from forebay.queue.spec import QueueSpec

FALLBACK: Final = b"mqtt"
CONFIGURABLE: Final = ("x-max-age", "x-max-length-bytes", "x-max-length", "x-visibility-timeout")


def declare_configured(vhosts: Vhosts, options: Options) -> None:
    """Make the configured vhosts, and in "/" the configured queues; without any, the reserved queue `mqtt`.

    That one takes what no other queue takes.
    """
    for wanted in options.vhosts:
        made = vhosts.add(wanted.name.encode())
        settings: dict[str, object] = {
            "description": wanted.description,
            "default_queue_type": wanted.default_queue_type,
            "connections_max": wanted.connections_max,
            "octets_max": wanted.octets_max,
            "queues_max": wanted.queues_max,
        }
        if {**made.settings.facts(), **settings} != made.settings.facts():
            vhosts.change(made, settings)
    vhost = vhosts.default
    for entry in options.queues:
        name = entry.name.encode()
        spec = QueueSpec(True, False, False, configured_arguments(entry), options.visibility_timeout_ms)
        if name in vhost.queues:
            spec = changed_spec(vhost.queues[name].spec, spec, entry.name)
        vhost.configure_queue(name, spec, [topic.encode() for topic in entry.topics], False)
    if not options.queues and FALLBACK not in vhost.queues:
        spec = QueueSpec(True, False, False, {"x-queue-type": "classic"}, options.visibility_timeout_ms)
        vhost.configure_queue(FALLBACK, spec, [], True)


def configured_arguments(entry: QueueOptions) -> dict[str, object]:
    """The arguments that say the same as an entry of the configuration."""
    arguments: dict[str, object] = {"x-queue-type": entry.type}
    if entry.type == STREAM:
        retention = entry.retention
        if retention.max_age_s:
            arguments["x-max-age"] = f"{retention.max_age_s}s"
        if retention.max_length_bytes:
            arguments["x-max-length-bytes"] = retention.max_length_bytes
        if retention.max_length_messages:
            arguments["x-max-length"] = retention.max_length_messages
    if entry.visibility_timeout_ms:
        arguments["x-visibility-timeout"] = entry.visibility_timeout_ms
    return arguments


def changed_spec(old: QueueSpec, wanted: QueueSpec, name: str) -> QueueSpec:
    """What becomes of a queue that is there: as the configuration wants it, and otherwise as it was declared.

    raises  OptionError where it is of another type
    """
    if old.type != wanted.type:
        raise OptionError(
            f"queues: {name!r} is to be a {wanted.type} queue, but there is a {old.type} queue of that name"
        )
    arguments = {key: value for key, value in old.arguments.items() if key not in CONFIGURABLE}
    arguments.update(wanted.arguments)
    return QueueSpec(old.durable, old.auto_delete, old.exclusive, arguments, wanted.visibility_ms)
