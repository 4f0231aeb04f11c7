"""The memory of this process: how much it is, and how it is taken and given back."""

from __future__ import annotations

import ctypes
import gc
import os
from typing import Final

PAGE_OCTETS: Final = os.sysconf("SC_PAGE_SIZE")


def resident_octets() -> int:
    """Return the resident memory of this process, in octets."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * PAGE_OCTETS


class Heap:
    """The C library's heap, where it can be told: blocks are large and short-lived, and belong in one heap.

    Mapped one by one, or in an arena a thread, they would cost a page fault for each page each time.
    """

    def __init__(self) -> None:
        libc = ctypes.CDLL(None)
        self.known = hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim")
        self.libc = libc
        if self.known:
            libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
            libc.mallopt(-1, 256 << 20)  # M_TRIM_THRESHOLD
            libc.mallopt(-8, 1)  # M_ARENA_MAX

    def trim(self) -> None:
        """Return the memory that a burst has left free to the system."""
        if self.known:
            self.libc.malloc_trim(0)


def pause_collector() -> None:
    """Turn the garbage collector off until `resume_collector`: what a start makes lives as long as the process."""
    gc.disable()


def tune_collector() -> None:
    """Collect the garbage of the start, and go on as `resume_collector` does."""
    gc.collect()
    resume_collector()


def resume_collector() -> None:
    """Turn the garbage collector on, except for objects that exist by now, which live as long as the process."""
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    gc.enable()
