"""Events on their way out of the turn: who listens, and what each listener hears.

Sessions and vhosts note what they do (message/events.py); what concerns connections is noted here, where peers are
known. Each turn begins with telling the listeners what was noted since the turn before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from forebay.broker.catalog.configured import configure_queue
from forebay.broker.mqtt.audience import Recipient
from forebay.broker.publish.route import Route
from forebay.broker.vhost import Vhost
from forebay.broker.vhosts import Vhosts
from forebay.core.errors import OptionError
from forebay.core.message import ACCEPTED, QOS_SHIFT
from forebay.core.options import Options
from forebay.core.reading.nearest import hint
from forebay.core.units import US_PER_S
from forebay.message.events import DELIVERED, QUEUE_NAME, TYPES, Event, message_fields
from forebay.message.formats.table import topic_octet
from forebay.node.link import Link
from forebay.queue.leases.lease import Delivery
from forebay.queue.queue import STREAM
from forebay.session.session import Session
from forebay.wire.mqtt.properties import CONTENT_TYPE, Property, encode_properties

QOS_1: Final = 1 << QOS_SHIFT
PROPERTIES: Final = encode_properties([Property(CONTENT_TYPE, 0, b"application/json", b"")])
DESCRIBED: Final = ("protocol", "user", "client_id")  # of what `Session.describe` knows
PAYLOAD: Final = "payload"


class Told:
    """A numbered event, as listeners receive it.

    number   of the event, from 1 since the broker's start
    time_us  of the turn in which it was noted
    payload  of the message that it is about; None for other events
    """

    def __init__(self, event: Event, number: int, time_us: int) -> None:
        self.type = event.type
        self.vhost = event.vhost.decode("utf-8", "backslashreplace")
        self.number = number
        self.time_us = time_us
        payload = event.fields.pop(PAYLOAD, None)
        self.payload = payload if isinstance(payload, bytes) else None
        self.fields = {name: plain(value) for name, value in event.fields.items()}

    def as_object(self) -> dict[str, object]:
        """Return the event as a JSON object, without the payload."""
        time = datetime.fromtimestamp(self.time_us / US_PER_S, UTC).isoformat(timespec="milliseconds")
        return {
            "type": self.type,
            "time": time.replace("+00:00", "Z"),
            "number": self.number,
            "vhost": self.vhost,
            "data": self.fields,
        }


class Listener(ABC):
    """A listener to events."""

    @abstractmethod
    def wanted(self) -> set[str]:
        """Return the event types that the listener wants now."""

    @abstractmethod
    def hear(self, told: Sequence[Told]) -> None:
        """Receive events, also of unwanted types. Called within the turn, so it must not take long."""


class Announcer:
    """The source of events for listeners.

    stream     hears of it within the turn, of which its messages become part
    listeners  others, who hear of it when the turn is over: from whoever has the node
    listening  somebody wants to hear of something
    delivers   of messages that are delivered, too
    """

    def __init__(self, vhosts: Vhosts) -> None:
        self.events = vhosts.events
        self.stream = EventStream(vhosts)
        self.listeners: list[Listener] = []
        self.listening = False
        self.delivers = False
        self.number = 0
        self._known: dict[Link, dict[str, object]] = {}  # connections whose login was announced
        self._alarms: list[str] = []

    def configure(self, options: Options) -> None:
        """Announce the events that the options name."""
        self.stream.keep(options.events, options.events_max_age_s, options.events_octets_max)
        self.changed()

    def add(self, listener: Listener) -> None:
        """Add a listener, which is notified from now on."""
        self.listeners.append(listener)
        self.changed()

    def changed(self) -> None:
        """Update the wanted event types, as listeners have changed theirs."""
        wanted = set(self.stream.wanted())
        for each in self.listeners:
            wanted |= each.wanted()
        self.events.listen(wanted)
        self.listening = bool(wanted)
        self.delivers = DELIVERED in wanted

    # ---- what the server knows

    def look(self, connections: Iterable[Link]) -> None:
        """Record an event for each of these connections that has logged in since the last turn."""
        for connection in connections:
            session = connection.session
            if session is not None and session.rights.user and connection not in self._known:
                self.connected(connection, session)

    def connected(self, connection: Link, session: Session) -> None:
        fields = connection_fields(connection, session)
        self._known[connection] = fields
        self.events.note("client.connected", session.vhost.name, dict(fields))

    def ended(self, connection: Link, session: Session) -> None:
        """Record that a connection is gone, if its login was announced or should have been."""
        if connection not in self._known and session.rights.user:
            self.connected(connection, session)
        fields = self._known.pop(connection, None)
        if fields is not None:
            fields["reason"] = session.reason
            self.events.note("client.disconnected", session.vhost.name, fields)

    def taken_over(self, connection: Link, session: Session) -> None:
        """Note that another connection has taken the session of this one."""
        self.events.note("client.session_takeover", session.vhost.name, connection_fields(connection, session))

    def delivered(self, delivery: Delivery, session: Session) -> None:
        """Note each message of a run that is delivered, but not the events themselves."""
        consumer, block = delivery.consumer, delivery.block
        if consumer.queue_name == QUEUE_NAME:
            return
        for index in range(delivery.index, delivery.index + delivery.count):
            fields = message_fields(
                block.exchange(index), block.routing_key(index), block.format(index), block.body(index)
            )
            fields["connection"] = int(session.id)
            if isinstance(consumer, Recipient):
                fields["client_id"] = consumer.client.client_id
            else:
                fields["queue"] = consumer.queue_name
            self.events.note(DELIVERED, session.vhost.name, fields)

    def alarms(self, alarms: list[str]) -> None:
        """Record events for alarms that are newly set or cleared."""
        for name in alarms:
            if name not in self._alarms:
                self.events.note("alarm.set", b"", {"alarm": name})
        for name in self._alarms:
            if name not in alarms:
                self.events.note("alarm.cleared", b"", {"alarm": name})
        self._alarms = alarms

    # ---- telling

    def tell(self, connections: Iterable[Link], now_us: int) -> Sequence[Told]:
        """Return new events for the listeners, numbered, with logins of these connections since the last call."""
        self.look(connections)
        noted = self.events.take()
        if not noted:
            return ()
        told = [Told(event, self.number + at, now_us) for at, event in enumerate(noted, 1)]
        self.number += len(told)
        self.stream.hear(told)
        return told


class EventStream(Listener):
    """The stream `$events` of the default vhost: events as messages, for whoever consumes queues.

    topic   of each is its type: `client/connected`, which is the routing key `client.connected`
    lost    that the stream did not take
    vhost   in which the stream was made; None before
    """

    def __init__(self, vhosts: Vhosts) -> None:
        self.vhosts = vhosts
        self.types: set[str] = set()
        self.arguments: dict[str, object] = {}
        self.lost = 0
        self.vhost: Vhost | None = None

    def keep(self, patterns: Sequence[str], max_age_s: int, octets_max: int) -> None:
        """Store events that match the patterns in a stream, for at most `max_age_s` and `octets_max`."""
        self.types = matching(patterns)
        self.arguments = {"x-queue-type": "stream", "x-max-length-bytes": octets_max}
        if max_age_s:
            self.arguments["x-max-age"] = f"{max_age_s}s"
        self.vhost = self.vhosts.default()
        if self.types and self.vhost is not None:
            configure_queue(self.vhost.catalog, QUEUE_NAME, dict(self.arguments), [], False)

    def wanted(self) -> set[str]:
        return self.types

    def hear(self, told: Sequence[Told]) -> None:
        mine = [each for each in told if each.type in self.types]
        if not mine:
            return
        vhost = self.vhosts.default()
        if vhost is not None and vhost is not self.vhost:
            self.vhost = vhost  # the vhost was created again, and has no stream yet
            configure_queue(vhost.catalog, QUEUE_NAME, dict(self.arguments), [], False)
        queue = None if vhost is None else vhost.catalog.queues.get(QUEUE_NAME)
        if vhost is None or queue is None or queue.kind != STREAM:
            self.lost += len(mine)  # an operator has deleted the stream, so no events are stored
            return
        vhost.touch()
        events = vhost.events
        publishes, events.publishes = events.publishes, False  # storing an event must not cause another event
        for each in mine:
            route = Route(b"", each.type.replace(".", "/").encode(), [queue], None)
            body = msgspec.json.encode(each.as_object())
            if vhost.publishing.publish(route, topic_octet(1, False), PROPERTIES, body).status != ACCEPTED:
                self.lost += 1
        events.publishes = publishes


def connection_fields(connection: Link, session: Session) -> dict[str, object]:
    known = session.describe()
    fields: dict[str, object] = {"connection": int(session.id), "peer": connection.peer}
    fields.update({name: known[name] for name in DESCRIBED if name in known})
    return fields


def plain(value: object) -> object:
    """Return a value converted to one that JSON can hold."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {str(plain(key)): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, str):  # the name of a login over AMQP may be octets that are no text
        return value.encode("utf-8", "backslashreplace").decode()
    return value if isinstance(value, int | float | bool) or value is None else str(value)


def matching(patterns: Iterable[str]) -> set[str]:
    """Return the event types that match any of the patterns, such as `client.*`."""
    return {type for pattern in patterns for type in TYPES if fnmatchcase(type, pattern)}


def check_patterns(path: str, patterns: Iterable[str]) -> None:
    """Raise OptionError if a pattern matches no event type."""
    for pattern in patterns:
        if not matching([pattern]):
            raise OptionError(f"{path}: no event matches {pattern!r}; {hint(pattern, TYPES)}")
