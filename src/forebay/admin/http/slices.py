"""Long lists in slices: a handler runs in the broker's loop, and no turn may wait long for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

import orjson

SLICE_ITEMS: Final = 100

Item = TypeVar("Item")
Made = TypeVar("Made")


async def sliced(items: Iterable[Item], make: Callable[[Item], Made]) -> list[Made]:
    """Call `make` for each item, and list the results; after every hundred of them the broker has a turn.

    What the items are made of may change meanwhile: an item may be gone from the broker when its turn comes.
    """
    made: list[Made] = []
    for item in list(items):
        if made and len(made) % SLICE_ITEMS == 0:
            await asyncio.sleep(0)
        made.append(make(item))
    return made


async def encoded(items: Sequence[object]) -> bytes:
    """These items as one list in JSON."""
    parts: list[bytes] = []
    for first in range(0, len(items), SLICE_ITEMS):
        if parts:
            await asyncio.sleep(0)
        parts.append(orjson.dumps(items[first : first + SLICE_ITEMS])[1:-1])
    return b"[%b]" % b",".join(parts)
