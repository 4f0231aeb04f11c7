"""Operations that say where a message is, why it has not been delivered, and what happened to it; and on traces."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, cast

from forebay.broker.limits.hold_reasons import NAMES, RESOURCES
from forebay.broker.redrive.dead_letter_queues import seal
from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, NOT_FOUND, PRECONDITION, REFUSED, RequestError
from forebay.directory.permissions import check_pattern
from forebay.management.arguments import octets, refuse
from forebay.management.control import Control, made_already, operation, page
from forebay.management.explain.explain import delayed_explained, explained, queues_to_search
from forebay.management.explain.history import event_fields, history
from forebay.management.explain.places import MessagePlace, Search
from forebay.management.explain.reasons import worst_first
from forebay.management.explain.sessions import session_reasons
from forebay.management.needs import READ_QUEUE
from forebay.management.operations.queues import where_of
from forebay.management.operations.sessions import client_of, session_fields
from forebay.management.requests.explain import (
    ConnectionExplainRequest,
    ExplainAnswer,
    Explanation,
    HeldPublisher,
    History,
    HistoryAnswer,
    HoldFields,
    MessageExplainRequest,
    MessageHistoryRequest,
    QueueExplainRequest,
    TracedQueues,
    TraceEventFields,
    TraceFields,
    TraceListRequest,
    TraceShowRequest,
    TraceStartRequest,
    TraceStopRequest,
)
from forebay.management.requests.fields import EmptyAnswer, ListPage
from forebay.queue.trace import Trace

STEPS_MAX: Final = 10  # of one search
FOUND_MAX: Final = 20  # messages of one id that are explained
LACKS: Final = {NAMES[reason] for reason in RESOURCES}


@operation("message.explain", need=READ_QUEUE)
def explain_message(control: Control, given: MessageExplainRequest) -> ExplainAnswer:
    """Explain where a message is and why it was not delivered: `found` has one explanation for each queue that has it.

    Each has a `summary` for people and `reasons`, the most serious first: a `code`, a `text` and its fields.
    docs/reference/reasons.md lists the codes. A search by message id examines the newest messages first; `complete` is
    true if it has seen all. For an MQTT session, the reasons explain why it gets no messages, or none of this topic.
    """
    vhost = control.vhost(given)
    if given.client_id is not None:
        return explain_session(control, vhost, given)
    places, complete = places_of(vhost, given)
    found = [explained(vhost, control.connections, place, control.cluster) for place in places]
    if given.message_id is not None:
        found += delayed_explained(vhost, given.message_id)
    return {"found": cast("list[Explanation]", found), "complete": complete}


def explain_session(control: Control, vhost: Vhost, given: MessageExplainRequest) -> ExplainAnswer:
    client = client_of(vhost, given)
    topic = octets(given.topic) if given.topic is not None else None
    reasons = worst_first(session_reasons(vhost, client, given.offset, topic, control.connections))
    summary = reasons[0].text if reasons else "nothing holds it up: the session gets what is published"
    shown = [reason.shown() for reason in reasons]
    explanation = cast("Explanation", {**session_fields(client), "summary": summary, "reasons": shown})
    return {"found": [explanation], "complete": True}


def places_of(vhost: Vhost, given: MessageExplainRequest | MessageHistoryRequest) -> tuple[list[MessagePlace], bool]:
    """Return the messages a request names, and whether all queues were searched. Raises RequestError(INVALID)."""
    if (given.offset is not None) == (given.message_id is not None):
        raise RequestError(INVALID, "offset and message_id: one of them says which message")
    if given.offset is not None:
        if given.queue is None:
            raise RequestError(INVALID, "queue is missing: an offset is one of a queue")
        queue = vhost.catalog.queue(octets(given.queue))
        seal(vhost, queue)
        return [MessagePlace(queue, given.offset)], True
    search = search_for(vhost, given)
    for _ in range(STEPS_MAX):
        if not search.is_done and len(search.found) < FOUND_MAX:
            search.step()
    return search.found[:FOUND_MAX], search.is_done


def search_for(vhost: Vhost, given: MessageExplainRequest | MessageHistoryRequest) -> Search:
    """Return a search for a message id. Raises RequestError(INVALID) if the id is empty."""
    if not given.message_id:
        raise refuse("message_id", "", "is no message id")
    queues = queues_to_search(vhost, octets(given.queue) if given.queue is not None else None)
    return Search(vhost, queues, given.message_id)


# ---- held connections


@operation("connection.explain")
def explain_connection(control: Control, given: ConnectionExplainRequest) -> ListPage[HoldFields]:
    """List why a connection is not read, or is sent nothing: each reason with since when, and until when if known.

    The list is empty if nothing holds the connection. docs/reference/reasons.md lists the reasons.
    """
    id = given.id
    if control.connections.find(id) is None:
        raise RequestError(NOT_FOUND, f"id: {id} is no connection")
    return page(given, [made_already(each) for each in control.connections.holds(id)])


@operation("queue.explain")
def explain_queue(control: Control, given: QueueExplainRequest) -> ListPage[HeldPublisher]:
    """List the publishers that are not read because of a queue, or because of what the whole broker lacks.

    Each has its `connection`, and the `reason` with since when; docs/reference/reasons.md lists the reasons.
    """
    vhost = control.vhost(given)
    vhost.catalog.queue(octets(given.queue))
    found: list[dict[str, object]] = []
    for known in control.connections.listed():
        if known["vhost"] != given.vhost:
            continue
        named = {"connection": known["id"], "peer": known["peer"], "user": known.get("user")}
        holds = control.connections.holds(int(str(known["id"])))
        found += [{**named, **each} for each in holds if concerns(each, given.queue)]
    return page(given, [made_already(each) for each in found])


def concerns(hold: dict[str, object], queue: str) -> bool:
    """Return whether a hold stops publishes to a queue of its vhost: for the queue's sake, or for the broker's."""
    return hold.get("queue") == queue or hold["reason"] in LACKS


# ---- traces


TRACES_MAX: Final = 10  # of one vhost


@operation("message.history", need=READ_QUEUE)
def message_history(control: Control, given: MessageHistoryRequest) -> HistoryAnswer:
    """Show what happened to a message, the oldest event first, as far as the broker keeps it.

    The broker keeps when the message was stored, its deaths, how often it was delivered, and who holds it. Only a trace
    that ran at the time knows when each delivery was, and who acknowledged it. `not_kept` names what is missing.
    """
    vhost = control.vhost(given)
    places, complete = places_of(vhost, given)
    found = [history(vhost, control.connections, place) for place in places]
    return {"found": cast("list[History]", found), "complete": complete}


@operation("trace.start", changes=True)
def start_trace(control: Control, given: TraceStartRequest) -> TracedQueues:
    """Record the events of some queues' messages in memory, until the trace or the broker stops.

    Events are published, delivered, acked, returned, rejected and died. If several traces name a queue, the latest
    records its events.
    """
    vhost = control.vhost(given)
    name = given.name
    if any(each.name == name for each in vhost.catalog.traces):
        raise RequestError(PRECONDITION, f"name: there is a trace {name!r} already")
    if len(vhost.catalog.traces) >= TRACES_MAX:
        raise RequestError(REFUSED, f"name: a vhost has at most {TRACES_MAX} traces")
    check_pattern("pattern", given.pattern)
    where = where_of(given)
    if where is not None and "age_ms" in where.properties:
        raise refuse("where", given.where, "asks for age_ms, which is 0 when a message comes")
    vhost.catalog.traces.append(Trace(name, given.pattern, where, given.events_max))
    return {"queues": look_at_queues(vhost)}


@operation("trace.stop", changes=True)
def stop_trace(control: Control, given: TraceStopRequest) -> EmptyAnswer:
    """Stop a trace and delete its events."""
    vhost = control.vhost(given)
    vhost.catalog.traces.remove(trace_of(vhost, given))
    look_at_queues(vhost)
    return {}


@operation("trace.list")
def list_traces(control: Control, given: TraceListRequest) -> ListPage[TraceFields]:
    """List the traces of a vhost."""
    return page(given, [partial(trace_fields, each) for each in control.vhost(given).catalog.traces])


@operation("trace.show")
def show_trace(control: Control, given: TraceShowRequest) -> ListPage[TraceEventFields]:
    """Show the events of a trace, the oldest first."""
    trace = trace_of(control.vhost(given), given)
    return page(given, [cast("Callable[[], TraceEventFields]", partial(event_fields, each)) for each in trace.events])


def look_at_queues(vhost: Vhost) -> int:
    """Update in every queue whether it is traced. Return the number of traced queues."""
    for queue in vhost.catalog.queues.values():
        vhost.catalog.trace_queue(queue)
    return sum(1 for queue in vhost.catalog.queues.values() if queue.trace is not None)


def trace_of(vhost: Vhost, given: TraceStopRequest | TraceShowRequest) -> Trace:
    for trace in vhost.catalog.traces:
        if trace.name == given.name:
            return trace
    raise RequestError(NOT_FOUND, f"name: there is no trace {given.name!r}")


def trace_fields(trace: Trace) -> TraceFields:
    return {
        "name": trace.name,
        "pattern": trace.pattern,
        "where": "" if trace.where is None else trace.where.text,
        "events": len(trace.events),
        "events_max": int(trace.events_max),
        "seen": int(trace.seen),
    }
