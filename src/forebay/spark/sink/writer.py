"""Writers of the sink: tasks stage blocks, and the driver's commit publishes what they staged, once.

The broker remembers the last batch that each query committed (its staging.py). A batch that Spark runs again, after
a crash of whichever part, is committed again under the same number, and nothing is published for it.
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
ONLY_BATCH: Final = 0  # the number of a batch write's one batch
CHECK: Final = "check-"  # how the name of a query begins that stages a row only to have it looked at
OF_ONE_ROW: Final = "stage: row 0: "  # what the broker says before what is wrong with the row


@dataclass(frozen=True, slots=True)
class WrittenPart(WriterCommitMessage):
    """The result of one task; `rows` is 0 where it had nothing to stage, or all is committed already."""

    query: str
    name: str
    rows: int


_idle: Final = IdleConnections[StagingClient]()
# Destinations of this process's streams that the broker has accepted.
_checked: set[tuple[Access, tuple[bytes, bytes] | None]] = set()


class WriteTarget:
    """The place that a write goes to, and the way; pickled into every task.

    columns  as `sink_columns` found them
    """

    def __init__(self, options: SinkOptions, columns: dict[str, int]) -> None:
        self.options = options
        self.columns = columns

    def stage(self, query: str, batch: int, rows: Iterator[pa.RecordBatch]) -> WrittenPart:
        """Stage the rows of one task; on an executor."""
        access = self.options.access
        with naming(access):
            client, last = self.first_answer(query)
        # Not the task's attempt: a driver that starts anew counts its tasks from 0 again.
        name = uuid.uuid4().hex
        staged = 0
        kept = last < batch
        try:
            encoder = self.encoder()
            for each in rows:  # to the end, also where nothing is kept: Spark's worker does not expect to be left
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
        """Ask the broker whether it would take a row; on the driver, before any task runs.

        query   of a batch write: where that is committed already, nothing will be written; None of a stream, whose
                every micro-batch comes here: one answer is enough
        raises  RequestError where there is no such place, or the user may not publish there; Unreachable
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
        """Stage a row that is never committed."""
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
        """The encoder that makes blocks of the rows."""
        return BlockEncoder(self.options, self.columns)

    def first_answer(self, query: str) -> tuple[StagingClient, int]:
        """A connection that works, and the last batch of the query that is committed."""
        access = self.options.access
        client = _idle.take(access)
        if client is not None:
            try:
                return client, client.last_batch(query)
            except OutcomeUnknown:  # the broker was started anew since
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
        """Publish what these tasks staged; on the driver. Asks again until it knows what came of it."""
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
                # Asked twice, it is published once; and what was committed is published whoever asks.
                patience.wait(error)

    def abort(self, query: str, batch: int) -> None:
        """Throw away what was staged; on the driver."""
        try:
            with connect(self.options.access) as client:
                client.abort(query, batch)
        except (Unreachable, OutcomeUnknown):
            return  # Spark has an error to tell already; what is staged expires
        except RequestError as error:
            # Spark aborts also after a commit that raised: what is committed stays.
            if error.reason != PRECONDITION:
                raise


def connect(access: Access, timeout_s: float = TIMEOUT_S) -> StagingClient:
    """A new connection to the broker of the options."""
    return access.connect(StagingClient, timeout_s)


class ForebayWriter(DataSourceArrowWriter):
    """A batch write: one transaction, published at the end of the job.

    Made on the driver once a write; pickled to the tasks and to the process that commits.
    """

    def __init__(self, options: SinkOptions, columns: dict[str, int]) -> None:
        self.stager = WriteTarget(options, columns)
        self.query = options.transaction or uuid.uuid4().hex

    @plainly()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write on an executor, once a task."""
        return self.stager.stage(self.query, ONLY_BATCH, iterator)

    @plainly()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit on the driver, once all tasks are done."""
        self.stager.commit(self.query, ONLY_BATCH, messages)

    @plainly()
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abort on the driver, where a task or the commit failed."""
        self.stager.abort(self.query, ONLY_BATCH)


class ForebayStreamWriter(DataSourceStreamArrowWriter):
    """A stream's writes: each micro-batch is one transaction, under the query's id and the batch's number.

    Made on the driver once a micro-batch; pickled to the tasks and to the process that commits.
    """

    def __init__(self, options: SinkOptions, columns: dict[str, int]) -> None:
        self.stager = WriteTarget(options, columns)

    @plainly()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write on an executor, once a task."""
        context = TaskContext.get()
        assert context is not None, "a task of Spark"
        query, batch = context.getLocalProperty(QUERY_PROPERTY), context.getLocalProperty(BATCH_PROPERTY)
        assert query is not None and batch is not None, "Spark tells tasks of a stream whose they are"
        return self.stager.stage(query, int(batch), iterator)

    @plainly()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  PySpark's name
        """Commit on the driver, once all tasks of the micro-batch are done."""
        for query in queries_of(messages):
            self.stager.commit(query, batchId, messages)

    @plainly()
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  PySpark's name
        """Abort on the driver, where a task or the commit failed."""
        for query in queries_of(messages):
            self.stager.abort(query, batchId)


def queries_of(messages: Sequence[WriterCommitMessage | None]) -> set[str]:
    """The one query that all tasks belong to; none where no task has ended well."""
    return {each.query for each in messages if isinstance(each, WrittenPart)}
