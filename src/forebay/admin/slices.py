"""Long lists in slices: a handler runs in the broker's loop, and no turn may wait long for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

SLICE_ITEMS: Final = 100

Item = TypeVar("Item")
Made = TypeVar("Made")


async def sliced(items: Iterable[Item], make: Callable[[Item], Made]) -> list[Made]:
    """What `make` makes of each item; after every hundred of them the broker has a turn.

    What the items are made of may change meanwhile: an item may be gone from the broker when its turn comes.
    """
    made: list[Made] = []
    for item in list(items):
        if made and len(made) % SLICE_ITEMS == 0:
            await asyncio.sleep(0)
        made.append(make(item))
    return made
