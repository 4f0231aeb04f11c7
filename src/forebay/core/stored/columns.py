"""The columns of a block of records, in the order in which they stand there: as bits, and by name.

A checksum for each, and a reader that asks for some, go by these (log/block.py, wire/blocks/frames.py).
"""

from __future__ import annotations

from typing import Final

TIMESTAMPS: Final = 1
FORMATS: Final = 2
EXCHANGES: Final = 4
KEYS: Final = 8
PROPERTIES: Final = 16
ANNOTATIONS: Final = 32
BODIES: Final = 64
EVERY_COLUMN: Final = 127

COLUMN_NAMES: Final = ["timestamp", "format", "exchange", "routing_key", "properties", "annotations", "body"]
COLUMNS: Final = {name: 1 << place for place, name in enumerate(COLUMN_NAMES)}
