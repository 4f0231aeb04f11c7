"""The weights of a queue's fair keys: `gold=5, silver=2, *=1`."""

from __future__ import annotations

from typing import Final

WEIGHT_MAX: Final = 1000
WEIGHTS_MAX: Final = 1000  # keys in one table
EVERY_OTHER: Final = b"*"


def weights_fault(text: str) -> str:
    """Return what is wrong with a table of weights; "" if nothing is."""
    entries = text.split(",")
    if len(entries) > WEIGHTS_MAX:
        return f'"{len(entries)} keys are more than {WEIGHTS_MAX}"'
    seen: set[str] = set()
    for entry in entries:
        key, _, number = entry.rpartition("=")
        key, number = key.strip(), number.strip()
        if not key or not (number.isascii() and number.isdigit()):
            return f"\"'{entry.strip()}' is no key=weight\""
        if len(number) > len(str(WEIGHT_MAX)) or not 1 <= int(number) <= WEIGHT_MAX:
            return f'"the weight of {key} is not within 1 .. {WEIGHT_MAX}"'
        if key in seen:
            return f'"{key} has two weights"'
        seen.add(key)
    return ""


def parse_weights(text: str) -> dict[bytes, int]:
    """Return the weights by key. EVERY_OTHER has the weight of all keys that the table does not name."""
    found: dict[bytes, int] = {}
    for entry in text.split(","):
        key, _, number = entry.rpartition("=")
        found[key.strip().encode()] = int(number)
    return found
