"""The needs of a node's store: its options, and what of the log the queues still want."""

from __future__ import annotations

from forebay.broker.vhosts import Vhosts
from forebay.core.options import Options
from forebay.log.housekeeping import Liveness
from forebay.log.store import StoreOptions


class Wanted(Liveness):
    """The answer of every vhost."""

    def __init__(self, vhosts: Vhosts) -> None:
        self.vhosts = vhosts

    def live(self, queue: int, first: int, end: int) -> list[tuple[int, int]]:
        return self.vhosts.needed(queue, first, end)


def store_options(options: Options) -> StoreOptions:
    """Return the options of the store, from the broker's options."""
    return StoreOptions(
        wal_octets_max=options.wal_octets_max,
        wal_chunk_octets=options.wal_chunk_octets,
        settle_margin_octets=options.settle_margin_octets,
        segment_octets_max=options.segment_octets_max,
        cache_octets_max=options.cache_octets_max,
    )
