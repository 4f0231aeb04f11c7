"""A way between two network devices that takes time: `relay.py ONE OTHER MILLISECONDS MORE`.

What comes in at one goes out at the other after so many milliseconds and up to so many more by chance, in order.
"""

from __future__ import annotations

import random
import select
import socket
import sys
import time
from collections import deque
from contextlib import suppress

EVERY_PROTOCOL = 3  # ETH_P_ALL
SOL_PACKET, PACKET_VNET_HDR, PACKET_OUTGOING = 263, 15, 4
FRAME_OCTETS_MAX = 1 << 17  # the sender leaves it to the device to make packets of as much as 64 KiB
BUFFER_OCTETS = 4 << 20


class Way:
    """One direction.

    waiting  what is under way, and when it arrives
    """

    def __init__(self, begin: socket.socket, end: socket.socket) -> None:
        self.begin = begin
        self.end = end
        self.waiting: deque[tuple[float, bytes]] = deque()

    def take(self, now: float, delay_s: float, more_s: float) -> None:
        """Take what has come in."""
        with suppress(BlockingIOError):
            while True:
                frame, (_, _, sort, _, _) = self.begin.recvfrom(FRAME_OCTETS_MAX)
                if sort != PACKET_OUTGOING:
                    due = now + delay_s + random.uniform(0, more_s)
                    self.waiting.append((max(due, self.waiting[-1][0]) if self.waiting else due, frame))

    def give(self, now: float) -> None:
        """Let out what is due."""
        while self.waiting and self.waiting[0][0] <= now:
            with suppress(OSError):  # no room, or the device is going: a packet that is lost
                self.end.send(self.waiting[0][1])
            self.waiting.popleft()


def opened(device: str) -> socket.socket:
    """All frames of a device, each behind the words in which the kernel says what is still to be done to it."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    made.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_OCTETS)
    made.bind((device, EVERY_PROTOCOL))
    return made


def main() -> None:
    one, other = map(opened, sys.argv[1:3])
    delay_s, more_s = (int(word) / 1000 for word in sys.argv[3:5])
    ways = [Way(one, other), Way(other, one)]
    poll = select.poll()
    for each in (one, other):
        poll.register(each, select.POLLIN)
    while True:
        dues = [way.waiting[0][0] for way in ways if way.waiting]
        poll.poll(max(0.0, 1000 * (min(dues) - time.monotonic())) if dues else None)
        now = time.monotonic()
        for way in ways:
            way.take(now, delay_s, more_s)
            way.give(time.monotonic())


if __name__ == "__main__":
    main()
