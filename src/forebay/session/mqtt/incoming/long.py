"""A PUBLISH with a long body, which is taken in as it comes instead of being waited for."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.broker.joining import Joining
from forebay.core.errors import PeerError
from forebay.log.block import LONG_OCTETS
from forebay.session.mqtt.incoming.publish import Inbox, too_large
from forebay.wire.mqtt.codes import PUBLISH, QUOTA, V5
from forebay.wire.mqtt.properties import read_varint


@final
class LongPublish:
    """One such packet.

    head     its octets up to the body; what follows the fixed header starts at `start`, and the packet ends at `end`
    missing  octets of the body that are still to come
    """

    def __init__(self, head: bytes, start: i64, end: i64) -> None:
        self.head = head
        self.start: i64 = start
        self.end: i64 = end
        self.missing: i64 = end - len(head)
        self.pieces: list[bytes] = []

    def take(self, data: bytes, at: i64) -> i64:
        """Take the octets of the body from `at` on; where they end."""
        octets = min(self.missing, i64(len(data)) - at)
        if octets:
            self.pieces.append(data[at : at + octets] if octets < len(data) else data)
            self.missing -= octets
        return at + octets


@final
class LongInbox:
    """Takes them in, one at a time.

    packet   of which more is to come, or whose body is being put together
    joining  does that, and has to run before anything more is taken
    """

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        self.packet: LongPublish | None = None
        self.joining: Joining | None = None

    def begin(self, data: bytes, at: i64, version: i64) -> i64:
        """The packet at `at` is not whole: if it is a long PUBLISH, how many octets its head has, and otherwise 0."""
        packet = begin_long(data, at, version, self.inbox.body_octets_max)
        self.packet = packet
        return 0 if packet is None else i64(len(packet.head))

    def take(self, data: bytes, at: i64) -> i64:
        """Take what is there of the packet, or publish it; where in `data` it ends. Errors are those of a publish."""
        packet = self.packet
        assert packet is not None
        joining = self.joining
        if joining is None:
            at = packet.take(data, at)
            if packet.missing == 0:
                pieces, packet.pieces = packet.pieces, []
                self.joining = Joining(pieces)
            return at
        if not joining.is_whole:
            raise PeerError(QUOTA, "PUBLISH: no memory for a long payload")
        self.inbox.publish(packet.head, i64(packet.head[0]) & 15, packet.start, packet.end, joining.body)
        self.packet = None
        self.joining = None
        return at


def begin_long(data: bytes, at: i64, version: i64, body_octets_max: i64) -> LongPublish | None:
    """The packet at `at`, which is not whole, if it is a long PUBLISH and `data` has all but its body.

    raises  PeerError where the body is too long
    """
    size: i64 = len(data)
    start = at + 1
    length: i64 = 0
    shift: i64 = 0
    while start < size and shift < 28:
        octet = i64(data[start])
        length |= (octet & 127) << shift
        start += 1
        shift += 7
        if octet < 128:
            break
    if length < LONG_OCTETS or i64(data[at]) >> 4 != PUBLISH or start + 2 > size:
        return None
    end = start + length
    cut = start + 2 + (i64(data[start]) << 8 | i64(data[start + 1]))
    if i64(data[at]) & 6:
        cut += 2
    if version == V5:
        if cut + 4 > size:
            return None
        properties = read_varint(data, cut, end)
        cut += (properties & 7) + (properties >> 3)
    if cut > size or end - cut < LONG_OCTETS:
        return None
    if end - cut > body_octets_max:
        raise too_large(end - cut, body_octets_max)
    return LongPublish(data[at:cut], start - at, end - at)


def is_long(rest: bytes, octets: i64) -> bool:
    """True if an unfinished packet of so many octets may become a LongPublish with what comes next."""
    return octets >= LONG_OCTETS and i64(rest[0]) >> 4 == PUBLISH and i64(len(rest)) < LONG_OCTETS
