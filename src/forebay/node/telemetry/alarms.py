"""Alarms: the broker has too little of something, or messages that cannot be read.

What cannot be read is said once in the log and as an event, too.
"""

from __future__ import annotations

from typing import Final

from forebay.broker.vhosts import Vhosts
from forebay.log.block_files import Damage
from forebay.log.store import Store
from forebay.node.back_pressure.pressure import Pressure
from forebay.node.telemetry.journal import Journal

DAMAGE: Final = "damage"
SHOWN_MAX: Final = 100


class Alarms:
    """The alarms of one broker, by name: MEMORY, DISK, DAMAGE."""

    def __init__(self, pressure: Pressure, vhosts: Vhosts, store: Store, journal: Journal) -> None:
        self.pressure = pressure
        self.journal = journal
        self.vhosts = vhosts
        self.store = store
        self._told: dict[tuple[int, int], str] = {}

    def names(self) -> list[str]:
        """Return the names of the alarms that are set."""
        damage = [DAMAGE] if self.store.logs.files.damages else []
        return self.pressure.alarms() + damage

    def look(self) -> list[str]:
        """Log blocks that are newly damaged or repaired. Return the alarms that are set. Call about once a second."""
        found = self.store.logs.files.damages
        if not found and not self._told:
            return self.names()
        self.store.logs.name_damages()
        for place, damage in found.items():
            if place not in self._told:
                error = damage.error()
                self._told[place] = error.text
                self.journal.error(
                    "%s; everything else goes on. With the broker stopped: forebay log repair", error.text
                )
                self.vhosts.events.note("queue.damaged", self.vhost_of(damage), fields_of(damage))
        for place in [place for place in self._told if place not in found]:
            self.journal.info("over, as it can be read or is wanted no more: %s", self._told.pop(place))
        return self.names()

    def damages(self) -> list[dict[str, object]]:
        """Return the blocks that cannot be read, by queue and offsets, at most the first SHOWN_MAX."""
        return [
            {"vhost": self.vhost_of(each).decode("utf-8", "replace"), **fields_of(each)}
            for each in self.store.logs.damages()[:SHOWN_MAX]
        ]

    def vhost_of(self, damage: Damage) -> bytes:
        vhost = self.vhosts.of_log(damage.queue)
        return b"" if vhost is None else bytes(vhost.name)


def fields_of(damage: Damage) -> dict[str, object]:
    """Return the fields of a damaged block: its queue, offsets, file, position and the reason."""
    return {
        "queue": damage.name,
        "first": damage.base,
        "last": damage.end - 1,
        "file": damage.path,
        "position": damage.position,
        "reason": damage.why,
    }
