"""A record's properties as its readers see them: with headers for what annotations say of its deaths, and with the
message annotations that consumers gave it.
"""

from __future__ import annotations

from mypy_extensions import i64, u8

from forebay.log.block import Block, BlockWriter
from forebay.message.annotations import DEATHS, MODIFIED, annotation, value_at
from forebay.message.deaths import deaths_of
from forebay.message.formats.table import format_of


def rendered_at(block: Block, index: i64) -> bytes:
    """The properties of a record of a block, in its own format, as its readers see them."""
    properties = block.properties(index)
    if not block.annotated:
        return properties
    return rendered(block.format(index), properties, block.annotations(index))


def rendered_block(block: Block) -> Block:
    """The block of the same records, their properties rendered, without annotations."""
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
    """Checked properties of a format with the headers that the annotations ask for."""
    if value_at(annotations, DEATHS) >= 0:
        properties = format_of(format).with_deaths(properties, deaths_of(annotations))
    if value_at(annotations, MODIFIED) >= 0:
        properties = format_of(format).with_modified(properties, annotation(annotations, MODIFIED))
    return properties
