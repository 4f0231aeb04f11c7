"""Headers of every answer over HTTP that keep browsers safe."""

from __future__ import annotations

from typing import Final

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
