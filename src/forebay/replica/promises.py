"""A follower's promises neither to take over nor to deliver before a leader's lease has surely expired.

Each answered heartbeat is a promise to the process that sent it. A member that starts does not know to which leaders it
made promises before, so it keeps one to all of them. A new store has made no promise.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from forebay.replica.settings import ReplicaSettings

ANYBODY: Final = ""


@mypyc_attr(allow_interpreted_subclasses=True)
class Promises:
    """The promises of one member: the leader and the expiry of each."""

    def __init__(self, name: str, settings: ReplicaSettings) -> None:
        self.name = name
        self.settings = settings
        self.until: dict[str, i64] = {}

    def start(self, now: i64) -> None:
        self.until = {ANYBODY: now + self.settings.silence_us}

    def give(self, peer: str, now: i64) -> None:
        self.until[peer] = now + self.settings.silence_us

    def void(self, peer: str) -> None:
        """Void a promise to a leader that has announced that it has stopped delivering."""
        self.until.pop(peer, None)

    def refused(self, peer: str, tried: i64) -> None:
        """Drop the promise to a node that refused a connection: the leader's process is dead, and so is its lease.

        A promise made after the attempt began belongs to a later process of that node, and is kept.
        """
        until = self.until.get(peer)
        if until is not None and until - self.settings.silence_us <= tried:
            del self.until[peer]

    def are_over(self, now: i64) -> bool:
        """Return whether every promise to another member has expired."""
        for peer, until in self.until.items():  # noqa: SIM110  a generator is not of the compiled dialect
            if peer != self.name and now <= until:
                return False
        return True
