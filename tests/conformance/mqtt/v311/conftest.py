"""One broker for a module."""

from __future__ import annotations

from tests.conformance.mqtt.one_broker import broker, own

__all__ = ["broker", "own"]
