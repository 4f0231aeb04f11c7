"""The requests that are under way or have changed something, so that none is carried out twice.

A client repeats a confirmable request until it has the answer, for up to EXCHANGE_LIFETIME with the same message ID
(RFC 7252, section 4.8.2). What changed nothing is forgotten with its answer: it may be done again, so that a flood of
refused requests takes no memory.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Final

from forebay.admin.coap.reach import Address
from forebay.wire.coap.message import CONFIRMABLE, CoapMessage

LIFETIME_S: Final = 247.0
Key = tuple[Address, int, bytes]


class CoapExchange:
    """One request, from its first datagram until it is forgotten.

    answer           the datagram that answered it; empty until then
    is_acknowledged  the client was told that the answer comes later, in a message of its own
    """

    __slots__ = ("address", "answer", "forget_s", "is_acknowledged", "is_confirmable", "key", "since_s")

    def __init__(self, address: Address, message: CoapMessage, now_s: float) -> None:
        self.key: Key = (address, int(message.message_id), message.token)
        self.address = address
        self.is_confirmable = message.type == CONFIRMABLE
        self.answer = b""
        self.is_acknowledged = False
        self.since_s = now_s
        self.forget_s = 0.0


class ExchangeTable:
    """The requests that are remembered: those under way, and those done that changed something.

    running  requests under way at each address
    most     requests done that are remembered; beyond it the oldest is forgotten
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.running: dict[Key, CoapExchange] = {}
        self.running_at: Counter[Address] = Counter()
        self.done: OrderedDict[Key, CoapExchange] = OrderedDict()

    def find(self, address: Address, message: CoapMessage, now_s: float) -> CoapExchange | None:
        """Return the request that comes again with this datagram; None for a new one."""
        key = (address, int(message.message_id), message.token)
        found = self.running.get(key)
        if found is not None:
            return found
        found = self.done.get(key)
        return None if found is None or found.forget_s <= now_s else found

    def begin(self, exchange: CoapExchange) -> None:
        """Note that a request is under way."""
        self.running[exchange.key] = exchange
        self.running_at[exchange.address] += 1

    def end(self, exchange: CoapExchange, remember: bool, now_s: float) -> None:
        """Note that a request is answered; `remember` it if it must not be carried out again."""
        del self.running[exchange.key]
        self.running_at[exchange.address] -= 1
        if not self.running_at[exchange.address]:
            del self.running_at[exchange.address]
        if not remember:
            return
        exchange.forget_s = now_s + LIFETIME_S
        self.done[exchange.key] = exchange
        self.done.move_to_end(exchange.key)
        while len(self.done) > self.most:
            self.done.popitem(last=False)

    def sweep(self, now_s: float) -> None:
        """Forget requests whose time is over."""
        while self.done:
            key, oldest = next(iter(self.done.items()))
            if oldest.forget_s > now_s:
                return
            del self.done[key]

    def unacknowledged(self, before_s: float) -> Iterator[CoapExchange]:
        """Yield confirmable requests under way since before then whose clients have heard nothing."""
        for exchange in self.running.values():
            if exchange.is_confirmable and not exchange.is_acknowledged and exchange.since_s <= before_s:
                yield exchange

    def __len__(self) -> int:
        return len(self.running) + len(self.done)
