"""The operations of administrators, as a session asks for them; `forebay.management` has the table."""

from __future__ import annotations

from abc import ABC, abstractmethod

from forebay.broker.audit import Origin


class Administration(ABC):
    """The way in for administrators."""

    @abstractmethod
    def waits(self, name: str) -> bool:
        """True if this is an operation that changes what is on disk: its answer waits for that."""

    @abstractmethod
    def run(self, origin: Origin, name: str, values: dict[str, object]) -> dict[str, object]:
        """The answer to one request of somebody who has logged in.

        values  the arguments as they came
        raises  RequestError: REFUSED for a user who is no administrator, NOT_FOUND for no such operation, INVALID
                naming the argument that is wrong, or what the operation says
        """
