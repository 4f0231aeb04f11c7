"""The amount that one connection may publish in one turn: less while readers wait for turns.

A reader with a small window is given a window's worth a turn. A turn that first takes in all that publishers have sent
would serve it rarely, so turns are short while one is served for which more waits. Nothing is counted, and nobody is
slowed down, while readers keep up.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

MESSAGES_MIN: Final = 64
WINDOWS_SHIFT: Final = 2  # publishers bring in up to four windows at once: a wide one needs no short turns
UNLIMITED: Final = 1 << 40
SHORT_US: Final = 10_000  # turns are short for so long after a reader was served: its answer is on its way


@final
class Pace:
    """The pace of all vhosts together.

    messages  that a connection may publish in a turn
    window    the smallest of the readers that were served in this turn and for which more waits; 0 for none
    until_us  turns are short until then; 0 while they are not
    """

    def __init__(self) -> None:
        self.messages: i64 = UNLIMITED
        self.window: i64 = 0
        self.until_us: i64 = 0

    def note(self, window: i64) -> None:
        """A reader has got what fits its window, and more waits for it."""
        if window > 0 and (self.window == 0 or window < self.window):
            self.window = window

    def end_turn(self, now_us: i64) -> None:
        """Have what was noted hold for the next turns; called where something was noted, or turns are short."""
        if self.window:
            self.messages = max(i64(MESSAGES_MIN), self.window << WINDOWS_SHIFT)
            self.until_us = now_us + SHORT_US
            self.window = 0
        elif now_us >= self.until_us:
            self.messages = UNLIMITED
            self.until_us = 0
