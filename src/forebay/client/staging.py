"""A client that publishes exactly once: rows are staged, and published by one commit that can be repeated.

with StagingClient.connect("localhost:5672", "guest", "guest") as client:
    client.stage("my-query", 7, "part-0", block)
    client.commit("my-query", 7, {"part-0": rows})

Many clients may stage parts of one batch. One of them, or another client, commits the batch.
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

    rows, unroutable  number of rows published, and of unroutable ones among them; 0 for a batch before the last one
    again             whether the batch, or a later one, was committed before, so that this request published nothing
    """

    rows: int
    unroutable: int
    again: bool


class StagingClient(BlockClient):
    """One connection. Use it from one thread at a time."""

    def stage(self, query: str, batch: int, part: str, block: Octets | Sequence[Octets]) -> bool:
        """Stage the rows of one block in the broker until the batch is committed or aborted.

        query    names the sequence of batches, in 1 to 255 bytes of UTF-8; `part` names its part of this batch likewise
        block    in the format of log/block.py, up to 64 MiB, in one piece or several. Its exchange and routing-key
                 columns address each row; its offsets and timestamps are ignored
        returns  False if the batch is committed already: its rows are not kept
        raises   RequestError if a row may not be published, and then none of the block is kept; OutcomeUnknown
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
        """Publish these parts of a batch atomically, and no others. They are on disk when this returns.

        parts   number of rows by the part's name
        raises  RequestError(PRECONDITION) if the staged rows differ, and then nothing is published; OutcomeUnknown:
                repeat the commit, the batch is published once
        """
        answer = self._ask({"op": "commit", "query": query, "batch": batch, "parts": dict(parts)})
        try:
            return CommitResult(whole(answer["rows"]), whole(answer["unroutable"]), answer["again"] is True)
        except BAD_ANSWER as error:
            raise self._malformed(answer, error) from None

    def abort(self, query: str, batch: int) -> None:
        """Discard the staged rows of a batch. Raises RequestError(PRECONDITION) if the batch is committed."""
        self._ask({"op": "abort", "query": query, "batch": batch})

    def last_batch(self, query: str) -> int:
        """Return the last committed batch of a query, or -1 if the broker knows of none."""
        answer = self._ask({"op": "transaction", "query": query})
        batch = answer.get("batch")
        return -1 if batch == -1 else whole(batch)
