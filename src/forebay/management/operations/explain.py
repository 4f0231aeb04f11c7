"""Operations that say where a message is, why it has not been delivered, and what happened to it."""

from __future__ import annotations

from typing import Final

from forebay.broker.dead_letter.dlq import seal
from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, RequestError
from forebay.management.control import TEXT, VHOST, WHOLE, Arguments, Control, Parameter, operation, refuse, within
from forebay.management.explain.explain import delayed_explained, explained, queues_to_search
from forebay.management.explain.places import MessagePlace, Search
from forebay.management.explain.reasons import worst_first
from forebay.management.explain.sessions import session_reasons
from forebay.management.operations.sessions import client_of, session_facts

OFFSET_MAX: Final = 1 << 62
STEPS_MAX: Final = 10  # of one search
FOUND_MAX: Final = 20  # messages of one id that are explained
WHICH: Final = (
    Parameter("queue", TEXT, "the queue; with a message id all are searched if it is not given", False),
    Parameter("offset", WHOLE, "the message's offset in the queue", False),
    Parameter("message_id", TEXT, "or the message id that its publisher gave it", False),
)


@operation(
    "message.explain",
    VHOST,
    *WHICH,
    Parameter("client_id", TEXT, "or the MQTT session that should have it, with an offset of the sessions' log", False),
    Parameter("topic", TEXT, "and the topic on which it was published", False),
)
def explain_message(control: Control, given: Arguments) -> dict[str, object]:
    """Say where a message is and why it has not been delivered: `found`, one explanation for each queue that has it.

    Each has a `summary` for people and `reasons`, the worst first: a `code`, a `text` and the facts. docs/explain.md
    lists the codes. A search by message id looks at the newest messages first, and `complete` says whether it has seen
    them all. For an MQTT session the reasons are those for which it gets nothing, or not this topic.
    """
    vhost = control.vhost(given)
    if "client_id" in given:
        return explain_session(control, vhost, given)
    places, complete = places_of(vhost, given)
    found = [explained(vhost, control.connections, place) for place in places]
    if "message_id" in given:
        found += delayed_explained(vhost, given.text("message_id"))
    return {"found": found, "complete": complete}


def explain_session(control: Control, vhost: Vhost, given: Arguments) -> dict[str, object]:
    client = client_of(vhost, given)
    offset = within(given, "offset", 0, OFFSET_MAX) if "offset" in given else None
    topic = given.octets("topic") if "topic" in given else None
    reasons = worst_first(session_reasons(vhost, client, offset, topic, control.connections))
    facts = session_facts(client)
    facts["summary"] = reasons[0].text if reasons else "nothing holds it up: the session gets what is published"
    facts["reasons"] = [reason.shown() for reason in reasons]
    return {"found": [facts], "complete": True}


def places_of(vhost: Vhost, given: Arguments) -> tuple[list[MessagePlace], bool]:
    """The messages that a request names, and whether all queues were searched; RequestError(INVALID) for none."""
    if ("offset" in given) == ("message_id" in given):
        raise RequestError(INVALID, "offset and message_id: one of them says which message")
    if "offset" in given:
        if "queue" not in given:
            raise RequestError(INVALID, "queue is missing: an offset is one of a queue")
        queue = vhost.catalog.queue(given.octets("queue"))
        seal(vhost, queue)
        return [MessagePlace(queue, within(given, "offset", 0, OFFSET_MAX))], True
    search = search_for(vhost, given)
    for _ in range(STEPS_MAX):
        if not search.is_done and len(search.found) < FOUND_MAX:
            search.step()
    return search.found[:FOUND_MAX], search.is_done


def search_for(vhost: Vhost, given: Arguments) -> Search:
    """A search for a message id; RequestError(INVALID) where that is empty."""
    if not given.text("message_id"):
        raise refuse("message_id", "", "is no message id")
    queues = queues_to_search(vhost, given.octets("queue") if "queue" in given else None)
    return Search(vhost, queues, given.text("message_id"))
