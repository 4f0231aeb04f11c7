"""Operations on MQTT sessions, on what they subscribe to, and on retained messages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, TypeAlias, cast

from forebay.broker.mqtt.client_session import (
    AWAIT_PUBACK,
    AWAIT_PUBCOMP,
    AWAIT_PUBREC,
    NEVER,
    PHASE_BITS,
    ClientSession,
    Subscription,
)
from forebay.broker.mqtt.fanout import topic_at
from forebay.broker.mqtt.retained import RetainedMessage
from forebay.broker.mqtt.sessions import is_topic
from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, NOT_FOUND, RequestError
from forebay.core.units import US_PER_MS
from forebay.log.block import Block
from forebay.management.arguments import PAGE_OCTETS_MAX, octets, refuse
from forebay.management.control import Control, operation, page
from forebay.management.needs import ENTER
from forebay.management.operations.queues import message_fields
from forebay.management.requests.explain import MessageExplainRequest
from forebay.management.requests.fields import EmptyAnswer, ListPage
from forebay.management.requests.queues import BodyFields, MessageFields, MessagePage
from forebay.management.requests.sessions import (
    DeletedSession,
    InflightFields,
    RetainedDeleteRequest,
    RetainedDetails,
    RetainedFields,
    RetainedListRequest,
    RetainedShowRequest,
    SessionCloseRequest,
    SessionDeleteRequest,
    SessionDetails,
    SessionFields,
    SessionListRequest,
    SessionMessagesRequest,
    SessionShowRequest,
    SubscriptionFields,
    SubscriptionListRequest,
    WillFields,
)
from forebay.message.address import shared_topics
from forebay.message.formats.table import format_of
from forebay.message.properties import properties_of
from forebay.message.shown import body_shown, plain
from forebay.message.subject import RecordSubject
from forebay.routing.exchange import text
from forebay.routing.topic_trie import check_filter, check_topic, matches

AWAITED: Final = {AWAIT_PUBACK: "PUBACK", AWAIT_PUBREC: "PUBREC", AWAIT_PUBCOMP: "PUBCOMP"}
PHASE_MASK: Final = (1 << PHASE_BITS) - 1
OfClient: TypeAlias = (
    SessionShowRequest
    | SessionMessagesRequest
    | SessionCloseRequest
    | SessionDeleteRequest
    | SubscriptionListRequest
    | MessageExplainRequest
)
DELETED: Final = "the session was deleted by an administrator"


# ---- sessions


@operation("session.list", need=ENTER)
def list_sessions(control: Control, given: SessionListRequest) -> ListPage[SessionFields]:
    """List the MQTT sessions of a vhost by client identifier, with their connections and waiting messages."""
    clients = sorted_clients(control.vhost(given))
    if given.connected is not None:
        wanted = given.connected
        clients = [client for client in clients if bool(client.connection) == wanted]
    return page(given, [partial(session_fields, client) for client in clients])


@operation("session.show", need=ENTER)
def show_session(control: Control, given: SessionShowRequest) -> SessionDetails:
    """Show an MQTT session: subscriptions, packets in flight with the answer that each awaits, and its will."""
    vhost = control.vhost(given)
    client = client_of(vhost, given)
    return {
        **session_fields(client),
        "subscriptions_list": [subscription_fields(each) for _, each in sorted(client.subscriptions.items())],
        "inflight_list": [inflight_fields(vhost, id, word) for id, word in client.inflight.items()],
        "received_list": sorted(client.received),
        "will": will_fields(client),
    }


def will_fields(client: ClientSession) -> WillFields | None:
    """Return the will of a session; None where it has none."""
    will = client.will
    if will is None:
        return None
    return {
        "topic": text(will.topic),
        "qos": int(will.qos),
        "retain": will.retain,
        "delay_s": int(will.delay_s),
        "octets": len(will.body),
        "due_ms": int(client.will_due_us) // US_PER_MS or None,
    }


@operation("session.messages")
def list_session_messages(control: Control, given: SessionMessagesRequest) -> MessagePage:
    """Show the messages that wait for a durable MQTT session or are in flight to it, in the order of their publishes.

    No message is delivered. Messages at QoS 0 to a connected session are not stored, and not shown. Offsets are those
    of the log that all sessions of the vhost share.
    """
    vhost = control.vhost(given)
    client = client_of(vhost, given)
    limit = given.limit
    octets_max = given.body_octets_max
    log = vhost.sessions.log
    flying = {word >> PHASE_BITS: id for id, word in client.inflight.items() if word & PHASE_MASK != AWAIT_PUBCOMP}
    offsets = [*flying]
    first = given.first
    for low, end in client.mqueue.logged(max(first, int(log.start)), log.end):
        offsets += range(low, min(end, low + limit + 1))
    items: list[MessageFields] = []
    octets = 0
    for offset in sorted({each for each in offsets if each >= first}):
        if len(items) == limit or octets > PAGE_OCTETS_MAX:
            return {"items": items, "next": offset}
        block = log.block(offset)
        if block is None or block.base > offset:
            continue
        shown = message_fields(RecordSubject(b"", block, offset - block.base, vhost.turn.now_us), octets_max)
        octets += int(block.body_span(offset - block.base, 1))
        shown["topic"] = text(topic_at(block, offset - block.base))
        shown["packet_id"] = flying.get(offset)
        items.append(shown)
    return {"items": items}


@operation("session.close", changes=True)
def close_session(control: Control, given: SessionCloseRequest) -> EmptyAnswer:
    """Close the connection of an MQTT session; a durable session remains, and its client may reconnect."""
    client = client_of(control.vhost(given), given)
    if not client.connection or not control.connections.close(int(client.connection), "closed by an administrator"):
        raise RequestError(NOT_FOUND, f"client_id: {text(client.client_id)!r} is not connected")
    return {}


@operation("session.delete", changes=True)
def delete_session(control: Control, given: SessionDeleteRequest) -> DeletedSession:
    """Delete an MQTT session with its subscriptions and waiting messages; the broker publishes its will, if any.

    A connected client is told, and disconnected.
    """
    vhost = control.vhost(given)
    client = client_of(vhost, given)
    fields: DeletedSession = {"waiting": int(client.mqueue.count), "inflight": len(client.inflight)}
    if client.connection:
        control.connections.close(int(client.connection), DELETED)
    vhost.clients.forget(client)
    return fields


def client_of(vhost: Vhost, given: OfClient) -> ClientSession:
    """Return the session that a request names. Raises RequestError(NOT_FOUND)."""
    assert given.client_id is not None, "the caller has seen to it"
    found = vhost.sessions.of_identifier(octets(given.client_id))
    if given.user is not None:
        found = [client for client in found if client.owner.user == given.user]
    if not found:
        of_user = f" of user {given.user!r}" if given.user is not None else ""
        raise RequestError(
            NOT_FOUND, f"client_id: no session {given.client_id!r}{of_user} in vhost '{text(vhost.name)}'"
        )
    if len(found) > 1:
        users = ", ".join(sorted(repr(client.owner.user) for client in found))
        raise RequestError(
            INVALID, f"client_id: {given.client_id!r} has a session of each of {users}; name the user, too"
        )
    return found[0]


def sorted_clients(vhost: Vhost) -> list[ClientSession]:
    """Return the sessions of a vhost by client identifier, and user where several have the same."""
    return sorted(vhost.sessions.by_number.values(), key=lambda client: (client.client_id, client.owner.user))


def session_fields(client: ClientSession) -> SessionFields:
    """Return the summary fields of a session. `expiry_s` is None if the session never expires."""
    return {
        "client_id": text(client.client_id),
        "user": client.owner.user or None,
        "connected": bool(client.connection),
        "connection": int(client.connection) or None,
        "durable": client.durable,
        "expiry_s": None if client.expiry_s == NEVER else int(client.expiry_s),
        "ended_ms": int(client.ended_us) // US_PER_MS or None,
        "subscriptions": len(client.subscriptions),
        "waiting": int(client.mqueue.count),
        "dropped": int(client.mqueue.dropped),
        "inflight": len(client.inflight),
        "received": len(client.received),
        "paused": client.paused,
    }


def inflight_fields(vhost: Vhost, id: int, word: int) -> InflightFields:
    phase = word & PHASE_MASK
    fields: InflightFields = {"packet_id": id, "awaits": AWAITED[phase]}
    if phase == AWAIT_PUBCOMP:
        return fields  # the client has the message: only the end of the handshake is owed
    offset = word >> PHASE_BITS
    block = vhost.sessions.log.block(offset)
    fields["offset"] = offset
    if block is not None and block.base <= offset:
        fields["topic"] = text(topic_at(block, offset - block.base))
        fields["stored_ms"] = stored_ms(block, offset)
    return fields


def stored_ms(block: Block, offset: int) -> int:
    return int(block.timestamp_us(offset - block.base)) // US_PER_MS


# ---- subscriptions


@operation("subscription.list", need=ENTER)
def list_subscriptions(control: Control, given: SubscriptionListRequest) -> ListPage[SubscriptionFields]:
    """List the subscriptions of a vhost's MQTT sessions, by client identifier and filter."""
    vhost = control.vhost(given)
    clients: Sequence[ClientSession] = [client_of(vhost, given)] if given.client_id is not None else []
    if given.client_id is None:
        clients = sorted_clients(vhost)
    found = [each for client in clients for _, each in sorted(client.subscriptions.items())]
    if given.topic is not None:
        topic = octets(given.topic)
        check_topic(topic)
        found = [each for each in found if gets(each.filter, topic)]
    return page(given, [partial(subscription_fields, each) for each in found])


def gets(filter: bytes, topic: bytes) -> bool:
    """Return whether a topic filter, shared or not, matches this topic."""
    topics = shared_topics(filter)
    if topics == filter and not is_topic(filter):
        return False
    if topic.startswith(b"$") and topics[:1] in (b"+", b"#"):
        return False  # [MQTT-4.7.2-1]
    return matches(topics, topic)


def subscription_fields(subscription: Subscription) -> SubscriptionFields:
    return {
        "client_id": text(subscription.client.client_id),
        "connected": bool(subscription.client.connection),
        "filter": text(subscription.filter),
        "qos": int(subscription.qos),
        "no_local": subscription.no_local,
        "retain_as_published": subscription.keep_retain,
        "identifier": int(subscription.identifier) or None,
        "arguments": plain(subscription.arguments),
    }


# ---- retained messages


@operation("retained.list", need=ENTER)
def list_retained(control: Control, given: RetainedListRequest) -> ListPage[RetainedFields]:
    """List the retained messages of topics that match a filter, in the order in which they were stored."""
    vhost = control.vhost(given)
    filter = octets(given.filter)
    check_filter(filter)
    return page(given, [partial(retained_fields, vhost, number) for number in vhost.retained.numbers(filter)])


@operation("retained.show")
def show_retained(control: Control, given: RetainedShowRequest) -> RetainedDetails:
    """Show a retained message with its properties and body."""
    vhost = control.vhost(given)
    number = retained_number(vhost, given)
    message = vhost.retained.message(number, vhost.turn.now_us)
    if message is None:
        raise no_retained(given)
    properties = properties_of(message.format, message.properties)
    body = body_shown(format_of(message.format).payload(message.body), given.body_octets_max)
    return {
        **retained_fields(vhost, number),
        "content_type": properties.content_type,
        "headers": {key: plain(value) for key, value in properties.named_values()},
        **cast("BodyFields", body),
    }


@operation("retained.delete", changes=True)
def delete_retained(control: Control, given: RetainedDeleteRequest) -> EmptyAnswer:
    """Delete a topic's retained message; subscribers are not told."""
    vhost = control.vhost(given)
    retained_number(vhost, given)
    refusal = vhost.retained.put(octets(given.topic), 0, b"", b"", vhost.turn.now_us)
    if refusal:
        raise refuse("topic", given.topic, refusal)
    return {}


def retained_number(vhost: Vhost, given: RetainedShowRequest | RetainedDeleteRequest) -> int:
    topic = octets(given.topic)
    check_topic(topic)
    number = vhost.retained.tree.get(topic)
    if number is None:
        raise no_retained(given)
    return int(number)


def no_retained(given: RetainedShowRequest | RetainedDeleteRequest) -> RequestError:
    return RequestError(NOT_FOUND, f"topic: nothing is retained for {given.topic!r}")


def retained_fields(vhost: Vhost, number: int) -> RetainedFields:
    """Return the fields of a retained message; an empty dict if it has just gone."""
    message: RetainedMessage | None = vhost.retained.message(number, vhost.turn.now_us)
    if message is None:
        return {}
    place = vhost.retained.places.get(number)
    return {
        "topic": text(message.topic),
        "octets": len(message.body),
        "qos": int(format_of(message.format).qos(message.format)),
        "protocol": format_of(message.format).name,
        "stored_ms": int(message.stamp_us) // US_PER_MS,
        "expires_ms": int(place.due_us) // US_PER_MS if place is not None and place.due_us else None,
        "durable": place is not None,
    }
