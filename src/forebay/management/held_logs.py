"""Views for which alone a log keeps what its stream gave up.

A stream's order takes nothing from its views: one that nobody consumes from keeps the disk full. So it is named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from forebay.broker.vhost import Vhost
from forebay.broker.vhosts import Vhosts
from forebay.core.units import US_PER_S
from forebay.queue.declaration.view_arguments import SOURCE, text_argument
from forebay.queue.queue import STREAM, Queue
from forebay.queue.source.source import LogSource
from forebay.routing.exchange import text

HELD_US: Final = 10 * US_PER_S  # a view that is only a little behind is not named


@dataclass(frozen=True, slots=True)
class HeldLog:
    """The records that a log keeps for one view alone.

    stream    name of the stream; of a deleted one the name by which the view was declared
    messages, octets  that would go without the view
    """

    view: Queue
    stream: str
    messages: int
    octets: int

    def fields(self) -> dict[str, object]:
        """Return the fields of an event."""
        return {"queue": self.stream, "view": text(self.view.name), "messages": self.messages, "octets": self.octets}


def held_log(source: LogSource) -> HeldLog | None:
    """Return what a log keeps for one view alone; None where its stream, or another view, keeps as much."""
    log = source.log
    queues = [each for each in source.readers if isinstance(each, Queue)]
    streams = [each for each in queues if each.kind == STREAM]
    reader = source.lowest_reader()
    if reader is None and len(queues) == 1 and queues[0].is_view:  # the last one over the log of a deleted stream
        view, first, end = queues[0], int(queues[0].needed_from()), int(log.end)
    elif reader is not None and isinstance(reader.reader, Queue) and reader.reader.is_view:
        view, first, end = reader.reader, int(reader.offset), int(reader.free)
    else:
        return None
    if first >= end:
        return None
    stream = text(streams[0].name) if streams else text_argument(view.spec.arguments, SOURCE)
    return HeldLog(view, stream, end - first, int(log.octets_from(first) - log.octets_from(end)))


class HeldLogs:
    """The views of all vhosts that keep logs for themselves alone.

    since  when each of them was seen to do so first, by vhost and number of the queue
    named  those that have done so for HELD_US, as they do by now
    """

    def __init__(self, vhosts: Vhosts) -> None:
        self.vhosts = vhosts
        self.since: dict[tuple[bytes, int], int] = {}
        self.named: dict[tuple[bytes, int], HeldLog] = {}

    def look(self, now_us: int) -> list[HeldLog]:
        """Record events of views that begin or cease to keep a log. Return the new views. Call once a second."""
        found: dict[tuple[bytes, int], HeldLog] = {}
        for vhost in self.vhosts.all():
            for held in self.held_in(vhost):
                found[vhost.name, int(held.view.id)] = held
        self.since = {key: self.since.get(key, now_us) for key in found}
        for key, held in [each for each in self.named.items() if each[0] not in found]:
            del self.named[key]
            self.vhosts.events.note("view.let_log_go", key[0], {"queue": held.stream, "view": text(held.view.name)})
        new: list[HeldLog] = []
        for key, held in found.items():
            if now_us - self.since[key] >= HELD_US:
                if key not in self.named:
                    new.append(held)
                    self.vhosts.events.note("view.keeps_log", key[0], held.fields())
                self.named[key] = held
        return new

    def held_in(self, vhost: Vhost) -> list[HeldLog]:
        """Return the views of a vhost that keep logs, of each log the one that keeps most."""
        found: list[HeldLog] = []
        for source in vhost.catalog.sources.values():
            if source.is_shared or int(source.number) not in vhost.catalog.queues_by_id:
                held = held_log(source)
                found += [] if held is None else [held]
        return found
