"""Errors of our own: each is logged with its traceback and counted, and some end the process (ADR 19).

node/fault_policy.py decides which.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from typing import Any, Final, NoReturn

from forebay.node.fault_policy import stops_broker
from forebay.node.ready import CONNECTION, STORAGE, Fault, Stop
from forebay.server.telemetry.logs import flush_log

EXIT_SOFTWARE: Final = 70  # EX_SOFTWARE
EXIT_STORAGE: Final = 74  # EX_IOERR
REQUEST: Final = "request"
CALLBACK: Final = "callback"
PLACES: Final = (CONNECTION, REQUEST, CALLBACK)

logger = logging.getLogger("forebay")


class Faults:
    """The errors of its own that the broker has made since its start.

    counts  by where: CONNECTION, REQUEST (over HTTP), CALLBACK
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(PLACES, 0))

    def note(self, place: str, what: str, error: BaseException) -> None:
        """Log an error and count it. Stop the process, without returning, if shared state may be half changed.

        what  ended by it, or was under way
        """
        if stops_broker(error):
            self.stop(error)
        self.count(Fault(place, what, error))

    def count(self, fault: Fault) -> None:
        """Log an error that has ended what it was found in, and count it."""
        self.counts[fault.place] += 1
        logger.error("an error of the broker's own ended %s", fault.what, exc_info=fault.error)

    def end(self, stop: Stop) -> None:
        """End the node and its process, for the reason that `stop` gives."""
        if stop.why == STORAGE:
            self.stop_storage(stop.error)
        else:
            self.stop(stop.error)

    def stop(self, error: BaseException) -> None:
        """End the process, as its state in memory can no longer be trusted."""
        logger.critical("the broker is wrong about its own state, and stops", exc_info=error)
        end_process(EXIT_SOFTWARE)

    def stop_storage(self, error: BaseException) -> None:
        """Log that the disk has failed, and end the process, so that nothing more is confirmed."""
        logger.critical("storage failed, nothing more is confirmed: %s", error)
        end_process(EXIT_STORAGE)

    def leave_disk(self, waited_ms: int) -> None:
        """End the process without closing the files, as a crash does: the disk has not answered for `waited_ms`."""
        logger.critical("the disk has not answered for drain_timeout_ms=%d: the files are left as they are", waited_ms)
        end_process(EXIT_STORAGE)

    def on_task_done(self, task: asyncio.Task[None]) -> None:
        """End the process if a task has failed whose work it cannot do without."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.stop(error)

    def on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log and count an error of a callback or task that nothing else has handled."""
        error = context.get("exception")
        message = str(context.get("message", "an error in the event loop"))
        if is_of_a_lost_protocol(message, error):
            logger.info("%s: its connection had ended", message)
        elif error is None or isinstance(error, OSError):  # of the network: nobody was wrong
            logger.warning("%s: %s", message, error)
        else:
            self.note(CALLBACK, f"a callback ({message})", error)


def end_process(code: int) -> NoReturn:
    """End the process at once, after its log lines are written."""
    flush_log()
    os._exit(code)


def is_of_a_lost_protocol(message: str, error: BaseException | None) -> bool:
    """Return whether the error is uvloop's call of a protocol that its TLS had let go of: the connection was over."""
    told = message.startswith(("protocol.pause_writing()", "protocol.resume_writing()"))
    return told and isinstance(error, AttributeError) and error.obj is None
