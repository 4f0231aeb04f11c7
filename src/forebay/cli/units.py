"""Sizes, times and rates as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from forebay.core.units import US_PER_S

UNITS: Final = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
PERIODS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
OUT: Final = ("delivered", "delivered_settled", "got", "got_settled")

Counts = Mapping[str, int]


def octets_said(octets: int) -> str:
    """Return a size in its largest unit, such as "4.0 KiB"."""
    for size, unit in UNITS:
        if octets >= size:
            return f"{octets / size:.1f} {unit}"
    return f"{octets} B"


def period_said(seconds: float) -> str:
    """Return a period in its largest unit and the next, such as "3 h 5 min"."""
    left = int(seconds)
    for at, (size, unit) in enumerate(PERIODS):
        if left >= size:
            rest = left % size
            more = f" {rest // PERIODS[at + 1][0]} {PERIODS[at + 1][1]}" if at + 1 < len(PERIODS) and rest else ""
            return f"{left // size} {unit}{more}" if not more.startswith(" 0 ") else f"{left // size} {unit}"
    return "0 s"


def messages(count: int, one: str = "", many: str = "") -> str:
    """Return a count of messages with the verb that agrees, such as "1 message is" or "2 messages are"."""
    return f"1 message {one}".strip() if count == 1 else f"{count:,} messages {many}".strip()


def objects(count: int, many: str) -> str:
    """Return a count with its noun, such as "1 policy" or "2 policies". `many` is the plural."""
    one = f"{many[:-3]}y" if many.endswith("ies") else many.removesuffix("s")
    return f"1 {one}" if count == 1 else f"{count:,} {many}"


def rate_said(rate: float) -> str:
    """Return a rate, such as "1,234/s"."""
    return f"{rate:,.0f}/s" if rate >= 10 or rate == 0 else f"{rate:.1f}/s"


def rates(before: dict[str, Any], after: dict[str, Any], seconds: float) -> dict[str, float]:
    """Return the messages a second between two answers that have `counts`: in, out and acknowledged."""
    if seconds <= 0:
        return {"in": 0.0, "out": 0.0, "acked": 0.0}
    first, last = flows(before["counts"]), flows(after["counts"])
    return {name: round(max(last[name] - first[name], 0) / seconds, 1) for name in first}


def flows(counts: Counts) -> dict[str, int]:
    return {"in": counts["published"], "out": sum(counts[name] for name in OUT), "acked": counts["acked"]}


def seconds_between(before: dict[str, Any], after: dict[str, Any]) -> float:
    """Return the seconds between two answers, by the broker's clock."""
    passed: int = after["time_us"] - before["time_us"]
    return passed / US_PER_S
