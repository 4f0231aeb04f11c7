"""A client that publishes exactly once: rows are staged, and published by one commit that can be asked for again.

    with StagingClient.connect("localhost:5672", "guest", "guest") as client:
        client.stage("my-query", 7, "part-0", block)
        client.commit("my-query", 7, {"part-0": rows})

Many clients may stage parts of one batch; one of them, or another, commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forebay.client.blocks import BAD_ANSWER, BlockClient, whole
from forebay.core.errors import OutcomeUnknown
from forebay.wire.blocks.stage import encode_stage

Octets = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The result of a commit.

    rows, unroutable  rows that were published, and how many of them led nowhere; 0 of a batch before the last one
    again             the batch, or a later one, was committed before: nothing was published for this request
    """

    rows: int
    unroutable: int
    again: bool


class StagingClient(BlockClient):
    """One connection; not for two threads at a time."""

    def stage(self, query: str, batch: int, part: str, block: Octets | Sequence[Octets]) -> bool:
        """Have the broker keep the rows of one block until the batch is committed or aborted.

        query    names the sequence of batches, in 1 to 255 octets of UTF-8; so does `part` its part of this batch
        block    as log/block.py has it, of up to 64 MiB; in one piece or several. Its exchange and routing-key columns
                 say where each row goes; offsets and timestamps mean nothing
        returns  False if the batch is committed already: its rows are not kept
        raises   RequestError where a row may not be published: none of the block is kept; OutcomeUnknown
        """
        pieces: Sequence[Octets] = [block] if isinstance(block, bytes | bytearray | memoryview) else block
        self._send(encode_stage(query, batch, part, sum(map(len, pieces))))
        try:
            for piece in pieces:
                self._connection.sendall(piece)
        except OSError as error:
            raise self._broke(OutcomeUnknown(f"{self.server}: sending failed: {error}")) from error
        return self._reply().get("again") is not True

    def commit(self, query: str, batch: int, parts: Mapping[str, int]) -> CommitResult:
        """Publish these parts of a batch at once, and nothing else of it; back when all of it is on disk.

        parts   each with the number of its rows
        raises  RequestError(PRECONDITION) where not just these rows are staged, and nothing is published;
                OutcomeUnknown: ask again, it is published once
        """
        answer = self._ask({"op": "commit", "query": query, "batch": batch, "parts": dict(parts)})
        try:
            return CommitResult(whole(answer["rows"]), whole(answer["unroutable"]), answer["again"] is True)
        except BAD_ANSWER as error:
            raise self._malformed(answer, error) from None

    def abort(self, query: str, batch: int) -> None:
        """Throw away what was staged for a batch; RequestError(PRECONDITION) where it is committed."""
        self._ask({"op": "abort", "query": query, "batch": batch})

    def last_batch(self, query: str) -> int:
        """The last batch of a query that was committed; -1 where the broker knows of none."""
        answer = self._ask({"op": "transaction", "query": query})
        batch = answer.get("batch")
        return -1 if batch == -1 else whole(batch)
