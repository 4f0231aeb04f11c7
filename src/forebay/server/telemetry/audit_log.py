"""The audit log: a file to which one line of JSON is added for each change, and nothing is ever taken away.

    {"time": "2026-02-07T09:30:00.123Z", "user": "ada", "address": "10.0.0.7", "protocol": "http",
     "what": "queue.delete", "arguments": {"vhost": "/", "queue": "orders"}, "result": "done"}

The file is opened anew for each turn's entries, so that it may be moved away while the broker runs. A thread writes it.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime

from forebay.broker.audit import DONE, AuditEntry
from forebay.core.errors import OptionError
from forebay.core.units import US_PER_S
from forebay.server.system.disk_work import Worker

MODE = 0o640
AMQP = "amqp"
logger = logging.getLogger("forebay")


class Lines:
    """The lines that the thread writes at one time."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    def run(self) -> None:
        with open(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, MODE), "a", encoding="utf-8") as file:
            file.write(self.text)


class AuditLog:
    """Writes entries to the file of the option `audit_log`, or to the broker's log where that is empty.

    raises  OptionError: the file cannot be written
    """

    def __init__(self, path: str, hand_back: Callable[..., object]) -> None:
        self.path = path
        self.worker = Worker("audit", self.written, hand_back) if path else None
        if path:
            try:
                Lines(path, "").run()
            except OSError as error:
                raise OptionError(f"audit_log: {path!r} cannot be written: {error.strerror}") from None

    def write(self, entries: list[AuditEntry], now_us: int) -> None:
        """Write a line for each entry. What ordinary clients declare goes to the file alone: it would fill the log."""
        if self.worker is not None:
            self.worker.put(Lines(self.path, "".join(f"{line(each, now_us)}\n" for each in entries)))
            return
        for each in entries:
            if each.protocol != AMQP or each.result != DONE:
                logger.info("audit %s", line(each, now_us))

    def written(self, lines: Lines, error: BaseException | None) -> None:
        """Log entries that could not be written to the audit file, so that they are not lost."""
        if error is not None:
            logger.error("audit_log: %s cannot be written: %s: %s", self.path, error, lines.text)

    def stop(self) -> None:
        """Wait until all entries are written."""
        if self.worker is not None:
            self.worker.stop()


def line(entry: AuditEntry, now_us: int) -> str:
    """Write an audit entry as JSON, without characters that could be taken for another line."""
    moment = datetime.fromtimestamp(now_us / US_PER_S, UTC).isoformat(timespec="milliseconds")
    fields = {
        "time": moment.replace("+00:00", "Z"),
        "user": entry.user,
        "address": entry.address,
        "protocol": entry.protocol,
        "what": entry.what,
        "arguments": entry.arguments,
        "result": entry.result,
    }
    return json.dumps(fields)
