"""Events as lines of the log."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from forebay.node.telemetry.events import Listener, Told, matching

logger = logging.getLogger("forebay")


class EventLog(Listener):
    """A log of the events that the options name."""

    def __init__(self) -> None:
        self.types: set[str] = set()

    def log(self, patterns: Sequence[str]) -> None:
        """Log the event types that match these patterns from now on."""
        self.types = matching(patterns)

    def wanted(self) -> set[str]:
        return self.types

    def hear(self, told: Sequence[Told]) -> None:
        for each in told:
            if each.type in self.types:
                words = " ".join(f"{name}={value}" for name, value in each.fields.items())
                logger.info(
                    "%s %s", each.type, words, extra={"event": each.type, "vhost": each.vhost, "data": each.fields}
                )
