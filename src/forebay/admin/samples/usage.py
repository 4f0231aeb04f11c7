"""The node's use of resources, and how many objects have come and gone since it started."""

from __future__ import annotations

import asyncio
import os
import threading

from forebay.server.broker_view import BrokerView
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
        return self.app.readings.traffic()

    async def look(self) -> None:
        """Count the open descriptors, which takes long where there are many."""
        self.descriptors = await asyncio.to_thread(count_descriptors)

    def numbers(self, traffic: Traffic) -> list[int]:
        """Connections, channels and queues made and ended; memory, room on the disk, descriptors, sockets, threads.

        traffic  as it is now
        """
        app = self.app
        clients = app.readings.clients()
        connections = clients.sessions_begun
        channels = int(traffic.channels)
        queues = int(app.vhosts.shared.queue_numbers.next) - self.first_queue
        return [
            connections,
            connections - clients.sessions,
            channels,
            channels - app.clients.channel_count(),
            queues,
            queues,
            max(0, queues + self.first_queues - self.queues()),
            resident_octets(),
            app.folder.free_octets(),
            self.descriptors,
            clients.open,
            threading.active_count(),
        ]


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
