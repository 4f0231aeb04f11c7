"""Reasons why a message is where it is: each with a sentence for people and fields for programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from forebay.core.units import US_PER_MS
from forebay.management.control import Connections
from forebay.queue.leases.lease import Consumer
from forebay.routing.exchange import text

# Every code, the worst first: what no consumer can change, then what somebody has to change, then what time mends.
CODES: Final = {
    "damaged": "The message cannot be read: the disk does not return what was written.",
    "behind_damage": "The group delivers nothing, because an earlier message cannot be read.",
    "gone": "The message has left the log: by retention, or because every group has settled it.",
    "dead_lettered": "The message died here, and is in another queue now.",
    "settled": "The message was acknowledged, discarded or purged, or it died without a dead-letter exchange.",
    "pinned": "Only one group or reader keeps the message in the log.",
    "dead_letter_waiting": "The message died, but its dead-letter exchange cannot take it yet.",
    "not_there": "The queue has no message with this offset yet.",
    "delivered": "The stream's group has read the message.",
    "expired": "The message has expired: it dies at the head of the queue, and readers of a stream skip it.",
    "input_filter": "The filter of the view does not match the message of the stream.",
    "group_filter": "The group's filter skips the message.",
    "stream_filter": "The filter of the stream's readers skips the message.",
    "paused": "Somebody has paused the queue or the group: nothing is delivered until it is resumed.",
    "no_consumers": "The queue has no consumers.",
    "no_readers": "The stream has no readers.",
    "exclusive": "Only the connection that declared the queue may consume from it.",
    "filter": "A consumer's filter does not match the message.",
    "message_group": "Another message of its message group is unsettled, or comes first.",
    "connection_paused": "A consumer's connection does not read.",
    "max_backlog": "The group holds as many messages as `x-max-backlog` allows.",
    "no_credit": "A consumer's prefetch is used up.",
    "undeliverable_here": "A consumer has said that it cannot take the message (AMQP 1.0).",
    "not_active": "Another consumer is the single active one.",
    "waits_behind": "Other messages are delivered first.",
    "leased": "A consumer holds the message, and has not settled it.",
    "retry_delay": "The message failed, and waits before its next delivery.",
    "delayed": "The message is published at a later time.",
    "not_committed": "In a cluster: not all nodes in sync have it yet, so it is neither confirmed nor delivered.",
    "disk_waits": "The broker's disk does not answer: the message is not confirmed, and may be lost with the broker.",
    "not_on_disk": "Readers of a stream see the message once it is on disk.",
    "near_delivery_limit": "The message dies at its next failure.",
    "next": "Nothing delays the message: a consumer gets it in this turn.",
    "messages_lost": "The MQTT client was too slow, or offline for too long, and has lost messages.",
    "over_quota": "The MQTT session's messages exceed its quota: publishers to it are held back or refused.",
    "session_offline": "The MQTT session's client is not connected.",
    "window_full": "The MQTT client has as many messages in flight as it accepts.",
    "not_subscribed": "No subscription of the MQTT session matches.",
    "in_flight": "The message was sent to the MQTT client, which has not acknowledged it.",
    "session_waits": "The message waits for the MQTT session behind others.",
    "not_for_session": "The message is not for the MQTT session, or was delivered to it.",
}
RANKS: Final = {code: rank for rank, code in enumerate(CODES)}


@dataclass(slots=True)
class Reason:
    """A reason why a message is where it is. `group` is set if the reason is one group's."""

    code: str
    text: str
    fields: dict[str, object] = field(default_factory=dict)
    group: str | None = None

    def shown(self) -> dict[str, object]:
        """Return the reason as fields for programs, with its text."""
        found: dict[str, object] = {"code": self.code, "text": self.text}
        if self.group is not None:
            found["group"] = self.group
        return {**found, **self.fields}


def worst_first(reasons: list[Reason]) -> list[Reason]:
    """Return the reasons in the order of CODES, the worst first."""
    return sorted(reasons, key=lambda reason: RANKS[reason.code])


def consumer_fields(consumer: Consumer, connections: Connections) -> dict[str, object]:
    """Return the fields of a consumer and, if known, of its connection."""
    fields: dict[str, object] = {
        "consumer": text(consumer.tag),
        "connection": int(consumer.session_id),
        "channel": int(consumer.channel),
    }
    known = connections.find(int(consumer.session_id))
    for name in ("peer", "user", "protocol", "client_id"):
        if known is not None and known.get(name):
            fields[name] = known[name]
    return fields


def named(fields: dict[str, object]) -> str:
    """Return the name of a consumer for use in a sentence."""
    name = f"consumer '{fields['consumer']}'" if fields["consumer"] else "a client that got it one by one"
    who = f"connection {fields['connection']}"
    if "client_id" in fields:
        who += f", client '{fields['client_id']}'"
    elif "peer" in fields:
        who += f", {fields['peer']}"
    return f"{name} ({who})"


def duration(us: int) -> str:
    """Return a length of time for use in a sentence, such as '5 s'."""
    seconds = us / 1_000_000
    if seconds < 1:
        return f"{max(us, 0) // US_PER_MS} ms"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def count(number: int, what: str) -> str:
    """Return a number with its noun: '1 message', '2 messages'."""
    return f"{number} {what}" + ("" if number == 1 else "s")
