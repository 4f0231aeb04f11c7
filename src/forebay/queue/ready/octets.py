"""The bytes of the ready records, for a limit on them."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.queue.log_reader import LogReader


@final
class ReadyOctets:
    """The number of bytes of the bodies of ready records, for a limit on them.

    measuring  the bytes of the records below `measured` are counted
    """

    def __init__(self) -> None:
        self.measuring = False
        self.measured: i64 = 0
        self.count: i64 = 0

    def begin(self, reader: LogReader, cursor: i64, runs: list[tuple[int, int]]) -> None:
        """Count the ready records below the cursor, and keep counting.

        runs  (first, count) of the ready records
        """
        self.measuring = True
        self.measured = cursor
        self.count = 0
        for first, count in runs:
            self.count += reader.body_octets(first, first + count)

    def measure_to(self, reader: LogReader, end: i64) -> None:
        """Count the records up to the end of the log, too."""
        if self.measured < end:
            self.count += reader.body_octets(self.measured, end)
            self.measured = end
