"""The table of held connections as administrators see it."""

from __future__ import annotations

from typing import Final

from forebay.broker.limits.hold_reasons import (
    DISK_ALARM,
    DISK_BEHIND,
    DISK_SILENT,
    MEMORY_ALARM,
    NAMES,
    QUEUE_SHARE,
    RATE_LIMIT,
    SEND_BUFFER,
    SENTENCES,
    SESSION_QUOTA,
)
from forebay.broker.mqtt.client_session import ClientSession
from forebay.broker.quota import Quota
from forebay.core.units import US_PER_MS
from forebay.management.explain.reasons import duration
from forebay.node.back_pressure.flow_control import FlowControl, Hold
from forebay.node.back_pressure.pressure import LOW_ON_DISK, LOW_ON_MEMORY, NO_ANSWER
from forebay.node.link import Link
from forebay.queue.queue import Queue
from forebay.routing.exchange import text

HELD_BACK: Final = "its publishes are held back"
LACKS: Final = {
    MEMORY_ALARM: f"the broker is {LOW_ON_MEMORY}",
    DISK_ALARM: f"the broker is {LOW_ON_DISK}",
    DISK_SILENT: f"the broker is {NO_ANSWER}",
    DISK_BEHIND: "the disk does not keep up",
    RATE_LIMIT: "it sends faster than its rate limit",
}


class HoldView:
    """A view of the table of held connections, for programs and people.

    shares  of queues and vhosts
    """

    def __init__(self, flow: FlowControl, shares: Quota) -> None:
        self.flow = flow
        self.shares = shares

    def of(self, link: Link) -> list[dict[str, object]]:
        """Return the reasons for which a connection is held, for programs and people."""
        return [self.fields(link, entry) for entry in self.flow.entries_of(link)]

    def lasting(self, link: Link) -> str:
        """Return the first reason for people that outlasts a turn, a login and a stop; "" if there is none."""
        for entry in self.flow.entries_of(link):
            if entry.reason >= QUEUE_SHARE:
                return self.sentence(link, entry)
        return ""

    def counts(self) -> dict[str, int]:
        """Return the number of held connections by reason."""
        return {name: len(entries) for name, entries in zip(NAMES, self.flow.held, strict=True)}

    def fields(self, link: Link, entry: Hold) -> dict[str, object]:
        ends_us = entry.ends_us()
        fields: dict[str, object] = {
            "reason": NAMES[entry.reason],
            "since_ms": entry.since_us // US_PER_MS,
            "until_ms": ends_us // US_PER_MS if ends_us else None,
            "text": self.sentence(link, entry),
        }
        if isinstance(entry.held_for, Queue):
            fields["queue"] = text(entry.held_for.name)
        elif isinstance(entry.held_for, ClientSession):
            fields["client_id"] = text(entry.held_for.client_id)
        return fields

    def sentence(self, link: Link, entry: Hold) -> str:
        """Return the reason as a sentence about the connection."""
        reason, held_for = entry.reason, entry.held_for
        if isinstance(held_for, Queue):
            return f"{HELD_BACK}: {self.shares.reason(held_for)}"
        if isinstance(held_for, ClientSession):
            name = text(held_for.client_id)
            if reason == SESSION_QUOTA:
                return f"{HELD_BACK}: more waits for the MQTT client '{name}' than mqtt_session_octets_max"
            return f"{HELD_BACK}: the MQTT client '{name}' does not read them fast enough"
        if reason in LACKS:
            return f"{HELD_BACK}: {LACKS[reason]}"
        if reason == SEND_BUFFER:
            waiting = link.waiting_octets() / (1 << 20)
            # A time of day would be the broker's, beside the reader's own on the page.
            lasts = duration(self.flow.clock.now_us() - entry.since_us)
            return f"the client has not read for {lasts}: {waiting:.1f} MiB wait for it"
        return SENTENCES[NAMES[reason]]
