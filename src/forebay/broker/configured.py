"""The vhosts and queues that the configuration names, and the queue that is there when it names none."""

from __future__ import annotations

from typing import Final

from forebay.broker.vhosts import Vhosts
from forebay.core.options import Options
from forebay.queue.spec import QueueSpec

FALLBACK: Final = b"mqtt"


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
            "queues_max": wanted.queues_max,
        }
        if {**made.settings.facts(), **settings} != made.settings.facts():
            vhosts.change(made, settings)
    vhost = vhosts.default
    for entry in options.queues:
        arguments: dict[str, object] = {"x-queue-type": entry.type}
        if entry.type == "stream":
            retention = entry.retention
            if retention.max_age_s:
                arguments["x-max-age"] = f"{retention.max_age_s}s"
            if retention.max_length_bytes:
                arguments["x-max-length-bytes"] = retention.max_length_bytes
            if retention.max_length_messages:
                arguments["x-max-length"] = retention.max_length_messages
        if entry.visibility_timeout_ms:
            arguments["x-visibility-timeout"] = entry.visibility_timeout_ms
        spec = QueueSpec(True, False, False, arguments, options.visibility_timeout_ms)
        vhost.configure_queue(entry.name.encode(), spec, [topic.encode() for topic in entry.topics], False)
    if not options.queues and FALLBACK not in vhost.queues:
        spec = QueueSpec(True, False, False, {"x-queue-type": "classic"}, options.visibility_timeout_ms)
        vhost.configure_queue(FALLBACK, spec, [], True)
