"""Why a message is in the log although others are done with it: the group or the reader that pins it."""

from __future__ import annotations

from forebay.broker.control.queues import pin_facts
from forebay.broker.explain.reasons import MILLISECOND_US, Reason, count, duration
from forebay.queue.pins import find_pin
from forebay.queue.queue import Queue


def pinned_reason(queue: Queue, offset: int, now_us: int) -> Reason | None:
    """The one for whom alone the log keeps the message; None where it would be there anyway."""
    pin = find_pin(queue)
    facts = pin_facts(queue)
    if pin is None or facts is None or not pin.offset <= offset < pin.free:
        return None
    what = "reader" if facts["kind"] == "reader" else "group"
    words = f"the log keeps it for {what} '{facts['group']}' alone, which is at offset {facts['offset']}: "
    words += f"{count(int(pin.free - pin.offset), 'message')} would go without it; "
    active_ms = facts["active_ms"]
    if isinstance(active_ms, int):
        did = "renewed that" if what == "reader" else "settled something"
        words += f"it {did} last {duration(now_us - active_ms * MILLISECOND_US)} ago"
    else:
        words += "it has settled nothing since the broker started"
    if what == "group" and not facts["consumers"]:
        words += ", and has no consumers"
    return Reason("pinned", words, facts)
