"""Cases of what a broker refuses: how each is registered and asked."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.peers.observe import Refusal, refusal
from tests.peers.peer import Peer

Spoil = Callable[[BlockingChannel], object]


class Cases:
    """Functions that spoil a channel, each with what the client must be told; `{vhost}` stands for the virtual host."""

    def __init__(self) -> None:
        self._cases: list[tuple[Spoil, Refusal]] = []

    def told(self, scope: str, code: int, text: str) -> Callable[[Spoil], Spoil]:
        """Decorator that adds a case."""

        def register(spoil: Spoil) -> Spoil:
            self._cases.append((spoil, Refusal(scope, code, text)))
            return spoil

        return register

    def each(self) -> pytest.MarkDecorator:
        """Decorator of a test with the parameters `spoil` and `expected`."""
        names = [spoil.__name__ for spoil, _ in self._cases]
        return pytest.mark.parametrize(("spoil", "expected"), self._cases, ids=names)


def check(peer: Peer, spoil: Spoil, expected: Refusal) -> None:
    """It is refused in these words, and what a channel did wrong leaves its connection alone."""
    connection = peer.connect()
    text = expected.text.format(vhost=peer.vhost)
    assert refusal(connection, spoil) == Refusal(expected.scope, expected.code, text)
    if expected.scope == "channel":
        assert connection.channel().is_open
