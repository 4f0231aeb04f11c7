"""Retention pins of readers of blocks: made, moved, ended, written down."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.broker.catalog.catalog import Catalog
from forebay.core.errors import REFUSED, RequestError, note_half_change
from forebay.core.stored.entry_kinds import HELD
from forebay.queue.queue import Queue
from forebay.routing.exchange import text

PINS_MAX: Final = 1000  # on one queue


def hold(topology: Catalog, queue: Queue, name: bytes, offset: i64, ttl_us: i64, now_us: i64) -> i64:
    """Keep the records from `offset` on, for so long from now; the first that is there still.

    What the pin did not keep until now is on the disk with this turn's commit.
    raises  RequestError(REFUSED) where there are too many
    """
    try:
        pins = queue.pins
        offset = max(offset, queue.kept())
        if name not in pins.by_name and len(pins.by_name) >= PINS_MAX:
            raise RequestError(REFUSED, f"hold: queue '{text(queue.name)}' has {PINS_MAX} pins already")
        is_urgent = not pins.keeps(name, offset)
        note_pin(topology, queue, pins.put(name, offset, ttl_us, now_us), is_urgent)
        queue.source.hold_pinned()
        queue.unused_since_us = 0
        return offset
    except Exception as error:
        note_half_change(error)
        raise


def release(topology: Catalog, queue: Queue, name: bytes) -> None:
    """End a retention pin; no error where there is none."""
    try:
        note_pin(topology, queue, queue.pins.end(name), False)
        queue.source.hold_pinned()
    except Exception as error:
        note_half_change(error)
        raise


def end_expired(topology: Catalog, queue: Queue, now_us: i64) -> None:
    """End the pins whose time is over."""
    for name in queue.pins.expired(now_us):
        release(topology, queue, name)


def note_pin(topology: Catalog, queue: Queue, note: bytes, is_urgent: bool) -> None:
    if note and queue.log.durable:
        topology.store.note(HELD, int(queue.id), 0, note, is_urgent)
