"""The one place where tests wait: for what they wait for, and not for time."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol, TypeVar

WAIT_S_MAX = 60.0  # guards against a hang: what is waited for comes within moments, however busy the machine is
LOOK_S = 0.01  # between two looks
T = TypeVar("T")


class HasHandle(Protocol):
    """A socket, a pipe or a terminal."""

    def fileno(self) -> int: ...


def look_again() -> None:
    """Let a moment pass between two looks."""
    time.sleep(LOOK_S)


def until(
    condition: Callable[[], T],
    what: str | Callable[[], str] = "",
    *,
    meanwhile: Callable[[], object] = look_again,
    seconds: float = WAIT_S_MAX,
) -> T:
    """Wait until the condition holds; its value, which is true by then.

    what       it is about, for whoever reads that it did not come
    meanwhile  called between two looks: whoever has a connection reads from it there
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(told(what, condition, seconds))
        meanwhile()
    return value


async def until_async(
    condition: Callable[[], Awaitable[T]], what: str | Callable[[], str] = "", *, seconds: float = WAIT_S_MAX
) -> T:
    """The same where an event loop goes on meanwhile."""
    deadline = time.monotonic() + seconds
    while not (value := await condition()):
        if time.monotonic() > deadline:
            raise AssertionError(told(what, condition, seconds))
        await asyncio.sleep(LOOK_S)
    return value


def told(what: str | Callable[[], str], condition: Callable[[], object], seconds: float) -> str:
    named = what if isinstance(what, str) else what()
    return f"not within {seconds:.0f} s: {named or condition}"


def until_past(moment: float) -> None:
    """Wait until the clock has passed a moment, in seconds since 1970: where time itself is what a test is about."""
    while (left := moment - time.time()) >= 0:
        time.sleep(left + 0.001)


def pause(seconds: float) -> None:
    """Let time pass where nothing is waited for: a kill at any moment, a pace, a slow peer."""
    time.sleep(seconds)


def stand_still(pid: int) -> None:
    """SIGSTOP a process, and wait until it stands: a thread that waits for a processor can go on for a while."""
    os.kill(pid, signal.SIGSTOP)
    threads = Path(f"/proc/{pid}/task")
    until(lambda: all(stands(thread) for thread in threads.iterdir()), f"process {pid} stands still")


def stands(thread: Path) -> bool:
    """Whether a thread, a folder of /proc, is stopped; one that ended meanwhile is looked for again."""
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def readable(source: HasHandle | int, seconds: float) -> bool:
    """Whether something can be read there by then; of handles beyond 1,023, too, which `select.select` refuses."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
