"""Renders a record's properties for delivery: adds the dead-letter headers (`x-death`, …), and the message annotations
that consumers set with `modified`.
"""

from __future__ import annotations

from mypy_extensions import i64, u8

from forebay.log.block import Block, BlockWriter
from forebay.message.annotations import DEATHS, MODIFIED, annotation, value_at
from forebay.message.deaths import deaths_of
from forebay.message.formats.table import format_of


def rendered_at(block: Block, index: i64) -> bytes:
    """Return the properties of a block's record as they are delivered, in the record's own format."""
    properties = block.properties(index)
    if not block.annotated:
        return properties
    return rendered(block.format(index), properties, block.annotations(index))


def rendered_block(block: Block) -> Block:
    """Return a block of the same records with rendered properties and without annotations."""
    made = BlockWriter()
    made.timestamps.write(block.data[: 8 * block.count])
    for index in range(block.count):
        made.append(
            u8(block.format(index)),
            block.exchange(index),
            block.routing_key(index),
            rendered_at(block, index),
            block.body(index),
        )
    return made.seal(block.base, 0, True)


def rendered(format: i64, properties: bytes, annotations: bytes) -> bytes:
    """Return checked properties of a format with the headers that the annotations stand for."""
    if value_at(annotations, DEATHS) >= 0:
        properties = format_of(format).with_deaths(properties, deaths_of(annotations))
    if value_at(annotations, MODIFIED) >= 0:
        properties = format_of(format).with_modified(properties, annotation(annotations, MODIFIED))
    return properties
