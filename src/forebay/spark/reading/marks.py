"""A stream's progress as Spark stores it in the checkpoint, and the division of a limit among queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from forebay.core.errors import OptionError

OFFSET: Final = "0"  # as in Spark's Kafka source: a queue has one partition, 0
ID: Final = "id"
GROUP: Final = "group"
FROM: Final = "from"


class Mark(NamedTuple):
    """The progress of the read of one queue.

    offset  the offset after the last record read
    id      id of the log; differs if the queue was deleted and declared anew
    jump    first offset of the batch that ends here, if it is not the end of the batch before; else -1
    """

    offset: int
    id: int
    jump: int = -1


def encode_marks(marks: Mapping[str, Mark], group: str) -> dict[str, Any]:
    """Encode marks as Spark stores them.

    Equal marks give equal JSON: Spark compares it to see whether there are new records.

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
    """Decode the marks, and the name of the retention pins, which is empty if there is no queue.

    Raises OptionError if the checkpoint is another source's.
    """
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
    """Divide a limit in proportion to the sizes. The shares add up to min(limit, sum of sizes).

    turn  number of the call: if the limit is below one for each, the names take turns
    """
    total = sum(sizes.values())
    if total <= limit:
        return dict(sizes)
    shares = {name: limit * size // total for name, size in sizes.items()}
    left = limit - sum(shares.values())
    names = [name for name, size in sizes.items() if size > 0]
    # First the names that would get nothing: a short queue must not wait until the long ones are read.
    starved = [name for name in names if shares[name] == 0]
    start = turn % max(len(starved), 1)
    order = [*starved[start:], *starved[:start], *[name for name in names if shares[name] > 0]]
    for name in order:
        if left == 0:
            break
        shares[name] += 1
        left -= 1
    return shares
