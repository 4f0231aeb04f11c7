"""Reasons why a message is where it is: each with a sentence for people and fields for programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from forebay.management.control import Connections
from forebay.queue.leases.lease import Consumer
from forebay.routing.exchange import text

MILLISECOND_US: Final = 1000

# Every code, the worst first: what no consumer can change, then what somebody has to change, then what time mends.
CODES: Final = {
    "damaged": "It cannot be read: the disk does not give what was written.",
    "behind_damage": "The group hands out nothing: what stands before cannot be read.",
    "gone": "It is in the log no more: retention, or everybody has settled it.",
    "dead_lettered": "It died here, and is in another queue now.",
    "settled": "It was acknowledged, discarded or purged, or it died with nowhere to go.",
    "pinned": "The log keeps it for one group or reader alone.",
    "dead_letter_waiting": "It died, and cannot go where dead letters go.",
    "not_there": "The queue has had no message of this offset yet.",
    "delivered": "A stream's group has read it.",
    "expired": "Its time is over: it dies at the head of the queue, and readers of a stream pass over it.",
    "group_filter": "The filter of the group passes it over.",
    "stream_filter": "The filter of the stream's readers passes it over.",
    "no_consumers": "Nobody consumes.",
    "no_readers": "Nobody reads the stream.",
    "exclusive": "Only the connection that declared the queue may consume.",
    "filter": "A consumer's filter does not want it.",
    "message_group": "Another message of its message group is out, or stands before it.",
    "connection_paused": "A consumer's connection does not read.",
    "no_credit": "A consumer holds as many messages as it may.",
    "not_active": "Another consumer is the single active one.",
    "waits_behind": "Other messages are handed out before it.",
    "leased": "A consumer holds it, and has not settled it.",
    "retry_delay": "It came back, and rests before it is handed out again.",
    "delayed": "It is published when its time has come.",
    "not_committed": "In a cluster: not all nodes in sync have it yet, so it is not confirmed, and nobody is given it.",
    "not_on_disk": "Readers of a stream see it when it is on the disk.",
    "near_delivery_limit": "It dies when it fails once more.",
    "next": "Nothing holds it up: a consumer is given it in this turn.",
    "messages_lost": "The MQTT client did not keep up, or was away for too much, and has lost messages.",
    "over_quota": "More waits for the MQTT session than it may have: who publishes to it waits, or is refused.",
    "session_offline": "The client of the MQTT session is not connected.",
    "window_full": "The MQTT client has as many messages in flight as it takes.",
    "not_subscribed": "No subscription of the MQTT session matches.",
    "in_flight": "It was sent to the MQTT client, which has not acknowledged it.",
    "session_waits": "It waits for the MQTT session behind others.",
    "not_for_session": "The MQTT session is not to have it, or has had it.",
}
RANKS: Final = {code: rank for rank, code in enumerate(CODES)}


@dataclass(slots=True)
class Reason:
    """One reason; `group` where it is one group's."""

    code: str
    text: str
    fields: dict[str, object] = field(default_factory=dict)
    group: str | None = None

    def shown(self) -> dict[str, object]:
        """The reason for programs; its text stands in it."""
        found: dict[str, object] = {"code": self.code, "text": self.text}
        if self.group is not None:
            found["group"] = self.group
        return {**found, **self.fields}


def worst_first(reasons: list[Reason]) -> list[Reason]:
    """The same reasons in the order of CODES."""
    return sorted(reasons, key=lambda reason: RANKS[reason.code])


def consumer_fields(consumer: Consumer, connections: Connections) -> dict[str, object]:
    """The owner of a consumer, as far as anybody knows."""
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
    """A consumer as sentences call it."""
    name = f"consumer '{fields['consumer']}'" if fields["consumer"] else "a client that got it one by one"
    who = f"connection {fields['connection']}"
    if "client_id" in fields:
        who += f", client '{fields['client_id']}'"
    elif "peer" in fields:
        who += f", {fields['peer']}"
    return f"{name} ({who})"


def duration(us: int) -> str:
    """A length of time as sentences say it."""
    seconds = us / 1_000_000
    if seconds < 1:
        return f"{max(us, 0) // MILLISECOND_US} ms"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def count(number: int, what: str) -> str:
    """So many of something: '1 message', '2 messages'."""
    return f"{number} {what}" + ("" if number == 1 else "s")
