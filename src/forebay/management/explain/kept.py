"""The reason why a message stays in the log although others are done with it: the group or reader that pins it."""

from __future__ import annotations

from forebay.core.units import US_PER_MS
from forebay.management.explain.reasons import Reason, count, duration
from forebay.management.requests.queues import PinFields


def pinned_reason(pin: PinFields, offset: int, now_us: int) -> Reason | None:
    """The one for whom alone the log keeps the message; None where it would be there anyway.

    pin  as `pin_fields` has it
    """
    first, frees, active_ms = pin["offset"], pin["frees_messages"], pin["active_ms"]
    assert isinstance(first, int) and isinstance(frees, int)
    if not first <= offset < first + frees:
        return None
    is_reader = pin["kind"] == "reader"
    who = f"{'reader' if is_reader else 'group'} '{pin['group']}'"
    if pin["kind"] == "queue":
        who = f"queue '{pin['queue']}'" if "queue" in pin else "the queue's next consumers"
    elif "queue" in pin:
        who += f" of queue '{pin['queue']}'"
    words = f"the log keeps it for {who} alone, which is at offset "
    words += f"{first}: {count(frees, 'message')} would go without it; "
    if isinstance(active_ms, int):
        did = "renewed that" if is_reader else "settled something"
        words += f"it {did} last {duration(now_us - active_ms * US_PER_MS)} ago"
    else:
        words += "it has settled nothing since the broker started"
    if not is_reader and not pin["consumers"]:
        words += ", and has no consumers"
    return Reason("pinned", words, dict(pin))
