"""Ranks the records below the cursor that have no rank yet: returned records, and those found at the broker's start."""

from __future__ import annotations

from mypy_extensions import i64

from forebay.log.block import Block
from forebay.queue.key_filter import KeyFilter
from forebay.queue.log_reader import LogReader
from forebay.queue.ready.order import Order
from forebay.queue.turn import TurnShare
from forebay.queue.work.settlement import Settlement


def rank_returned(
    order: Order, reader: LogReader, settlement: Settlement, key_filter: KeyFilter, turn: TurnShare
) -> bool:
    """Put the records below the cursor without a rank in order. Return False if there is more than one turn's share."""
    expression = order.expression
    assert expression is not None
    while order.unranked:
        first: i64
        first, count = order.pop_unranked()
        end = first + count
        while first < end:
            block = reader.needed(first) if turn.looks > 0 else None
            if block is None and (turn.looks <= 0 or reader.damage is not None):
                order.add_unranked(first, end - first)
                return False
            base = end if block is None else min(block.base, end)
            if block is None or base > first:
                settlement.settle(first, base)
                first = base
                continue
            length = wanted_length(key_filter, block, first, end, turn)
            if length > 0:
                length = order.take_in_ranked(expression, block, first - block.base, length, turn)
                order.offer(first, length)
                first += length
            else:
                settlement.settle(first, first - length)
                first -= length
    return True


def wanted_length(key_filter: KeyFilter, block: Block, first: i64, end: i64, turn: TurnShare) -> i64:
    """Return the length of the run that a view wants at `first`, or minus the length of a run that it does not."""
    count = min(block.end, end) - first
    intake = key_filter.intake
    return count if intake is None else intake.run_length(block, first - block.base, count, turn)
