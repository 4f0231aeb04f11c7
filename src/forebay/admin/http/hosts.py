"""By which names HTTP is answered, and whose pages may change something.

Somebody's page can have the name of its own host lead to this machine (DNS rebinding): for the browser both are one
place then, and on loopback the password of `guest` is known to everybody. The head of the request still says which
name was asked. Nobody can make an address lead elsewhere, so that any address will do.
"""

from __future__ import annotations

import socket
from collections.abc import Collection
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from forebay.core.option_table import split_address
from forebay.core.options import Options
from forebay.node.peer import peer_at

if TYPE_CHECKING:
    from starlette.types import Scope

ANY: Final = "*"
LOCALHOST: Final = "localhost"
SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS")
PORTS: Final = {"http": 80, "https": 443}
SHOWN_CHARACTERS_MAX: Final = 80
Place = tuple[str, int | None]


def fault_of(scope: Scope, options: Options) -> str:
    """The reason not to answer a request, by its headers Host and Origin; empty where it is answered."""
    told = {name: text_of(scope, name) for name in (b"host", b"origin")}
    hosts, origins = told[b"host"], told[b"origin"]
    known = [each.lower() for each in options.http_hosts]
    if known or is_from_here(scope):
        for host in hosts:
            if not is_ours(host, known, options):
                return f"Host: {shown(host)} is no name of this broker, and not among http_hosts"
    if scope["method"] not in SAFE_METHODS:
        for origin in origins:
            if not may_change(origin, hosts, known, options.http_cors_origins):
                return f"Origin: pages of {shown(origin)} may change nothing here: it is not among http_cors_origins"
    return ""


def text_of(scope: Scope, name: bytes) -> list[str]:
    """The values of a header."""
    return [value.decode("latin-1").strip() for key, value in scope["headers"] if key == name]


def is_from_here(scope: Scope) -> bool:
    """True if the client is on this machine, as far as is known."""
    client = scope.get("client")
    return not client or not client[0] or peer_at(client[0], client[1]).loopback


def is_ours(host: str, known: Collection[str], options: Options) -> bool:
    """True if that is a name of this broker, or an address."""
    place = place_of(f"//{host}")
    if place is None:
        return False
    name = place[0]
    return is_address(name) or ANY in known or name in {LOCALHOST, *known, *own_names(options)}


def may_change(origin: str, hosts: Collection[str], known: Collection[str], allowed: Collection[str]) -> bool:
    """True if the pages of an origin are the broker's own, or were let call it."""
    if origin in allowed or ANY in allowed:
        return True
    place = place_of(origin)
    if place is None or not place[0]:
        return False
    port = PORTS.get(urlsplit(origin).scheme)
    asked = {place_of(f"//{host}") for host in hosts}
    return place[0] in known or any(each is not None and same(each, place, port) for each in asked)


def same(one: Place, other: Place, port: int | None) -> bool:
    """True if two places are one; a port that is not said is that of the scheme."""
    return one[0] == other[0] and (one[1] or port) == (other[1] or port)


def place_of(url: str) -> Place | None:
    """Name and port; None where that is no place."""
    try:
        parts = urlsplit(url)
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    if name is None or parts.username is not None or parts.path:
        return None
    return name.rstrip("."), port


def is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def own_names(options: Options) -> set[str]:
    """The names of the machine, and those on which listeners listen."""
    found = {socket.gethostname().lower()}
    for address in (options.http, options.https, options.prometheus):
        if address:
            found.add(split_address(address)[0].lower())
    return found


def shown(value: str) -> str:
    return ascii(value[:SHOWN_CHARACTERS_MAX])
