"""MQTT clients: their sessions come and go, subscribe, get what is retained, and leave wills behind."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64, u8

from forebay.broker.consuming.shares import Shares
from forebay.broker.internal_log import RECORD_OVERHEAD
from forebay.broker.mqtt.audience import DIRECT, LOGGED, Audience, Recipient, identifier_property
from forebay.broker.mqtt.client_session import ANONYMOUS, STORED, ClientSession, Owner, Subscription, Will
from forebay.broker.mqtt.clients_contract import ClientsContract
from forebay.broker.mqtt.retained import Retained, RetainedMessage, RetainedSearch
from forebay.broker.mqtt.sessions import Sessions, is_topic
from forebay.broker.publish.publishing import Publishing
from forebay.core.errors import note_half_change
from forebay.core.message import QOS_MASK, QOS_SHIFT, RETAINED
from forebay.message.address import TOPIC_EXCHANGE
from forebay.message.formats.table import topic_octet
from forebay.routing.topic_trie import check_filter
from forebay.wire.mqtt.codes import SHARE_PREFIX
from forebay.wire.mqtt.properties import WILL_DELAY, rest_of_expiry, without


@final
class Clients(ClientsContract):
    """The MQTT clients of a vhost, as those who speak for them use their sessions."""

    def __init__(self, publishing: Publishing, sessions: Sessions, retained: Retained, shares: Shares) -> None:
        self.publishing = publishing
        self.sessions = sessions
        self.retained = retained
        self.shares = shares
        self.catalog = publishing.catalog
        self.turn = publishing.turn
        self.crowding = publishing.crowding
        self.events = publishing.events

    def attach(
        self, client_id: bytes, connection: i64, clean: bool, expiry_s: i64, will: Will | None, owner: Owner
    ) -> ClientSession:
        """Take up or make the session of a client identifier for a connection: see `Sessions.attach`."""
        return self.sessions.attach(client_id, connection, clean, expiry_s, will, owner)

    def check_subscription(self, client: ClientSession, wanted: Subscription, session_id: i64, octets: i64) -> None:
        """Refuse with RequestError(TOO_MANY) if there is no memory for a subscription and its consumer's `octets`."""
        self.sessions.check_room(client, wanted)
        self.catalog.memory.check(session_id, octets, "topic filter")

    def subscribe(self, client: ClientSession, wanted: Subscription) -> bool:
        """Add or change a subscription of an MQTT session; whether it is new.

        raises  RequestError: INVALID for no filter, TOO_MANY where there is no memory for it
        """
        try:
            self.sessions.check_room(client, wanted)
            if wanted.filter.startswith(SHARE_PREFIX):
                self.shares.join(wanted.filter, client, self.turn.now_us)
            elif is_topic(wanted.filter):
                check_filter(wanted.filter)
            is_new = self.sessions.subscribe(client, wanted)
            if is_new:
                fields: dict[str, object] = {"client_id": client.client_id, "filter": wanted.filter}
                fields["qos"] = int(wanted.qos)
                self.events.note("subscription.created", self.catalog.name, fields)
            return is_new
        except Exception as error:
            note_half_change(error)
            raise

    def unsubscribe(self, client: ClientSession, filter: bytes) -> bool:
        """End a subscription of an MQTT session; False where there is none."""
        try:
            if filter.startswith(SHARE_PREFIX):
                self.shares.leave(filter, client.number)
            was_there = self.sessions.unsubscribe(client, filter)
            if was_there:
                self.events.note(
                    "subscription.removed", self.catalog.name, {"client_id": client.client_id, "filter": filter}
                )
            return was_there
        except Exception as error:
            note_half_change(error)
            raise

    def detach(self, client: ClientSession, connection: i64) -> None:
        """The connection of an MQTT session is gone."""
        try:
            self.sessions.detach(client, connection, self.turn.now_us)
        except Exception as error:
            note_half_change(error)
            raise

    def forget(self, client: ClientSession) -> None:
        """End an MQTT session whatever its expiry says; the connection that has it, if any, is the server's to end."""
        try:
            self.sessions.connected.pop(int(client.connection), None)
            self.sessions.end(client)
        except Exception as error:
            note_half_change(error)
            raise

    def end_sessions_of(self, user: str) -> None:
        """End the sessions of a user who was deleted: whoever is made under that name later is somebody else."""
        for client in list(self.sessions.by_number.values()):
            if client.owner.user == user and client.owner.authority in (STORED, ANONYMOUS):
                self.forget(client)

    def fill(self, session_id: i64, full: bool) -> None:
        """A connection has more to send than it should, or less again: who publishes to it is held back meanwhile."""
        try:
            client = self.sessions.connected.get(int(session_id))
            if client is not None:
                client.full = full
                if full:
                    self.crowding.check(client, self.turn.now_us)
                else:
                    self.crowding.look(client, self.turn.now_us)
        except Exception as error:
            note_half_change(error)
            raise

    def search_retained(self, filter: bytes) -> RetainedSearch:
        """Return the search for retained topics that a filter matches, to be run."""
        return self.retained.search(filter)

    def retained_numbers(self, filter: bytes) -> list[int]:
        """Return the numbers, for `retained_message`, of retained topics that a filter matches."""
        return self.retained.numbers(filter)

    def retained_message(self, number: i64) -> RetainedMessage | None:
        """Return a retained message, None if it is there no longer or has expired."""
        return self.retained.message(number, self.turn.now_us)

    def give_retained(self, client: ClientSession, qos: i64, identifier: i64, message: RetainedMessage) -> None:
        """Deliver a retained message to a client that has just subscribed."""
        try:
            format = message.format | RETAINED
            qos = min(qos, (message.format & QOS_MASK) >> QOS_SHIFT)
            recipient = Recipient(client, LOGGED if qos and client.durable else DIRECT, qos)
            recipient.identifiers = identifier_property(identifier)
            properties = rest_of_expiry(message.properties, self.turn.now_us - message.stamp_us)
            audience = Audience()
            if recipient.queue == LOGGED:
                octets = len(properties) + len(message.body) + RECORD_OVERHEAD + len(message.topic)
                if self.publishing.admission.take_room(octets):
                    audience.logged.append(recipient)
                    self.sessions.append_private(client, audience, u8(format), message.topic, properties, message.body)
                return
            audience.direct.append(recipient)
            self.publishing.fanout.append(audience, u8(format), TOPIC_EXCHANGE, message.topic, properties, message.body)
        except Exception as error:
            note_half_change(error)
            raise

    def publish_will(self, will: Will) -> None:
        block = without(will.properties, 1 << WILL_DELAY)
        self.publishing.publish_topic(will.topic, topic_octet(will.qos, will.retain), block, will.body)

    def end_sessions(self) -> None:
        """Take care of what ended sessions leave behind: wills, and places in shared subscriptions."""
        sessions = self.sessions
        while sessions.wills or sessions.left:
            for _, will in sessions.take_wills():
                self.publish_will(will)
            for subscription in sessions.take_left():
                if subscription.filter.startswith(SHARE_PREFIX):
                    self.shares.leave(subscription.filter, subscription.client.number)
