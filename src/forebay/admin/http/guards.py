"""Guards before every handler: the callers that are answered, headers that keep browsers safe, and the longest body."""

from __future__ import annotations

import logging
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forebay.admin.http.answer import refusal
from forebay.admin.http.browser_headers import HEADERS
from forebay.admin.http.hosts import fault_of, text_of
from forebay.server.broker_view import BrokerView

FORBIDDEN: Final = 403
TOO_LARGE: Final = 413
NO_JSON: Final = 415
LOGIN: Final = "/api/login"
JSON: Final = "application/json"
logger = logging.getLogger("forebay")


class Guards:
    """Around the application: adds headers to what it answers, and takes no body that is too long.

    Nor what is asked by another name than the broker's, or by a page that may not.
    """

    def __init__(self, app: ASGIApp, broker: BrokerView) -> None:
        self.app = app
        self.broker = broker
        self.body_octets_max = broker.options.http_body_octets_max
        self.reason = f"body: more than {self.body_octets_max} octets, http_body_octets_max"

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

        answer = self.refused(scope)
        if answer is not None:
            answer.headers["Connection"] = "close"  # what comes of the body is not read
            await answer(scope, receive, guarded_send)
            return
        await self.app(scope, counted_receive, guarded_send)

    def refused(self, scope: Scope) -> Response | None:
        """The answer to a request that goes no further; None for the others."""
        fault = fault_of(scope, self.broker.options)
        if fault:
            logger.info("HTTP request from %s refused: %s", scope.get("client"), fault)
            return refusal(FORBIDDEN, fault)
        if scope["path"] == LOGIN and scope["method"] == "POST" and not is_json(scope):
            return refusal(NO_JSON, f"Content-Type: a login is {JSON}")  # which no form of a page can send
        if announced_octets(scope) > self.body_octets_max:
            return refusal(TOO_LARGE, self.reason)
        return None


def is_json(scope: Scope) -> bool:
    """True if the head says that the body is JSON."""
    told = text_of(scope, b"content-type")
    return bool(told) and all(each.partition(";")[0].strip().lower() == JSON for each in told)


def announced_octets(scope: Scope) -> int:
    """The length of the body that the head names; 0 where it does not."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0
