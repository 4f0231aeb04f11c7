"""The history of a message, as far as the broker keeps it: in itself, its groups, dead letters and traces."""

from __future__ import annotations

from typing import Final

from forebay.broker.vhost import Vhost
from forebay.core.units import US_PER_MS
from forebay.management.control import Connections
from forebay.management.explain.fate import death_of
from forebay.management.explain.places import MessagePlace, subject_at
from forebay.management.explain.reasons import consumer_fields
from forebay.management.explain.work import state_in
from forebay.message.shown import plain
from forebay.message.subject import RecordSubject
from forebay.queue.queue import Queue
from forebay.queue.trace import TraceEvent
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text

SECOND_MS: Final = 1000
Event = dict[str, object]


def history(vhost: Vhost, connections: Connections, place: MessagePlace) -> dict[str, object]:
    """Return the events of one message, the oldest first and those without a known time last.

    source    of each event: what the `message` says, its `group`, a `dead letter`, or a `trace`
    not_kept  what nobody knows any more, or never wrote down
    """
    queue, offset = place.queue, place.offset
    events: list[Event] = []
    missing: list[str] = []
    traced = traced_events(vhost, queue, offset)
    subject = subject_at(vhost, queue, offset)
    if subject is None:
        missing.append("the message itself: the log has it no more, or never had it")
    else:
        events += own_events(subject)
    for group in queue.groups.values():
        if isinstance(group, WorkGroup):
            events += group_events(vhost, connections, queue, group, offset, missing, bool(traced))
    events += traced
    if subject is not None and not traced:
        missing.append("who published it, and who was given it when: start a trace to have that written down")
    events.sort(key=when)
    return {
        "vhost": text(vhost.name),
        "queue": text(queue.name),
        "offset": offset,
        "events": events,
        "not_kept": missing,
    }


def when(event: Event) -> tuple[int, int]:
    time_ms = event.get("time_ms")
    return (0, time_ms) if isinstance(time_ms, int) else (1, 0)


def own_events(subject: RecordSubject) -> list[Event]:
    """Return the events in a message's own properties: when it was stored, and earlier dead-lettering."""
    published: Event = {"type": "stored", "source": "message", "time_ms": subject.property("stored_ms")}
    for name in ("exchange", "routing_key", "protocol", "user_id", "app_id", "timestamp"):
        value = subject.property(name)
        if value is not None:
            published[name] = plain(value)
    deaths = subject.header("x-death")
    found: list[Event] = [published]
    for death in deaths if isinstance(deaths, list) else []:
        if isinstance(death, dict):
            found.append(death_event(death))
    if len(found) == 1 and subject.property("death_queue") is not None:
        found.append(
            {
                "type": "died",
                "source": "message",
                "time_ms": number(subject.property("death_ms")),
                "queue": plain(subject.property("death_queue")),
                "reason": plain(subject.property("death_reason")),
            }
        )
    return found


def death_event(death: dict[str, object]) -> Event:
    """Return the event of one x-death table: deaths in one queue for one reason, with the time of the first."""
    seconds = death.get("time")
    return {
        "type": "died",
        "source": "message",
        "time_ms": seconds * SECOND_MS if isinstance(seconds, int) else None,
        "queue": plain(death.get("queue")),
        "reason": plain(death.get("reason")),
        "times": plain(death.get("count")),
        "exchange": plain(death.get("exchange")),
        "routing_keys": plain(death.get("routing-keys")),
    }


def number(value: object) -> int | None:
    if isinstance(value, str) and value.isdigit():  # a user property of MQTT
        return int(value)
    return value if isinstance(value, int) else None


def group_events(
    vhost: Vhost,
    connections: Connections,
    queue: Queue,
    group: WorkGroup,
    offset: int,
    missing: list[str],
    is_traced: bool,
) -> list[Event]:
    """Return a group's events of a message: the holder, the number of redeliveries, and settlement."""
    name = text(group.name)
    found: list[Event] = []
    lease = group.leases.find(offset)
    attempts = group.attempts.of(offset)
    deliveries, failures = attempts & 0xFFFF_FFFF, attempts >> 32
    if lease is not None:
        deliveries, failures = int(lease.deliveries) - 1, int(lease.failures)
        since_us = int(lease.deadline_us - lease.consumer.timeout_us)
        held: Event = {"type": "held", "source": "group", "group": name, "time_ms": since_us // US_PER_MS}
        held["until_ms"] = max(int(lease.deadline_us), group.leases.extended.get(offset, 0)) // US_PER_MS
        found.append({**held, **consumer_fields(lease.consumer, connections)})
    if deliveries:
        event: Event = {"type": "returned", "source": "group", "group": name, "time_ms": None}
        found.append({**event, "deliveries": deliveries, "failures": failures})
        if not is_traced:
            missing.append(f"when it was delivered before, and to whom, in group '{name}'")
    is_gone = offset < queue.start()
    if is_gone or (offset < queue.log.end and state_in(group, offset) == "settled"):
        death = death_of(vhost, queue, group, offset)
        if death is None:
            found.append({"type": "settled", "source": "group", "group": name, "time_ms": None})
            if not is_traced:
                missing.append(f"when and by whom it was settled in group '{name}'")
        else:
            fields = {"to_queue": death.fields["queue"], "to_offset": death.fields["offset"]}
            event = {"type": "dead-lettered", "source": "dead letter", "group": name}
            found.append(
                {**event, "time_ms": number(death.fields["time_ms"]), "reason": death.fields["cause"], **fields}
            )
    return found


def traced_events(vhost: Vhost, queue: Queue, offset: int) -> list[Event]:
    """Return the events of one message in the traces of the vhost."""
    found: list[Event] = []
    for trace in vhost.catalog.traces:
        for event in trace.events:
            if event.offset == offset and event.queue == queue.name:
                found.append({**event_fields(event), "source": "trace", "trace": trace.name})
    return found


def event_fields(event: TraceEvent) -> Event:
    """Return the fields of one event of a trace."""
    fields: Event = {
        "type": event.type,
        "time_ms": int(event.time_us) // US_PER_MS,
        "queue": text(event.queue),
        "group": text(event.group) if not event.group.startswith(b"\0") else "",
        "offset": int(event.offset),
    }
    if event.message_id:
        fields["message_id"] = event.message_id
    if event.connection:
        fields["connection"] = int(event.connection)
        fields["channel"] = int(event.channel)
        fields["consumer"] = text(event.tag)
    if event.detail:
        fields["detail"] = event.detail
    return fields
