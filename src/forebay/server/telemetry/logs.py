"""The log: lines for people, or objects for programs."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from typing import Final

from forebay.core.errors import OptionError
from forebay.core.options import Options

TEXT_FORMAT: Final = "%(asctime)s %(levelname)s %(message)s"
JSON: Final = "json"
CHATTY: Final = ("asyncio", "httpcore", "httpx", "uvicorn")  # libraries: of them only what went wrong
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


def start_log(options: Options) -> None:
    """Log from now on as the options say; OptionError where the file cannot be opened."""
    handler: logging.Handler
    if options.log_file:
        try:
            handler = WatchedFileHandler(options.log_file, encoding="utf-8")
        except OSError as error:
            raise OptionError(f"log_file: {options.log_file!r} cannot be opened: {error.strerror}") from None
    else:
        handler = logging.StreamHandler(sys.stderr)
    logging.basicConfig(handlers=[handler], force=True)
    change_log(options)


def change_log(options: Options) -> None:
    """Log from now on what the options say, and in their format, where it is logged already."""
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    root = logging.getLogger()
    root.setLevel(options.log_level.upper())
    for handler in root.handlers:
        handler.setFormatter(JsonFormatter() if options.log_format == JSON else logging.Formatter(TEXT_FORMAT))
