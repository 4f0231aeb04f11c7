"""Names in paths: vhosts, queues and connections whose names have slashes and percent signs in them.

Starlette looks routes up by the decoded path, in which `%2F` is a slash like any other. Here routes are looked up by
the path as it was sent, and what stands for a name in it (`{vhost:name}`) is decoded afterwards.
"""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote, unquote, unquote_to_bytes

from fastapi import Path
from pydantic import WithJsonSchema
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from forebay.server.probes import HEALTH, READY

BAD_REQUEST: Final = 400
SHOWN_CHARACTERS_MAX: Final = 80
API: Final = "/api/"
NAME: Final = "name"  # in a route: {queue:octets}
OCTETS: Final = "octets"  # the same of one that may be no UTF-8: {queue:octets}
DEFAULT_EXCHANGE: Final = b"amq.default"  # how paths call the exchange without a name


class NameConvertor(Convertor[str]):
    """One segment of a path, percent-encoded UTF-8; HTTPException for one that is none: no name here is."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        try:
            return unquote(value, errors="strict")
        except UnicodeDecodeError:
            raise HTTPException(BAD_REQUEST, f"path: {value[:SHOWN_CHARACTERS_MAX]!r} is no UTF-8") from None

    def to_string(self, value: str) -> str:
        return quoted(value)


class OctetsConvertor(Convertor[bytes]):
    """One segment of a path, percent-encoded: clients of AMQP may give names that are no UTF-8."""

    regex = "[^/]+"

    def convert(self, value: str) -> bytes:
        return unquote_to_bytes(value)

    def to_string(self, value: bytes) -> str:
        return quoted(value)


class RawPaths:
    """Has routes looked up by the path as it was sent; tools may leave slashes at the end of it, and ask by HEAD."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["raw_path"].decode("utf-8", "replace")
            scope = {**scope, "path": path}
            if path.startswith(API):
                scope["path"] = path.rstrip("/")
            if scope["method"] == "HEAD" and path.startswith((API, HEALTH, READY)):
                scope["method"] = "GET"  # the server, which has its own scope, leaves the body away
        await self.app(scope, receive, send)


def quoted(name: str | bytes) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def exchange_named(segment: bytes) -> bytes:
    """The name of the exchange that a path means."""
    return b"" if segment == DEFAULT_EXCHANGE else segment


def in_path(name: bytes) -> dict[str, object]:
    """The field by which a list leads to something whose name, as it is shown, does not: one that is no UTF-8."""
    try:
        name.decode()
    except UnicodeDecodeError:
        return {"name_in_path": quoted(name)}
    return {}


register_url_convertor(NAME, NameConvertor())
register_url_convertor(OCTETS, OctetsConvertor())
TEXT_SCHEMA: Final = WithJsonSchema({"type": "string"})

VhostName = Annotated[str, Path(description="The vhost's name, percent-encoded: that of / is %2F.", examples=["/"])]
QueueName = Annotated[bytes, Path(description="The queue's name, percent-encoded."), TEXT_SCHEMA]
ExchangeName = Annotated[
    bytes, Path(description="The exchange's name, percent-encoded; amq.default has none."), TEXT_SCHEMA
]
UserName = Annotated[str, Path(description="The user's name, percent-encoded.")]
NodeName = Annotated[str, Path(description="The node's name, as /api/nodes has it.")]
PolicyName = Annotated[str, Path(description="The policy's name, percent-encoded.")]
ParameterName = Annotated[str, Path(description="The parameter's name, percent-encoded.")]
ComponentName = Annotated[str, Path(description="Whose parameter it is, say vhost-limits.")]
LimitName = Annotated[str, Path(description="max-connections, max-queues; of users max-connections, max-channels.")]
FlagName = Annotated[str, Path(description="The feature flag's name, as /api/feature-flags has it.")]
Password = Annotated[str, Path(description="A password, percent-encoded.")]
