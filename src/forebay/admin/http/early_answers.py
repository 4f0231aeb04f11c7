"""The answers that need no web framework: /health and /ready for orchestrators, metrics for Prometheus."""

from __future__ import annotations

from typing import Final

import orjson

from forebay.admin.caller import HTTP, REQUESTED_WITH, Caller, check_manager, login_by_header, refused_login
from forebay.admin.http.early_request import EarlyAnswer, EarlyRequest
from forebay.admin.http.hosts import fault_of
from forebay.admin.metrics.gather import METRICS, PER_OBJECT, ScrapeRequest, gathered
from forebay.core.errors import RequestError
from forebay.directory.logins.login import LoginContext, LoginRefused
from forebay.management.needs import MONITORS
from forebay.node.peer import peer_at
from forebay.server.broker_view import BrokerView
from forebay.server.probes import HEALTH, READY, UNAVAILABLE, health_of, readiness_of

JSON: Final = "application/json"
UNAUTHORIZED: Final = 401
OTHER_ERROR: Final = "error"
WORDS: Final = {UNAUTHORIZED: "not_authorized", UNAVAILABLE: "unavailable"}
PROBES: Final = {HEALTH: health_of, READY: readiness_of}
METRICS_PATHS: Final = (METRICS, PER_OBJECT)
Address = tuple[str, int]


class EarlyAnswers:
    """The answers of one kind of listener before the web framework is loaded: those that it would give.

    is_open  metrics need no login, and there is nothing else: the listener is for Prometheus alone
    """

    def __init__(self, app: BrokerView, is_open: bool) -> None:
        self.app = app
        self.is_open = is_open

    def takes(self, request: EarlyRequest, client: Address | None) -> bool:
        """Return whether a request is answered here."""
        is_known = request.path in METRICS_PATHS or (request.path in PROBES and not self.is_open)
        if not is_known or (request.method == "HEAD" and request.path in METRICS_PATHS):
            return False
        scope = {"method": request.method, "headers": request.fields, "client": client}
        return not fault_of(scope, self.app.options)

    async def answer(self, request: EarlyRequest, client: Address | None) -> EarlyAnswer | None:
        """Answer a request that is taken; None if only the web framework can, as where a cookie is the login."""
        probe = PROBES.get(request.path)
        if probe is not None:
            status, fields = probe(self.app)
            return EarlyAnswer(status, JSON, orjson.dumps(fields), {})
        if not self.is_open:
            refusal = await self.refused(request, client)
            if not isinstance(refusal, bool):
                return refusal
            if refusal:
                return None
        wanted = ScrapeRequest(each=request.path == PER_OBJECT)
        async with self.app.door.long:
            content_type, document = await gathered(self.app, request.field(b"accept"), wanted)
        return EarlyAnswer(200, content_type, document, {})

    async def refused(self, request: EarlyRequest, client: Address | None) -> EarlyAnswer | bool:
        """Return the refusal of a caller who may not see metrics; True if the web framework decides, False if none."""
        header = request.field(b"authorization")
        host, port = client or ("", 0)
        place = LoginContext(host, HTTP)
        if not header and request.field(b"cookie"):
            return True
        try:
            if not header:
                raise LoginRefused("no credentials")
            loopback = bool(host) and peer_at(host, port).loopback
            caller = Caller(self.app, await login_by_header(self.app, header, loopback, place), host)
            check_manager(caller)
            caller.check_tags(MONITORS)
        except LoginRefused as error:
            if header:  # without credentials nobody has guessed anything
                self.app.refuse_login(place, error)
            status, reason, fields = refused_login(error, bool(request.field(REQUESTED_WITH.encode())))
            return refusal_of(status, reason, fields)
        except RequestError as error:
            return refusal_of(UNAUTHORIZED, error.text, {})
        return False


def refusal_of(status: int, reason: str, fields: dict[str, str]) -> EarlyAnswer:
    """Return the answer that says why a request is refused."""
    return EarlyAnswer(status, JSON, orjson.dumps({"error": WORDS.get(status, OTHER_ERROR), "reason": reason}), fields)
