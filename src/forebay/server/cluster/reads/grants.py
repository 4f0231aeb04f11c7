"""Grants: by one of these a node that does not lead serves a reader whom the leader has looked at.

The leader checks the rights once, and tells its followers with a message that begins with GRANT, which no other message
between nodes begins with; behind that there is an object of JSON. A grant is for one read, by one connection: whoever
shows its token takes it. One that nobody takes ends by itself, as the oldest do where there are too many: their readers
go elsewhere, and ask anew.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from forebay.core.errors import MALFORMED, PeerError

GRANT: Final = 0xC3  # the first octet of each message
SINCE_VERSION: Final = 4
GRANTS_MAX: Final = 10_000
TAKEN_WITHIN_US: Final = 60_000_000
LIFE_US: Final = 600_000_000  # of one that was taken: rights may have changed by then


class Grant(msgspec.Struct, frozen=True):
    """The right to read the records of one log with offsets from `first` to below `end`.

    log    its number, and `queue` its name
    lsn    a node that has committed all frames up to this one has these records as the leader has them
    """

    token: str
    log: int
    queue: bytes
    first: int
    end: int
    lsn: int


def encode_grant(grant: Grant) -> bytes:
    """Encode the message that gives a grant to a follower."""
    return bytes((GRANT,)) + msgspec.json.encode(grant)


def decode_grant(octets: bytes) -> Grant:
    """Decode the grant in the leader's message. Raises PeerError if it is malformed."""
    try:
        return msgspec.json.decode(octets[1:], type=Grant)
    except msgspec.MsgspecError as error:
        raise PeerError(MALFORMED, f"a grant that is none: {error}") from None


class GivenGrants:
    """The grants of one follower that nobody has taken yet, the oldest first."""

    def __init__(self) -> None:
        self.given: OrderedDict[str, tuple[Grant, int]] = OrderedDict()

    def add(self, grant: Grant, now_us: int) -> None:
        """Remember a grant from the leader until its reader comes; drop the oldest above the limit."""
        self.given.pop(grant.token, None)
        self.given[grant.token] = grant, now_us + TAKEN_WITHIN_US
        if len(self.given) > GRANTS_MAX:
            self.given.popitem(last=False)

    def take(self, token: str, now_us: int) -> Grant | None:
        """Remove and return the grant with this token, for the reader that shows it; None if there is none."""
        self.end_old(now_us)
        found = self.given.pop(token, None)
        return None if found is None else found[0]

    def end_old(self, now_us: int) -> None:
        """Drop the grants that no reader has taken in time."""
        while self.given:
            token, (_, until_us) = next(iter(self.given.items()))
            if until_us > now_us:
                return
            del self.given[token]
