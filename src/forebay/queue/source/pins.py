"""Retention pins of a queue: they keep its records for readers of blocks, though no consumer needs them any more.

A pin ends by itself when its time to live has passed, and is renewed by asking again. After a restart each pin gets its
full time to live, because nobody could renew it meanwhile.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from forebay.log.queue_log import NOT_HELD

NOTED_US: Final = 5_000_000  # interval of notes of a pin that moves forward; after a crash it keeps more
RELEASED: Final = -1  # noted in place of an offset when the pin ends


@final
class RetentionPin:
    """The retention pin of one reader.

    offset    no record from here on is removed
    until_us  time at which the pin ends unless it is renewed; 0 in recovery
    noted_us  time at which it was last logged
    """

    def __init__(self, name: bytes, offset: i64, ttl_us: i64, until_us: i64, noted_us: i64) -> None:
        self.name = name
        self.offset: i64 = offset
        self.ttl_us: i64 = ttl_us
        self.until_us: i64 = until_us
        self.noted_us: i64 = noted_us

    def note(self) -> bytes:
        """Return the pin's note for the write-ahead log."""
        return encode_note(self.name, self.offset, self.ttl_us)


@final
class RetentionPins:
    """The retention pins of one queue, by the name of their reader."""

    def __init__(self) -> None:
        self.by_name: dict[bytes, RetentionPin] = {}

    def floor(self) -> i64:
        """Return the offset from which on every record is kept, or NOT_HELD without pins."""
        floor: i64 = NOT_HELD
        for pin in self.by_name.values():
            floor = min(floor, pin.offset)
        return floor

    def put(self, name: bytes, offset: i64, ttl_us: i64, now_us: i64) -> bytes:
        """Create, move or renew a pin. Return the note to be logged; empty if none is needed."""
        pin = self.by_name.get(name)
        if pin is None:
            pin = RetentionPin(name, offset, ttl_us, now_us + ttl_us, now_us)
            self.by_name[name] = pin
            return pin.note()
        is_due = offset < pin.offset or ttl_us != pin.ttl_us
        if offset > pin.offset and now_us - pin.noted_us >= NOTED_US:
            is_due = True
        pin.offset = offset
        pin.ttl_us = ttl_us
        pin.until_us = now_us + ttl_us
        if not is_due:
            return b""
        pin.noted_us = now_us
        return pin.note()

    def keeps(self, name: bytes, offset: i64) -> bool:
        """Return whether this pin already keeps the records from `offset` on."""
        pin = self.by_name.get(name)
        return pin is not None and pin.offset <= offset

    def end(self, name: bytes) -> bytes:
        """End a pin. Return the note to be logged, which is empty if there was no pin."""
        if self.by_name.pop(name, None) is None:
            return b""
        return encode_note(name, RELEASED, 0)

    def expired(self, now_us: i64) -> list[bytes]:
        """Return the names of the pins that have expired."""
        found: list[bytes] = []
        for pin in self.by_name.values():
            if pin.until_us <= now_us:
                found.append(pin.name)
        return found

    def restore(self, note: bytes) -> None:
        """Apply a note, in recovery."""
        offset = read_i64_le(note, 0)
        name = note[16:]
        if offset == RELEASED:
            self.by_name.pop(name, None)
        else:
            self.by_name[name] = RetentionPin(name, offset, read_i64_le(note, 8), 0, 0)

    def recovered(self, now_us: i64) -> None:
        """Start the time to live of every pin now. Call after the last `restore`."""
        for pin in self.by_name.values():
            pin.until_us = now_us + pin.ttl_us
            pin.noted_us = now_us


def encode_note(name: bytes, offset: i64, ttl_us: i64) -> bytes:
    out = BytesWriter()
    write_i64_le(out, offset)
    write_i64_le(out, ttl_us)
    out.write(name)
    return out.getvalue()
