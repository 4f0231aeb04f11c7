"""What a consumer may ask for beside the queue: its group, where to start in a stream, who commits."""

from __future__ import annotations

from mypy_extensions import i64

from forebay.core.errors import INVALID, RequestError
from forebay.queue.queue import Queue


def group_name(arguments: dict[str, object]) -> bytes:
    """`x-consumer-group`: the name of the group, or nothing."""
    name = arguments.get("x-consumer-group", "")
    if isinstance(name, bytes):
        name = name.decode("utf-8", "replace")
    if not isinstance(name, str) or len(name) > 255 or "\0" in name or "@" in name:
        raise RequestError(INVALID, f"x-consumer-group: {name!r} is not a name of at most 255 characters without '@'")
    return name.encode()


def auto_commit(arguments: dict[str, object]) -> bool:
    """`x-auto-commit`: whether a stream group commits by itself what was acknowledged."""
    value = arguments.get("x-auto-commit", True)
    if not isinstance(value, bool):
        raise RequestError(INVALID, f"x-auto-commit: {value!r} is neither true nor false")
    return value


def stream_start(queue: Queue, start: object) -> i64:
    """The offset that `x-stream-offset` means, for a group that has none yet."""
    log = queue.log
    if isinstance(start, bytes):
        start = start.decode("utf-8", "replace")
    if start is None or start == "next":
        return log.end
    if start in {"first", "resume"}:
        return log.start
    if start == "last":
        return log.end - 1 if log.end > log.start else log.end
    if isinstance(start, str) and start.startswith("timestamp="):
        return log.offset_at(number_of(start, start[10:]) * 1000)
    if isinstance(start, str) and start.startswith("offset="):
        start = number_of(start, start[7:])
    elif isinstance(start, str) and start.isdigit():
        start = number_of(start, start)
    if isinstance(start, bool) or not isinstance(start, int) or start < 0 or start >= 1 << 62:
        raise RequestError(
            INVALID,
            f"x-stream-offset: {start!r} is none of first, last, next, resume, a number, offset=N, timestamp=ms",
        )
    offset: i64 = start
    if offset < log.start:
        return log.start
    return min(log.end, offset)


def number_of(whole: str, digits: str) -> int:
    if digits.isascii() and digits.isdigit() and len(digits) < 17:
        return int(digits)
    raise RequestError(INVALID, f"x-stream-offset: {whole!r} has no number")
