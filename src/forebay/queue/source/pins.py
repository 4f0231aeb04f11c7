"""Retention pins of a queue: for readers of blocks its records stay, though no consumer needs them any more.

A pin ends by itself: it lives for its time to live and is renewed by asking again. After a restart it lives for that
time from then on, because nobody could renew it meanwhile.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from forebay.log.queue_log import NOT_HELD

NOTED_US: Final = 5_000_000  # a pin that moves forward is noted at most this often: the old place holds more
RELEASED: Final = -1  # noted in place of an offset


@final
class RetentionPin:
    """One reader's retention pin.

    offset    no record from here on goes
    until_us  when it ends unless it is renewed; 0 in recovery
    noted_us  when it was written down last
    """

    def __init__(self, name: bytes, offset: i64, ttl_us: i64, until_us: i64, noted_us: i64) -> None:
        self.name = name
        self.offset: i64 = offset
        self.ttl_us: i64 = ttl_us
        self.until_us: i64 = until_us
        self.noted_us: i64 = noted_us

    def note(self) -> bytes:
        """The pin as the write-ahead log has it."""
        return encode_note(self.name, self.offset, self.ttl_us)


@final
class RetentionPins:
    """The retention pins of one queue, by the name of their reader."""

    def __init__(self) -> None:
        self.by_name: dict[bytes, RetentionPin] = {}

    def floor(self) -> i64:
        """The offset from which on every record is kept; NOT_HELD where nobody keeps any."""
        floor: i64 = NOT_HELD
        for pin in self.by_name.values():
            floor = min(floor, pin.offset)
        return floor

    def put(self, name: bytes, offset: i64, ttl_us: i64, now_us: i64) -> bytes:
        """Make, move or renew a pin; what has to be written down of it, empty for nothing."""
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
        """True if this pin keeps the records from `offset` on already."""
        pin = self.by_name.get(name)
        return pin is not None and pin.offset <= offset

    def end(self, name: bytes) -> bytes:
        """End a pin; what has to be written down of that, empty where there was none."""
        if self.by_name.pop(name, None) is None:
            return b""
        return encode_note(name, RELEASED, 0)

    def expired(self, now_us: i64) -> list[bytes]:
        """Names of the pins whose time is over."""
        found: list[bytes] = []
        for pin in self.by_name.values():
            if pin.until_us <= now_us:
                found.append(pin.name)
        return found

    def restore(self, note: bytes) -> None:
        """Apply what was written down, in recovery."""
        offset = read_i64_le(note, 0)
        name = note[16:]
        if offset == RELEASED:
            self.by_name.pop(name, None)
        else:
            self.by_name[name] = RetentionPin(name, offset, read_i64_le(note, 8), 0, 0)

    def recovered(self, now_us: i64) -> None:
        """Have every pin live from now on, after the last `restore`."""
        for pin in self.by_name.values():
            pin.until_us = now_us + pin.ttl_us
            pin.noted_us = now_us


def encode_note(name: bytes, offset: i64, ttl_us: i64) -> bytes:
    out = BytesWriter()
    write_i64_le(out, offset)
    write_i64_le(out, ttl_us)
    out.write(name)
    return out.getvalue()
