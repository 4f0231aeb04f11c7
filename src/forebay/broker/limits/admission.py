"""Admission: what a vhost takes, as far as the disk has room for it and no MQTT session has too much waiting."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.broker.common import Common
from forebay.broker.limits.session_quota import SessionQuota
from forebay.broker.mqtt.audience import Audience
from forebay.broker.mqtt.client_session import ClientSession
from forebay.broker.publish.router import Route
from forebay.log.store import Store
from forebay.routing.exchange import text


@final
class Admission:
    """Says of each message whether it is taken.

    quota     of MQTT sessions
    refusal   why the last one was not taken
    rejected  how many were not
    """

    def __init__(self, store: Store, common: Common, quota: SessionQuota) -> None:
        self.store = store
        self.common = common
        self.quota = quota
        self.refusal = ""
        self.rejected: i64 = 0

    def take_room(self, octets: i64) -> bool:
        """Count so much towards what the log has room for; False, with a `refusal`, if the disk is full."""
        common = self.common
        if octets > common.room and not self.make_room(octets):
            return False
        common.room -= octets
        return True

    def has_room(self, octets: i64) -> bool:
        """True if `take_room` would give so much."""
        return octets <= self.common.room or self.make_room(octets)

    def make_room(self, octets: i64) -> bool:
        """Let the log grow by so much; False if the disk is full."""
        common = self.common
        gathered = common.gathered()
        if self.store.reserve(gathered + octets):
            common.room = self.store.room() - gathered
            return True
        common.room = 0
        self.refuse("no room on the disk")
        return False

    def is_over_quota(self, route: Route) -> bool:
        """True if a message would go to a session for which too much waits; says `refusal`.

        One of QoS 0 is not asked about: it passes over such a session.
        """
        client = refusing_client(route.audience)
        for copy in route.copies:
            client = client or refusing_client(copy.audience)
        if client is None:
            return False
        waits = f"more than {self.quota.octets_max} octets wait for it, mqtt_session_octets_max"
        self.refuse(f"MQTT client '{text(client.client_id)}' takes no more: {waits}")
        return True

    def refuse(self, why: str) -> None:
        """A message is not taken."""
        self.rejected += 1
        self.refusal = why


def refusing_client(audience: Audience | None) -> ClientSession | None:
    """The first of them that takes nothing of QoS 1 and 2."""
    if audience is not None:
        for recipient in audience.logged:
            if recipient.qos and recipient.client.refuses:
                return recipient.client
    return None
