"""The write-ahead log's notes of MQTT sessions beside the way of messages: facts, as tables in msgpack."""

from __future__ import annotations

from mypy_extensions import i64

from forebay.broker.mqtt.client_session import ClientSession, Subscription


def session_fact(client: ClientSession) -> dict[str, object]:
    """That a session is there, and all of it that is not a message or a subscription."""
    will = client.will
    return {
        "op": "session",
        "id": client.client_id,
        "expiry": int(client.expiry_s),
        "ended": int(client.ended_us),
        "covered": int(client.covered),
        "away": [int(client.away_from), int(client.away_to)],
        "due": int(client.will_due_us),
        "will": None
        if will is None
        else [will.topic, will.body, will.properties, int(will.qos), will.retain, int(will.delay_s)],
    }


def kept_fact(client: ClientSession, end: i64) -> dict[str, object]:
    """The records below `end` that a session still has to get, and what is in flight."""
    bounds: list[int] = []
    for first, last in client.mqueue.logged(0, end):
        bounds += [first, last]
    return {
        "op": "kept",
        "covered": int(end),
        "waiting": bounds,
        "inflight": [[id, value] for id, value in client.inflight.items()],
        "received": sorted(client.received),
    }


def subscribe_fact(subscription: Subscription) -> dict[str, object]:
    """One subscription."""
    return {
        "op": "subscribe",
        "filter": subscription.filter,
        "qos": int(subscription.qos),
        "since": int(subscription.since),
        "no_local": subscription.no_local,
        "keep_retain": subscription.keep_retain,
        "identifier": int(subscription.identifier),
        "arguments": subscription.arguments,
    }
