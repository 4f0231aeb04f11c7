"""Operations on traces, and what happened to a message as far as the broker keeps it."""

from __future__ import annotations

from functools import partial
from typing import Final

from forebay.broker.auth.permissions import check_pattern
from forebay.broker.vhost import Vhost
from forebay.core.errors import NOT_FOUND, PRECONDITION, REFUSED, RequestError
from forebay.management.control import (
    PAGE,
    TEXT,
    VHOST,
    WHOLE,
    Arguments,
    Control,
    Parameter,
    operation,
    page,
    refuse,
    within,
)
from forebay.management.explain.history import event_facts, history
from forebay.management.operations.explain import WHICH, places_of
from forebay.management.operations.queues import WHERE, where_of
from forebay.queue.trace import Trace

TRACES_MAX: Final = 10  # of one vhost
EVENTS_MAX: Final = 100_000
NAME: Final = Parameter("name", TEXT, "the trace's name", False, "trace")


@operation("message.history", VHOST, *WHICH)
def message_history(control: Control, given: Arguments) -> dict[str, object]:
    """Say what happened to a message, the oldest first, as far as the broker keeps it.

    It keeps what the message says (when it was stored, its deaths), how often it was handed out, and who holds it.
    When each of these was, and who acknowledged it, only a trace knows that was running then. `not_kept` says what is
    missing.
    """
    vhost = control.vhost(given)
    places, complete = places_of(vhost, given)
    found = [history(vhost, control.connections, place) for place in places]
    return {"found": found, "complete": complete}


@operation(
    "trace.start",
    VHOST,
    NAME,
    Parameter("pattern", TEXT, "a regular expression: queues whose names have it, those made later too", False, ".*"),
    WHERE,
    Parameter("events_max", WHOLE, "how many events are kept, the latest", False, 10_000),
    changes=True,
)
def start_trace(control: Control, given: Arguments) -> dict[str, object]:
    """Write down what happens to the messages of some queues, in memory, until the trace is stopped or the broker.

    Events are published, delivered, acked, returned, rejected and died. Where several traces mean a queue, the one that
    was started last has it.
    """
    vhost = control.vhost(given)
    name = given.text("name")
    if any(each.name == name for each in vhost.catalog.traces):
        raise RequestError(PRECONDITION, f"name: there is a trace {name!r} already")
    if len(vhost.catalog.traces) >= TRACES_MAX:
        raise RequestError(REFUSED, f"name: a vhost has at most {TRACES_MAX} traces")
    check_pattern("pattern", given.text("pattern"))
    where = where_of(given)
    if where is not None and "age_ms" in where.facts:
        raise refuse("where", given.text("where"), "asks for age_ms, which is 0 when a message comes")
    events_max = within(given, "events_max", 1, EVENTS_MAX)
    vhost.catalog.traces.append(Trace(name, given.text("pattern"), where, events_max))
    return {"queues": look_at_queues(vhost)}


@operation("trace.stop", VHOST, NAME, changes=True)
def stop_trace(control: Control, given: Arguments) -> dict[str, object]:
    """End a trace and forget its events."""
    vhost = control.vhost(given)
    vhost.catalog.traces.remove(trace_of(vhost, given))
    look_at_queues(vhost)
    return {}


@operation("trace.list", VHOST, *PAGE)
def list_traces(control: Control, given: Arguments) -> dict[str, object]:
    """The traces of a vhost."""
    return page(given, [partial(trace_facts, each) for each in control.vhost(given).catalog.traces])


@operation("trace.show", VHOST, NAME, *PAGE)
def show_trace(control: Control, given: Arguments) -> dict[str, object]:
    """The events that a trace has kept, the oldest first."""
    trace = trace_of(control.vhost(given), given)
    return page(given, [partial(event_facts, each) for each in trace.events])


def look_at_queues(vhost: Vhost) -> int:
    """Have every queue know whether it is traced; how many are."""
    for queue in vhost.catalog.queues.values():
        vhost.catalog.trace_queue(queue)
    return sum(1 for queue in vhost.catalog.queues.values() if queue.trace is not None)


def trace_of(vhost: Vhost, given: Arguments) -> Trace:
    for trace in vhost.catalog.traces:
        if trace.name == given.text("name"):
            return trace
    raise RequestError(NOT_FOUND, f"name: there is no trace {given.text('name')!r}")


def trace_facts(trace: Trace) -> dict[str, object]:
    return {
        "name": trace.name,
        "pattern": trace.pattern,
        "where": "" if trace.where is None else trace.where.text,
        "events": len(trace.events),
        "events_max": int(trace.events_max),
        "seen": int(trace.seen),
    }
