"""The progress of a stream as Spark keeps it in the checkpoint, and the sharing out of a limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from forebay.core.errors import OptionError

OFFSET: Final = "0"  # as Spark's Kafka source has it: a queue has the one partition 0
ID: Final = "id"
GROUP: Final = "group"
FROM: Final = "from"


class Mark(NamedTuple):
    """The progress of the read of one queue.

    offset  everything below it
    id      of the log: another one where the queue was deleted and made anew
    jump    where the batch that ends here began, if not where the one before it ended; else -1
    """

    offset: int
    id: int
    jump: int = -1


def encode_marks(marks: Mapping[str, Mark], group: str) -> dict[str, Any]:
    """Marks as Spark keeps them; equal marks give equal JSON, by which Spark knows that nothing is new.

    group  name of the stream's retention pins: it stays the same over restarts
    """
    encoded: dict[str, Any] = {}
    for queue in sorted(marks):
        mark = marks[queue]
        encoded[queue] = {OFFSET: mark.offset, ID: mark.id, GROUP: group}
        if mark.jump >= 0:
            encoded[queue][FROM] = mark.jump
    return encoded


def decode_marks(encoded: Mapping[str, Any]) -> tuple[dict[str, Mark], str]:
    """The marks, and the name of the retention pins, empty where there is no queue; OptionError at another source's."""
    marks: dict[str, Mark] = {}
    group = ""
    try:
        for queue, each in encoded.items():
            marks[queue] = Mark(each[OFFSET], each[ID], each.get(FROM, -1))
            group = each[GROUP]
    except (KeyError, TypeError, AttributeError):
        raise OptionError(f"checkpointLocation: {str(encoded)[:200]} is no progress of the forebay source") from None
    return marks, group


def share(limit: int, sizes: Mapping[str, int], turn: int) -> dict[str, int]:
    """A limit shared out in proportion to the sizes, and used up to the last: min(limit, sum of sizes) in all.

    turn  counts calls: where the limit is below one for each, they take turns
    """
    total = sum(sizes.values())
    if total <= limit:
        return dict(sizes)
    shares = {name: limit * size // total for name, size in sizes.items()}
    left = limit - sum(shares.values())
    names = [name for name, size in sizes.items() if size > 0]
    # First those who would get nothing: a short queue must not wait until the long ones are read.
    starved = [name for name in names if shares[name] == 0]
    start = turn % max(len(starved), 1)
    order = [*starved[start:], *starved[:start], *[name for name in names if shares[name] > 0]]
    for name in order:
        if left == 0:
            break
        shares[name] += 1
        left -= 1
    return shares
