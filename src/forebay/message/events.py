"""Events of the broker for their listeners: webhooks, the stream `$events`, the log.

Code that changes something notes an event here and goes on. The server takes the noted events at the end of the turn.
While nobody listens, a note is one lookup in an empty set. For event types that occur with every message, check
`wanted` before building the fields, since the fields cost more than the message.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.log.block import Block
from forebay.message.formats.table import format_of

PUBLISHED: Final = "message.published"
DELIVERED: Final = "message.delivered"
RETAINED: Final = "message.retained"
PUBLISH_DENIED: Final = "authz.publish_denied"
SUBSCRIBE_DENIED: Final = "authz.subscribe_denied"
# Every type, with what its fields are beside `vhost`; docs/reference/event-types.md is made of it.
TYPES: Final = {
    "client.connected": "A client has logged in: connection, peer, protocol, user, client_id.",
    "client.disconnected": "Its connection has ended: the same, and reason unless the client disconnected.",
    "client.session_takeover": "Another connection used the same client identifier: as client.connected.",
    PUBLISHED: "A message was accepted: topic or exchange and routing_key, qos, octets; `messages` if several.",
    DELIVERED: "A message was delivered: queue or client_id, topic or routing_key, octets.",
    RETAINED: "A retained message was set, or removed if octets is 0: topic, qos, octets.",
    "client.messages_lost": "An MQTT client that was too slow or offline lost messages: client_id, messages, in_all.",
    "client.quota_reached": "The messages of an MQTT session exceed mqtt_session_octets_max: client_id, octets.",
    "subscription.created": "An MQTT client has subscribed: client_id, filter, qos.",
    "subscription.removed": "It has unsubscribed: client_id, filter.",
    "consumer.created": "A consumer was added to a queue: queue, consumer, connection, channel.",
    "consumer.deleted": "A consumer of a queue has gone: the same.",
    "auth.success": "A login succeeded: user, peer.",
    "auth.failure": "A login was refused: user, peer, reason.",
    PUBLISH_DENIED: "A client without permission tried to publish: user, and the publish.",
    SUBSCRIBE_DENIED: "A client without permission tried to consume: user, and the request.",
    "limit.reached": "A connection beyond a limit was refused: user, reason.",
    "queue.created": "A queue was declared: queue, type, durable, auto_delete, exclusive, arguments.",
    "queue.deleted": "A queue was deleted: queue.",
    "view.keeps_log": "A view alone keeps what its stream gave up, for 10 s by now: queue, view, messages, octets.",
    "view.let_log_go": "It does so no longer: queue, view.",
    "exchange.created": "An exchange was declared: exchange, type, durable.",
    "exchange.deleted": "An exchange was deleted: exchange.",
    "binding.created": "A binding was added: exchange, destination, destination_type, routing_key.",
    "binding.deleted": "A binding was deleted: the same.",
    "vhost.created": "A vhost was created.",
    "vhost.changed": "Settings of a vhost were changed: the new settings.",
    "vhost.deleted": "A vhost was deleted.",
    "user.created": "A user was created: user, tags.",
    "user.changed": "A user's password or tags were changed: user, what.",
    "user.deleted": "A user was deleted: user.",
    "permission.set": "A user got permissions: user, exchange for a topic permission, and the patterns.",
    "permission.cleared": "Permissions of a user were deleted: user.",
    "policy.set": "A policy was set: policy, operator, pattern, apply_to, definition, priority.",
    "policy.cleared": "A policy was deleted: policy, operator.",
    "config.reloaded": "The configuration was read again: applied, restart.",
    "queue.damaged": "Messages of a queue cannot be read: queue, first, last, file, position, reason.",
    "alarm.set": "An alarm began: alarm, which is memory, disk or damage.",
    "alarm.cleared": "An alarm ended: alarm.",
    "cluster.took_over": "Another node leads the cluster: node, epoch, why, recovery_ms.",
    "cluster.node_in_sync": "A node of the cluster is in sync again: node, epoch.",
    "cluster.node_out_of_sync": "A node is out of sync: node, epoch, why.",
    "cluster.too_few_in_sync": "Nothing is confirmed, as too few nodes answer: in_sync (these), min_in_sync, epoch.",
    "cluster.enough_in_sync": "Enough nodes are in sync again: the same.",
}
QUEUE_NAME: Final = b"$events"
NOTED_MAX: Final = 100_000  # in one turn; beyond it events are counted and lost, so that memory is not


def message_fields(exchange: bytes, key: bytes, format: i64, body: bytes) -> dict[str, object]:
    """Return the event fields of a message. `payload` is removed later for listeners that do not want it."""
    protocol = format_of(format)
    payload = protocol.payload(body)
    fields: dict[str, object] = {"octets": len(payload), "payload": payload}
    if protocol.keys_are_topics:
        fields["topic"] = key
        fields["qos"] = int(protocol.qos(format))
    else:
        fields["exchange"] = exchange
        fields["routing_key"] = key
    return fields


def block_fields(exchange: bytes, key: bytes, block: Block) -> dict[str, object]:
    """Return the event fields of messages published together, for example by Spark."""
    octets = int(block.body_span(0, block.count))
    return {"exchange": exchange, "routing_key": key, "messages": int(block.count), "octets": octets}


def binding_fields(exchange: bytes, destination: bytes, type: str, routing_key: bytes) -> dict[str, object]:
    """Return the event fields of a binding. `type` says whether its destination is a queue or an exchange."""
    return {"exchange": exchange, "destination": destination, "destination_type": type, "routing_key": routing_key}


@final
class Event:
    """One event.

    vhost   empty if it concerns the whole broker
    fields  by name; bytes stand for text, except in `payload`
    """

    def __init__(self, type: str, vhost: bytes, fields: dict[str, object]) -> None:
        self.type = type
        self.vhost = vhost
        self.fields = fields


@final
class Events:
    """The events of the current turn.

    wanted     types that have a listener
    publishes  PUBLISHED is one of them
    noted      events since the server last took them
    lost       number of events beyond NOTED_MAX
    """

    def __init__(self) -> None:
        self.wanted: set[str] = set()
        self.publishes = False
        self.noted: list[Event] = []
        self.lost: i64 = 0

    def listen(self, wanted: set[str]) -> None:
        """Note events of these types from now on, and of no others."""
        self.wanted = wanted
        self.publishes = PUBLISHED in wanted

    def note(self, type: str, vhost: bytes, fields: dict[str, object]) -> None:
        """Note an event if its type has a listener."""
        if type not in self.wanted:
            return
        if len(self.noted) >= NOTED_MAX:
            self.lost += 1
            return
        self.noted.append(Event(type, vhost, fields))

    def take(self) -> list[Event]:
        """Remove and return the events noted since the last call."""
        noted = self.noted
        self.noted = []
        return noted
