"""The broker's stats as topics `$SYS/broker/...`, with the names and formats that mosquitto gives them.

A load average is the events of a minute, smoothed: with a rate r over the last t seconds and the average a before it,
r + exp(-t / w) * (a - r), where w is 60, 300 or 900 seconds. So tools made for mosquitto read the same thing here.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

from forebay.core.metrics import Totals
from forebay.core.units import US_PER_S

PREFIX: Final = "$SYS/broker/"
MINUTE_S: Final = 60
WINDOWS: Final = (("1min", 60), ("5min", 300), ("15min", 900))  # in seconds


class Load:
    """The moving averages of one counter."""

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.count = count
        self.averages = [0.0 for _ in WINDOWS]

    def advance(self, count: int, seconds: float) -> None:
        """Update the load averages with the counter's value, `seconds` after the last update."""
        rate = (count - self.count) * MINUTE_S / seconds
        self.count = count
        for at, (_, window_s) in enumerate(WINDOWS):
            self.averages[at] = rate + math.exp(-seconds / window_s) * (self.averages[at] - rate)

    def stats(self) -> list[tuple[str, str]]:
        return [
            (f"load/{self.name}/{window}", f"{average:.2f}")
            for (window, _), average in zip(WINDOWS, self.averages, strict=True)
        ]


class SysTopics:
    """The stats as they were told last, and the load averages.

    started_us  when the broker started
    built_us    when this build of it was made
    """

    def __init__(self, version: str, started_us: int, built_us: int) -> None:
        self.started_us = started_us
        built = datetime.fromtimestamp(built_us / US_PER_S, UTC)
        self.fixed = [
            ("version", f"forebay version {version}"),
            ("timestamp", built.strftime("%Y-%m-%d %H:%M:%S%z")),
        ]
        self.clients_maximum = 0
        self.loads: dict[str, Load] = {}
        self.loads_us = 0
        self.told: dict[str, str] = {}

    def changed(self, totals: Totals, now_us: int) -> list[tuple[bytes, bytes]]:
        """Return topic and value of each statistic that has changed since the last call. The first call returns all."""
        stats = [*self.fixed, ("uptime", f"{(now_us - self.started_us) // US_PER_S} seconds")]
        stats += self.clients(totals)
        stats += self.load_averages(totals, now_us)
        stats += [(name, str(value)) for name, value in counted(totals)]
        found = [(name, value) for name, value in stats if self.told.get(name) != value]
        self.told.update(found)
        return [((PREFIX + name).encode(), value.encode()) for name, value in found]

    def clients(self, totals: Totals) -> list[tuple[str, str]]:
        self.clients_maximum = max(self.clients_maximum, totals.clients_connected)
        return [
            ("clients/connected", str(totals.clients_connected)),
            ("clients/disconnected", str(totals.clients_disconnected)),
            ("clients/expired", str(totals.clients_expired)),
            ("clients/maximum", str(self.clients_maximum)),
            ("clients/total", str(totals.clients_connected + totals.clients_disconnected)),
        ]

    def load_averages(self, totals: Totals, now_us: int) -> list[tuple[str, str]]:
        """Update and return the load averages. They begin at 0 with the first call."""
        seconds = (now_us - self.loads_us) / US_PER_S
        stats: list[tuple[str, str]] = []
        for name, count in measured(totals):
            load = self.loads.get(name)
            if load is None:
                load = self.loads[name] = Load(name, count)
            elif seconds > 0:
                load.advance(count, seconds)
            stats += load.stats()
        self.loads_us = now_us
        return stats


def measured(totals: Totals) -> list[tuple[str, int]]:
    """Return the name and value of each counter that has load averages."""
    return [
        ("connections", totals.connects),
        ("sockets", totals.sockets),
        ("bytes/received", totals.octets_received),
        ("bytes/sent", totals.octets_sent),
        ("messages/received", totals.packets_received),
        ("messages/sent", totals.packets_sent),
        ("publish/received", totals.publishes_received),
        ("publish/sent", totals.publishes_sent),
        ("publish/dropped", totals.publishes_dropped),
    ]


def counted(totals: Totals) -> list[tuple[str, int]]:
    """Return the topic and value of each statistic that is published as it is."""
    return [
        ("bytes/received", totals.octets_received),
        ("bytes/sent", totals.octets_sent),
        ("messages/received", totals.packets_received),
        ("messages/sent", totals.packets_sent),
        ("publish/messages/received", totals.publishes_received),
        ("publish/messages/sent", totals.publishes_sent),
        ("publish/messages/dropped", totals.publishes_dropped),
        ("publish/messages/dropped/queue_full", totals.dropped_queue_full),
        ("publish/messages/dropped/not_read", totals.dropped_not_read),
        ("publish/messages/dropped/expired", totals.dropped_expired),
        ("publish/messages/dropped/too_large", totals.dropped_too_large),
        ("publish/bytes/received", totals.publish_octets_received),
        ("publish/bytes/sent", totals.publish_octets_sent),
        ("retained messages/count", totals.retained),
        ("delayed messages/count", totals.delayed),
        ("dead letters/moved", totals.dead_letters_moved),
        ("dead letters/dropped", totals.dead_letters_dropped),
        ("staged batches/count", totals.staged_batches),
        ("store/messages/count", totals.stored_messages),
        ("store/messages/bytes", totals.stored_octets),
        ("subscriptions/count", totals.subscriptions),
        ("shared_subscriptions/count", totals.shared_subscriptions),
        ("heap/current", totals.memory_octets),
        ("heap/maximum", totals.memory_octets_peak),
    ]
