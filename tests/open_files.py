"""Files and sockets that this process has open: clients that wait by `select()` work only with the first 1,024.

Tests leave connections to the collector of cycles, as applications do. It looks at old objects the more seldom the more
of them there are, and here there are a million, so it is asked as soon as many files are open.
"""

from __future__ import annotations

import gc
import os
import warnings

MANY = 256
TOO_MANY = 900  # those that the next test opens still fit below 1,024


class OpenFiles:
    """How many files may be open before the collector is asked."""

    def __init__(self) -> None:
        self._limit = MANY

    def check(self) -> None:
        """Close what nobody holds any more; AssertionError if so much is held that the next clients would fail."""
        if count() < self._limit:
            return
        with warnings.catch_warnings():  # of what was left unclosed, in whichever test that was
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
        left = count()
        self._limit = max(MANY, left + MANY // 2)
        assert left < TOO_MANY, f"{left} files are open in the process of the tests, and somebody holds them"


def count() -> int:
    """Files that are open in this process."""
    return len(os.listdir("/proc/self/fd"))
