"""Admission: what a vhost takes, as far as the disk has room for it and no MQTT session has too much waiting."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64, u8

from forebay.broker.internal_log import RECORD_OVERHEAD
from forebay.broker.mqtt.audience import Audience
from forebay.broker.mqtt.client_session import ClientSession
from forebay.broker.mqtt.crowding import Crowding
from forebay.broker.mqtt.session_quota import SessionQuota
from forebay.broker.publish.outcome import NO_ROOM, PublishOutcome
from forebay.broker.publish.route import Route
from forebay.broker.shared.store_room import StoreRoom
from forebay.core.errors import note_half_change
from forebay.core.message import REJECTED
from forebay.message.formats.table import AT_QOS_0
from forebay.routing.exchange import text


@final
class Admission:
    """Says of each message whether it is taken.

    quota     of MQTT sessions
    rejected  how many were not taken
    """

    def __init__(self, room: StoreRoom, crowding: Crowding, quota: SessionQuota) -> None:
        self.room = room
        self.crowding = crowding
        self.quota = quota
        self.rejected: i64 = 0

    def admit(self, route: Route, format: u8, octets: i64, owed: bool) -> PublishOutcome | None:
        """Count a message towards what the log has room for. Return its refusal, or None.

        octets  of the message without its address
        owed    the broker has taken it long ago: no session's quota refuses it
        """
        octets = (octets + RECORD_OVERHEAD + len(route.exchange) + len(route.routing_key)) * route.durable
        room = self.room
        if octets > room.octets or self.crowding.refusing:
            if self.crowding.refusing and not owed and not AT_QOS_0[i64(format)]:
                refusal = self.over_quota(route)
                if refusal is not None:
                    return refusal
            if octets > room.octets and not self.make_room(octets):
                return NO_ROOM
        room.octets -= octets
        return None

    def take_room(self, octets: i64) -> bool:
        """Count so much towards what the log has room for; False if the disk is full."""
        try:
            room = self.room
            if octets > room.octets and not self.make_room(octets):
                return False
            room.octets -= octets
            return True
        except Exception as error:
            note_half_change(error)
            raise

    def has_room(self, octets: i64) -> bool:
        """Return whether `take_room` would grant `octets` bytes."""
        return octets <= self.room.octets or self.make_room(octets)

    def make_room(self, octets: i64) -> bool:
        """Let the log grow by so much; False if the disk is full."""
        if self.room.grow(octets):
            return True
        self.rejected += 1
        return False

    def refuses(self, route: Route) -> bool:
        """Return whether a message would be refused for a session for which too much waits."""
        return self.crowding.refusing > 0 and self.over_quota(route) is not None

    def over_quota(self, route: Route) -> PublishOutcome | None:
        """Return the refusal of a message that would go to a session for which too much waits, or None.

        One of QoS 0 is not asked about: it passes over such a session.
        """
        client = refusing_client(route.audience)
        for copy in route.copies:
            client = client or refusing_client(copy.audience)
        if client is None:
            return None
        self.rejected += 1
        waits = f"more than {self.quota.octets_max} octets wait for it, mqtt_session_octets_max"
        return PublishOutcome(REJECTED, f"MQTT client '{text(client.client_id)}' takes no more: {waits}")


def refusing_client(audience: Audience | None) -> ClientSession | None:
    """Return the first client of an audience that refuses messages of QoS 1 and 2, or None."""
    if audience is not None:
        for recipient in audience.logged:
            if recipient.qos and recipient.client.refuses:
                return recipient.client
    return None
