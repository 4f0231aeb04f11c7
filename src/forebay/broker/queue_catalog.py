"""Queues and groups as commands of the catalog: what is noted of them in the log."""

from __future__ import annotations

from forebay.queue.group import Group
from forebay.queue.queue import Queue
from forebay.queue.stream_group import StreamGroup
from forebay.queue.work_group import WorkGroup


def queue_command(queue: Queue, fallback: bool = False) -> dict[str, object]:
    """The catalog's words for a queue; `fallback` is for the reserved one."""
    return {
        "op": "queue",
        "id": int(queue.id),
        "name": queue.name,
        "kind": int(queue.kind),
        "auto_delete": queue.spec.auto_delete,
        "arguments": queue.spec.arguments,
        "fallback": fallback,
        "by_address": queue.by_address,
    }


def keyed_command(queue: Queue) -> dict[str, object]:
    """Messages of the queue name their groups."""
    return {"op": "queue-keyed", "id": int(queue.id)}


def ttls_command(queue: Queue) -> dict[str, object]:
    """Which time to live holds for what waits in the queue, where it has changed."""
    ttls = queue.limits.earlier_ttls
    return {
        "op": "queue-ttls",
        "id": int(queue.id),
        "ends": [end for end, _ in ttls],
        "ttls_us": [ttl_us for _, ttl_us in ttls],
    }


def group_command(queue: Queue, group: Group) -> dict[str, object]:
    """The catalog's words for a group."""
    start = group.start if isinstance(group, WorkGroup) else group.cursor
    return {
        "op": "group",
        "queue": int(queue.id),
        "id": int(group.id),
        "name": group.name,
        "filter": group.filter,
        "work": isinstance(group, WorkGroup),
        "start": int(start),
        "auto": isinstance(group, StreamGroup) and group.auto,
    }


def is_anonymous(group: Group) -> bool:
    """A stream cursor without a name: it ends with its consumer."""
    return isinstance(group, StreamGroup) and group.name.startswith(b"\0")
