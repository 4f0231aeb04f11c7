"""Queues of the configuration: they are there from the start, as it says."""

from __future__ import annotations

from forebay.broker.catalog.catalog import Catalog
from forebay.broker.catalog.commands.queues import ChangeQueue, DeclareQueue
from forebay.queue.queue import Queue


def configure_queue(
    catalog: Catalog, name: bytes, arguments: dict[str, object], topics: list[bytes], fallback: bool
) -> Queue:
    """Make a queue of the configuration, or bring the one there is up to date."""
    queue = catalog.queues.get(name)
    if queue is None:
        queue = catalog.add_queue(DeclareQueue(int(catalog.next_queue), name, arguments))
    elif queue.spec.arguments != arguments:
        catalog.execute(ChangeQueue(int(queue.id), arguments))
    if fallback:
        catalog.set_fallback(queue)
    for filter in topics:
        catalog.bind_topic(queue, filter)
    return queue
