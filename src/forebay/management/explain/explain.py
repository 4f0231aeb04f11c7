"""The place of a message, and why it has not been delivered."""

from __future__ import annotations

from typing import Final

from forebay.broker.vhost import Vhost
from forebay.core.errors import DamagedBlock
from forebay.core.units import US_PER_MS
from forebay.log.queue_log import QueueLog
from forebay.management.cluster_words import waits_of
from forebay.management.control import Cluster, Connections
from forebay.management.explain.fate import death_of, stuck_reason
from forebay.management.explain.places import MessagePlace, subject_at
from forebay.management.explain.reasons import Reason, count, duration, worst_first
from forebay.management.explain.streams import group_name, stream_reasons
from forebay.management.explain.work import WorkReasons, state_in
from forebay.management.operations.queues import pin_fields
from forebay.management.requests.queues import PinFields
from forebay.message.shown import record_shown
from forebay.message.subject import RecordSubject
from forebay.queue.group import Group
from forebay.queue.queue import KIND_NAMES, STREAM, Queue
from forebay.queue.stream.stream_group import StreamGroup
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text

BODY_OCTETS: Final = 0  # of the body that is shown: who asks why a message waits has no business with what it says
DELAYED_LOOKED_AT_MAX: Final = 10_000


def explained(
    vhost: Vhost, connections: Connections, place: MessagePlace, cluster: Cluster | None = None
) -> dict[str, object]:
    """Return the explanation of one message for people and programs.

    state    of it in its work group, or `stream`; `gone` and `not_there` where the log has nothing at this offset
    summary  the worst reason's sentence
    reasons  all of them, the worst first
    pinned_by  whom the log keeps its oldest messages for, see `pin_fields`
    """
    queue, offset = place.queue, place.offset
    fields: dict[str, object] = {
        "vhost": text(vhost.name),
        "queue": text(queue.name),
        "type": KIND_NAMES[int(queue.kind)],
        "offset": offset,
    }
    subject: RecordSubject | None = None
    damage: DamagedBlock | None = None
    try:
        subject = subject_at(vhost, queue, offset)
    except DamagedBlock as error:
        damage = error
    if damage is not None:
        fields["state"] = "damaged"
        fields["groups"] = groups_shown(queue, offset)
        reasons = [damage_reason("damaged", damage, "it cannot be read")]
    elif subject is None:
        reasons = [absence(vhost, queue, offset)]
        fields["state"] = reasons[0].code
        reasons += deaths(vhost, queue, offset)
    else:
        fields["message"] = record_shown(subject, BODY_OCTETS)
        fields["groups"] = groups_shown(queue, offset)
        fields["state"] = state(queue, offset)
        reasons = reasons_of(vhost, connections, queue, subject) + commit_reasons(vhost, queue, offset, cluster)
    pin = pin_fields(queue)
    pinned = None if pin is None else pinned_reason(pin, offset, int(vhost.turn.now_us))
    reasons = worst_first(reasons if pinned is None else [*reasons, pinned])
    fields["pinned_by"] = pin
    fields["summary"] = f"queue '{text(queue.name)}', offset {offset}: {reasons[0].text}"
    fields["reasons"] = [reason.shown() for reason in reasons]
    return fields


def pinned_reason(pin: PinFields, offset: int, now_us: int) -> Reason | None:
    """Return the reason if the log keeps the message for this pin alone, else None.

    pin  as `pin_fields` has it
    """
    first, frees, active_ms = pin["offset"], pin["frees_messages"], pin["active_ms"]
    assert isinstance(first, int) and isinstance(frees, int)
    if not first <= offset < first + frees:
        return None
    is_reader = pin["kind"] == "reader"
    keeper = f"{'reader' if is_reader else 'group'} '{pin['group']}'"
    if pin["kind"] == "queue":
        keeper = f"queue '{pin['queue']}'" if "queue" in pin else "the queue's next consumers"
    elif "queue" in pin:
        keeper += f" of queue '{pin['queue']}'"
    words = f"the log keeps it for {keeper} alone, which is at offset "
    words += f"{first}: {count(frees, 'message')} would go without it; "
    if isinstance(active_ms, int):
        did = "renewed that" if is_reader else "settled something"
        words += f"it {did} last {duration(now_us - active_ms * US_PER_MS)} ago"
    else:
        words += "it has settled nothing since the broker started"
    if not is_reader and not pin["consumers"]:
        words += ", and has no consumers"
    return Reason("pinned", words, dict(pin))


def state(queue: Queue, offset: int) -> str:
    """Return the state of a message in the nameless work group; `stream` in a stream."""
    if queue.kind == STREAM:
        return "stream"
    group = queue.find_group(b"")
    return state_in(group, offset) if isinstance(group, WorkGroup) else "ready"


def groups_shown(queue: Queue, offset: int) -> list[dict[str, object]]:
    """Return the state of the message in each group."""
    found: list[dict[str, object]] = []
    for group in queue.groups.values():
        if isinstance(group, WorkGroup):
            found.append({"group": text(group.name), "kind": "work", "state": state_in(group, offset)})
        elif isinstance(group, StreamGroup):
            read = "delivered" if offset < group.cursor else "ready"
            found.append({"group": group_name(group), "kind": "stream", "state": read, "cursor": int(group.cursor)})
    return found


def reasons_of(vhost: Vhost, connections: Connections, queue: Queue, subject: RecordSubject) -> list[Reason]:
    """Return the reasons of every group for a message that is in the log, at least one."""
    offset = int(subject.offset())
    found: list[Reason] = []
    for group in queue.groups.values():
        if group.reader.damage is not None:
            found.append(damage_reason("behind_damage", group.reader.damage.error(), "nothing is delivered", group))
        if isinstance(group, StreamGroup):
            found += stream_reasons(queue, group, subject, vhost.turn.now_us, connections)
        elif isinstance(group, WorkGroup):
            found += WorkReasons(queue, group, subject, vhost.turn.now_us, connections).reasons()
            state = state_in(group, offset)
            if state == "dead_letter_waiting":
                found.append(stuck_reason(vhost, queue, group, offset))
            elif state == "settled":
                death = death_of(vhost, queue, group, offset)
                found += [] if death is None else [death]
    if not queue.groups:
        found += nobody(queue, offset)
    return found


def commit_reasons(vhost: Vhost, queue: Queue, offset: int, cluster: Cluster | None) -> list[Reason]:
    """Return the reason why a message is not confirmed: a silent disk, or no commit by the cluster."""
    if offset < queue.log.readable_end():
        return []
    if cluster is None:
        words = "it is not confirmed yet: the disk does not answer"
        return [Reason("disk_waits", words)] if vhost.store.no_answer else []
    status = cluster.status()
    waits = waits_of(status) or "other nodes are about to have it"
    fields: dict[str, object] = {"in_sync": status["in_sync"], "min_in_sync": status["min_in_sync"]}
    return [Reason("not_committed", f"it is not confirmed yet: {waits}", fields)]


def damage_reason(code: str, damage: DamagedBlock, what: str, group: Group | None = None) -> Reason:
    """Return the reason for a message that is in a damaged block, or behind one."""
    fields: dict[str, object] = {"file": damage.path, "position": damage.position}
    fields |= {"first": damage.base, "last": damage.end - 1, "fault": damage.why}
    return Reason(code, f"{what}: {damage.text}", fields, None if group is None else text(group.name))


def nobody(queue: Queue, offset: int) -> list[Reason]:
    """Return the reasons for a message of a queue that has no group yet."""
    name = text(queue.name)
    ahead = offset - int(queue.start())
    found: list[Reason] = []
    if queue.owner:
        words = f"queue '{name}' is exclusive: only connection {queue.owner} may consume"
        found.append(Reason("exclusive", words, {"connection": int(queue.owner)}))
    if queue.kind == STREAM:
        found.append(Reason("no_readers", f"nobody reads stream '{name}'"))
        if offset >= queue.log.readable_end():
            found.append(Reason("not_on_disk", "it is not on the disk yet: readers of a stream see it when it is"))
        return found
    found.append(Reason("no_consumers", f"queue '{name}' has no consumers"))
    if ahead:
        words = f"{count(ahead, 'message')} are delivered before it"
        found.append(Reason("waits_behind", words, {"ahead": ahead}))
    return found


def absence(vhost: Vhost, queue: Queue, offset: int) -> Reason:
    """Return the reason why the log has no message at an offset."""
    log: QueueLog = queue.log
    if offset >= log.end:
        words = f"queue '{text(queue.name)}' has had no such message: its next offset is {log.end}"
        fields: dict[str, object] = {"next_offset": int(log.end)}
        if queue.is_full():
            fields["full"] = True
            words += "; it is full, and refuses what is published"
        if vhost.store.full:
            fields["disk_full"] = True
            words += "; the disk is full, and nothing durable is taken"
        return Reason("not_there", words, fields)
    if queue.intake is not None and offset >= queue.start():
        condition = queue.intake.filter.text
        words = f"the filter of the view does not match it: {condition}"
        return Reason("input_filter", words, {"filter": condition})
    if queue.is_view and offset < queue.start():
        words = f"the view starts at offset {queue.start()}: what is below was settled, purged, or not yet its own"
        return Reason("gone", words, {"start": int(queue.start())})
    if queue.kind == STREAM:
        words = f"retention has dropped it: the stream starts at offset {queue.start()}"
        return Reason("gone", words, {"start": int(queue.start())})
    return Reason("gone", "everybody has settled it, and the log has it no more", {"start": int(queue.start())})


def deaths(vhost: Vhost, queue: Queue, offset: int) -> list[Reason]:
    """Return the dead letters that a message, which is in the log no more, has become."""
    found: list[Reason] = []
    for group in queue.groups.values():
        if offset < queue.log.end and isinstance(group, WorkGroup):
            death = death_of(vhost, queue, group, offset)
            found += [] if death is None else [death]
    return found


def delayed_explained(vhost: Vhost, message_id: str) -> list[dict[str, object]]:
    """Return explanations of delayed messages with this id, from the first DELAYED_LOOKED_AT_MAX of the vhost."""
    found: list[dict[str, object]] = []
    octets = message_id.encode()
    for message in vhost.delayed.listed(DELAYED_LOOKED_AT_MAX):
        if octets not in message.properties:
            continue
        due_us = int(message.due_us)
        words = f"it is published in {duration(due_us - int(vhost.turn.now_us))}"
        fields: dict[str, object] = {
            "due_ms": due_us // US_PER_MS,
            "number": int(message.offset),
            "key": text(message.key),
        }
        found.append(
            {
                "vhost": text(vhost.name),
                "state": "delayed",
                "topic": text(message.topic),
                "summary": words,
                "reasons": [Reason("delayed", words, fields).shown()],
            }
        )
    return found


def queues_to_search(vhost: Vhost, name: bytes | None) -> list[Queue]:
    """Return the queue of that name, or all queues by name. Raises RequestError(NOT_FOUND)."""
    if name is not None:
        return [vhost.catalog.queue(name)]
    return [vhost.catalog.queues[each] for each in sorted(vhost.catalog.queues)]
