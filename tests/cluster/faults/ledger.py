"""The account of what publishers sent and consumers got, held against what a confirm means.

A line is one publisher and one place that its messages go to. Each send is a message of its own, with a number that no
other has: what was not confirmed is not sent again, and may be there or not.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left

LOST = "lost"
DUPLICATED = "duplicated"
DISORDERED = "out of order"
CHANGED = "changed"  # an offset has another meaning
HALF = "half"  # of a transaction
STUCK = "stuck"  # the cluster did not become whole again
LATE = "late"  # it did, or a message came, but after more than the time that is given
TRACEBACK = "traceback"  # in the log of a node
KINDS = (LOST, DUPLICATED, DISORDERED, CHANGED, HALF, STUCK, LATE, TRACEBACK)


class Findings:
    """Everything that must not be, by its kind."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.found: list[tuple[str, str]] = []

    def add(self, kind: str, text: str) -> None:
        with self.lock:
            self.found.append((kind, text))

    def take(self) -> list[tuple[str, str]]:
        """All since this was called last."""
        with self.lock:
            found, self.found = self.found, []
            return found


class Line:
    """One publisher's sends to one place.

    sent_at       by number, seconds
    connection    by number: on which of its connections it went
    confirmed_at  by number; 0 where there was no confirm
    seen          by number: how many times a consumer got it
    settled       by number: a consumer's settlement of it was answered
    """

    def __init__(self, name: str, findings: Findings) -> None:
        self.name = name
        self.findings = findings
        self.lock = threading.Lock()
        self.sent_at: list[float] = []
        self.connection: list[int] = []
        self.confirmed_at: list[float] = []
        self.seen: list[int] = []
        self.settled: list[bool] = []
        self.connections = 0

    # ---- from the publisher

    def connect(self) -> int:
        """A new connection has been made; its number."""
        with self.lock:
            self.connections += 1
            return self.connections

    def send(self, connection: int) -> int:
        """A message is about to be sent; its number."""
        with self.lock:
            self.sent_at.append(time.monotonic())
            self.connection.append(connection)
            self.confirmed_at.append(0.0)
            self.seen.append(0)
            self.settled.append(False)
            return len(self.sent_at) - 1

    def confirm(self, number: int) -> None:
        with self.lock:
            self.confirmed_at[number] = time.monotonic()

    # ---- from the consumer

    def see(self, number: int) -> int:
        """A consumer has got this; how many times that was so."""
        with self.lock:
            if self.settled[number]:
                self.findings.add(DUPLICATED, f"{self.name}: {number} came again though its settlement was answered")
            self.seen[number] += 1
            return self.seen[number]

    def settle(self, numbers: list[int]) -> None:
        """The settlement of these was answered."""
        with self.lock:
            for number in numbers:
                self.settled[number] = True

    def disordered(self, number: int, most: int, why: str) -> None:
        """What came after a later one is wrong if one connection sent both, or if it was confirmed: before the other
        was sent, then."""
        with self.lock:
            if self.connection[number] == self.connection[most] or self.confirmed_at[number]:
                self.findings.add(DISORDERED, f"{self.name}: {number} came after {most}{why}")

    # ---- checks

    def confirmed(self) -> list[int]:
        """All numbers that are confirmed by now."""
        with self.lock:
            return [number for number, at in enumerate(self.confirmed_at) if at]

    def missing(self, numbers: list[int]) -> list[int]:
        """Which of these nobody has got."""
        with self.lock:
            return [number for number in numbers if not self.seen[number]]

    def has_all(self, numbers: list[int]) -> bool:
        """Somebody has got each of these."""
        return not self.missing(numbers)

    def told_missing(self, numbers: list[int]) -> str:
        """The same for people."""
        missing = self.missing(numbers)
        return f"{self.name}: {len(missing)}, the first {missing[:10]}"

    def first_confirm(self, since: float) -> float:
        """When the first message that was sent after that moment was confirmed; 0: not yet."""
        with self.lock:
            begin = bisect_left(self.sent_at, since)
            return min([at for at in self.confirmed_at[begin:] if at], default=0.0)

    def confirms_since(self, since: float) -> list[float]:
        """When confirms came since that moment."""
        with self.lock:
            return [at for at in self.confirmed_at if at > since]


class OrderOfOne:
    """The order in which one connection of a consumer gets the messages of one line for the first time."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.most = -1

    def take(self, number: int, is_again: bool) -> None:
        """A message has come; `is_again`: the broker says that it was delivered before."""
        times = self.line.see(number)
        if is_again:
            return
        if number == self.most:
            self.line.findings.add(DUPLICATED, f"{self.line.name}: {number} twice on one connection")
        elif number < self.most and times == 1:
            self.line.disordered(number, self.most, "")
        self.most = max(self.most, number)


class Offsets:
    """The meaning of each offset of a stream."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.meaning: dict[int, int] = {}
        self.places: dict[int, int] = {}
        self.last = -1

    def take(self, offset: int, number: int) -> None:
        """The stream has given this at that offset."""
        known = self.meaning.setdefault(offset, number)
        if known != number:
            self.line.findings.add(CHANGED, f"{self.line.name}: offset {offset} was {known}, and is {number}")
        place = self.places.setdefault(number, offset)
        if place != offset:
            self.line.findings.add(DUPLICATED, f"{self.line.name}: {number} is at {place} and at {offset}")
        if offset > self.last:
            before = self.meaning.get(self.last, -1)
            if number < before:
                self.line.disordered(number, before, f", at {offset}")
            self.last = offset
        self.line.see(number)
