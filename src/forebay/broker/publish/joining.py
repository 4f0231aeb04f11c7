"""Bodies that came in pieces and are so long that to put them together would hold everybody up."""

from __future__ import annotations

from collections.abc import Sequence

from forebay.directory.logins.authorizer import Proof


class Joining(Proof):
    """A connection waits until the pieces are one; meanwhile the interpreter is free for others."""

    copies = True

    def __init__(self, connection: int, pieces: Sequence[bytes]) -> None:
        super().__init__(connection)
        self.pieces = list(pieces)
        self.body = b""

    def run(self) -> None:
        """Put them together: joining octets of more than a megabyte gives up the interpreter's lock."""
        self.body = self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)
        self.pieces.clear()
        self.right = True
