"""The key that names one of several bindings between the same two, in paths and lists."""

from __future__ import annotations

import base64
from hashlib import sha256
from typing import Final
from urllib.parse import quote_plus, unquote, unquote_plus

from forebay.routing.exchange import frozen, text

MARK: Final = "~"
HASH_OCTETS: Final = 9


def properties_key(routing_key: bytes, arguments: dict[str, object]) -> str:
    """The routing key, and behind a tilde a hash of the arguments where there are some; `~` for neither.

    As with RabbitMQ the routing key is encoded as in a query, and no tilde in it stays. The hash is our own: RabbitMQ's
    goes by how Erlang has values in memory.
    """
    key = quote_plus(text(routing_key), safe="").replace(MARK, "%7E")
    if arguments:
        digest = sha256(frozen(arguments).encode("utf-8", "surrogatepass")).digest()[:HASH_OCTETS]
        return f"{key}{MARK}{base64.urlsafe_b64encode(digest).decode()}"
    return key or MARK


def names_key(wanted: str, key: str) -> bool:
    """True if a segment of a path means this key: percent-encoded once more, or as it stands in lists."""
    return wanted in {key, unquote(key), unquote_plus(key)}
