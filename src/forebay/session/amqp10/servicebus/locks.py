"""Locks of messages, as Azure Service Bus calls what a lease is here, and the tokens that name them.

A lock token is 16 octets: it is the delivery-tag of the message, and a UUID whose first three fields are little-endian.

    0 .. 4    number of the connection
    4 .. 8    when its locks began, in milliseconds
    8 .. 10   number of the session in the connection, 0 for a message that was received by its sequence number
    10 .. 16  number of the delivery in it

So a token that outlives its connection, or the broker's process, names no lock of another one.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.contract import VhostContract
from forebay.core.errors import TOO_MANY, RequestError
from forebay.core.units import US_PER_MS
from forebay.queue.leases.lease import Consumer, Lease
from forebay.queue.leases.lease_index import holds
from forebay.session.shared.unsettled import UnsettledDeliveries

TOKEN_OCTETS: Final = 16
PREFIX_OCTETS: Final = 10
SESSIONS_MAX: Final = 1 << 16
HELD_MAX: Final = 1000  # of one connection, received by sequence number


@final
class LockTokens:
    """The tokens of the locks of one session's deliveries."""

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix

    def token(self, number: i64) -> bytes:
        """Return the token of a delivery of this number."""
        return self.prefix + int(number).to_bytes(6, "big")


@final
class MessageLock:
    """One message that a client has locked.

    deliveries  of the session that has it, under the number `tag`; None if it was received by its sequence number
    token       of such a message
    """

    def __init__(
        self, lease: Lease, offset: i64, deliveries: UnsettledDeliveries | None, tag: i64, token: bytes = b""
    ) -> None:
        self.lease = lease
        self.offset: i64 = offset
        self.deliveries = deliveries
        self.tag: i64 = tag
        self.token = token

    def is_lost(self) -> bool:
        """Return whether the lock has ended: its time is over, or the message is settled."""
        return not holds(self.lease, self.offset)


@final
class PeekLocks:
    """The locks of one connection.

    sessions  deliveries of its sessions, by the number that their tokens have
    held      locks of messages that were received by their sequence numbers
    consumers by which these are locked where no link receives, by number of the queue
    """

    def __init__(self, vhost: VhostContract, connection: i64) -> None:
        self.vhost = vhost
        begun = int(vhost.now_us() // US_PER_MS) & 0xFFFFFFFF
        self.prefix = (int(connection) & 0xFFFFFFFF).to_bytes(4, "big") + begun.to_bytes(4, "big")
        self.sessions: dict[int, UnsettledDeliveries] = {}
        self.tokens: dict[int, LockTokens] = {}
        self.held: dict[bytes, MessageLock] = {}
        self.consumers: dict[int, Consumer] = {}
        self.next_session: i64 = 1
        self.next_held: i64 = 0

    def tokens_of(self, deliveries: UnsettledDeliveries) -> LockTokens:
        """Return the tokens of a session's deliveries."""
        for number, each in self.sessions.items():
            if each is deliveries:
                return self.tokens[number]
        number = int(self.next_session)
        if number >= SESSIONS_MAX:
            raise RequestError(TOO_MANY, f"attach: more than {SESSIONS_MAX} sessions with locks since the connection")
        self.next_session += 1
        self.sessions[number] = deliveries
        made = self.tokens[number] = LockTokens(self.prefix + number.to_bytes(2, "big"))
        return made

    def forget_session(self, deliveries: UnsettledDeliveries) -> None:
        """Forget a session that has ended."""
        for number, each in list(self.sessions.items()):
            if each is deliveries:
                del self.sessions[number]
                del self.tokens[number]

    def hold(self, lease: Lease, offset: i64) -> MessageLock:
        """Remember a message that was received by its sequence number. Call `check_room` first."""
        token = LockTokens(self.prefix + b"\0\0").token(self.next_held)
        self.next_held += 1
        made = self.held[token] = MessageLock(lease, offset, None, -1, token)
        return made

    def check_room(self, count: i64) -> None:
        """Refuse more messages received by sequence number than a connection may have locked."""
        if len(self.held) + count > HELD_MAX:
            self.held = {token: each for token, each in self.held.items() if not each.is_lost()}
        if len(self.held) + count > HELD_MAX:
            raise RequestError(TOO_MANY, f"more than {HELD_MAX} messages received by sequence number are locked")

    def find(self, token: bytes) -> MessageLock | None:
        """Return the lock of a token; None if it is lost, or another connection's."""
        if len(token) != TOKEN_OCTETS or token[: len(self.prefix)] != self.prefix:
            return None
        held = self.held.get(token)
        if held is not None:
            return None if held.is_lost() else held
        deliveries = self.sessions.get(int.from_bytes(token[8:PREFIX_OCTETS], "big"))
        found = None if deliveries is None else lock_of(deliveries, int.from_bytes(token[PREFIX_OCTETS:], "big"))
        return None if found is None or found.is_lost() else found


def lock_of(deliveries: UnsettledDeliveries, tag: i64) -> MessageLock | None:
    """Return the lock of an unsettled delivery, which may be lost; None if there is no such delivery."""
    at = deliveries.find(tag)
    if at >= len(deliveries.runs):
        return None
    run = deliveries.runs[at]
    if tag < run.tag or run.left == 0 or run.is_settled(tag):
        return None
    return MessageLock(run.lease, run.first + tag - run.tag, deliveries, tag)


def uuid_order(token: bytes) -> bytes:
    """Return a lock token as the octets of the UUID that it is, or back."""
    return token[3::-1] + token[5:3:-1] + token[7:5:-1] + token[8:]
