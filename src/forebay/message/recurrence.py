"""The times of recurring messages: cron expressions in a time zone.

A recurrence is stored as the expression, a zero byte, and the name of the zone.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from mypy_extensions import i64

from forebay.core.errors import PRECONDITION, RequestError
from forebay.core.units import US_PER_S

EXPRESSION_OCTETS_MAX: Final = 128
FIELDS: Final = 5
ZONE_DEFAULT: Final = "UTC"


def recurrence_of(expression: object, zone: object, id: bytes, names: tuple[str, str, str]) -> bytes:
    """Return an encoded recurrence. Raises RequestError(PRECONDITION) that names the wrong value.

    expression  five fields of cron: minute, hour, day of the month, month, day of the week
    zone        name of a time zone, such as Europe/Berlin; None for UTC
    id          by which the message can be cancelled; required
    names       of the protocol's fields for these three values, for errors
    """
    from cronsim import CronSim, CronSimError  # noqa: PLC0415  Spark's workers read messages, and do not have it

    expression_name, zone_name, id_name = names
    text = text_of(expression)
    if text is None or len(text) > EXPRESSION_OCTETS_MAX or len(text.split()) != FIELDS:
        raise RequestError(
            PRECONDITION, f"{expression_name}: {expression!r:.200} is no cron expression of {FIELDS} fields"
        )
    where = ZONE_DEFAULT if zone is None else text_of(zone)
    try:
        clock = ZoneInfo(where or "")
    except (ValueError, OSError, KeyError):
        raise RequestError(PRECONDITION, f"{zone_name}: {zone!r:.200} is no time zone, such as Europe/Berlin") from None
    try:
        CronSim(text, datetime.fromtimestamp(0, clock))
    except CronSimError as error:
        raise RequestError(PRECONDITION, f"{expression_name}: {text!r} is no cron expression: {error}") from None
    if not id:
        raise RequestError(PRECONDITION, f"{id_name}: missing; a message that recurs has a name to be cancelled by")
    return f"{text}\0{where}".encode()


def text_of(value: object) -> str | None:
    """Return a value that is text as str, or None for another type."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None


def next_time_us(recurrence: bytes, after_us: i64) -> i64:
    """Return the first time of a recurrence after `after_us`, in microseconds since 1970."""
    from cronsim import CronSim  # noqa: PLC0415  as above

    expression, zone = recurrence.decode().split("\0")
    after = datetime.fromtimestamp(int(after_us // US_PER_S), UTC).astimezone(ZoneInfo(zone))
    return i64(int(next(CronSim(expression, after)).timestamp())) * US_PER_S
