"""The reasons why the readers of a stream have not got a message, or that they have."""

from __future__ import annotations

from forebay.core.units import US_PER_MS
from forebay.filter.parts import first_miss
from forebay.management.control import Connections
from forebay.management.explain.reasons import Reason, consumer_fields, count, duration, named
from forebay.management.explain.work import said_as
from forebay.message.shown import plain
from forebay.message.subject import RecordSubject
from forebay.queue.queue import Queue
from forebay.queue.ready.expiry import expiry_us
from forebay.queue.stream.stream_group import StreamGroup
from forebay.routing.exchange import text


def group_name(group: StreamGroup) -> str:
    """Return the group's name; "" for the cursor of one consumer."""
    return "" if group.name.startswith(b"\0") else text(group.name)


def stream_reasons(
    queue: Queue, group: StreamGroup, subject: RecordSubject, now_us: int, connections: Connections
) -> list[Reason]:
    """Return the reasons of one stream group for the message."""
    offset = int(subject.offset())
    name = group_name(group)
    who = f"group '{name}'" if name else "a reader without a group"
    found = filter_reasons(group, subject, who) or expiry_reasons(group, subject, now_us, who)
    if offset < group.cursor:
        if not found:
            words = f"{who} has read it, and is at offset {group.cursor}"
            committed = offset < group.committed
            words += ", which it has committed" if committed else ": not committed, so it is read again after a restart"
            found.append(Reason("delivered", words, {"cursor": int(group.cursor), "committed": committed}))
    else:
        if offset >= queue.log.readable_end():
            found.append(Reason("not_on_disk", "it is not on the disk yet: readers of a stream see it when it is"))
        if queue.paused or group.paused:
            paused = f"queue '{text(queue.name)}'" if queue.paused else who
            found.append(Reason("paused", f"{paused} is paused: nothing is delivered until somebody resumes it"))
        found += reader_reasons(group, connections, who)
        ahead = offset - int(group.cursor)
        if ahead:
            found.append(
                Reason("waits_behind", f"{who} has {count(ahead, 'message')} to read before it", {"ahead": ahead})
            )
    for reason in found:
        reason.group = name
    return found


def expiry_reasons(group: StreamGroup, subject: RecordSubject, now_us: int, who: str) -> list[Reason]:
    """Return the reason if a message has expired, else an empty list."""
    due_us = int(expiry_us(group.limits, group.properties, subject.block, subject.index))
    if due_us >= now_us:
        return []
    words = f"it expired {duration(now_us - due_us)} ago: {who} passes over it"
    if int(subject.offset()) < group.cursor:
        words = f"it expired {duration(now_us - due_us)} ago: {who}, at offset {group.cursor}, has it if it came before"
    return [Reason("expired", words, {"expired_ms": due_us // US_PER_MS})]


def reader_reasons(group: StreamGroup, connections: Connections, who: str) -> list[Reason]:
    """Return the reasons that keep the consumers of a group from reading on."""
    if not group.consumers:
        return [Reason("no_readers", f"nobody reads for {who}, which is at offset {group.cursor}")]
    found: list[Reason] = []
    for consumer in group.consumers:
        fields = consumer_fields(consumer, connections)
        if consumer.paused:
            found.append(Reason("connection_paused", f"{named(fields)} does not read what it was sent", fields))
        elif consumer.credit <= 0:
            words = f"{named(fields)} has as many messages unacknowledged as its prefetch allows"
            found.append(Reason("no_credit", words, fields))
    return found


def filter_reasons(group: StreamGroup, subject: RecordSubject, who: str) -> list[Reason]:
    """Return the reasons for the parts of a group's filters that the message does not match."""
    block, index = subject.block, subject.index
    if group.filter and not group.key_filter.wants(block, index):
        words = f"the filter '{text(group.filter)}' of {who} does not match its key"
        return [Reason("group_filter", words, {"filter": text(group.filter)})]
    selection = group.wanted.selection
    if selection is None or selection.wants(block, index):
        return []
    missed = None if selection.filter is None else first_miss(selection.filter, subject)
    if missed is not None:
        said = ", ".join(f"{place} is {said_as(value)}" for place, value in missed.values.items())
        words = f"{who} wants only {selection.text}, and {missed.text} does not hold" + (f": {said}" if said else "")
        values = {place: plain(value) for place, value in missed.values.items()}
        return [Reason("stream_filter", words, {"filter": selection.text, "part": missed.text, "values": values})]
    value = selection.streams.properties.filter_value(block, index)
    asked = sorted(text(each) for each in selection.values or ())
    said = "has none" if value is None else f"has '{text(value)}'"
    words = f"{who} wants only the filter values {', '.join(asked)}, and it {said}"
    return [Reason("stream_filter", words, {"wanted": asked, "value": None if value is None else text(value)})]
