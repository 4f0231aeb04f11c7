"""Whoever guesses passwords has to wait: longer after each wrong one, by address and by user.

Only what went wrong lately is remembered, and of so many at most that an attack costs no memory.
"""

from __future__ import annotations

from typing import Final

SECOND_US: Final = 1_000_000
FORGET_US: Final = 60 * SECOND_US  # a minute without a failure, beyond the wait, makes up for all
REMEMBERED_MAX: Final = 10_000


class Failures:
    """How often somebody has failed, and until when they have to wait."""

    def __init__(self) -> None:
        self.count = 0
        self.until_us = 0


class Throttle:
    """Failed logins of one broker.

    free         failures without a wait; 0 lets everybody try for ever
    wait_max_us  the longest wait: it begins with a second, and doubles
    now_us       set by the server, several times a second
    """

    def __init__(self, free: int, wait_max_us: int) -> None:
        self.free = free
        self.wait_max_us = wait_max_us
        self.now_us = 0
        self.known: dict[str, Failures] = {}  # by `address ...` or `user ...`
        self.trusted: dict[tuple[str, str], None] = {}  # user and address of good logins: no guesses hold them up

    def wait_us(self, address: str, user: str = "") -> int:
        """How long a login from there has to wait still; 0 for one that may be tried."""
        if not self.known:
            return 0
        waits = [self._left(f"address {address}")]
        if user and (user, address) not in self.trusted:
            waits.append(self._left(f"user {user}"))
        return max(waits)

    def failed(self, address: str, user: str) -> None:
        """A login was refused."""
        if self.free == 0:
            return
        if len(self.known) >= REMEMBERED_MAX:
            self._forget()
        for key in (f"address {address}", f"user {user}" if user else ""):
            if key:
                self._count(key)

    def succeeded(self, address: str, user: str) -> None:
        """A login was right."""
        if self.free:
            self.trusted.pop((user, address), None)
            self.trusted[user, address] = None
            if len(self.trusted) > REMEMBERED_MAX:
                del self.trusted[next(iter(self.trusted))]

    def _left(self, key: str) -> int:
        failures = self.known.get(key)
        return 0 if failures is None else max(0, failures.until_us - self.now_us)

    def _count(self, key: str) -> None:
        failures = self.known.setdefault(key, Failures())
        if self.now_us > failures.until_us + FORGET_US:
            failures.count = 0
        failures.count += 1
        wait_us = 0
        if failures.count > self.free:
            doublings = min(failures.count - self.free - 1, 32)
            wait_us = min(SECOND_US << doublings, self.wait_max_us)
        failures.until_us = self.now_us + wait_us

    def _forget(self) -> None:
        """Make room: those whose time is over go, and a tenth in any case, so that this is done seldom."""
        now_us = self.now_us
        left = [(key, each) for key, each in self.known.items() if now_us <= each.until_us + FORGET_US]
        self.known = dict(left[max(0, len(left) - REMEMBERED_MAX * 9 // 10) :])
