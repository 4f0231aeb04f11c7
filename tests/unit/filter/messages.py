"""A message that filters are tried on."""

from __future__ import annotations

import json
from collections.abc import Mapping

from forebay.filter.subject import Subject


class Message(Subject):
    """One made up of its facts, headers and body; counts how often its body is parsed."""

    def __init__(
        self, body: bytes = b"", headers: Mapping[str, object] | None = None, facts: Mapping[str, object] | None = None
    ) -> None:
        super().__init__()
        self.octets = body
        self.headers = headers or {}
        self.facts = facts or {}
        self.parses = 0

    def property(self, name: str) -> object:
        return self.facts.get(name)

    def header(self, name: str) -> object:
        return self.headers.get(name)

    def parse_body(self) -> object:
        self.parses += 1
        try:
            return json.loads(self.octets)
        except ValueError:
            return None


def message(body: object, headers: Mapping[str, object] | None = None, **facts: object) -> Message:
    """A message whose body is this value as JSON."""
    return Message(json.dumps(body).encode(), headers, facts)
