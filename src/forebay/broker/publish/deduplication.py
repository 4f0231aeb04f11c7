"""Publishes that are taken only once, however often they are sent.

A publisher that hears nothing sends again, and cannot know whether the first came through. It may say which message it
is: by its own name and a number that grows, or by a key. What has been taken at an address of the vhost (exchange and
routing key) is confirmed again and not appended, as long as the broker remembers it: for the window of the option, or
until too many others came after it.

Each turn appends to a log of the broker's own what was taken in it, in one frame with the messages. Its records are
nothing but annotations: a hash of the address and of the producer's name or the key, and the producer's last number. A
producer's record replaces its older ones. What is too old is passed over by recovery, and given up with its block.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import Final, final

from mypy_extensions import i64, u8

from forebay.broker.internal_log import ANNOTATION_OVERHEAD, DEDUPLICATION_LOG, RECORD_OVERHEAD, InternalLog
from forebay.core.errors import INVALID, DamagedBlock, RequestError, note_half_change
from forebay.log.store import FrameEntry, Store
from forebay.message.address import NAME_OCTETS_MAX
from forebay.message.annotations import (
    DEDUPLICATION,
    SEQUENCE,
    annotation,
    number_annotation,
    with_annotation,
    with_number,
)
from forebay.message.formats.table import EXCHANGE_FORMAT

LOG_NAME: Final = "$deduplication"
HASH_OCTETS: Final = 16
RECORD_OCTETS: Final = HASH_OCTETS + ANNOTATION_OVERHEAD + RECORD_OVERHEAD
SEQUENCE_MAX: Final = (1 << 63) - 1


@final
class Identity:
    """The identity of a message: the number of a producer, or a key, or both.

    user                     who publishes: the producers and keys of another user are other ones
    producer, key            empty for none
    producer_name, key_name  hashes of them at the address where it was asked for, see `is_known`
    """

    def __init__(self, producer: bytes, sequence: i64, key: bytes) -> None:
        self.producer = producer
        self.sequence: i64 = sequence
        self.key = key
        self.user = b""
        self.producer_name = b""
        self.key_name = b""


@final
class Taken:
    """The records that one turn took: the offsets below `end` that an earlier one has not."""

    def __init__(self, end: i64, stamp_us: i64) -> None:
        self.end: i64 = end
        self.stamp_us: i64 = stamp_us


@final
class Deduplication(InternalLog):
    """The identities that were taken in the window.

    offsets  hash -> offset of its record
    hashes   the same the other way round; an offset that is not there is nobody's any more
    last     of a producer's hash: its last number
    added    hashes whose records the end of the turn appends
    """

    def __init__(self, store: Store, window_ms: i64, keys_max: i64, vhost: i64 = 0) -> None:
        super().__init__(DEDUPLICATION_LOG, LOG_NAME, store, vhost)
        self.window_us: i64 = window_ms * 1000
        self.keys_max: i64 = keys_max
        self.offsets: dict[bytes, int] = {}
        self.hashes: dict[int, bytes] = {}
        self.last: dict[bytes, int] = {}
        self.added: list[bytes] = []
        self.turns: deque[Taken] = deque()  # by time
        self.floor: i64 = 0  # nothing below it is anybody's
        self.unowned_until_us: i64 = 0  # what was stored without an owner is forgotten by then
        self.repeated = False  # somebody waits for what was taken before to be on the disk

    # ---- asking and telling

    def is_known(self, address: bytes, identity: Identity, now_us: i64) -> bool:
        """Return whether a message is a duplicate. If so, this turn's commit covers the message that it repeats."""
        self.expire(now_us)
        found = False
        if identity.producer:
            name = identity.producer_name = owned_hash(b"P", address, identity.user, identity.producer)
            last = self.last.get(name)
            if last is None and now_us < self.unowned_until_us:
                last = self.last.get(unowned_hash(b"p", address, identity.producer))
            found = last is not None and identity.sequence <= last
        if identity.key:
            identity.key_name = owned_hash(b"K", address, identity.user, identity.key)
            found = found or identity.key_name in self.offsets
            if not found and now_us < self.unowned_until_us:
                found = unowned_hash(b"k", address, identity.key) in self.offsets
        self.repeated = self.repeated or found
        return found

    def octets(self, identity: Identity) -> i64:
        """Return how many bytes `remember` writes to disk."""
        return 2 * RECORD_OCTETS if identity.producer and identity.key else RECORD_OCTETS

    def remember(self, identity: Identity) -> None:
        """Remember a message that `is_known` found to be new and that was accepted in this turn."""
        try:
            if identity.producer:
                self.last[identity.producer_name] = int(identity.sequence)
                self.take(identity.producer_name)
            if identity.key:
                self.take(identity.key_name)
        except Exception as error:
            note_half_change(error)
            raise

    def take(self, name: bytes) -> None:
        """Append a record of this hash at the turn's end, in place of an earlier one."""
        offset = self.offsets.get(name)
        if offset is None or offset < self.log.end:
            self.keep(name, int(self.log.end) + len(self.added))
            self.added.append(name)

    def keep(self, name: bytes, offset: int) -> None:
        """Remember a hash by the record at this offset, and too many others no longer."""
        self.forget(name)
        self.offsets[name] = offset
        self.hashes[offset] = name
        while len(self.offsets) > self.keys_max:
            self.drop_lowest()

    def forget(self, name: bytes) -> None:
        offset = self.offsets.pop(name, None)
        if offset is not None:
            del self.hashes[offset]

    def drop_lowest(self) -> None:
        """Forget what was taken first."""
        while int(self.floor) not in self.hashes:
            self.floor += 1
        name = self.hashes.pop(int(self.floor))
        del self.offsets[name]
        self.last.pop(name, None)
        self.floor += 1

    def expire(self, now_us: i64) -> None:
        """Forget what is older than the window."""
        turns = self.turns
        while turns and turns[0].stamp_us + self.window_us <= now_us:
            end = turns.popleft().end
            while self.floor < end:
                name = self.hashes.pop(int(self.floor), None)
                if name is not None:
                    del self.offsets[name]
                    self.last.pop(name, None)
                self.floor += 1

    def count(self) -> i64:
        """Return the number of producers and keys remembered."""
        return len(self.offsets)

    # ---- the turn, and the log

    def gathered(self) -> i64:
        return len(self.added) * RECORD_OCTETS

    def end_turn(self, now_us: i64) -> None:
        if self.added:
            for name in self.added:
                self.log.append_annotated(
                    u8(EXCHANGE_FORMAT.number), b"", b"", b"", b"", taken_annotations(name, self.last.get(name))
                )
            self.seal(now_us)
            self.turns.append(Taken(self.log.end, self.log.stamp_us))
            self.added = []
        elif self.repeated:
            self.note(0, b"", True)
        self.repeated = False
        self.expire(now_us)
        self.source.truncate()

    def needed_from(self) -> i64:
        return self.floor

    def needed(self, first: i64, end: i64) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        at = max(first, self.floor)
        while at < end:
            start = at
            while at < end and int(at) in self.hashes:
                at += 1
            if at > start:
                found.append((int(start), int(at)))
            at += 1
        return found

    def checkpoint(self) -> list[FrameEntry]:
        return []

    def restore(self, group: int, payload: bytes) -> None:
        """The notes have done their work when they were on the disk."""

    def recovered(self, now_us: i64) -> None:
        at = self.floor = self.log.start
        self.unowned_until_us = now_us + self.window_us
        while True:
            try:
                block = self.log.block(at)
            except DamagedBlock as error:
                at = i64(error.end)  # what was taken then may be taken once more
                continue
            if block is None:
                return
            for offset in range(max(at, block.base), block.end):
                index = offset - block.base
                stamp_us = block.timestamp_us(index)
                if stamp_us + self.window_us <= now_us:
                    continue
                annotations = block.annotations(index)
                name = annotation(annotations, DEDUPLICATION)
                last = number_annotation(annotations, SEQUENCE, -1)
                self.keep(name, int(offset))
                if last >= 0:
                    self.last[name] = int(last)
                if not self.turns or self.turns[-1].stamp_us != stamp_us:
                    self.turns.append(Taken(offset + 1, stamp_us))
                self.turns[-1].end = offset + 1
            at = block.end


def identity_of(producer: object, sequence: object, key: object) -> Identity | None:
    """Return the identity that the values of the three headers give. Any of them may be None.

    sequence  a number, or a text of its digits
    raises    RequestError(INVALID), with name and value of the wrong one
    """
    if producer is None and sequence is None and key is None:
        return None
    if (producer is None) != (sequence is None):
        raise RequestError(INVALID, "x-producer-id and x-sequence: one is there without the other")
    number: object = 0
    if sequence is not None:
        number = sequence
        if isinstance(sequence, str) and sequence.isascii() and sequence.isdigit() and len(sequence) < 20:
            number = int(sequence)
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= SEQUENCE_MAX:
            raise RequestError(INVALID, f"invalid x-sequence header: {sequence!r} is no number from 0 to 2^63 - 1")
    assert isinstance(number, int)
    return Identity(name_of("x-producer-id", producer), number, name_of("x-deduplication-key", key))


def name_of(header: str, value: object) -> bytes:
    """Return the text of a header, or an empty one for None. Raises RequestError unless it has 1 to 255 bytes."""
    if value is None:
        return b""
    octets = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    if not isinstance(octets, bytes) or not 0 < len(octets) <= NAME_OCTETS_MAX:
        raise RequestError(INVALID, f"invalid {header} header: no text of 1 to {NAME_OCTETS_MAX} octets")
    return octets


def address_of(exchange: bytes, routing_key: bytes) -> bytes:
    """Return the address within which messages are deduplicated."""
    return exchange + b"\0" + routing_key


def owned_hash(kind: bytes, address: bytes, user: bytes, name: bytes) -> bytes:
    """Return the hash of a user's producer (P) or key (K) at an address."""
    octets = b"%b%d:%b%d:%b%b" % (kind, len(address), address, len(user), user, name)
    return blake2b(octets, digest_size=HASH_OCTETS).digest()


def unowned_hash(kind: bytes, address: bytes, name: bytes) -> bytes:
    """Return the hash of a producer (p) or key (k) as it was stored when these had no owners."""
    return blake2b(b"%b%d:%b%b" % (kind, len(address), address, name), digest_size=HASH_OCTETS).digest()


def taken_annotations(name: bytes, last: int | None) -> bytes:
    """Return the annotations that record a hash, with the last sequence number of a producer."""
    said = with_annotation(b"", DEDUPLICATION, name)
    return said if last is None else with_number(said, SEQUENCE, last)
