"""Times as texts: what STRFTIME writes and STRPTIME reads, in UTC and without anybody's language.

Directives are those of strftime(3) that mean the same everywhere: %Y %m %d %H %M %S, %f (microseconds), %j (day of the
year), %u (day of the week, 1 is Monday), %F (%Y-%m-%d), %T (%H:%M:%S), %z (offset from UTC), %%.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from forebay.core.units import US_PER_S

FORMAT_CHARACTERS_MAX: Final = 256
SECONDS_MAX: Final = 253_402_300_800.0  # the year 10,000
DIGITS: Final = "0123456789"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# The most digits that each takes when a text is read.
WIDTHS: Final = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2, "f": 6}
SHORT: Final = {"F": ["%Y", "-", "%m", "-", "%d"], "T": ["%H", ":", "%M", ":", "%S"]}


def pieces_of(format: str) -> list[str]:
    """Cut a format into characters and directives, and spell out the short ones."""
    pieces: list[str] = []
    at = 0
    while at < len(format):
        if format[at] != "%":
            pieces.append(format[at])
            at += 1
            continue
        name = format[at + 1 : at + 2]
        pieces += SHORT.get(name, ["%" + name])
        at += 2
    return pieces


def unknown_directive(format: str, reading: bool) -> str:
    """Return the first directive of a format that is not supported, or "" if all are."""
    for piece in pieces_of(format):
        if piece[0] == "%":
            known = piece in ("%z", "%%") or piece[1:] in WIDTHS or (not reading and piece in ("%j", "%u"))
            if not known:
                return piece
    return ""


def written_time(format: str, seconds: float) -> str | None:
    """Format a time. Returns None if the time or the format is not valid."""
    if len(format) > FORMAT_CHARACTERS_MAX or not -SECONDS_MAX < seconds < SECONDS_MAX:
        return None
    try:
        time = EPOCH + timedelta(microseconds=round(seconds * US_PER_S))
    except OverflowError:
        return None
    written: list[str] = []
    for piece in pieces_of(format):
        part = part_written(piece, time) if piece[0] == "%" else piece
        if part is None:
            return None
        written.append(part)
    return "".join(written) or None


def part_written(piece: str, time: datetime) -> str | None:
    if piece == "%Y":
        return f"{time.year:04d}"
    if piece == "%m":
        return f"{time.month:02d}"
    if piece == "%d":
        return f"{time.day:02d}"
    if piece == "%H":
        return f"{time.hour:02d}"
    if piece == "%M":
        return f"{time.minute:02d}"
    if piece == "%S":
        return f"{time.second:02d}"
    if piece == "%f":
        return f"{time.microsecond:06d}"
    if piece == "%j":
        return f"{time.toordinal() - datetime(time.year, 1, 1, tzinfo=UTC).toordinal() + 1:03d}"
    if piece == "%u":
        return str(time.isoweekday())
    if piece == "%z":
        return "+0000"
    return "%" if piece == "%%" else None


def read_time(text: str, format: str) -> object:
    """Seconds since 1970 that a text in this form says; None where it says none. What it leaves out is that of 1970."""
    if len(format) > FORMAT_CHARACTERS_MAX:
        return None
    found = {"Y": 1970, "m": 1, "d": 1, "H": 0, "M": 0, "S": 0, "f": 0}
    minutes_east = 0
    at = 0
    for piece in pieces_of(format):
        name = piece[1:]
        if name in WIDTHS:
            end = digits_end(text, at, WIDTHS[name])
            if end == at:
                return None
            found[name] = int(text[at:end]) * (10 ** (6 - (end - at)) if name == "f" else 1)
            at = end
        elif piece == "%z":
            end = offset_end(text, at)
            if end < 0:
                return None
            minutes_east = minutes_of(text[at:end])
            at = end
        elif piece in ("%%", text[at : at + 1]):
            if text[at : at + 1] != piece[0]:
                return None
            at += 1
        else:
            return None
    return seconds_of(found, minutes_east) if at == len(text) else None


def digits_end(text: str, at: int, most: int) -> int:
    end = at
    while end < len(text) and end < at + most and text[end] in DIGITS:
        end += 1
    return end


def offset_end(text: str, at: int) -> int:
    """Return the position behind a UTC offset (`Z`, `+01`, `+0100` or `+01:00`), or -1 if there is none at `at`."""
    sign = text[at : at + 1]
    if sign == "Z":
        return at + 1
    hours_end = digits_end(text, at + 1, 2)
    if sign not in ("+", "-") or hours_end != at + 3:
        return -1
    minutes_at = hours_end + 1 if text[hours_end : hours_end + 1] == ":" else hours_end
    end = digits_end(text, minutes_at, 2)
    return end if end == minutes_at + 2 else hours_end


def minutes_of(offset: str) -> int:
    """Minutes east of Greenwich."""
    if offset == "Z":
        return 0
    minutes = int(offset[1:3]) * 60 + int(offset[3:].lstrip(":") or "0")
    return -minutes if offset[0] == "-" else minutes


def seconds_of(found: dict[str, int], minutes_east: int) -> object:
    try:
        time = datetime(found["Y"], found["m"], found["d"], found["H"], found["M"], found["S"], found["f"], tzinfo=UTC)
    except ValueError:
        return None
    since = time - EPOCH
    seconds = since.days * 86_400 + since.seconds - minutes_east * 60
    return seconds + since.microseconds / US_PER_S if since.microseconds else seconds
