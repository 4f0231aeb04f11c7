"""The clients that have shown that they are at the address from which their datagrams come (RFC 9175, section 2).

A datagram proves nothing: whoever forges the source has the answer sent to somebody else. So nobody is sent an answer
of more than three times what came (RFC 7252, section 11.3) before it has sent back something that only the owner of
the address can know: an Echo option, or the random message ID of a confirmable message, by acknowledging it.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from hashlib import sha256
from typing import Final

Address = tuple[str, int]

FACTOR: Final = 3  # an answer may be so many times as long as the request
PROVEN_S: Final = 300.0  # for which a client counts as being there
PROVEN_MAX: Final = 10_000  # clients; beyond it those that proved it longest ago have to do so again
ECHO_S: Final = 60  # for which an Echo option may be sent back
TIME_OCTETS: Final = 4
DIGEST_OCTETS: Final = 8


class Reach:
    """Tells which addresses are known to be their clients'. An Echo option takes no memory until it comes back."""

    def __init__(self) -> None:
        self.secret = secrets.token_bytes(32)
        self.proven: OrderedDict[Address, float] = OrderedDict()

    def is_proven(self, address: Address, now_s: float) -> bool:
        """Return whether the client has shown lately that it is there."""
        until_s = self.proven.get(address)
        return until_s is not None and now_s < until_s

    def prove(self, address: Address, now_s: float) -> None:
        """Note that the client is there."""
        self.proven[address] = now_s + PROVEN_S
        self.proven.move_to_end(address)
        if len(self.proven) > PROVEN_MAX:
            self.proven.popitem(last=False)

    def echo(self, address: Address, now_s: float) -> bytes:
        """Return the value of an Echo option for a client."""
        return self.signed(address, int(now_s).to_bytes(TIME_OCTETS, "big"))

    def check_echo(self, address: Address, value: bytes, now_s: float) -> bool:
        """Return whether a client has sent back the value of a recent Echo option, and note that it is there."""
        time = value[:TIME_OCTETS]
        if not hmac.compare_digest(value, self.signed(address, time)):
            return False
        if not 0 <= int(now_s) - int.from_bytes(time, "big") <= ECHO_S:
            return False
        self.prove(address, now_s)
        return True

    def signed(self, address: Address, time: bytes) -> bytes:
        """Return a time with the digest of it and of an address."""
        text = f"{address[0]}|{address[1]}|".encode() + time
        return time + hmac.digest(self.secret, text, sha256)[:DIGEST_OCTETS]
