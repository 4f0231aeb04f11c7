"""The promises of a follower: not to take over, nor to deliver, before a leader's lease is surely over.

Each answered heartbeat is one, to the process that sent it. A member that starts does not know to whom it promised
anything before, and keeps one to anybody; a new store has promised nobody anything.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from forebay.replica.settings import ReplicaSettings

ANYBODY: Final = ""


@mypyc_attr(allow_interpreted_subclasses=True)
class Promises:
    """The promises of one member: to whom, and until when."""

    def __init__(self, name: str, settings: ReplicaSettings) -> None:
        self.name = name
        self.settings = settings
        self.until: dict[str, i64] = {}

    def start(self, now: i64) -> None:
        self.until = {ANYBODY: now + self.settings.silence_us}

    def give(self, peer: str, now: i64) -> None:
        self.until[peer] = now + self.settings.silence_us

    def void(self, peer: str) -> None:
        """Note that the leader itself has said that it delivers no more."""
        self.until.pop(peer, None)

    def refused(self, peer: str, tried: i64) -> None:
        """Note that nobody listened there: the process that had the promise is dead, and so is its lease.

        A promise that was given after the attempt began is to a process that came later.
        """
        until = self.until.get(peer)
        if until is not None and until - self.settings.silence_us <= tried:
            del self.until[peer]

    def are_over(self, now: i64) -> bool:
        """All that were given to others."""
        for peer, until in self.until.items():  # noqa: SIM110  a generator is not of the compiled dialect
            if peer != self.name and now <= until:
                return False
        return True
