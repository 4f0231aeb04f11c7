"""Operations on messages that wait for their time."""

from __future__ import annotations

from functools import partial
from typing import Final

from forebay.broker.publish.delayed import Delayed
from forebay.broker.publish.headers import publish_due
from forebay.core.errors import NOT_FOUND, REFUSED, RequestError
from forebay.core.message import ACCEPTED, REJECTED
from forebay.management.control import PAGE, TEXT, VHOST, Arguments, Control, Parameter, operation, page
from forebay.routing.exchange import text

MICROSECONDS: Final = 1000


@operation("delayed.list", VHOST, *PAGE)
def list_delayed(control: Control, given: Arguments) -> dict[str, object]:
    """The messages of a vhost that wait for their time, in the order in which they will be published."""
    delayed = control.vhost(given).delayed
    times = sorted(each for each in delayed.times if each[1] in delayed.waiting)
    return page(given, [partial(delayed_facts, delayed, due_us, offset) for due_us, offset in times])


@operation(
    "delayed.cancel",
    VHOST,
    Parameter("name", TEXT, "the key that its publisher gave it, or its number in `delayed.list`"),
    changes=True,
)
def cancel_delayed(control: Control, given: Arguments) -> dict[str, object]:
    """Forget a message that waits: it will not be published."""
    if not control.vhost(given).delayed.cancel(given.octets("name")):
        raise RequestError(NOT_FOUND, f"name: no message waits under {given.text('name')!r}")
    return {}


@operation(
    "delayed.publish",
    VHOST,
    Parameter("name", TEXT, "the key that its publisher gave it, or its number in `delayed.list`"),
    changes=True,
)
def publish_delayed(control: Control, given: Arguments) -> dict[str, object]:
    """Publish a message that waits at once; `routed` says whether anybody was to have it."""
    vhost = control.vhost(given)
    message = vhost.delayed.find(given.octets("name"))
    if message is None:
        raise RequestError(NOT_FOUND, f"name: no message waits under {given.text('name')!r}")
    vhost.refusal = ""
    outcome = publish_due(vhost, message)
    if outcome == REJECTED:
        raise RequestError(REFUSED, f"name: {given.text('name')!r} waits on: {vhost.refusal or 'nothing takes it'}")
    vhost.delayed.leave(int(message.offset))
    return {"routed": outcome == ACCEPTED}


def delayed_facts(delayed: Delayed, due_us: int, offset: int) -> dict[str, object]:
    message = delayed.read(offset)
    return {
        "number": offset,
        "key": text(message.key),
        "due_ms": due_us // MICROSECONDS,
        "exchange": text(message.exchange),
        "topic": text(message.topic),
        "octets": len(message.body),
    }
