"""The system's random octets as the inner layers see them."""

from __future__ import annotations

import secrets

from forebay.core.ports import Random


class SystemRandom(Random):
    """The operating system's source, fit for secrets."""

    def octets(self, count: int) -> bytes:
        return secrets.token_bytes(count)
