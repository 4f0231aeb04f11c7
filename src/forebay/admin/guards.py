"""What stands before every handler: headers that keep browsers safe, and the longest body."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forebay.admin.answer import refusal

TOO_LARGE: Final = 413
# Scripts, styles and data come from this broker alone, and nobody may put its page into another.
POLICY: Final = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": POLICY,
}


class Guards:
    """Around the application: adds headers to what it answers, and takes no body that is too long."""

    def __init__(self, app: ASGIApp, body_octets_max: int) -> None:
        self.app = app
        self.body_octets_max = body_octets_max
        self.reason = f"body: more than {body_octets_max} octets, http_body_octets_max"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        is_api = str(scope["path"]).startswith("/api/")
        octets = 0

        async def guarded_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if is_api:
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        async def counted_receive() -> Message:
            nonlocal octets
            message = await receive()
            octets += len(message.get("body", b""))
            if octets > self.body_octets_max:
                raise HTTPException(TOO_LARGE, self.reason, {"Connection": "close"})
            return message

        if announced_octets(scope) > self.body_octets_max:
            answer = refusal(TOO_LARGE, self.reason)
            answer.headers["Connection"] = "close"  # what comes of the body is not read
            await answer(scope, receive, guarded_send)
            return
        await self.app(scope, counted_receive, guarded_send)


def announced_octets(scope: Scope) -> int:
    """How long the head says that the body is; 0 where it does not."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0
