"""Names in paths: vhosts, queues and connections whose names have slashes and percent signs in them.

A server hands over the decoded path, in which `%2F` is a slash like any other. Here routes are looked up by the path as
it was sent, and what stands for a name in it (`{vhost:name}`) is decoded afterwards.
"""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote

from starlette.types import ASGIApp, Receive, Scope, Send

from forebay.admin.web.fields import InPath
from forebay.server.probes import HEALTH, READY

API: Final = "/api/"
DEFAULT_EXCHANGE: Final = b"amq.default"  # how paths call the exchange without a name


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


VhostName = Annotated[str, InPath(description="The vhost's name, percent-encoded: that of / is %2F.", examples=["/"])]
QueueName = Annotated[bytes, InPath(description="The queue's name, percent-encoded.")]
ExchangeName = Annotated[bytes, InPath(description="The exchange's name, percent-encoded; amq.default has none.")]
UserName = Annotated[str, InPath(description="The user's name, percent-encoded.")]
NodeName = Annotated[str, InPath(description="The node's name, as /api/nodes has it.")]
PolicyName = Annotated[str, InPath(description="The policy's name, percent-encoded.")]
ParameterName = Annotated[str, InPath(description="The parameter's name, percent-encoded.")]
ComponentName = Annotated[str, InPath(description="Whose parameter it is, say vhost-limits.")]
LimitName = Annotated[str, InPath(description="max-connections, max-queues; of users max-connections, max-channels.")]
FlagName = Annotated[str, InPath(description="The feature flag's name, as /api/feature-flags has it.")]
Password = Annotated[str, InPath(description="A password, percent-encoded.")]
