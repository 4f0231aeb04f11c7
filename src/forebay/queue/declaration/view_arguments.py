"""The arguments of a view: a queue whose groups take from the log of a stream, which is stored once.

x-source          the stream
x-recovery-point  the first record that the view has: epoch (the default), now, creation, an offset, timestamp=ms
x-publish-target  the stream again: a publish to the view's own name goes there; without it such a publish is refused
"""

from __future__ import annotations

from typing import Final

from forebay.core.errors import PRECONDITION, RequestError
from forebay.queue.declaration.arguments import BY_KEY, invalid
from forebay.routing.exchange import frozen

SOURCE: Final = BY_KEY["source"].argument
RECOVERY_POINT: Final = BY_KEY["recovery-point"].argument
PUBLISH_TARGET: Final = BY_KEY["publish-target"].argument
OVERFLOW: Final = BY_KEY["overflow"].argument
MAX_MESSAGE_SIZE: Final = BY_KEY["max-message-size"].argument


def text_argument(arguments: dict[str, object], argument: str) -> str:
    """Return an argument that is text, "" if it is not given; a name that is no UTF-8 is no queue's."""
    value = arguments.get(argument, "")
    return value if isinstance(value, str) else ""


def check_view_arguments(place: str, durable: bool, exclusive: bool, arguments: dict[str, object]) -> None:
    """Refuse arguments that do not go together with being a view, or not without it.

    place  "queue 'q' in vhost '/'"
    """
    if SOURCE not in arguments:
        for argument in (RECOVERY_POINT, PUBLISH_TARGET):
            if argument in arguments:
                raise invalid(argument, place, f"only a view has it, a queue with {SOURCE}")
        return
    if not durable or exclusive:
        wrong = "exclusive-owner" if exclusive else "non-durable"
        raise RequestError(PRECONDITION, f"invalid property '{wrong}' for {place}: a view is as durable as its stream")
    if arguments.get(OVERFLOW, "drop-head") != "drop-head":
        raise invalid(OVERFLOW, place, "a view takes no publishes that it could reject: its stream does")
    if MAX_MESSAGE_SIZE in arguments:
        raise invalid(MAX_MESSAGE_SIZE, place, "a view takes no publishes that it could reject: its stream does")
    source, target = text_argument(arguments, SOURCE), text_argument(arguments, PUBLISH_TARGET)
    if PUBLISH_TARGET in arguments and target != source:
        raise invalid(PUBLISH_TARGET, place, f"'{target}' is not its source, '{source}'; nothing else is in force")


def check_same_source(place: str, before: dict[str, object], arguments: dict[str, object]) -> None:
    """Refuse other arguments of a queue that is there if they would give it another source."""
    for argument in (SOURCE, RECOVERY_POINT, PUBLISH_TARGET):
        if frozen(before.get(argument)) != frozen(arguments.get(argument)):
            raise invalid(argument, place, "it cannot be changed: delete the queue, and declare it anew")
