"""The node's use of resources, and how many objects have come and gone since it started."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable

from forebay.server.broker_view import BrokerView
from forebay.server.net import Connection
from forebay.server.system.heap import resident_octets
from forebay.session.traffic import Traffic


class NodeUsage:
    """The node's own stats, as `rates.NODE` has them.

    descriptors  that are open, when somebody looked last
    """

    def __init__(self, app: BrokerView) -> None:
        self.app = app
        self.descriptors = count_descriptors()
        self.first_queue = int(app.vhosts.shared.queue_numbers.next)
        self.first_queues = self.queues()

    def queues(self) -> int:
        """The number of them."""
        return sum(len(vhost.catalog.queues) for vhost in self.app.vhosts.all())

    def traffic(self) -> Traffic:
        """The counts of AMQP clients, of channels that are closed, too."""
        sessions = [each.session for each in self.app.connections.values()]
        return self.app.stats.traffic(session for session in sessions if session is not None)

    async def look(self) -> None:
        """Count the open descriptors, which takes long where there are many."""
        self.descriptors = await asyncio.to_thread(count_descriptors)

    def numbers(self, traffic: Traffic) -> list[int]:
        """Connections, channels and queues made and ended; memory, room on the disk, descriptors, sockets, threads.

        traffic  as it is now
        """
        app = self.app
        connections = app.sessions_begun()
        channels = int(traffic.channels)
        queues = int(app.vhosts.shared.queue_numbers.next) - self.first_queue
        return [
            connections,
            connections - len(app.connections),
            channels,
            channels - count_channels(app.connections.values()),
            queues,
            queues,
            max(0, queues + self.first_queues - self.queues()),
            resident_octets(),
            app.disk.free_octets(),
            self.descriptors,
            len(app.open),
            threading.active_count(),
        ]


def count_channels(connections: Iterable[Connection]) -> int:
    """The number of channels that these have open."""
    return sum(each.session.channel_count() for each in connections if each.session is not None)


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
