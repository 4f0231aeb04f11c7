"""The messages that a query reads: what a filter asks of them, and beside that where each stands in its queue."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from mypy_extensions import mypyc_attr

from forebay.filter.subject import Subject

# Bare words that queries have beside those of all filters.
STATE_WORDS: Final = {
    "state": "ready, leased, delayed or dead: where the message stands in the group",
    "holder": "of a leased message: the tag of the consumer that holds it",
    "connection": "of a leased message: the number of the holder's connection",
    "until_ms": "of a leased message when its lease ends, of a delayed one when it is ready; milliseconds since 1970",
}


@mypyc_attr(allow_interpreted_subclasses=True)
class QuerySubject(Subject):
    """One message that a query reads, with the properties STATE_WORDS."""

    @abstractmethod
    def shown(self, body_octets_max: int) -> dict[str, object]:
        """Return the whole message as people and programs see it, with at most so many octets of its body."""
