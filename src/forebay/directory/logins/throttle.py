"""Guessing of passwords takes time: the wait gets longer with each wrong one.

Wrong logins are counted by user and address together, so that one device with an old password holds up nobody but
itself; and by address, and by user wherever it comes from, with a limit that only guessing on a large scale comes to.
Who has logged in from there lately is not held up by what others do there: a password that is known to be right passes,
and any other is looked at so many times a second. Only what went wrong lately is remembered, and of so many at most
that an attack costs no memory.
"""

from __future__ import annotations

from typing import Final

from forebay.core.units import US_PER_S

MINUTE_US: Final = 60 * US_PER_S
FORGET_US: Final = MINUTE_US  # without a failure, beyond the wait, makes up for all
REMEMBERED_MAX: Final = 10_000
LOOKS_PER_S: Final = 50  # at passwords that may be right, while their user has to wait at a place where it was right
Key = tuple[str, str]  # user and address, of which one may be empty: any


class Failures:
    """The failures of somebody, the time of the last one, and of the end of the wait."""

    def __init__(self, now_us: int) -> None:
        self.count = 0.0
        self.last_us = now_us
        self.until_us = 0


class Throttle:
    """Failed logins of one broker.

    free         failures of one user at one address without a wait; 0 lets everybody try for ever
    wait_max_us  the longest wait: it begins with a second, and doubles
    many         failures a minute of one address, or of one user from anywhere, without a wait
    trust_us     how long after a right login somebody is known at an address
    now_us       set by the server, several times a second
    put_off      logins that were refused unseen
    """

    def __init__(self, free: int, wait_max_us: int, many: int = 1000, trust_us: int = 24 * 60 * MINUTE_US) -> None:
        self.free = free
        self.wait_max_us = wait_max_us
        self.many = many
        self.trust_us = trust_us
        self.now_us = 0
        self.put_off = 0
        self.known: dict[Key, Failures] = {}
        self.trusted: dict[Key, int] = {}  # when they were right, the last at the end
        self._looks: dict[Key, Failures] = {}

    def wait_us(self, address: str, user: str = "") -> int:
        """The time that a login from there has to wait still; 0 for one that may be tried."""
        if not self.known:
            return 0
        own = self._left((user, address)) if user else 0
        if user and self.is_trusted(address, user):
            return own
        return max(own, self._left(("", address)), self._left((user, "")) if user else 0)

    def is_trusted(self, address: str, user: str) -> bool:
        """True if this user was right there lately."""
        at_us = self.trusted.get((user, address))
        return at_us is not None and self.now_us - at_us <= self.trust_us

    def may_look(self, address: str, user: str) -> bool:
        """True if the password may be looked at of somebody who has to wait, and was right there lately."""
        if not self.is_trusted(address, user):
            return False
        looks = self._looks.get((user, address))
        return looks is None or looks.count - (self.now_us - looks.last_us) * LOOKS_PER_S / US_PER_S < LOOKS_PER_S

    def looked(self, address: str, user: str) -> None:
        """Note that a password was tried that is not the right one."""
        if len(self._looks) >= REMEMBERED_MAX:
            self._looks.clear()
        looks = self._looks.setdefault((user, address), Failures(self.now_us))
        looks.count = max(0.0, looks.count - (self.now_us - looks.last_us) * LOOKS_PER_S / US_PER_S) + 1
        looks.last_us = self.now_us

    def failed(self, address: str, user: str) -> None:
        """A login was refused."""
        if self.free == 0:
            return
        if len(self.known) >= REMEMBERED_MAX:
            self._forget()
        self._count(("", address), self.many)
        if user:
            self._count((user, ""), self.many)
            self._count((user, address), self.free)

    def succeeded(self, address: str, user: str) -> None:
        """A login was right."""
        if self.free:
            self.trusted.pop((user, address), None)
            self.trusted[user, address] = self.now_us
            if len(self.trusted) > REMEMBERED_MAX:
                del self.trusted[next(iter(self.trusted))]

    def _left(self, key: Key) -> int:
        failures = self.known.get(key)
        return 0 if failures is None else max(0, failures.until_us - self.now_us)

    def _count(self, key: Key, free: int) -> None:
        now_us = self.now_us
        failures = self.known.setdefault(key, Failures(now_us))
        if now_us > failures.until_us + FORGET_US:
            failures.count = 0.0
        elif not all(key):  # of many: so many a minute are none
            failures.count = max(0.0, failures.count - (now_us - failures.last_us) * free / MINUTE_US)
        failures.count += 1
        failures.last_us = now_us
        wait_us = 0
        if failures.count > free:
            doublings = min(int(failures.count - free - 1), 32)
            wait_us = min(US_PER_S << doublings, self.wait_max_us)
        failures.until_us = now_us + wait_us

    def _forget(self) -> None:
        """Make room: those whose time is over go, and a tenth in any case, so that this is done seldom."""
        now_us = self.now_us
        left = [(key, each) for key, each in self.known.items() if now_us <= each.until_us + FORGET_US]
        self.known = dict(left[max(0, len(left) - REMEMBERED_MAX * 9 // 10) :])
