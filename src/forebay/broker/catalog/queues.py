"""Queues and groups as commands of the catalog: what is noted of them in the log."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.broker.catalog.checked import octets, whole
from forebay.queue.group import Group
from forebay.queue.queue import Queue
from forebay.queue.stream.stream_group import StreamGroup
from forebay.queue.work.work_group import WorkGroup

GROUP_OPS: Final = ("group", "group-move", "group-delete")


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
        "next_group": int(queue.next_group),
    }


def keyed_command(queue: Queue) -> dict[str, object]:
    """Messages of the queue name their groups."""
    return {"op": "queue-keyed", "id": int(queue.id)}


def ttls_command(queue: Queue) -> dict[str, object]:
    """The time to live that holds for what waits in the queue, where it has changed."""
    ttls = queue.limits.earlier_ttls
    return {
        "op": "queue-ttls",
        "id": int(queue.id),
        "ends": [end for end, _ in ttls],
        "ttls_us": [ttl_us for _, ttl_us in ttls],
    }


def group_command(queue: Queue, group: Group) -> dict[str, object]:
    """The catalog's words for a group."""
    start = group.settlement.start if isinstance(group, WorkGroup) else group.next_offset()
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


def group_moved_command(queue: Queue, group: WorkGroup, offset: int) -> dict[str, object]:
    """The catalog's words for a work group that begins anew at an offset."""
    return {"op": "group-move", "queue": int(queue.id), "id": int(group.id), "offset": offset}


def group_gone_command(queue: Queue, group: Group) -> dict[str, object]:
    """The catalog's words for the end of a group."""
    return {"op": "group-delete", "queue": int(queue.id), "id": int(group.id)}


def is_anonymous(group: Group) -> bool:
    """A stream cursor without a name: it ends with its consumer."""
    return isinstance(group, StreamGroup) and group.name.startswith(b"\0")


def apply_group(queues_by_id: dict[int, Queue], fields: dict[str, object]) -> None:
    """A command of GROUP_OPS, in recovery."""
    queue = queues_by_id.get(whole(fields["queue"]))
    if queue is None:
        return
    group = queue.groups.get(whole(fields["id"]))
    if fields["op"] == "group-delete":
        if group is not None:
            queue.drop_group(group)
    elif fields["op"] == "group-move":
        if isinstance(group, WorkGroup):
            group.start_over(min(i64(whole(fields["offset"])), queue.log.end), [])
    elif group is None:
        queue.add_group(
            whole(fields["id"]),
            octets(fields["name"]),
            octets(fields["filter"]),
            fields["work"] is True,
            whole(fields["start"]),
            fields["auto"] is True,
        )


def apply_ttls(queues_by_id: dict[int, Queue], fields: dict[str, object]) -> None:
    """The command of `ttls_command`, in recovery."""
    queue = queues_by_id.get(whole(fields["id"]))
    ends, ttls = fields["ends"], fields["ttls_us"]
    assert isinstance(ends, list) and isinstance(ttls, list)
    if queue is not None:
        queue.limits.earlier_ttls = [(whole(end), whole(ttl)) for end, ttl in zip(ends, ttls, strict=True)]
