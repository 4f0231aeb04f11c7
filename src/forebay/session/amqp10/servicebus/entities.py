"""Addresses of clients of Azure Service Bus: to them, each is an entity, and an entity is a queue here.

    amqps://<host>/<queue>, sb://<host>/<queue>, <queue>   the queue
    <queue>/$DeadLetterQueue                               its dead letters
    <entity>/$management                                   the node that requests about the entity go to

Parts of the last two are recognized in any case of letters.
"""

from __future__ import annotations

from typing import Final, final

from forebay.broker.contract import ANY_SESSION, VhostContract
from forebay.core.errors import INVALID, NOT_FOUND, NOT_IMPLEMENTED, RequestError
from forebay.message.address import DEAD_LETTER_PREFIX, NAME_OCTETS_MAX
from forebay.routing.exchange import text

SCHEMES: Final = ("amqps://", "amqp://", "sb://")
MANAGEMENT: Final = "/$management"
DEAD_LETTERS: Final = "/$deadletterqueue"
TRANSFERS: Final = "/$transfer"
SUBSCRIPTIONS: Final = "/subscriptions/"
SHOWN_MAX: Final = 100


@final
class Entity:
    """An entity, as an address names it.

    path             without scheme and host: what a token gives access to
    queue            name of the queue
    is_dead_letters  its dead letters are meant
    is_management    the node for requests about it is meant
    """

    def __init__(self, path: str, queue: bytes, is_dead_letters: bool, is_management: bool) -> None:
        self.path = path
        self.queue = queue
        self.is_dead_letters = is_dead_letters
        self.is_management = is_management


def parse_entity(address: str) -> Entity:
    """Return the entity of an address; RequestError: INVALID, or NOT_IMPLEMENTED for what is no queue here."""
    path = address
    for scheme in SCHEMES:
        if address.lower().startswith(scheme):
            path = address[len(scheme) :].partition("/")[2]
            break
    path = path.strip("/")
    queue = path
    is_management = is_dead_letters = False
    if queue.lower().endswith(MANAGEMENT):
        is_management = True
        queue = queue[: -len(MANAGEMENT)]
    lower = queue.lower()
    if TRANSFERS + "/" in lower + "/":
        raise RequestError(NOT_IMPLEMENTED, f"entity '{path[:SHOWN_MAX]}': there are no transfer dead letters")
    if SUBSCRIPTIONS in lower:
        raise RequestError(NOT_IMPLEMENTED, f"entity '{path[:SHOWN_MAX]}': there are no subscriptions of topics")
    if lower.endswith(DEAD_LETTERS):
        is_dead_letters = True
        queue = queue[: -len(DEAD_LETTERS)]
    name = queue.encode("utf-8", "surrogatepass")
    if not name or len(name) > NAME_OCTETS_MAX or "$" in queue:
        raise RequestError(INVALID, f"entity '{path[:SHOWN_MAX]}': it names no queue")
    return Entity(path, name, is_dead_letters, is_management)


def entity_queue(vhost: VhostContract, entity: Entity) -> bytes:
    """Return the name of the queue that an entity stands for; RequestError(NOT_FOUND) if there is no such queue.

    The dead letters of a queue are in a queue of their own, if it says so: `x-dlq`, or the default exchange and a
    routing key.
    """
    queue = vhost.queue(entity.queue, ANY_SESSION)
    if not entity.is_dead_letters:
        return entity.queue
    limits = queue.limits
    if limits.dlq:
        return vhost.dead_letter_queue(DEAD_LETTER_PREFIX + entity.queue).name
    if limits.dead_letter_exchange == b"" and limits.dead_letter_key:
        return vhost.queue(limits.dead_letter_key, ANY_SESSION).name
    name = text(entity.queue)
    raise RequestError(NOT_FOUND, f"queue '{name}' has no dead letters in a queue of their own: declare it with x-dlq")
