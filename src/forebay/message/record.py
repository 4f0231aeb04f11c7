"""A stored record as an object, on its way from one log or format to another."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.log.block import Block


@final
class StoredRecord:
    """The parts of a record as they are stored. `format` is the whole format octet."""

    def __init__(
        self, format: i64, exchange: bytes, routing_key: bytes, properties: bytes, body: bytes, annotations: bytes
    ) -> None:
        self.format: i64 = format
        self.exchange = exchange
        self.routing_key = routing_key
        self.properties = properties
        self.body = body
        self.annotations = annotations


def record_at(block: Block, index: i64) -> StoredRecord:
    """Return the record with this index in the block."""
    return StoredRecord(
        block.format(index),
        block.exchange(index),
        block.routing_key(index),
        block.properties(index),
        block.body(index),
        block.annotations(index),
    )
