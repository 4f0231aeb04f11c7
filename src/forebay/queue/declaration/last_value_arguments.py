"""The argument of a last-value queue, and the arguments that exclude it.

x-last-value-key  an expression: a record replaces the older unsettled one with the same value
"""

from __future__ import annotations

from typing import Final

from forebay.queue.declaration.arguments import BY_KEY, RETENTIONS, invalid
from forebay.routing.exchange import frozen

LAST_VALUE_KEY: Final = BY_KEY["last-value-key"].argument
OVERFLOW: Final = BY_KEY["overflow"].argument
PRIORITY: Final = BY_KEY["priority-expression"].argument
SOURCE: Final = BY_KEY["source"].argument


def check_last_value_arguments(place: str, arguments: dict[str, object]) -> None:
    """Refuse arguments that a last-value queue cannot have.

    place  "queue 'q' in vhost '/'"
    """
    if LAST_VALUE_KEY not in arguments:
        return
    if SOURCE in arguments:
        raise invalid(LAST_VALUE_KEY, place, f"a view, a queue with {SOURCE}, has all that is in its stream")
    for retention in RETENTIONS:
        if "x-" + retention in arguments:
            raise invalid("x-" + retention, place, "a last-value queue keeps nothing that was settled or replaced")
    if PRIORITY in arguments:
        raise invalid(PRIORITY, place, f"it does not go together with {LAST_VALUE_KEY}")
    if arguments.get(OVERFLOW) == "drop-head":
        raise invalid(OVERFLOW, place, "drop-head cannot be: a last-value queue refuses new keys when it is full")


def check_same_key(place: str, before: dict[str, object], arguments: dict[str, object]) -> None:
    """Refuse a redeclaration that would give a queue's records other keys."""
    if frozen(before.get(LAST_VALUE_KEY)) != frozen(arguments.get(LAST_VALUE_KEY)):
        raise invalid(LAST_VALUE_KEY, place, "it cannot be changed: delete the queue, and declare it anew")
