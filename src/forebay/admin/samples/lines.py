"""The lines of charts: the samples that were taken, ten minutes of them or a day, as the page draws them."""

from __future__ import annotations

from typing import Final

from forebay.admin.samples.rates import SAMPLE_S
from forebay.admin.samples.samples import SLOW_MS, UNKNOWN, Fields, Numbers, Samples, Series

FAST_S_MAX: Final = 600
DAY_S: Final = 86_400
GAP: Final = 2.5  # steps without a sample: the broker was not there

Row = tuple[int, Numbers | None]


def lines(samples: Samples, known: list[tuple[Series | None, Fields]], age_s: int, after_ms: int) -> dict[str, object]:
    """The samples of the last `age_s` seconds as `..._details`, each the newest first, only those after a time.

    Up to ten minutes there is one every five seconds, else one every five minutes and the newest. A sample is None
    where there was nothing to measure, and once in a gap.
    """
    is_fast = age_s <= FAST_S_MAX
    answer: dict[str, object] = {"step_s": SAMPLE_S if is_fast else SLOW_MS // 1000}
    for series, fields in known:
        rows = [] if series is None or not series.numbers else rows_of(samples, series, is_fast)
        first_ms = max(after_ms + 1, rows[-1][0] - age_s * 1000) if rows else 0
        chosen = [row for row in reversed(rows) if row[0] >= first_ms]
        for index, name in enumerate(fields.details):
            grows = fields.grows(index)
            answer[name] = {"samples": [{"sample": value(row, index, grows), "timestamp": row[0]} for row in chosen]}
    return answer


def value(row: Row, index: int, grows: bool) -> int | None:
    """One number of a row; a counter may be below zero, a gauge that is so was not known."""
    found = None if row[1] is None else row[1][index]
    return None if found == UNKNOWN and not grows else found


def rows_of(samples: Samples, series: Series, is_fast: bool) -> list[Row]:
    """The samples of one object with their times, the oldest first, with a row of nothing in each gap."""
    count = len(series.numbers)
    rounds: list[Row] = [(samples.time_of(series, count - 1 - at), each) for at, each in enumerate(series.numbers)]
    if is_fast:
        return with_gaps(rounds, SAMPLE_S * 1000)
    width = len(series.numbers[-1]) + 1
    slow: list[Row] = [(series.slow[at], series.slow[at + 1 : at + width]) for at in range(0, len(series.slow), width)]
    if not slow or slow[-1][0] < rounds[-1][0]:
        slow.append(rounds[-1])
    return with_gaps(slow, SLOW_MS)


def with_gaps(rows: list[Row], step_ms: int) -> list[Row]:
    found: list[Row] = []
    for row in rows:
        if found and row[0] - found[-1][0] > GAP * step_ms:
            found.append((found[-1][0] + step_ms, None))
        found.append(row)
    return found
