"""SUBSCRIBE and UNSUBSCRIBE packets: worked off filter by filter, a long packet over several turns.

How many filters a packet may have, only the octets of the packet limit. All of them are checked before the first one is
worked off, so that a malformed packet changes nothing. The answer leaves when the last one is done; until then nothing
more of this client is taken in.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from forebay.core.errors import Later
from forebay.directory.logins.authorizer import Undecided
from forebay.session.meter import Meter
from forebay.session.mqtt.subscriptions import Subscriptions
from forebay.wire.mqtt.codes import SUBACK, SUBSCRIBE, UNSUBACK, V5
from forebay.wire.mqtt.packets import Suback, SubscribeReader

PACKET_POINTS: Final = 1  # of the meter
FILTER_POINTS: Final = 12
CHECK_SHIFT: Final = 7  # octets of filters, as a power of two, that are checked at a point


@final
class SubscribeInbox:
    """Works off the SUBSCRIBE and UNSUBSCRIBE packets of one connection.

    reader      of the packet in hand; None where there is none
    is_checked  all of its filters are well-formed
    answers     codes of the filters worked off so far
    """

    def __init__(self, subscriptions: Subscriptions, meter: Meter, users_max: i64) -> None:
        self.subscriptions = subscriptions
        self.meter = meter
        self.users_max: i64 = users_max
        self.reader: SubscribeReader | None = None
        self.is_checked = False
        self.answers = BytesWriter()

    def take(self, data: bytes, first: i64, at: i64, end: i64, version: i64) -> Suback:
        """Work off the packet whose first octet is `first`, and return the answer.

        Raise Later or Undecided where that takes another turn. The same packet has to be given again then.
        """
        reader = self.reader
        if reader is None:
            self.meter.start(PACKET_POINTS)
            reader = SubscribeReader(data, first, at, end, version, self.users_max)
            self.reader = reader
            self.is_checked = False
            self.answers.truncate(0)
            self.subscriptions.begin_packet(reader.properties)
        else:
            reader.move(data, end)
        if not self.is_checked:
            self.check(reader)
        if reader.kind == SUBSCRIBE:
            self.subscribe(reader)
        else:
            self.unsubscribe(reader)
        self.reader = None
        answers = self.answers.getvalue()
        self.answers.truncate(0)
        if reader.kind == SUBSCRIBE:
            return Suback(SUBACK, reader.packet_id, answers, b"")
        return Suback(UNSUBACK, reader.packet_id, answers if version == V5 else b"", b"")

    def check(self, reader: SubscribeReader) -> None:
        """Raise PeerError if a filter or its options are malformed."""
        meter = self.meter
        while True:
            meter.start(0)
            before = reader.at
            if not reader.read():
                break
            meter.take(1 + ((reader.at - before) >> CHECK_SHIFT))
        self.is_checked = True
        reader.rewind()

    def subscribe(self, reader: SubscribeReader) -> None:
        """Subscribe to each filter that is left."""
        meter = self.meter
        subscriptions = self.subscriptions
        while True:
            subscriptions.find_retained()
            meter.start(0)
            before = reader.at
            if not reader.read():
                return
            try:
                code = subscriptions.add(reader.filter, reader.options)
            except (Undecided, Later):
                reader.at = before
                raise
            meter.take(FILTER_POINTS + (len(reader.filter) >> CHECK_SHIFT))
            self.answers.append(u8(code))

    def unsubscribe(self, reader: SubscribeReader) -> None:
        """End the subscription to each filter that is left."""
        meter = self.meter
        while True:
            meter.start(0)
            if not reader.read():
                return
            meter.take(FILTER_POINTS + (len(reader.filter) >> CHECK_SHIFT))
            self.answers.append(u8(self.subscriptions.end(reader.filter)))
