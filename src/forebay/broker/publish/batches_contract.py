"""The calls by which sinks stage rows and commit them in batches: a part of a vhost's contract."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mypy_extensions import i64

from forebay.broker.publish.staging import CommittedBatch


class BatchesContract(ABC):
    """The batches of staged rows, as the connections of sinks see them."""

    @abstractmethod
    def stage(self, query: str, batch: i64, part: str, rows: i64, block: bytes) -> bool:
        """Keep a block of rows for a batch that is not committed; return False, and keep none, if there is no room."""

    @abstractmethod
    def commit(self, query: str, batch: i64, parts: dict[str, int]) -> CommittedBatch:
        """Decide that the staged parts of a batch are published: see `Staging.commit`."""

    @abstractmethod
    def abort(self, query: str, batch: i64) -> None:
        """Delete what is staged for a batch; RequestError(PRECONDITION) if it is committed."""

    @abstractmethod
    def is_committed(self, query: str, batch: i64) -> bool:
        """Return whether this batch of a query, or a later one, is committed."""

    @abstractmethod
    def last_batch(self, query: str) -> i64:
        """Return the last batch of a query that was committed, -1 if none is known."""

    @abstractmethod
    def is_durable(self, lsn: i64) -> bool:
        """Return whether the disk has everything up to an lsn."""
