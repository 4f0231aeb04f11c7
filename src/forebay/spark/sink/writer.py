"""The sink's writers: tasks stage blocks, and the driver's commit publishes the staged blocks once.

The broker remembers the last batch that each query committed (its staging.py). A batch that Spark runs again, after
any crash, is committed again under the same number, and the broker publishes nothing for it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from forebay.client.blocks import TIMEOUT_S
from forebay.client.staging import StagingClient
from forebay.core.errors import PRECONDITION, OutcomeUnknown, RequestError, Unreachable
from forebay.spark.access import Access
from forebay.spark.idle import IdleConnections
from forebay.spark.reading.logs import Patience, naming
from forebay.spark.setup.plain import plainly
from forebay.spark.sink.encode import BlockEncoder, block_of, same
from forebay.spark.sink.options import SinkOptions

QUERY_PROPERTY: Final = "sql.streaming.queryId"
BATCH_PROPERTY: Final = "streaming.sql.batchId"
ONLY_BATCH: Final = 0  # a batch write has one batch, with this number
CHECK: Final = "check-"  # prefix of the names of queries that stage a row only for a check
OF_ONE_ROW: Final = "stage: row 0: "  # prefix of the broker's errors about the row


@dataclass(frozen=True, slots=True)
class WrittenPart(WriterCommitMessage):
    """The result of one task; `rows` is 0 if it had nothing to stage, or the batch is committed already."""

    query: str
    name: str
    rows: int


_idle: Final = IdleConnections[StagingClient]()
# Destinations that the broker has accepted, in this process.
_checked: set[tuple[Access, tuple[bytes, bytes] | None]] = set()


class WriteTarget:
    """The destination and the options of a write. It is pickled into every task.

    columns  as `sink_columns` found them
    """

    def __init__(self, options: SinkOptions, columns: dict[str, int]) -> None:
        self.options = options
        self.columns = columns

    def stage(self, query: str, batch: int, rows: Iterator[pa.RecordBatch]) -> WrittenPart:
        """Stage the rows of one task. Runs on an executor."""
        access = self.options.access
        with naming(access):
            client, last = self.first_answer(query)
        # A random name, not the task's attempt: a restarted driver numbers its tasks from 0 again.
        name = uuid.uuid4().hex
        staged = 0
        kept = last < batch
        try:
            encoder = self.encoder()
            for each in rows:  # consume all rows even if none is kept, as Spark's worker expects
                for count, block in encoder.blocks(each) if kept else ():
                    kept = client.stage(query, batch, name, block)
                    staged += count
                    if not kept:
                        break
        except BaseException:
            client.close()
            raise
        _idle.leave(access, client)
        return WrittenPart(query, name, staged if kept else 0)

    def check(self, query: str | None = None) -> None:
        """Check with the broker whether it would accept a row. Runs on the driver, before any task.

        query   id of a batch write; if it is committed already, nothing is checked. None for a stream, which calls this
                for every micro-batch: the broker's first acceptance is remembered
        raises  RequestError if there is no such destination, or the user may not publish there; Unreachable
        """
        access = self.options.access
        target = self.encoder().address()
        if query is None and (access, target) in _checked:
            return
        patience = Patience(access.retry_s)
        while True:
            try:
                with naming(access):
                    client, last = self.first_answer(query or CHECK)
                    if target is not None and last < ONLY_BATCH:
                        self.try_row(client, *target)
                break
            except OutcomeUnknown as error:
                patience.wait(error)
        _idle.leave(access, client)
        _checked.add((access, target))

    def try_row(self, client: StagingClient, exchange: bytes, key: bytes) -> None:
        """Stage a row that is never committed. Raises RequestError if the broker refuses it."""
        query = CHECK + uuid.uuid4().hex
        row = block_of(1, [same(cell, 1) for cell in (exchange, key, self.encoder().plain, b"")])
        try:
            client.stage(query, ONLY_BATCH, query, row)
            client.abort(query, ONLY_BATCH)
        except RequestError as error:
            client.close()
            raise RequestError(error.reason, error.text.replace(OF_ONE_ROW, "", 1), error.scope) from None
        except BaseException:
            client.close()
            raise

    def encoder(self) -> BlockEncoder:
        """Return a new encoder of rows."""
        return BlockEncoder(self.options, self.columns)

    def first_answer(self, query: str) -> tuple[StagingClient, int]:
        """Return a working connection, and the last committed batch of the query."""
        access = self.options.access
        client = _idle.take(access)
        if client is not None:
            try:
                return client, client.last_batch(query)
            except OutcomeUnknown:  # the broker has restarted since
                client.close()
                _idle.close(access)
        patience = Patience(access.retry_s)
        while True:
            try:
                client = connect(access)
                return client, client.last_batch(query)
            except (Unreachable, OutcomeUnknown) as error:
                patience.wait(error)

    def commit(self, query: str, batch: int, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish the blocks that these tasks staged, repeating the request until its outcome is known.

        Runs on the driver.
        """
        parts = {each.name: each.rows for each in messages if isinstance(each, WrittenPart) and each.rows}
        deadline = time.monotonic() + self.options.commit_s
        patience = Patience(self.options.commit_s)
        while True:
            answer_s = max(0.001, min(TIMEOUT_S, deadline - time.monotonic()))
            try:
                with connect(self.options.access, answer_s) as client:
                    client.commit(query, batch, parts)
                    return
            except (Unreachable, OutcomeUnknown) as error:
                # Safe to repeat: the broker publishes a batch once, whichever connection commits it.
                patience.wait(error)

    def abort(self, query: str, batch: int) -> None:
        """Discard the staged blocks of a batch. Runs on the driver."""
        try:
            with connect(self.options.access) as client:
                client.abort(query, batch)
        except (Unreachable, OutcomeUnknown):
            return  # Spark already reports an error, and staged blocks expire
        except RequestError as error:
            # Spark also aborts after a commit that raised; a committed batch stays.
            if error.reason != PRECONDITION:
                raise


def connect(access: Access, timeout_s: float = TIMEOUT_S) -> StagingClient:
    """Open a new connection to the broker."""
    return access.connect(StagingClient, timeout_s)


class ForebayWriter(DataSourceArrowWriter):
    """The writer of a batch: one transaction, published at the end of the job.

    Created on the driver once a write; pickled to the tasks and to the process that commits.
    """

    def __init__(self, options: SinkOptions, columns: dict[str, int]) -> None:
        self.stager = WriteTarget(options, columns)
        self.query = options.transaction or uuid.uuid4().hex

    @plainly()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task. Runs on an executor."""
        return self.stager.stage(self.query, ONLY_BATCH, iterator)

    @plainly()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the staged rows, once all tasks are done. Runs on the driver."""
        self.stager.commit(self.query, ONLY_BATCH, messages)

    @plainly()
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Discard the staged rows after a task or the commit failed. Runs on the driver."""
        self.stager.abort(self.query, ONLY_BATCH)


class ForebayStreamWriter(DataSourceStreamArrowWriter):
    """The writer of a stream: each micro-batch is one transaction, under the query's id and the batch's number.

    Created on the driver once a micro-batch; pickled to the tasks and to the process that commits.
    """

    def __init__(self, options: SinkOptions, columns: dict[str, int]) -> None:
        self.stager = WriteTarget(options, columns)

    @plainly()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task. Runs on an executor."""
        context = TaskContext.get()
        assert context is not None, "a task of Spark"
        query, batch = context.getLocalProperty(QUERY_PROPERTY), context.getLocalProperty(BATCH_PROPERTY)
        assert query is not None and batch is not None, "Spark tells tasks of a stream whose they are"
        return self.stager.stage(query, int(batch), iterator)

    @plainly()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  PySpark's name
        """Publish the staged rows of a micro-batch, once all its tasks are done. Runs on the driver."""
        for query in queries_of(messages):
            self.stager.commit(query, batchId, messages)

    @plainly()
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  PySpark's name
        """Discard the staged rows after a task or the commit failed. Runs on the driver."""
        for query in queries_of(messages):
            self.stager.abort(query, batchId)


def queries_of(messages: Sequence[WriterCommitMessage | None]) -> set[str]:
    """Return the id of the one query of all tasks, as a set, which is empty if no task succeeded."""
    return {each.query for each in messages if isinstance(each, WrittenPart)}
