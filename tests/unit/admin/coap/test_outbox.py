"""Confirmable messages: sent again until the client answers, and no more than a forged source may cost."""

from __future__ import annotations

import asyncio

import pytest

from forebay.admin.coap import outbox as module
from forebay.admin.coap.outbox import MAX_RETRANSMIT, ConfirmableOutbox
from forebay.admin.coap.reach import Address, Reach
from forebay.server.transport.coap_traffic import ACKNOWLEDGED, LOST, REJECTED
from forebay.wire.coap.message import CONFIRMABLE, CoapMessage, decode_message

HERE = ("192.0.2.1", 5683)


class Wire:
    """What was sent, and an outbox that sends it; `answers` says what comes back for each message."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.reach = Reach()
        self.outbox = ConfirmableOutbox(self.send, self.reach)
        self.answer_to = 0
        self.outcome = ""
        self.wrong = 0

    def send(self, octets: bytes, address: Address) -> None:
        self.sent.append(octets)
        if len(self.sent) == self.answer_to:
            message_id = int(decode_message(octets).message_id) ^ self.wrong
            asyncio.get_running_loop().call_soon(self.outbox.answered, address, message_id, self.outcome)

    async def deliver(self, octets_max: int = 0) -> str:
        return await self.outbox.deliver(CoapMessage(CONFIRMABLE, 69, 0, b"t", [], b"x" * 20), HERE, octets_max)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ACK_TIMEOUT_S", 0.001)
    monkeypatch.setattr(module, "UNPROVEN_WAIT_S", 0.01)


@pytest.mark.parametrize(("at", "outcome"), [(1, ACKNOWLEDGED), (3, ACKNOWLEDGED), (5, REJECTED)])
def test_a_message_is_sent_until_it_is_answered(at: int, outcome: str) -> None:
    async def go() -> None:
        wire = Wire()
        wire.answer_to, wire.outcome = at, outcome
        assert await wire.deliver() == outcome
        assert len(wire.sent) == at and len(set(wire.sent)) == 1
        assert wire.reach.is_proven(HERE, asyncio.get_running_loop().time()) == (outcome == ACKNOWLEDGED)
        assert not wire.outbox.waiting

    asyncio.run(go())


def test_a_client_that_is_silent_is_lost() -> None:
    async def go() -> None:
        wire = Wire()
        assert await wire.deliver() == LOST
        assert len(wire.sent) == MAX_RETRANSMIT + 1

    asyncio.run(go())


@pytest.mark.parametrize(("octets_max", "times"), [(25, 0), (26, 1), (51, 1), (52, 2), (1000, MAX_RETRANSMIT + 1)])
def test_a_client_that_may_not_be_there_is_sent_no_more_than_that(octets_max: int, times: int) -> None:
    async def go() -> None:
        wire = Wire()
        assert await wire.deliver(octets_max) == LOST
        assert len(wire.sent) == times
        assert not wire.outbox.unproven and not wire.outbox.waiting

    asyncio.run(go())


def test_a_guess_ends_what_is_sent_to_a_client_that_may_not_be_there_and_no_other() -> None:
    async def go(octets_max: int, outcome: str) -> None:
        wire = Wire()
        wire.answer_to, wire.outcome, wire.wrong = 1, ACKNOWLEDGED, 1
        assert await wire.deliver(octets_max) == outcome
        assert len(wire.sent) == (1 if octets_max else MAX_RETRANSMIT + 1)

    asyncio.run(go(1000, LOST))
    asyncio.run(go(0, LOST))


def test_messages_to_a_client_that_may_not_be_there_wait_for_one_another() -> None:
    async def go() -> None:
        wire = Wire()
        wire.answer_to, wire.outcome = 2, ACKNOWLEDGED
        first, second = await asyncio.gather(wire.deliver(26 * 3), wire.deliver(26 * 3))
        assert (first, second) == (ACKNOWLEDGED, LOST)
        # The second is sent to a client that is there by then, as often as to any.
        assert len(wire.sent) == 2 + MAX_RETRANSMIT + 1
        wire = Wire()
        first, second = await asyncio.gather(wire.deliver(26), wire.deliver(26))
        assert (first, second) == (LOST, LOST)
        assert len(wire.sent) == 2
        assert not wire.outbox.unproven and not wire.outbox.waiting

    asyncio.run(go())


def test_message_ids_of_a_client_count_up_from_a_random_one() -> None:
    async def go() -> None:
        firsts = set()
        for _ in range(20):
            outbox = Wire().outbox
            first = outbox.message_id(HERE)
            firsts.add(first)
            assert outbox.message_id(HERE) == (first + 1) % 65_536
        assert len(firsts) > 15

    asyncio.run(go())
