"""Bodies in blocks: those that come (Block1, put together here) and those that go (Block2, cut here); RFC 7959."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from typing import Final

from forebay.admin.coap.reach import Address
from forebay.server.transport.coap_traffic import CoapTraffic
from forebay.wire.coap.answer import (
    BAD_REQUEST,
    CONTINUE,
    INCOMPLETE,
    TOO_LARGE,
    UNAVAILABLE,
    CoapAnswer,
)
from forebay.wire.coap.message import TOKEN_OCTETS_MAX, CoapMessage, encode_message
from forebay.wire.coap.request import BLOCK_OCTETS_MIN, SIZE_EXPONENT_MAX, BlockOption, CoapRequest

TRANSFER_S: Final = 93.0  # MAX_TRANSMIT_WAIT: a client that sends the next block later has given up
TRANSFERS_AT_MOST: Final = 16  # that one address may have under way
ETAG_OCTETS: Final = 8
RETRY_S: Final = 5
Key = tuple[Address, int, bytes]


class BlockTransfer:
    """A body of which blocks have come."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.body = bytearray()
        self.until_s = 0.0


class BodyTransfers:
    """The bodies that are being sent in blocks. Only clients that may publish have one.

    octets_max  of one body; `memory_max` of all, with all else that takes memory of `traffic`
    """

    def __init__(self, traffic: CoapTraffic, octets_max: int, memory_max: int) -> None:
        self.traffic = traffic
        self.octets_max = octets_max
        self.memory_max = memory_max
        self.transfers: dict[Key, BlockTransfer] = {}
        self.at: Counter[Address] = Counter()

    def add(
        self, address: Address, message: CoapMessage, request: CoapRequest, block: BlockOption, now_s: float
    ) -> bytes | CoapAnswer:
        """Take a block, and return the body if it was the last one, or else the answer to the block."""
        payload = message.payload
        at = int(block.number * block.octets)
        if (block.more and len(payload) != block.octets) or len(payload) > block.octets:
            return CoapAnswer(BAD_REQUEST, b"Block1: %d octets in a block of %d" % (len(payload), int(block.octets)))
        if max(at + len(payload), int(request.size1)) > self.octets_max:
            answer = CoapAnswer(TOO_LARGE)
            answer.size1 = self.octets_max
            return answer
        if at == 0 and not block.more:
            return payload
        key = (address, int(message.code), b"\0".join([*request.path, b"", *request.queries, b"", request.request_tag]))
        transfer = self.transfers.get(key)
        if at == 0:
            if transfer is not None:
                self.drop(transfer)
            transfer = self.begin(key)
            if transfer is None:
                return busy()
        if transfer is None or at > len(transfer.body):
            return CoapAnswer(INCOMPLETE, b"Block1: an earlier block is missing")
        if at < len(transfer.body):  # a block that came before: the client may not have seen its answer
            if transfer.body[at : at + len(payload)] != payload:
                return CoapAnswer(INCOMPLETE, b"Block1: this block came before with other octets")
        elif self.traffic.take(len(payload), self.memory_max):
            transfer.body += payload
        else:
            self.drop(transfer)
            return busy()
        transfer.until_s = now_s + TRANSFER_S
        if block.more:
            answer = CoapAnswer(CONTINUE)
            answer.block1 = block
            return answer
        body = bytes(transfer.body)
        self.drop(transfer)
        return body

    def begin(self, key: Key) -> BlockTransfer | None:
        """Begin a body; None if the address has too many under way."""
        if self.at[key[0]] >= TRANSFERS_AT_MOST:
            return None
        transfer = self.transfers[key] = BlockTransfer(key)
        self.at[key[0]] += 1
        return transfer

    def drop(self, transfer: BlockTransfer) -> None:
        """Forget a body."""
        del self.transfers[transfer.key]
        address = transfer.key[0]
        self.at[address] -= 1
        if not self.at[address]:
            del self.at[address]
        self.traffic.give_back(len(transfer.body))

    def sweep(self, now_s: float) -> None:
        """Forget bodies whose clients have given up."""
        for transfer in [each for each in self.transfers.values() if each.until_s <= now_s]:
            self.drop(transfer)


def busy() -> CoapAnswer:
    """Return the answer to a block for which there is no memory."""
    answer = CoapAnswer(UNAVAILABLE)
    answer.max_age = RETRY_S
    return answer


def cut(answer: CoapAnswer, body: bytes, wanted: BlockOption | None, octets_max: int) -> CoapAnswer | None:
    """Put the block of a body that a client wants, or the first, into an answer; None if not even 16 octets fit.

    octets_max  of the whole message: then the block is made shorter where the client has not chosen a length yet
    """
    exponent = SIZE_EXPONENT_MAX if wanted is None else int(wanted.exponent)
    number = 0 if wanted is None else int(wanted.number)
    whole = len(body)
    if number and number * (BLOCK_OCTETS_MIN << exponent) >= whole:
        return CoapAnswer(BAD_REQUEST, b"Block2: the body has no such block")
    while True:
        size = BLOCK_OCTETS_MIN << exponent
        at = number * size
        more = at + size < whole
        answer.payload = body[at : at + size]
        if wanted is not None or more or number:
            answer.block2 = BlockOption(number, more, exponent)
        if more or number:
            answer.etag = blake2b(body, digest_size=ETAG_OCTETS).digest()
            answer.size2 = whole if not number else -1
        if not octets_max or octets_of(answer) <= octets_max:
            return answer
        if exponent == 0 or number:
            return None
        exponent -= 1


def octets_of(answer: CoapAnswer) -> int:
    """Return the octets that an answer takes, with the longest token."""
    return len(encode_message(answer.message(0, 0, bytes(TOKEN_OCTETS_MAX))))
