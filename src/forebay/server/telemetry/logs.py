"""The log: lines for people, or objects for programs."""

from __future__ import annotations

import json
import logging
import sys
import threading
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from queue import SimpleQueue
from typing import Final

from forebay.core.errors import OptionError
from forebay.core.options import Options

TEXT_FORMAT: Final = "%(asctime)s %(levelname)s %(message)s"
JSON: Final = "json"
LINES_MAX: Final = 10_000
FLUSH_S: Final = 2.0
CHATTY: Final = ("asyncio", "httpcore", "httpx")  # libraries: of them only what went wrong
# Fields of a log line beside its message: `logger.info(..., extra={"user": ...})`.
FIELDS: Final = ("event", "vhost", "connection", "peer", "user", "data")


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and those of FIELDS that are known."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update({name: getattr(record, name) for name in FIELDS if hasattr(record, name)})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class ThreadHandler(logging.Handler):
    """Has another handler write, on a thread of its own: the folder of a log may hang, and nobody waits for it.

    As many lines as LINES_MAX wait for it; what comes then is not written, but counted, and the log says so afterwards.
    `flush` waits until all is written, for FLUSH_S at most.
    """

    def __init__(self, writer: logging.Handler) -> None:
        super().__init__()
        self.writer = writer
        self.lines: SimpleQueue[logging.LogRecord | threading.Event] = SimpleQueue()
        self.left_out = 0
        self.thread: threading.Thread | None = None

    def setFormatter(self, fmt: logging.Formatter | None) -> None:  # noqa: N802  logging's own name
        self.writer.setFormatter(fmt)

    def emit(self, record: logging.LogRecord) -> None:
        """Format a record, and hand it to the thread."""
        if self.lines.qsize() >= LINES_MAX:
            self.left_out += 1
            return
        record.msg, record.args = record.getMessage(), None
        self.hand_on(record)

    def hand_on(self, what: logging.LogRecord | threading.Event) -> None:
        self.lines.put(what)
        if self.thread is None:
            self.thread = threading.Thread(target=self.run, name="forebay-log", daemon=True)
            self.thread.start()

    def run(self) -> None:
        while True:
            what = self.lines.get()
            if isinstance(what, threading.Event):
                what.set()
                continue
            self.writer.handle(what)
            if self.left_out and self.lines.empty():
                left_out, self.left_out = self.left_out, 0
                words = f"log: {left_out} lines are left out: they were more than could wait for the log"
                self.writer.handle(logging.LogRecord("forebay", logging.ERROR, __file__, 0, words, None, None))

    def flush(self) -> None:
        """Wait until all lines are written, for FLUSH_S at most."""
        if self.thread is not None and threading.current_thread() is not self.thread:
            written = threading.Event()
            self.hand_on(written)
            written.wait(FLUSH_S)


def flush_log() -> None:
    """Wait until all lines of the log are written, unless the log's folder hangs."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def start_log(options: Options) -> None:
    """Start the log as the options say. Raises OptionError if its file cannot be opened."""
    handler: logging.Handler
    if options.log_file:
        try:
            handler = WatchedFileHandler(options.log_file, encoding="utf-8")
        except OSError as error:
            raise OptionError(f"log_file: {options.log_file!r} cannot be opened: {error.strerror}") from None
    else:
        handler = logging.StreamHandler(sys.stderr)
    logging.basicConfig(handlers=[ThreadHandler(handler)], force=True)
    change_log(options)


def change_log(options: Options) -> None:
    """Apply level and format of the options to a log that has started."""
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    root = logging.getLogger()
    root.setLevel(options.log_level.upper())
    for handler in root.handlers:
        handler.setFormatter(JsonFormatter() if options.log_format == JSON else logging.Formatter(TEXT_FORMAT))
