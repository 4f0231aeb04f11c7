"""A stand-in for `msgspec.json`, as strict as it: no NaN, no Infinity, no half surrogate pair, and only valid UTF-8."""

from __future__ import annotations

import json as stdlib
import math


class DecodeError(ValueError):
    """The bytes are no valid JSON."""


def refused(constant: str) -> object:
    """Raise DecodeError for NaN and Infinity, which are no JSON."""
    raise DecodeError(f"{constant} is no JSON")


def finite(text: str) -> float:
    """Parse a number. Raises DecodeError if it is too large for a float."""
    number = float(text)
    return number if math.isfinite(number) else float(str(refused(text)))


class Decoder:
    """A decoder of any JSON value."""

    def decode(self, octets: bytes) -> object:
        """Decode a JSON value. Raises DecodeError if the bytes are no valid JSON."""
        try:
            text = bytes(octets).decode()
            value: object = stdlib.loads(text, parse_constant=refused, parse_float=finite)
            if "\\ud" in text or "\\uD" in text:
                stdlib.dumps(value, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise DecodeError(str(error)) from None
        return value
