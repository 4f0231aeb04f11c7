"""The notes of MQTT sessions in the write-ahead log, beside the way of messages: what holds from then on."""

from __future__ import annotations

from typing import Final

import msgspec
from mypy_extensions import i64

from forebay.broker.mqtt.client_session import STORED, ClientSession, Subscription, Will
from forebay.log.housekeeping import merged

WillFields = tuple[bytes, bytes, bytes, int, bool, int]  # topic, body, properties, QoS, RETAIN, delay in seconds


class SessionNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="op"):
    """One note; that of a number is about the session of that number."""

    def encoded(self) -> bytes:
        """Return the note encoded for the log."""
        return msgspec.msgpack.encode(self)


class NextSession(SessionNote, frozen=True, tag="next"):
    """No session gets a number below this one any more."""

    number: int


class HeldSession(SessionNote, frozen=True, tag="session"):
    """A session is there: all of it that is not a message or a subscription."""

    id: bytes
    expiry: int
    ended: int
    covered: int
    away: tuple[int, int]
    due: int
    will: WillFields | None
    user: str = ""
    authority: int = STORED


class KeptMessages(SessionNote, frozen=True, tag="kept"):
    """The records below `covered` that a session still has to get, as first, end, …, and what is in flight."""

    covered: int
    waiting: list[int]
    inflight: list[tuple[int, int]]
    received: list[int]


class HeldSubscription(SessionNote, frozen=True, tag="subscribe"):
    """A subscription is there, with these options."""

    filter: bytes
    qos: int
    since: int
    no_local: bool
    keep_retain: bool
    identifier: int
    arguments: dict[str, object]


class EndedSubscription(SessionNote, frozen=True, tag="unsubscribe"):
    """A subscription is no more."""

    filter: bytes


class EndedSession(SessionNote, frozen=True, tag="end"):
    """The session is over."""


NOTES: Final = msgspec.msgpack.Decoder(
    NextSession | HeldSession | KeptMessages | HeldSubscription | EndedSubscription | EndedSession
)


def session_note(client: ClientSession) -> HeldSession:
    """Return the log note of the current state of a session."""
    return HeldSession(
        client.client_id,
        int(client.expiry_s),
        int(client.ended_us),
        int(client.covered),
        (int(client.away_from), int(client.away_to)),
        int(client.will_due_us),
        None if client.will is None else will_fields(client.will),
        client.owner.user,
        int(client.owner.authority),
    )


def will_fields(will: Will) -> WillFields:
    return will.topic, will.body, will.properties, int(will.qos), will.retain, int(will.delay_s)


def kept_note(client: ClientSession, end: i64) -> KeptMessages:
    """Return a note of the records below `end` that a session still has to get, and of what is in flight."""
    bounds: list[int] = []
    unreadable = client.unreadable
    spans = [(unreadable[at], unreadable[at + 1]) for at in range(0, len(unreadable), 2)]
    for first, last in merged(client.mqueue.logged(0, end) + spans) if spans else client.mqueue.logged(0, end):
        bounds += [first, last]
    return KeptMessages(int(end), bounds, list(client.inflight.items()), sorted(client.received))


def subscription_note(subscription: Subscription) -> HeldSubscription:
    """One subscription as it is now."""
    return HeldSubscription(
        subscription.filter,
        int(subscription.qos),
        int(subscription.since),
        subscription.no_local,
        subscription.keep_retain,
        int(subscription.identifier),
        subscription.arguments,
    )
