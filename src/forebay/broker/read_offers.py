"""Reads of blocks by way of other members of a group, which have the same records; the server knows these members."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

from mypy_extensions import mypyc_attr


@final
class GrantedRead:
    """The records that a reader may have: those of one log with offsets from `first` to below `end`.

    log    its number
    queue  its name
    """

    def __init__(self, log: int, queue: bytes, first: int, end: int) -> None:
        self.log = log
        self.queue = queue
        self.first = first
        self.end = end


@final
class ReadPlace:
    """A member that has them.

    servers  where it listens for clients, by the listener
    """

    def __init__(self, node: str, servers: dict[str, str]) -> None:
        self.node = node
        self.servers = servers


@mypyc_attr(allow_interpreted_subclasses=True)
class ReadOffers(ABC):
    """The members that a node which leads can send readers to."""

    @abstractmethod
    def grant(self, read: GrantedRead) -> tuple[str, list[ReadPlace]]:
        """A token, and the members that have been told to serve who shows it; none where none may."""
