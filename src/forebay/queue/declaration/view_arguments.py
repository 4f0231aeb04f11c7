"""The arguments of a view: a queue whose groups read the log of a stream, which is stored once.

x-source          the stream
x-recovery-point  the first record of the view: epoch (the default), now, creation, an offset, timestamp=ms
x-filter          the view takes only records that match
x-publish-target  the stream again: a publish to the view's own name goes to the stream; without it such a publish is
                  refused
"""

from __future__ import annotations

from typing import Final, final

from forebay.core.errors import PRECONDITION, RequestError
from forebay.queue.declaration.arguments import BY_KEY, RETENTIONS, invalid
from forebay.routing.exchange import frozen

SOURCE: Final = BY_KEY["source"].argument
RECOVERY_POINT: Final = BY_KEY["recovery-point"].argument
PUBLISH_TARGET: Final = BY_KEY["publish-target"].argument
FILTER: Final = BY_KEY["filter"].argument
OVERFLOW: Final = BY_KEY["overflow"].argument
DIGITS_MAX: Final = 15  # digits of an offset, or of a time in milliseconds
PUBLISH_FILTER: Final = BY_KEY["publish-filter"].argument
MAX_MESSAGE_SIZE: Final = BY_KEY["max-message-size"].argument


@final
class RecoveryPoint:
    """The place in a stream where a new view starts.

    offset   its first record, unless one of the other fields applies
    is_end   start behind all records that the stream has by now
    time_ms  start at the first record of this time or later; -1 for no time
    """

    def __init__(self, offset: int, is_end: bool = False, time_ms: int = -1) -> None:
        self.offset = offset
        self.is_end = is_end
        self.time_ms = time_ms


def recovery_point(place: str, arguments: dict[str, object]) -> RecoveryPoint:
    """Return the start that the arguments of a view name. Raise RequestError if they name none."""
    point = arguments.get(RECOVERY_POINT, "epoch")
    word = str(point) if isinstance(point, int) and not isinstance(point, bool) else point
    if word == "epoch":
        return RecoveryPoint(0)
    if word in ("now", "creation"):
        return RecoveryPoint(0, True)
    if isinstance(word, str):
        digits = word.removeprefix("timestamp=")
        if digits.isascii() and digits.isdigit() and len(digits) <= DIGITS_MAX:
            return RecoveryPoint(int(digits)) if digits == word else RecoveryPoint(0, False, int(digits))
    raise invalid(
        RECOVERY_POINT, place, f"{point!r} is none of epoch, now, creation, an offset, timestamp=<milliseconds>"
    )


def text_argument(arguments: dict[str, object], argument: str) -> str:
    """Return a text argument, or "" if it is missing or not UTF-8: such a name belongs to no queue."""
    value = arguments.get(argument, "")
    return value if isinstance(value, str) else ""


def check_view_arguments(place: str, durable: bool, exclusive: bool, arguments: dict[str, object]) -> None:
    """Refuse arguments that a view cannot have, or that only a view can have.

    place  "queue 'q' in vhost '/'"
    """
    if SOURCE not in arguments:
        for argument in (RECOVERY_POINT, FILTER, PUBLISH_TARGET):
            if argument in arguments:
                raise invalid(argument, place, f"only a view has it, a queue with {SOURCE}")
        return
    recovery_point(place, arguments)
    if not durable or exclusive:
        wrong = "exclusive-owner" if exclusive else "non-durable"
        raise RequestError(PRECONDITION, f"invalid property '{wrong}' for {place}: a view is as durable as its stream")
    if arguments.get(OVERFLOW, "drop-head") != "drop-head":
        raise invalid(OVERFLOW, place, "a view takes no publishes that it could reject: its stream does")
    if MAX_MESSAGE_SIZE in arguments:
        raise invalid(MAX_MESSAGE_SIZE, place, "a view takes no publishes that it could reject: its stream does")
    if PUBLISH_FILTER in arguments:
        raise invalid(PUBLISH_FILTER, place, f"nothing is published to a view: its filter is {FILTER}")
    for key in RETENTIONS:
        if "x-" + key in arguments:
            raise invalid("x-" + key, place, "a view keeps nothing that is settled: the retention of its stream does")
    fault = BY_KEY["filter"].fault(arguments[FILTER]) if FILTER in arguments else ""
    if fault:
        raise invalid(FILTER, place, fault)
    source, target = text_argument(arguments, SOURCE), text_argument(arguments, PUBLISH_TARGET)
    if PUBLISH_TARGET in arguments and target != source:
        raise invalid(PUBLISH_TARGET, place, f"'{target}' is not its source, '{source}'; nothing else is in force")


def check_same_source(place: str, before: dict[str, object], arguments: dict[str, object]) -> None:
    """Refuse a redeclaration that would give a view another source."""
    for argument in (SOURCE, RECOVERY_POINT, FILTER, PUBLISH_TARGET):
        if frozen(before.get(argument)) != frozen(arguments.get(argument)):
            raise invalid(argument, place, "it cannot be changed: delete the queue, and declare it anew")
