"""Events of the broker, for those who want to hear of them: webhooks, the stream `$events`, the log.

Whoever changes something notes it here, and goes on; the server takes what was noted at the end of the turn. While
nobody listens, a note is one look into an empty set. Types of events that come with every message are noted only by
those who have asked `wanted` before, since making up the fields costs more than the message.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.message import FORMAT_MASK, MQTT, QOS_MASK, QOS_SHIFT
from forebay.log.block import Block

PUBLISHED: Final = "message.published"
DELIVERED: Final = "message.delivered"
RETAINED: Final = "message.retained"
# Every type, with what its fields are beside `vhost`; docs/reference/event-types.md is made of it.
TYPES: Final = {
    "client.connected": "A client has logged in: connection, peer, protocol, user, client_id.",
    "client.disconnected": "Its connection has ended: the same, and reason where it was not the client's own wish.",
    "client.session_takeover": "Another connection came with the same client identifier: as client.connected.",
    PUBLISHED: "A message was accepted: topic or exchange and routing_key, qos, octets; `messages` where many came.",
    DELIVERED: "A message was handed to a consumer: queue or client_id, topic or routing_key, octets.",
    RETAINED: "A retained message was set, or removed where octets is 0: topic, qos, octets.",
    "client.messages_lost": "An MQTT client has lost messages, being too slow or away: client_id, messages, in_all.",
    "client.quota_reached": "More waits on disk for an MQTT session than mqtt_session_octets_max: client_id, octets.",
    "subscription.created": "An MQTT client has subscribed: client_id, filter, qos.",
    "subscription.removed": "It has unsubscribed: client_id, filter.",
    "consumer.created": "A queue has a consumer more: queue, consumer, connection, channel.",
    "consumer.deleted": "A queue has a consumer less: the same.",
    "auth.success": "A login was right: user, peer.",
    "auth.failure": "A login was refused: user, peer, reason.",
    "authz.publish_denied": "A client may not publish there: user, and what it asked for.",
    "authz.subscribe_denied": "A client may not consume that: user, and what it asked for.",
    "limit.reached": "A connection was refused, as there are as many as there may be: user, reason.",
    "queue.created": "A queue was made: queue, type, durable, auto_delete, exclusive, arguments.",
    "queue.deleted": "A queue has gone: queue.",
    "exchange.created": "An exchange was made: exchange, type, durable.",
    "exchange.deleted": "An exchange has gone: exchange.",
    "binding.created": "A binding was made: exchange, destination, destination_type, routing_key.",
    "binding.deleted": "A binding has gone: the same.",
    "vhost.created": "A vhost was made.",
    "vhost.changed": "Settings of a vhost were changed: those it has now.",
    "vhost.deleted": "A vhost has gone.",
    "user.created": "A user was made: user, tags.",
    "user.changed": "A user's password or tags were changed: user, what.",
    "user.deleted": "A user has gone: user.",
    "permission.set": "A user was given rights: user, exchange for a topic permission, and the patterns.",
    "permission.cleared": "Rights were taken from a user: user.",
    "policy.set": "A policy was set: policy, operator, pattern, apply_to, definition, priority.",
    "policy.cleared": "A policy was taken away: policy, operator.",
    "config.reloaded": "The configuration was read again: applied, restart.",
    "queue.damaged": "Messages of a queue cannot be read: queue, first, last, file, position, reason.",
    "alarm.set": "Something lacks, or is damaged: alarm, which is memory, disk or damage.",
    "alarm.cleared": "It no longer does: alarm.",
    "cluster.took_over": "Another node leads the cluster: node, epoch, why, recovery_ms.",
    "cluster.node_in_sync": "A node of the cluster is in sync from now on: node, epoch.",
    "cluster.node_out_of_sync": "A node is in sync no more: node, epoch, why.",
    "cluster.too_few_in_sync": "Nothing is confirmed: in_sync, the nodes that answer, min_in_sync, epoch.",
    "cluster.enough_in_sync": "As many are in sync again as must be: the same.",
}
QUEUE_NAME: Final = b"$events"
NOTED_MAX: Final = 100_000  # in one turn; beyond it events are counted and lost, so that memory is not


def message_fields(exchange: bytes, key: bytes, format: i64, body: bytes) -> dict[str, object]:
    """The fields of a message; `payload` only for those who want it."""
    fields: dict[str, object] = {"octets": len(body), "payload": body}
    if format & FORMAT_MASK == MQTT:
        fields["topic"] = key
        fields["qos"] = int((format & QOS_MASK) >> QOS_SHIFT)
    else:
        fields["exchange"] = exchange
        fields["routing_key"] = key
    return fields


def block_fields(exchange: bytes, key: bytes, block: Block) -> dict[str, object]:
    """The fields of messages that came together, from Spark for one."""
    octets = int(block.body_span(0, block.count))
    return {"exchange": exchange, "routing_key": key, "messages": int(block.count), "octets": octets}


def binding_fields(exchange: bytes, destination: bytes, type: str, routing_key: bytes) -> dict[str, object]:
    """The fields of a binding; `type` says whether it leads to a queue or to an exchange."""
    return {"exchange": exchange, "destination": destination, "destination_type": type, "routing_key": routing_key}


@final
class Event:
    """One.

    vhost  empty where it concerns the broker
    fields  by name; octets stand for text, those of `payload` for themselves
    """

    def __init__(self, type: str, vhost: bytes, fields: dict[str, object]) -> None:
        self.type = type
        self.vhost = vhost
        self.fields = fields


@final
class Events:
    """Those of the current turn.

    wanted     types that somebody wants to hear of
    publishes  PUBLISHED is one of them
    noted      since the server took them
    lost       beyond NOTED_MAX
    """

    def __init__(self) -> None:
        self.wanted: set[str] = set()
        self.publishes = False
        self.noted: list[Event] = []
        self.lost: i64 = 0

    def listen(self, wanted: set[str]) -> None:
        """From now on somebody wants to hear of these types, and nobody of others."""
        self.wanted = wanted
        self.publishes = PUBLISHED in wanted

    def note(self, type: str, vhost: bytes, fields: dict[str, object]) -> None:
        """Something has happened; nothing is noted that nobody wants."""
        if type not in self.wanted:
            return
        if len(self.noted) >= NOTED_MAX:
            self.lost += 1
            return
        self.noted.append(Event(type, vhost, fields))

    def take(self) -> list[Event]:
        """The events since the last call."""
        noted = self.noted
        self.noted = []
        return noted
