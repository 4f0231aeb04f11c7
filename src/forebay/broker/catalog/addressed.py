"""Queues that nobody declares: the first who publishes or subscribes to `$queue/<name>` makes them."""

from __future__ import annotations

from forebay.broker.catalog.catalog import Catalog
from forebay.broker.catalog.commands.queues import DeclareQueue
from forebay.broker.catalog.topology import RESERVED
from forebay.core.errors import NOT_FOUND, REFUSED, TOO_MANY, RequestError
from forebay.core.option_names import DURABLE, REFUSE
from forebay.queue.queue import Queue
from forebay.routing.exchange import text


def make_addressed(where: Catalog, name: bytes, makes: str, most: int) -> Queue:
    """Make the queue of an address.

    makes, most  what the options say: of which kind it is, and how many of them there may be; 0 is no limit
    raises  RequestError: NOT_FOUND where none is to be made, TOO_MANY where there are too many, and for a wrong name
    """
    if makes == REFUSE:
        raise RequestError(NOT_FOUND, f"no {where.place_of(name)}, and address_queues is {REFUSE}")
    if most and where.queues_by_address >= most:
        limit = f"{most} were made by their addresses, address_queues_max"
        raise RequestError(TOO_MANY, f"{where.place_of(name)} cannot be made: {limit}")
    if makes != DURABLE:
        return where.ephemeral_queue(name, by_address=True)
    if name.startswith(RESERVED):
        raise RequestError(REFUSED, f"queue name '{text(name)}' contains reserved prefix 'amq.*'")
    where.check_queue_count(name)
    arguments = where.with_queue_type({})
    return where.add_queue(DeclareQueue(int(where.next_queue), name, arguments, by_address=True))
