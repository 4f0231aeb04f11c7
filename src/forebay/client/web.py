"""A small client of the broker's HTTP API, whose address it finds over the block protocol.

If the API refuses a request, the client raises RequestError with the API's text.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import Any, Final

from forebay.client.connecting import ClientTls
from forebay.client.control import ControlClient
from forebay.core.errors import INVALID, NOT_FOUND, REFUSED, OutcomeUnknown, RequestError, Unreachable
from forebay.core.option_table import split_address

TIMEOUT_S: Final = 120.0
REASONS: Final = {401: REFUSED, 403: REFUSED, 404: NOT_FOUND}


class WebClient:
    """A client of one broker's HTTP API, for one user."""

    def __init__(self, url: str, user: str, password: str, tls: ClientTls | None = None) -> None:
        self.url = url
        secure = urllib.request.HTTPSHandler(context=(tls or ClientTls()).context())
        # Do not use the environment's proxies, which are for public servers.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), secure)
        self._login = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    @classmethod
    def beside(cls, control: ControlClient, user: str, password: str, tls: ClientTls | None) -> WebClient:
        """Return a client of the HTTP API of the broker that `control` is connected to.

        Raises RequestError(NOT_FOUND) if the broker has no listener for the API.
        """
        listeners = control.run("broker.status").get("listeners")
        assert isinstance(listeners, dict)
        host = split_address(control.server)[0]
        # A client that uses TLS with the broker must not send its password unencrypted here.
        for name in ("https",) if tls is not None else ("http", "https"):
            if name in listeners:
                port = split_address(str(listeners[name]))[1]
                return cls(f"{name}://{f'[{host}]' if ':' in host else host}:{port}", user, password, tls)
        wanted = "https" if tls is not None else "http"
        raise RequestError(NOT_FOUND, f"{control.server}: the broker has no listener for this: set its option {wanted}")

    def get(self, path: str) -> Any:
        """Return the JSON document at a path."""
        return self._ask("GET", path, None)

    def post(self, path: str, document: object) -> Any:
        """Send a JSON document to a path, and return the answer, or None if it is empty."""
        return self._ask("POST", path, json.dumps(document).encode())

    def _ask(self, method: str, path: str, body: bytes | None) -> Any:
        request = urllib.request.Request(self.url + path, body, method=method)
        request.add_header("Authorization", self._login)
        if body is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                octets = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error.code, error.read()) from None
        except urllib.error.URLError as error:
            raise Unreachable(f"no broker answers: {self.url}: {error.reason}") from None
        except OSError as error:
            raise OutcomeUnknown(f"{self.url}: {error}") from error
        return json.loads(octets) if octets else None

    def _refused(self, code: int, octets: bytes) -> RequestError:
        try:
            said = json.loads(octets)["reason"]
        except (ValueError, KeyError, TypeError):
            said = f"HTTP status {code}"
        return RequestError(REASONS.get(code, INVALID), f"{self.url}: {said}")
