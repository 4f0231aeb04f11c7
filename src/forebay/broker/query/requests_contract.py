"""The call by which sessions ask queries: the part of a vhost's contract that `Queries` implements."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mypy_extensions import i64

from forebay.broker.query.replies import QueryReply


class QueryRequestsContract(ABC):
    """The queries of a vhost, as its sessions see them."""

    @abstractmethod
    def ask(self, name: bytes, body: bytes, reply: QueryReply, session_id: i64, user: str) -> None:
        """Begin a query of a queue, as a message asks for it; the answer is published to `reply`.

        body    arguments of the query, as JSON; what is wrong with them is the answer
        raises  RequestError if there is no such queue, or it is exclusive to another session
        """
