"""The stats that a node tells the one that leads of itself, about once a second.

A message begins with STATS, which no other message between nodes begins with; behind that there is an object of JSON.
It is sent to nodes that speak version 2 or more of the protocol between nodes. Fields that a newer node adds are passed
over, and one that an older node does not know is 0.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import msgspec

from forebay import __version__
from forebay.core.errors import MALFORMED, PeerError
from forebay.server.system.disk import DataDisk
from forebay.server.system.heap import resident_octets

if TYPE_CHECKING:
    from forebay.server.cluster.links.links import Links

STATS: Final = 0xC1  # the first octet of each message
SINCE_VERSION: Final = 2
STARTED_S: Final = time.time()


class NodeStats(msgspec.Struct, frozen=True):
    """The stats of one node.

    started_ms  since 1970
    drained     it sends its clients to other nodes
    read_octets  of blocks that readers were sent, since its process began
    internal_errors  errors of its own that its process has counted
    """

    version: str = ""
    disk_octets: int = 0
    disk_free_octets: int = 0
    memory_octets: int = 0
    started_ms: int = 0
    drained: bool = False
    read_octets: int = 0
    internal_errors: int = 0


def own_stats(disk: DataDisk, drained: bool = False, read_octets: int = 0, internal_errors: int = 0) -> NodeStats:
    """Return the stats of this process."""
    started_ms = int(1000 * STARTED_S)
    free, memory = disk.free_octets(), resident_octets()
    return NodeStats(__version__, disk.total, free, memory, started_ms, drained, read_octets, internal_errors)


def tell_stats(links: Links, leader: str, stats: NodeStats) -> None:
    """Send a node's stats to the leader, if it speaks a version that knows them."""
    if links.version(leader) >= SINCE_VERSION:
        links.send(leader, bytes((STATS,)) + msgspec.json.encode(stats))


def decode_stats(octets: bytes) -> NodeStats:
    """Decode the stats of another node. Raises PeerError if they are malformed."""
    try:
        return msgspec.json.decode(octets[1:], type=NodeStats)
    except msgspec.MsgspecError as error:
        raise PeerError(MALFORMED, f"stats of a node that are none: {error}") from None
