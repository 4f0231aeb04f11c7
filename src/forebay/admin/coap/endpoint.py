"""The socket of CoAP: datagrams become requests, acknowledgements and resets, and answers become datagrams.

A confirmable request is answered in its acknowledgement. If the answer takes longer than a second, the client is told
that its request has come, and the answer follows in a message of its own.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final, cast

from forebay.admin.coap.bodies import octets_of
from forebay.admin.coap.exchanges import CoapExchange, ExchangeTable
from forebay.admin.coap.observations import Observation, Observations
from forebay.admin.coap.outbox import MESSAGE_IDS, ConfirmableOutbox
from forebay.admin.coap.reach import FACTOR, Address, Reach
from forebay.admin.coap.requests import Arrival, CoapRequests
from forebay.core.errors import MALFORMED as MALFORMED_MESSAGE
from forebay.core.errors import PeerError
from forebay.server.broker_view import BrokerView
from forebay.server.faults import REQUEST
from forebay.server.transport.coap_traffic import BUSY, MALFORMED, OVERSIZED, UNEXPECTED
from forebay.wire.coap.answer import INTERNAL, TOO_LARGE, UNAVAILABLE, CoapAnswer
from forebay.wire.coap.message import (
    ACKNOWLEDGEMENT,
    CLASS_SHIFT,
    CONFIRMABLE,
    EMPTY,
    NON_CONFIRMABLE,
    RESET,
    CoapMessage,
    code_text,
    decode_message,
    encode_message,
)
from forebay.wire.coap.request import SIZE_EXPONENT_MAX, BlockOption

DATAGRAM_OCTETS_MAX: Final = 4096  # a block of 1,024 octets and its options, a token among them
HEAD_OCTETS: Final = 4
RUNNING_MAX: Final = 64  # requests of one address under way
ACKNOWLEDGE_AFTER_S: Final = 1.0
SWEEP_S: Final = 0.5
END_S: Final = 0.1  # in which observers are told that the broker stops
RETRY_S: Final = 1


class CoapEndpoint(asyncio.DatagramProtocol):
    """One socket, and all that is known of its clients."""

    def __init__(self, app: BrokerView) -> None:
        self.app = app
        self.traffic = app.coap
        self.loop = asyncio.get_running_loop()
        self.transport = cast("asyncio.DatagramTransport", None)
        self.reach = Reach()
        self.outbox = ConfirmableOutbox(self.send, self.reach)
        self.exchanges = ExchangeTable(app.options.coap_exchanges_max)
        self.tasks: set[asyncio.Task[None]] = set()
        self.observations = cast("Observations", None)
        self.requests = cast("CoapRequests", None)
        self.sweeping = cast("asyncio.Task[None]", None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)
        name = transport.get_extra_info("sockname")
        self.observations = Observations(self.app, self.outbox, self.reach, (name[0], name[1]))
        self.requests = CoapRequests(self.app, self.reach, self.observations)
        self.sweeping = self.loop.create_task(self.sweep())

    # ---- datagrams in

    def datagram_received(self, data: bytes, addr: tuple[str | int, ...]) -> None:
        address = (str(addr[0]), int(addr[1]))
        try:
            self.take(data, address)
        except Exception as error:  # noqa: BLE001  the datagram's boundary
            self.app.faults.note(REQUEST, f"a datagram of {address[0]}", error)

    def error_received(self, exc: Exception) -> None:
        """Do nothing: a client whose port is closed does not answer, and that is found out by its silence."""

    def take(self, data: bytes, address: Address) -> None:
        """Take a datagram."""
        try:
            message = decode_message(data)
        except PeerError as error:
            self.traffic.refused[MALFORMED] += 1
            if error.reason == MALFORMED_MESSAGE and len(data) >= HEAD_OCTETS and data[0] >> 4 & 3 == CONFIRMABLE:
                self.send_empty(RESET, data[2] << 8 | data[3], address)
            return
        if message.code == EMPTY:
            self.take_empty(message, address)
        elif message.code >> CLASS_SHIFT == 0 and message.type in (CONFIRMABLE, NON_CONFIRMABLE):
            self.take_request(message, address, len(data))
        else:  # an answer to what nobody has asked, or a class that does not exist
            self.traffic.refused[UNEXPECTED] += 1
            if message.type == CONFIRMABLE:
                self.send_empty(RESET, int(message.message_id), address)

    def take_empty(self, message: CoapMessage, address: Address) -> None:
        """Take an acknowledgement, a reset, or the question whether the broker is there."""
        message_id = int(message.message_id)
        if message.type == CONFIRMABLE:
            self.send_empty(RESET, message_id, address)
        elif message.type == ACKNOWLEDGEMENT:
            if not self.outbox.acknowledged(address, message_id):
                self.traffic.refused[UNEXPECTED] += 1
        elif message.type == RESET:
            self.outbox.rejected(address, message_id)

    def take_request(self, message: CoapMessage, address: Address, octets: int) -> None:
        """Begin to answer a request, or send the answer of one that comes again."""
        now_s = self.loop.time()
        known = self.exchanges.find(address, message, now_s)
        if known is not None:
            self.traffic.duplicates += 1
            most = 0 if self.reach.is_proven(address, now_s) else FACTOR * octets
            if known.is_confirmable and known.answer:
                if not most or len(known.answer) <= most:
                    self.send(known.answer, address)
            elif known.is_acknowledged:
                self.send_empty(ACKNOWLEDGEMENT, int(message.message_id), address)
            return
        exchange = CoapExchange(address, message, now_s)
        exchanges = self.exchanges
        most = self.app.options.coap_requests_max
        if octets > DATAGRAM_OCTETS_MAX:
            self.traffic.refused[OVERSIZED] += 1
            answer = CoapAnswer(TOO_LARGE)
            answer.block1 = BlockOption(0, False, SIZE_EXPONENT_MAX)
            self.send_answer(exchange, message, answer)
        elif len(exchanges.running) >= most or exchanges.running_at[address] >= RUNNING_MAX:
            self.traffic.refused[BUSY] += 1
            answer = CoapAnswer(UNAVAILABLE)
            answer.max_age = RETRY_S
            self.send_answer(exchange, message, answer)
        else:
            is_proven = self.reach.is_proven(address, now_s)
            arrival = Arrival(address, message, 0 if is_proven else FACTOR * octets)
            exchanges.begin(exchange)
            task = self.loop.create_task(self.answer(exchange, arrival))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    # ---- answers

    async def answer(self, exchange: CoapExchange, arrival: Arrival) -> None:
        """Answer a request. An error of our own in it ends the request, which is told so, and not the broker."""
        changes = False
        try:
            answer = await self.requests.answer(arrival)
            changes = answer.changes
            await self.send_to(exchange, arrival, answer)
        except Exception as error:  # noqa: BLE001  the request's boundary
            self.app.faults.note(REQUEST, f"a CoAP request of {exchange.address[0]}", error)
            self.send_answer(exchange, arrival.message, CoapAnswer(INTERNAL))
            if arrival.observation is not None:
                self.observations.end(arrival.observation)
        finally:
            self.exchanges.end(exchange, changes, self.loop.time())
            self.traffic.exchanges = len(self.exchanges)

    async def send_to(self, exchange: CoapExchange, arrival: Arrival, answer: CoapAnswer) -> None:
        """Send an answer to a client that is there, and no more than it may cost to one that may not be."""
        observation = arrival.observation
        request = arrival.message
        if observation is None and wants_none(arrival, answer):
            self.acknowledge(exchange)
            return
        most = arrival.octets_max
        if observation is not None and not observation.is_proven:
            await self.begin_unproven(exchange, arrival, observation, answer)
            return
        if most and octets_of(answer) > most:
            answer = self.shorter(arrival, answer)
        if exchange.is_acknowledged:
            self.count(answer)
            await self.outbox.deliver(answer.message(CONFIRMABLE, 0, request.token), exchange.address, most)
        else:
            self.send_answer(exchange, request, answer)
        if observation is not None:
            self.observations.run(observation, answer)

    async def begin_unproven(
        self, exchange: CoapExchange, arrival: Arrival, observation: Observation, answer: CoapAnswer
    ) -> None:
        """Send the first notification to a client that may not be there, and the others if it acknowledges that one."""
        self.count(answer)
        self.acknowledge(exchange)
        first = answer.message(CONFIRMABLE, 0, arrival.message.token)
        if await self.observations.deliver(observation, first, arrival.octets_max - HEAD_OCTETS):
            self.observations.run(observation, answer)
        else:
            self.observations.end(observation)

    def shorter(self, arrival: Arrival, answer: CoapAnswer) -> CoapAnswer:
        """Return the answer to a client that may not be there, instead of one that is too long for that."""
        if not answer.changes and not answer.is_error():
            return self.requests.challenge(arrival)
        answer.payload = b""  # what is published must not be tried again, and an error has its code
        answer.format = -1
        return answer

    def send_answer(self, exchange: CoapExchange, request: CoapMessage, answer: CoapAnswer) -> None:
        """Send an answer in the acknowledgement of a request, or without one."""
        self.count(answer)
        if exchange.is_confirmable:
            message = answer.message(ACKNOWLEDGEMENT, request.message_id, request.token)
        else:
            message = answer.message(NON_CONFIRMABLE, random.randrange(MESSAGE_IDS), request.token)
        exchange.answer = encode_message(message)
        self.send(exchange.answer, exchange.address)

    def count(self, answer: CoapAnswer) -> None:
        self.traffic.answers[code_text(answer.code)] += 1

    def acknowledge(self, exchange: CoapExchange) -> None:
        """Tell a client that its request has come, and the answer follows, if there is one."""
        if exchange.is_confirmable and not exchange.is_acknowledged:
            exchange.is_acknowledged = True
            self.send_empty(ACKNOWLEDGEMENT, exchange.key[1], exchange.address)

    def send_empty(self, type: int, message_id: int, address: Address) -> None:
        """Send a message without content."""
        self.send(encode_message(CoapMessage(type, EMPTY, message_id)), address)

    def send(self, octets: bytes, address: Address) -> None:
        """Send a datagram. What the system has no room for is lost, as it may be on any network."""
        if not self.transport.is_closing():
            self.transport.sendto(octets, address)

    # ---- time

    async def sweep(self) -> None:
        """Acknowledge requests that take long, and forget what is over, twice a second."""
        while True:
            await asyncio.sleep(SWEEP_S)
            now_s = self.loop.time()
            for exchange in list(self.exchanges.unacknowledged(now_s - ACKNOWLEDGE_AFTER_S)):
                self.acknowledge(exchange)
            self.exchanges.sweep(now_s)
            self.requests.transfers.sweep(now_s)
            self.traffic.exchanges = len(self.exchanges)

    async def stop(self, leave_s: float) -> None:
        """Tell observers that it is over, wait for answers under way, and close the socket."""
        self.sweeping.cancel()
        if self.observations.by_token:
            self.observations.tell_end()
            await asyncio.sleep(END_S)
        if self.tasks:
            await asyncio.wait(set(self.tasks), timeout=leave_s)
        for task in list(self.tasks):
            task.cancel()
        self.observations.end_all()
        self.transport.close()


def wants_none(arrival: Arrival, answer: CoapAnswer) -> bool:
    """Return whether the client does not want an answer of this class (RFC 7967)."""
    return bool(arrival.request.no_response >> (int(answer.code) >> CLASS_SHIFT) - 1 & 1)
