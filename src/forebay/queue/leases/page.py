"""The states of a group's records: one byte for each record of a page of consecutive offsets."""

from __future__ import annotations

from typing import Final, final

from librt.vecs import vec
from mypy_extensions import i64, u8

# States of a record in a page.
READY: Final = 0  # never leased
LEASED: Final = 1
RETURNED: Final = 2  # was leased or passed over, and waits to be leased
SETTLED: Final = 3
DEAD_LETTER: Final = 4  # died, on its way to a dead-letter exchange
DELAYED: Final = 5  # as RETURNED, but with a due time
REFUSED: Final = 6  # as RETURNED, but some consumers must not get it

PAGE_BITS: Final = 10
PAGE_RECORDS: Final = 1 << PAGE_BITS


@final
class Page:
    """The states of the records [base, base + PAGE_RECORDS) of one group."""

    def __init__(self, base: i64) -> None:
        self.base: i64 = base
        self.states = vec[u8](bytes(PAGE_RECORDS))
        self.left: i64 = PAGE_RECORDS  # records not settled yet, those beyond the end of the log included
