"""The entities that the tokens of one client of Azure Service Bus give access to."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import REFUSED, TOO_MANY, RequestError

SCOPES_MAX: Final = 1000


@final
class EntityAccess:
    """The entities that a client may use, beside what its user may do.

    scopes     paths of entities, each with when its token expires, in microseconds since 1970; 0 for never. A path
               covers what is below it, and "" everything
    is_signed  the tokens are shared access signatures, of which each has one scope
    """

    def __init__(self, scopes: dict[str, int]) -> None:
        self.scopes = dict(scopes)
        self.is_signed = 0 not in scopes.values()

    def allow(self, path: str, until_us: i64) -> None:
        """Take another token."""
        if path not in self.scopes and len(self.scopes) >= SCOPES_MAX:
            raise RequestError(TOO_MANY, f"tokens for more than {SCOPES_MAX} entities in one connection")
        self.scopes[path] = int(until_us)

    def covers(self, path: str, now_us: i64) -> bool:
        """Return whether a token that has not expired gives access to an entity."""
        while True:
            until_us = self.scopes.get(path)
            if until_us is not None and (until_us == 0 or until_us > now_us):
                return True
            if not path:
                return False
            path = path.rpartition("/")[0]

    def check(self, path: str, now_us: i64) -> None:
        """Refuse an entity that no token gives access to."""
        if not self.covers(path, now_us):
            raise RequestError(REFUSED, f"entity '{path}': no token of this connection gives access to it")

    def until_us(self) -> int:
        """Return when the last token expires; 0 for never."""
        return 0 if not self.is_signed else max(self.scopes.values())

    def forget_expired(self, now_us: i64) -> bool:
        """Forget the tokens that have expired; return whether there were any."""
        expired = [path for path, until_us in self.scopes.items() if 0 < until_us <= now_us]
        for path in expired:
            del self.scopes[path]
        return len(expired) > 0
