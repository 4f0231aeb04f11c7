"""The key that names one of several bindings between the same two, in paths and lists."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote_plus, unquote, unquote_plus

from forebay.routing.exchange import frozen, hash_arguments, text

MARK: Final = "~"


def properties_key(routing_key: bytes, arguments: dict[str, object]) -> str:
    """The routing key, and behind a tilde a hash of the arguments where there are some; `~` for neither.

    As with RabbitMQ the routing key is encoded as in a query, and no tilde in it stays.
    """
    key = quote_plus(text(routing_key), safe="").replace(MARK, "%7E")
    if arguments:
        return f"{key}{MARK}{hash_arguments(arguments, frozen(arguments))}"
    return key or MARK


def names_key(wanted: str, key: str) -> bool:
    """True if a segment of a path means this key: percent-encoded once more, or as it stands in lists."""
    return wanted in {key, unquote(key), unquote_plus(key)}
