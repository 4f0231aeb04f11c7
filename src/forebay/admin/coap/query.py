"""The query of a request: who asks, and the fields of a message, named as the HTTP bridge names them."""

from __future__ import annotations

from typing import Final

from forebay.admin.bridge.message import PublishRequest, own_headers
from forebay.core.errors import INVALID, RequestError
from forebay.core.reading.nearest import hint

TOKEN: Final = "token"
LOGIN: Final = (TOKEN, "user", "password")
PUBLISH: Final = (
    *LOGIN,
    "vhost",
    "qos",
    "retain",
    "expiration_s",
    "delay_ms",
    "priority",
    "key",
    "idempotency_key",
)
READ: Final = (*LOGIN, "vhost")
DIGITS_MAX: Final = 16


class CoapQuery:
    """The parts of a query by their names. RequestError(INVALID) names a part that is unknown, there twice or wrong."""

    def __init__(self, parts: list[bytes], known: tuple[str, ...]) -> None:
        self.values: dict[str, str] = {}
        for part in parts:
            name, _, value = part.decode("utf-8", "surrogateescape").partition("=")
            if name not in known and not (known is PUBLISH and name.startswith("x-")):
                raise RequestError(INVALID, f"{name[:80]!r}: no such parameter: {hint(name, known)}")
            if name == TOKEN:  # an option has 255 octets at most, and a token may have more
                value = self.values.get(TOKEN, "") + value
            elif name in self.values:
                raise RequestError(INVALID, f"{name}: it is there twice")
            self.values[name] = value

    @property
    def vhost(self) -> str:
        """Return the name of the vhost."""
        return self.values.get("vhost", "/")

    def number(self, name: str, default: int | None) -> int | None:
        """Return a whole number."""
        text = self.values.get(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > DIGITS_MAX:
            raise RequestError(INVALID, f"{name}: {text[:80]!r} is no whole number")
        return int(text)

    def flag(self, name: str) -> bool:
        """Return whether something is wanted."""
        text = self.values.get(name, "false")
        if text not in ("true", "false"):
            raise RequestError(INVALID, f"{name}: {text[:80]!r} is neither true nor false")
        return text == "true"

    def publish_request(self, topic: str, body: bytes, content_type: str | None) -> PublishRequest:
        """Return the message that the query, a topic and a body make."""
        return PublishRequest(
            topic,
            body,
            content_type,
            own_headers(self.values),
            self.number("qos", 1) or 0,
            self.flag("retain"),
            self.number("expiration_s", None),
            self.number("delay_ms", 0) or 0,
            self.number("priority", None),
            self.values.get("key"),
            self.values.get("idempotency_key"),
        )
