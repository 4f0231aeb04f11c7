"""Octets that are sent from where they are kept: a body of many megabytes is cut, and not copied."""

from __future__ import annotations

Part = bytes | memoryview


def pieces(octets: bytes, most: int) -> list[Part]:
    """Cut octets into consecutive views of at most `most` octets."""
    view = memoryview(octets)
    return [view[at : at + most] for at in range(0, len(octets), most)]
