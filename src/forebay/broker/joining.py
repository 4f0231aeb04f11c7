"""Bodies that came in pieces and are so long that to put them together would hold everybody up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final


class Joining:
    """A body that is put together on a thread, while its connection waits and the loop goes on.

    connection  that waits, by the number of its session
    is_whole    `body` is there; False after `run` where there was no memory for it
    """

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.connection = 0
        self.pieces = list(pieces)
        self.body = b""
        self.is_whole = False

    def run(self) -> None:
        """Put them together: joining octets of more than a megabyte gives up the interpreter's lock."""
        self.body = self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)
        self.pieces.clear()
        self.is_whole = True


@final
class BodyJoins:
    """The long bodies that connections wait for, to be put together by whoever has threads."""

    def __init__(self) -> None:
        self.waiting: list[Joining] = []

    def take(self) -> list[Joining]:
        """Return the bodies to be put together since the last call."""
        waiting, self.waiting = self.waiting, []
        return waiting
