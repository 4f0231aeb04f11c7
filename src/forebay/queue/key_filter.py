"""The filters of a group: on routing keys, and on the input of its view.

Unwanted records are passed over and settled for the whole group.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.log.block import Block
from forebay.queue.properties import PropertyReader
from forebay.queue.source.intake import Intake
from forebay.queue.turn import TurnShare
from forebay.routing.topic_trie import matches, swap_key

MEMO_ENTRIES: Final = 10_000
QUEUE_PREFIX: Final = b"$queue/"


@final
class KeyFilter:
    """A group's filter on records.

    text    the filter on routing keys; empty to accept every key
    intake  the filter on the input of the group's view
    is_set  some records may be unwanted
    memo    known results by routing key
    """

    def __init__(self, text: bytes, properties: PropertyReader) -> None:
        self.text = text
        self.properties = properties
        self.intake: Intake | None = None
        self.is_set = len(text) > 0
        self.memo: dict[bytes, bool] = {}

    def take_from(self, intake: Intake) -> None:
        """Accept only records that the view's input filter accepts."""
        self.intake = intake
        self.is_set = True

    def wants(self, block: Block, index: i64) -> bool:
        """Return whether a record passes the filter. Call only if `is_set`."""
        intake = self.intake
        if intake is not None and not intake.wants(block, index):
            return False
        return not self.text or self.wants_key(block, index)

    def wants_key(self, block: Block, index: i64) -> bool:
        """Return whether a record's routing key passes the filter."""
        key = block.routing_key(index)
        known = self.memo.get(key)
        if known is None:
            known = matches(self.text, filter_key(self.properties.has_topic(block, index), key))
            # A key may mean two topics, by the protocol it came from: only the common case is remembered.
            if len(self.memo) >= MEMO_ENTRIES:
                self.memo.clear()
            self.memo[key] = known
        return known

    def run_length(self, block: Block, index: i64, most: i64, turn: TurnShare) -> i64:
        """Return the length of the run of wanted records at `index`, or minus the length of a run of unwanted ones.

        Each record costs one look of the turn.
        """
        intake = self.intake
        if intake is not None:
            most = intake.run_length(block, index, most, turn)
            if most < 0 or not self.text:
                return most
        first = self.wants_key(block, index)
        count: i64 = 1
        while count < most and count < turn.looks and self.wants_key(block, index + count) == first:
            count += 1
        turn.looks -= count
        return count if first else -count


def filter_key(is_topic: bool, routing_key: bytes) -> bytes:
    """Return the text that a group's filter is matched with: the routing key as a topic, without `$queue/<name>/`.

    is_topic  the routing key is a topic already
    """
    key = routing_key
    if not is_topic and not key.startswith(QUEUE_PREFIX):
        key = swap_key(key)
    if key.startswith(QUEUE_PREFIX):
        cut = key.find(b"/", len(QUEUE_PREFIX))
        return b"" if cut < 0 else key[cut + 1 :]
    return key
