"""Factors between units of time. Times are in microseconds, names of options say theirs."""

from __future__ import annotations

from typing import Final

US_PER_MS: Final = 1000
US_PER_S: Final = 1_000_000
MS_PER_S: Final = 1000
S_PER_US: Final = 1e-6
