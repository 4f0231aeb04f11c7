"""The windows of a session of AMQP 1.0: how many transfer frames each side may still send (2.5.6).

Identifiers are serial numbers of 32 bits (RFC 1982): the later of two is less than 2^31 ahead.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import CHANNEL, PeerError
from forebay.wire.amqp10.states import WINDOW_VIOLATION

SERIAL_MASK: Final = 0xFFFFFFFF
HALF: Final = 0x80000000
INCOMING_WINDOW: Final = 2048  # transfer frames that a client may send before it hears that more are welcome


def serial_difference(later: i64, earlier: i64) -> i64:
    """Return how far a serial number is ahead of another one; negative if it is behind."""
    ahead = (later - earlier) & SERIAL_MASK
    return ahead - (SERIAL_MASK + 1) if ahead >= HALF else ahead


@final
class SessionWindows:
    """The transfer frames that both sides of one session have counted.

    next_incoming    identifier that the client's next transfer has
    incoming         transfers that the client may still send
    next_outgoing    identifier of the broker's next transfer, of 32 bits
    remote_incoming  transfers that the client still takes
    """

    def __init__(self, next_incoming: i64, remote_incoming: i64) -> None:
        self.next_incoming: i64 = next_incoming
        self.incoming: i64 = INCOMING_WINDOW
        self.next_outgoing: i64 = 0
        self.remote_incoming: i64 = remote_incoming

    def check_room(self) -> None:
        """Refuse a transfer that the client may not send: PeerError."""
        if self.incoming <= 0:
            raise PeerError(WINDOW_VIOLATION, "transfer: the incoming window is 0", CHANNEL)

    def received(self) -> None:
        """Count a transfer of the client."""
        self.incoming -= 1
        self.next_incoming = (self.next_incoming + 1) & SERIAL_MASK

    def sent(self, count: i64) -> None:
        """Count transfers of the broker."""
        self.next_outgoing = (self.next_outgoing + count) & SERIAL_MASK
        self.remote_incoming -= count

    def reopen(self) -> None:
        """Let the client send as many transfers as it may at most."""
        self.incoming = INCOMING_WINDOW

    def needs_more(self) -> bool:
        """Return whether the client is to hear that it may send more."""
        return self.incoming <= INCOMING_WINDOW >> 1

    def on_flow(self, next_incoming: i64, window: i64) -> None:
        """Take in how many transfers the client takes now.

        next_incoming  of the flow; -1 if the client has not seen `begin` yet
        raises         PeerError: the client claims transfers that were never sent
        """
        seen = max(next_incoming, 0)
        outstanding = serial_difference(self.next_outgoing, seen)
        if outstanding < 0:
            raise PeerError(
                WINDOW_VIOLATION,
                f"flow: next-incoming-id {seen} is ahead of the broker's next transfer {self.next_outgoing}",
                CHANNEL,
            )
        self.remote_incoming = window - outstanding
