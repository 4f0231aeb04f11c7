"""Decides whether an internal error ends one connection or the broker (ADR 19).

A frame is written at the end of each turn. What an error has left half changed would become durable with it, so such an
error stops the node before the frame is written, and the next start reads what is on the disk.

Code that changes what all connections share guards the change:

    def ack(self, lease, first, count):
        try:
            ...                          # checks, and the change
        except Exception as error:
            note_half_change(error)      # core/errors.py
            raise

This costs nothing until there is an error. An error without that note has interrupted work for one connection only.
"""

from __future__ import annotations

from forebay.core.errors import StorageError, has_half_changed


def stops_broker(error: BaseException) -> bool:
    """Return whether the broker must stop because of an error: shared state may be half changed, or the disk failed."""
    return isinstance(error, StorageError) or has_half_changed(error)
