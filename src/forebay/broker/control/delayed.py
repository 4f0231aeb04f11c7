"""Operations on messages that wait for their time."""

from __future__ import annotations

from functools import partial
from typing import Final

from forebay.broker.control.operations import PAGE, TEXT, VHOST, Control, Given, Parameter, operation, page
from forebay.broker.delayed import DelayedMessage
from forebay.core.errors import NOT_FOUND, RequestError
from forebay.routing.exchange import text

MICROSECONDS: Final = 1000


@operation("delayed.list", VHOST, *PAGE)
def list_delayed(control: Control, given: Given) -> dict[str, object]:
    """The messages of a vhost that wait for their time, in the order in which they will be published."""
    delayed = control.vhost(given).delayed
    known = delayed.listed(max(0, given.whole("from")) + max(0, given.whole("limit")))
    answer = page(given, [partial(delayed_facts, message) for message in known])
    answer["total"] = int(delayed.count())
    shown = given.whole("from") + given.whole("limit")
    if shown < delayed.count():
        answer["next"] = shown
    return answer


@operation(
    "delayed.cancel",
    VHOST,
    Parameter("name", TEXT, "the key that its publisher gave it, or its number in `delayed.list`"),
    changes=True,
)
def cancel_delayed(control: Control, given: Given) -> dict[str, object]:
    """Forget a message that waits: it will not be published."""
    if not control.vhost(given).delayed.cancel(given.octets("name")):
        raise RequestError(NOT_FOUND, f"name: no message waits under {given.text('name')!r}")
    return {}


def delayed_facts(message: DelayedMessage) -> dict[str, object]:
    return {
        "number": int(message.offset),
        "key": text(message.key),
        "due_ms": int(message.due_us) // MICROSECONDS,
        "exchange": text(message.exchange),
        "topic": text(message.topic),
        "octets": len(message.body),
    }
