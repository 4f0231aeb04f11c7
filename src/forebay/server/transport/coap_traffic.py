"""The counts of CoAP, and the memory that all its clients use together."""

from __future__ import annotations

from collections import Counter
from typing import Final

# Why a datagram was dropped or a request refused unseen, as metrics name it.
MALFORMED: Final = "malformed"
OVERSIZED: Final = "oversized"
UNEXPECTED: Final = "unexpected"
BUSY: Final = "busy"
MEMORY: Final = "memory"
UNPROVEN: Final = "unproven"
REASONS: Final = (MALFORMED, OVERSIZED, UNEXPECTED, BUSY, MEMORY, UNPROVEN)

# What became of a notification, as metrics name it.
ACKNOWLEDGED: Final = "acknowledged"
REJECTED: Final = "rejected"
LOST: Final = "lost"
REPLACED: Final = "replaced"
DROPPED: Final = "dropped"
OUTCOMES: Final = (ACKNOWLEDGED, REJECTED, LOST, REPLACED, DROPPED)


class CoapTraffic:
    """Counts of CoAP since the start.

    answers        by code, such as `2.04`
    refused        datagrams and requests, by reason
    notifications  by outcome: a client acknowledged or rejected it, was silent (`lost`), or got a newer one instead
                   (`replaced`), or there was no room for it (`dropped`)
    duplicates     requests that came again and were not carried out again
    observations   that clients have now
    exchanges      requests that are remembered now
    octets         that unfinished bodies and waiting notifications take now
    """

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()
        self.refused: Counter[str] = Counter(dict.fromkeys(REASONS, 0))
        self.notifications: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        self.duplicates = 0
        self.observations = 0
        self.exchanges = 0
        self.octets = 0

    def take(self, octets: int, most: int) -> bool:
        """Take memory for a body or a notification if all stay within `most`, and return whether they do."""
        if self.octets + octets > most:
            self.refused[MEMORY] += 1
            return False
        self.octets += octets
        return True

    def give_back(self, octets: int) -> None:
        """Give back memory that was taken."""
        self.octets -= octets
