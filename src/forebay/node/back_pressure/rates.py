"""Rates at which clients may come, publish and subscribe. Nothing is done here while no option asks for it.

Who connects too often is cut off. Who publishes too fast is not read for as long as it takes: nothing is lost, and what
the client sends meanwhile waits in the sockets. One read may be taken beyond the limit; its debt is paid by waiting.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

from forebay.broker.limits.hold_reasons import RATE_LIMIT
from forebay.core.buckets import Bucket
from forebay.core.options import Options
from forebay.core.units import US_PER_S
from forebay.node.back_pressure.flow_control import FlowControl
from forebay.node.link import Link
from forebay.node.peer import split_name
from forebay.session.session import Session

REMEMBERED_MAX: Final = 10_000
MINUTE_S: Final = 60.0


class Charged:
    """The messages and octets that one connection was charged for until now."""

    def __init__(self, messages: Bucket | None, octets: Bucket | None) -> None:
        self.messages = messages
        self.octets = octets
        self.published = 0
        self.received = 0


class Rates:
    """Buckets of addresses, connections and users.

    refused    connections that came too soon
    slowed     how often a connection was not read for a while
    queue      connections that are not read, by when that ends
    """

    def __init__(self, options: Options, flow: FlowControl) -> None:
        self.options = options
        self.flow = flow
        self.refused = 0
        self.slowed = 0
        self.addresses: dict[str, Bucket] = {}
        self.users: dict[tuple[str, bool], Bucket] = {}  # by name, and whether it counts octets
        self.charged: dict[Link, Charged] = {}
        self.queue: list[tuple[int, int, Link]] = []  # the middle is the count of all, so that no links are compared

    def is_on(self) -> bool:
        """Return whether any publish rate is limited."""
        options = self.options
        return bool(
            options.client_messages_per_s
            or options.client_octets_per_s
            or options.user_messages_per_s
            or options.user_octets_per_s
        )

    def may_connect(self, peer: str, now_us: int) -> bool:
        """Return whether the peer's address may connect once more. Counts a refusal."""
        rate = self.options.address_connections_per_min / MINUTE_S
        if not rate:
            return True
        address = split_name(peer)[0]
        bucket = self.addresses.get(address)
        if bucket is None:
            while len(self.addresses) >= REMEMBERED_MAX:
                del self.addresses[next(iter(self.addresses))]
            bucket = self.addresses[address] = Bucket(rate, self.options.address_connections_burst, now_us)
        if bucket.take(now_us):
            return True
        self.refused += 1
        return False

    def charge(self, connections: Iterable[Link], now_us: int) -> None:
        """Hold connections that exceeded their rate in this turn, until they are within it again."""
        for connection in connections:
            if connection.session is None or connection.closing:
                continue
            wait_s = self.debt_s(connection, connection.session, now_us)
            if wait_s and connection not in self.flow.held[RATE_LIMIT]:
                self.slowed += 1
                until_us = now_us + int(wait_s * US_PER_S)
                heappush(self.queue, (until_us, self.slowed, connection))
                self.flow.hold(connection, RATE_LIMIT, until_us=until_us)

    def debt_s(self, connection: Link, session: Session, now_us: int) -> float:
        options = self.options
        charged = self.charged.get(connection)
        if charged is None:
            charged = self.charged[connection] = Charged(
                made(options.client_messages_per_s, options.client_messages_burst, now_us),
                made(options.client_octets_per_s, options.client_octets_per_s, now_us),
            )
        published = session.published()
        messages, charged.published = published - charged.published, published
        octets, charged.received = connection.octets_received - charged.received, connection.octets_received
        own = ((charged.messages, messages), (charged.octets, octets))
        debts = [bucket.charge(count, now_us) for bucket, count in own if bucket is not None and count]
        return max([*debts, self.debt_of_user(session.rights.user, messages, octets, now_us)])

    def debt_of_user(self, user: str, messages: int, octets: int, now_us: int) -> float:
        """Charge a user with what it has published; in how many seconds that is paid."""
        buckets = (
            (self.of_user(user, False, self.options.user_messages_per_s, now_us), messages),
            (self.of_user(user, True, self.options.user_octets_per_s, now_us), octets),
        )
        return max([bucket.charge(count, now_us) for bucket, count in buckets if bucket is not None and count] or [0.0])

    def of_user(self, user: str, octets: bool, rate: int, now_us: int) -> Bucket | None:
        if not rate or not user:
            return None
        bucket = self.users.get((user, octets))
        if bucket is None or bucket.rate != rate:
            while len(self.users) >= REMEMBERED_MAX:
                del self.users[next(iter(self.users))]
            bucket = self.users[user, octets] = Bucket(rate, rate, now_us)
        return bucket

    def due_us(self) -> int:
        """Return the time at which the next held publisher is within its rate; 0 if none is held."""
        return self.queue[0][0] if self.queue else 0

    def resume(self, now_us: int) -> None:
        """Release connections that are within their rate again."""
        while self.queue and self.queue[0][0] <= now_us:
            self.flow.release(heappop(self.queue)[2], RATE_LIMIT)

    def forget(self, connection: Link) -> None:
        """Remove the rate counters of a connection that is gone."""
        self.charged.pop(connection, None)

    def set(self, options: Options) -> None:
        """Apply new options to all publishers."""
        self.options = options
        self.addresses.clear()
        self.users.clear()
        self.charged.clear()


def made(rate: int, burst: int, now_us: int) -> Bucket | None:
    return Bucket(rate, max(burst, 1), now_us) if rate else None
