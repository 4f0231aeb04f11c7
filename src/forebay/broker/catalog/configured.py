"""Queues of the configuration: they are there from the start, as it says."""

from __future__ import annotations

from forebay.broker.address import check_queue_name
from forebay.broker.catalog.queues import queue_command
from forebay.broker.catalog.topology import Topology
from forebay.queue.declaration.spec import QueueSpec
from forebay.queue.queue import Queue, kind_of


def configure_queue(catalog: Topology, name: bytes, spec: QueueSpec, topics: list[bytes], fallback: bool) -> Queue:
    """Make a queue of the configuration, or bring the one there is up to date."""
    queue = catalog.queues.get(name)
    if queue is None:
        check_queue_name(name)
        queue = catalog.make_queue(catalog.next_queue, name, kind_of(spec), spec)
        if fallback:
            catalog.fallback = queue
        catalog.command(queue_command(queue, fallback))
    elif queue.spec.arguments != spec.arguments:
        queue.spec = spec
        catalog.govern(queue)
        catalog.command(queue_command(queue, queue is catalog.fallback))
    if fallback:
        catalog.fallback = queue
    for filter in topics:
        catalog.bind_topic(queue, filter)
    return queue
