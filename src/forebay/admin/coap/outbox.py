"""Confirmable messages of the broker: sent again until the client acknowledges or rejects them (RFC 7252, 4.2)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

from forebay.admin.coap.reach import Address, Reach
from forebay.server.transport.coap_traffic import ACKNOWLEDGED, LOST, REJECTED
from forebay.wire.coap.message import CONFIRMABLE, CoapMessage, encode_message

ACK_TIMEOUT_S: Final = 2.0
ACK_RANDOM_FACTOR: Final = 1.5
MAX_RETRANSMIT: Final = 4
UNPROVEN_WAIT_S: Final = 15.0  # in which a client that is sent one message only has to acknowledge it
MESSAGE_IDS: Final = 1 << 16
Send = Callable[[bytes, Address], None]


class ConfirmableOutbox:
    """The confirmable messages that wait for their clients.

    next_ids  message ID of the next message to each address that has been sent one, and is proven or waited for
    """

    def __init__(self, send: Send, reach: Reach) -> None:
        self.send = send
        self.reach = reach
        self.loop = asyncio.get_running_loop()
        self.waiting: dict[tuple[Address, int], asyncio.Future[str]] = {}
        self.next_ids: dict[Address, int] = {}
        self.unproven: dict[Address, asyncio.Future[str]] = {}

    def message_id(self, address: Address) -> int:
        """Return a message ID that no message to this address had lately; the first is random."""
        found = self.next_ids.get(address)
        if found is None:
            found = random.SystemRandom().randrange(MESSAGE_IDS)
        self.next_ids[address] = (found + 1) % MESSAGE_IDS
        return found

    def forget(self, address: Address) -> None:
        """Forget the message IDs of a client that is sent nothing more for now."""
        self.next_ids.pop(address, None)

    async def deliver(self, message: CoapMessage, address: Address, octets_max: int = 0) -> str:
        """Send a message until the client answers, and return ACKNOWLEDGED, REJECTED or LOST. Sets the message's ID.

        octets_max  to be sent in all to a client that has not shown that it is there; 0 for one that has
        """
        while octets_max and address in self.unproven:
            await asyncio.wait((self.unproven[address],))
            if self.reach.is_proven(address, self.loop.time()):
                octets_max = 0
            await asyncio.sleep(0)
        message.type = CONFIRMABLE
        message.message_id = self.message_id(address)
        octets = encode_message(message)
        key = (address, int(message.message_id))
        answer = self.waiting[key] = self.loop.create_future()
        if octets_max:
            self.unproven[address] = answer
        try:
            return await self.send_repeatedly(octets, address, octets_max, answer)
        finally:
            del self.waiting[key]
            if octets_max:
                del self.unproven[address]
                if not answer.done():
                    answer.set_result(LOST)

    async def send_repeatedly(
        self, octets: bytes, address: Address, octets_max: int, answer: asyncio.Future[str]
    ) -> str:
        """Send a message, and again after twice the time each time, until the client answers."""
        wait_s = ACK_TIMEOUT_S * random.SystemRandom().uniform(1.0, ACK_RANDOM_FACTOR)
        times = MAX_RETRANSMIT + 1
        if octets_max:
            times = min(times, octets_max // len(octets))
        for number in range(times):
            self.send(octets, address)
            if octets_max and number == times - 1:
                wait_s = UNPROVEN_WAIT_S
            done, _ = await asyncio.wait((answer,), timeout=wait_s)
            if done:
                return answer.result()
            wait_s *= 2
        return LOST

    def answered(self, address: Address, message_id: int, outcome: str) -> bool:
        """Note that a client has acknowledged or rejected a message; return whether there is such a message.

        A wrong message ID from a client that has not shown that it is there may be a guess: then its message is lost.
        """
        answer = self.waiting.get((address, message_id))
        if answer is None:
            guessed = self.unproven.get(address)
            if guessed is not None and not guessed.done():
                guessed.set_result(LOST)
            return False
        if not answer.done():
            answer.set_result(outcome)
            if outcome == ACKNOWLEDGED:
                self.reach.prove(address, self.loop.time())
        return True

    def acknowledged(self, address: Address, message_id: int) -> bool:
        """Note an acknowledgement."""
        return self.answered(address, message_id, ACKNOWLEDGED)

    def rejected(self, address: Address, message_id: int) -> bool:
        """Note a reset."""
        return self.answered(address, message_id, REJECTED)
