"""The reasons why an MQTT session has not got a message, or that it has."""

from __future__ import annotations

from forebay.broker.mqtt.client_session import AWAIT_PUBCOMP, PHASE_BITS, ClientSession
from forebay.broker.vhost import Vhost
from forebay.core.units import US_PER_MS
from forebay.management.control import Connections
from forebay.management.explain.reasons import Reason, count, duration
from forebay.management.operations.sessions import AWAITED, PHASE_MASK, gets
from forebay.routing.exchange import text


def session_reasons(
    vhost: Vhost, client: ClientSession, offset: int | None, topic: bytes | None, connections: Connections
) -> list[Reason]:
    """Return the reasons that hold up a session, and the state of one message or topic if given."""
    found = state_reasons(client, vhost.turn.now_us, connections)
    if topic is not None and not any(gets(each, topic) for each in client.subscriptions):
        words = f"none of its {count(len(client.subscriptions), 'subscription')} matches topic '{text(topic)}'"
        filters = [text(each) for each in sorted(client.subscriptions)]
        found.append(Reason("not_subscribed", words, {"topic": text(topic), "filters": filters}))
    if offset is not None:
        found.append(message_reason(client, offset))
    return found


def state_reasons(client: ClientSession, now_us: int, connections: Connections) -> list[Reason]:
    """Return the reasons that hold up all messages for a session."""
    name = text(client.client_id)
    lost = losses(client)
    if not client.connection:
        ended_us = int(client.ended_us)
        words = f"client '{name}' has not been connected for {duration(now_us - ended_us)}"
        fields: dict[str, object] = {"since_ms": ended_us // US_PER_MS, "waiting": int(client.mqueue.count)}
        return [Reason("session_offline", words, fields), *lost]
    known = connections.find(int(client.connection)) or {}
    fields = {"connection": int(client.connection), "peer": known.get("peer"), "waiting": int(client.mqueue.count)}
    found: list[Reason] = lost
    if client.paused:
        words = f"the connection of client '{name}' does not read what it was sent"
        found.append(Reason("connection_paused", words, dict(fields)))
    inflight, size = known.get("inflight"), known.get("inflight_max")
    if isinstance(inflight, int) and isinstance(size, int) and inflight >= size:
        words = f"client '{name}' has {count(inflight, 'message')} unacknowledged, and takes no more than {size}"
        oldest = next(iter(client.inflight), None)
        found.append(
            Reason(
                "window_full", words, {**fields, "inflight": inflight, "inflight_max": size, "oldest_packet_id": oldest}
            )
        )
    return found


def losses(client: ClientSession) -> list[Reason]:
    """Return the reasons that say that the session has lost messages, or is over its quota."""
    found: list[Reason] = []
    if client.over_quota:
        what = "refused" if client.refuses else "held back"
        words = f"more waits for client '{text(client.client_id)}' than it may have, and who publishes to it is {what}"
        found.append(Reason("over_quota", words, {"refused": client.refuses}))
    lost = int(client.lost())
    if not lost:
        return found
    words = f"client '{text(client.client_id)}' did not keep up or was away, and has lost {count(lost, 'message')}"
    return [*found, Reason("messages_lost", words, {"lost": lost, "not_read": int(client.missed)})]


def message_reason(client: ClientSession, offset: int) -> Reason:
    """Return the state for one session of a message in the log of all sessions."""
    for id, word in client.inflight.items():
        phase = word & PHASE_MASK
        if phase != AWAIT_PUBCOMP and word >> PHASE_BITS == offset:
            words = f"it was sent as packet {id}, and the client's {AWAITED[phase]} has not come"
            return Reason("in_flight", words, {"packet_id": id, "awaits": AWAITED[phase]})
    ahead = 0
    for first, end in client.mqueue.logged(0, offset + 1):
        if first <= offset < end:
            ahead += offset - first
            return Reason("session_waits", f"it waits behind {count(ahead, 'message')}", {"ahead": ahead})
        ahead += end - first
    return Reason("not_for_session", "it is not for this session, or the client has had it")
