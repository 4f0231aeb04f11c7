"""Times of messages that recur: what is a recurrence, and when its next time is, over changes of the clock too."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from forebay.core.errors import RequestError
from forebay.message.recurrence import next_time_us, recurrence_of

NAMES = ("cron", "time-zone", "delay-id")


def after(recurrence: bytes, zone: str, text: str) -> str:
    """Return the next time behind a time of the zone, as text."""
    start = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))
    found = next_time_us(recurrence, int(start.timestamp() * 1_000_000))
    return datetime.fromtimestamp(found / 1_000_000, ZoneInfo(zone)).isoformat()


@pytest.mark.parametrize(
    ("expression", "zone", "now", "wanted"),
    [
        ("0 18 * * 1-5", "Europe/Berlin", "2026-11-27T17:59:59", "2026-11-27T18:00:00+01:00"),
        ("0 18 * * 1-5", "Europe/Berlin", "2026-11-27T18:00:00", "2026-11-30T18:00:00+01:00"),
        ("*/15 * * * *", "UTC", "2026-11-27T18:00:01", "2026-11-27T18:15:00+00:00"),
        ("0 12 * * *", "Europe/Berlin", "2026-10-24T13:00:00", "2026-10-25T12:00:00+01:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T03:00:00", "2026-03-29T03:00:00+02:00"),
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00:00", "2028-02-29T00:00:00+00:00"),
    ],
)
def test_the_next_time_goes_by_the_clock_of_the_zone(expression: str, zone: str, now: str, wanted: str) -> None:
    assert after(recurrence_of(expression, zone, b"id", NAMES), zone, now) == wanted


@pytest.mark.parametrize(
    ("expression", "zone", "id", "fault"),
    [
        ("0 18 * *", None, b"id", r"cron: '0 18 \* \*' is no cron expression of 5 fields"),
        (None, None, b"id", "cron: None is no cron expression"),
        (5, None, b"id", "cron: 5 is no cron expression"),
        ("0 25 * * *", None, b"id", r"cron: '0 25 \* \* \*' is no cron expression: Bad hour"),
        ("0 0 30 2 *", None, b"id", "cron: .* Bad day-of-month"),
        ("* " * 100, None, b"id", "cron: "),
        ("0 18 * * *", "Mars/Olympus", b"id", "time-zone: 'Mars/Olympus' is no time zone"),
        ("0 18 * * *", "../../etc/passwd", b"id", "time-zone: "),
        ("0 18 * * *", "a\0b", b"id", "time-zone: "),
        ("0 18 * * *", "x" * 5000, b"id", "time-zone: "),
        ("0 18 * * *", None, b"", "delay-id: missing"),
    ],
)
def test_what_is_no_recurrence_is_refused_by_name(expression: object, zone: object, id: bytes, fault: str) -> None:
    with pytest.raises(RequestError, match=fault):
        recurrence_of(expression, zone, id, NAMES)
