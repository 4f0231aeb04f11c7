"""Errors of our own: which of them end one connection, and which the broker (ADR 19).

Each is logged with its traceback and counted. What is half done in that which all connections share would be made
durable by this turn's frame, so an error there stops the process before the frame is written; the next start reads what
is on the disk. Where an error was is known by its traceback, which costs nothing until there is one.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from types import TracebackType
from typing import Any, Final

from forebay.core.errors import ForebayError, StorageError

EXIT_SOFTWARE: Final = 70  # EX_SOFTWARE
EXIT_STORAGE: Final = 74  # EX_IOERR
CONNECTION: Final = "connection"
REQUEST: Final = "request"
CALLBACK: Final = "callback"
PLACES: Final = (CONNECTION, REQUEST, CALLBACK)

# The log, and what vhosts and their queues are made of.
SHARED: Final = ("forebay.broker.", "forebay.queue.", "forebay.log.")
# What reads, checks or translates, and changes nothing itself: where its caller changes something, that is in the
# traceback as well.
APART: Final = (
    "forebay.broker.address",
    "forebay.broker.arguments",
    "forebay.broker.audit",
    "forebay.broker.auth",
    "forebay.broker.control.",
    "forebay.broker.explain.",
    "forebay.broker.facts",
    "forebay.broker.judge",
    "forebay.broker.passwords",
    "forebay.broker.permissions",
    "forebay.broker.primary",
    "forebay.broker.saslprep",
    "forebay.broker.scopes",
    "forebay.broker.scram",
    "forebay.broker.session_facts",
    "forebay.broker.throttle",
    "forebay.broker.topic_acl",
    "forebay.log.block",
    "forebay.queue.arguments",
    "forebay.queue.facts",
    "forebay.queue.spec",
)
APART_STEPS: Final = (
    ("forebay.broker.deduplication", "identity_of"),
    ("forebay.broker.special", "check_message"),
    ("forebay.broker.special", "read_special"),
)
# Steps of sessions that belong together: half of one must not become durable.
WHOLE: Final = (
    ("forebay.session.amqp091_modes", "on_tx_commit"),
    ("forebay.session.mqtt_publish", "release"),
    ("forebay.session.mqtt_publish", "remember"),
    ("forebay.session.mqtt_publish", "write_answer"),
)
logger = logging.getLogger("forebay")


def leaves_doubt(error: BaseException) -> bool:
    """Whether what all connections share may be half changed."""
    if isinstance(error, ForebayError) and not isinstance(error, StorageError):
        return False  # a refusal that nobody has answered: nothing changed
    at: TracebackType | None = error.__traceback__
    while at is not None:
        frame = at.tb_frame
        if is_shared(str(frame.f_globals.get("__name__")), frame.f_code.co_name):
            return True
        at = at.tb_next
    return False


def is_shared(module: str, step: str) -> bool:
    """Whether an error in this function may leave something of all connections half changed."""
    if not module.startswith(SHARED):
        return (module, step) in WHOLE
    for name in APART:
        if module == name or (name.endswith(".") and module.startswith(name)):
            return False
    return (module, step) not in APART_STEPS


class Faults:
    """What the broker has been wrong about since its start.

    counts  by where: CONNECTION, REQUEST (over HTTP), CALLBACK
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(PLACES, 0))

    def note(self, place: str, what: str, error: BaseException) -> None:
        """Log an error and count it; does not come back where it leaves a doubt about what all connections share.

        what  ended by it, or was under way
        """
        if leaves_doubt(error):
            self.stop(error)
        self.counts[place] += 1
        logger.error("an error of the broker's own ended %s", what, exc_info=error)

    def stop(self, error: BaseException) -> None:
        """What is in memory proves nothing any more."""
        logger.critical("the broker is wrong about its own state, and stops", exc_info=error)
        os._exit(EXIT_SOFTWARE)

    def stop_storage(self, error: BaseException) -> None:
        """The disk failed: confirm nothing more, say so, stop."""
        logger.critical("storage failed, nothing more is confirmed: %s", error)
        os._exit(EXIT_STORAGE)

    def on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What a callback or a task has raised, and nobody has taken."""
        error = context.get("exception")
        message = str(context.get("message", "an error in the event loop"))
        if error is None or isinstance(error, OSError):  # of the network: nobody was wrong
            logger.warning("%s: %s", message, error)
        else:
            self.note(CALLBACK, f"a callback ({message})", error)
