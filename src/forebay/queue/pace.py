"""Limits how much one connection may publish in a turn: less while readers wait for turns.

A reader with a small window gets one window per turn. If turns first took in all that publishers have sent, the reader
would be served rarely. Turns are therefore short while a served reader has more to read. While readers keep up, nothing
is counted and no publisher is slowed down.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

MESSAGES_MIN: Final = 64
WINDOWS_SHIFT: Final = 2  # publishers may send up to 2 ** WINDOWS_SHIFT windows in a turn
UNLIMITED: Final = 1 << 40
SHORT_US: Final = 10_000  # turns stay short for so long after a reader was served, as its acknowledgement is on its way


@final
class Pace:
    """The publishing limit of all vhosts together.

    messages  messages that a connection may publish in a turn
    window    the smallest window of the readers that were served in this turn and have more to read; 0 for none
    until_us  time until which turns are short; 0 while they are not
    """

    def __init__(self) -> None:
        self.messages: i64 = UNLIMITED
        self.window: i64 = 0
        self.until_us: i64 = 0

    def note(self, window: i64) -> None:
        """Record that a reader got a full window, and has more to read."""
        if window > 0 and (self.window == 0 or window < self.window):
            self.window = window

    def end_turn(self, now_us: i64) -> None:
        """Apply the windows noted in this turn to the next turns. Call if a window was noted, or turns are short."""
        if self.window:
            self.messages = max(i64(MESSAGES_MIN), self.window << WINDOWS_SHIFT)
            self.until_us = now_us + SHORT_US
            self.window = 0
        elif now_us >= self.until_us:
            self.messages = UNLIMITED
            self.until_us = 0
