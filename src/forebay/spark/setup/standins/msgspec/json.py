"""JSON as msgspec reads it: no NaN, no Infinity, no half of a surrogate pair, and UTF-8 throughout."""

from __future__ import annotations

import json as stdlib
import math


class DecodeError(ValueError):
    """The octets are no JSON."""


def refused(constant: str) -> object:
    """JSON has none of these."""
    raise DecodeError(f"{constant} is no JSON")


def finite(text: str) -> float:
    """A number that is one."""
    number = float(text)
    return number if math.isfinite(number) else float(str(refused(text)))


class Decoder:
    """Reads any JSON."""

    def decode(self, octets: bytes) -> object:
        """The value; DecodeError where there is none."""
        try:
            text = bytes(octets).decode()
            value: object = stdlib.loads(text, parse_constant=refused, parse_float=finite)
            if "\\ud" in text or "\\uD" in text:
                stdlib.dumps(value, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise DecodeError(str(error)) from None
        return value
