"""The right to lead messages on: whoever declares something that does must be let publish there.

Dead letters, what an exchange routes nowhere, and what one exchange gives to another come under routing keys that
nobody looks at when they come. So they are looked at here.
"""

from __future__ import annotations

from typing import Final

from forebay.broker.catalog.catalog import Catalog
from forebay.directory.permissions import CONFIGURE, READ, WRITE, Rights
from forebay.message.address import DEAD_LETTER_PREFIX, QUEUE_PREFIX, queue_address
from forebay.queue.declaration.view_arguments import PUBLISH_TARGET, SOURCE

DEAD_LETTER_EXCHANGE: Final = "x-dead-letter-exchange"
DEAD_LETTER_KEY: Final = "x-dead-letter-routing-key"
ALTERNATE: Final = "alternate-exchange"
ANY_KEY: Final = b"#"  # asked for where the key may be any: who is held to some does not have it
KEYED: Final = (b"direct", b"topic")  # exchanges through which come only keys that the binding says


def check_declare_queue(where: Catalog, rights: Rights, name: bytes, arguments: dict[str, object]) -> None:
    """Check that a queue may be declared so: its dead letters take something from it to somewhere."""
    rights.check_queue(CONFIGURE, name)
    source = named(arguments, SOURCE)
    if source is not None:
        rights.check_queue(READ, source)  # who may read the view has what is in the stream
        if PUBLISH_TARGET in arguments:
            rights.check_queue(WRITE, source)
    target = named(arguments, DEAD_LETTER_EXCHANGE)
    if target is not None:
        rights.check_queue(READ, name)
        key = named(arguments, DEAD_LETTER_KEY)
        check_feed(where, rights, target, key)
        if not target and key is not None:
            check_made_by_letters(rights, name, key)


def check_made_by_letters(rights: Rights, queue: bytes, key: bytes) -> None:
    """Check that the queue may be made to which the dead letters of another go, whether it is there now or not.

    It is made when one comes and it is missing, and nobody is there to be asked then.
    """
    if key.startswith(QUEUE_PREFIX):
        rights.check_queue(CONFIGURE, queue_address(key)[0])
    elif key.startswith(DEAD_LETTER_PREFIX) and key != DEAD_LETTER_PREFIX + queue:
        rights.check_queue(CONFIGURE, key)


def check_declare_exchange(where: Catalog, rights: Rights, name: bytes, arguments: dict[str, object]) -> None:
    """Check that an exchange may be declared so: what it routes nowhere goes on to another."""
    rights.check_exchange(CONFIGURE, name)
    target = named(arguments, ALTERNATE)
    if target is not None:
        rights.check_exchange(READ, name)
        check_feed(where, rights, target, None)


def check_bind_exchange(where: Catalog, rights: Rights, destination: bytes, source: bytes, key: bytes) -> None:
    """Check that an exchange may be bound to another, the source, or the binding be deleted."""
    exchange = where.bindings.exchanges.get(source)
    is_keyed = exchange is not None and exchange.kind in KEYED
    check_feed(where, rights, destination, key if is_keyed else None)
    rights.check_source(source, key, where.is_topic_exchange(source))


def check_feed(where: Catalog, rights: Rights, exchange: bytes, key: bytes | None) -> None:
    """Check that messages may come to an exchange under this routing key; None for any."""
    # One that is not there yet may become one of topics.
    is_topic = where.is_topic_exchange(exchange) or exchange not in where.bindings.exchanges
    rights.check_publish(exchange, ANY_KEY if key is None else key, is_topic)


def named(arguments: dict[str, object], argument: str) -> bytes | None:
    """The value of an argument that is text."""
    value = arguments.get(argument)
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else None
