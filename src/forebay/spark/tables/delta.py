"""A Delta table, using `deltalake`: the job and its batch are a `txn` action of the commit itself."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from forebay.spark.tables.layout import DataFile, Layout, TableError, check_columns
from forebay.spark.tables.table import Conflict, LakeTable, highest
from forebay.spark.tables.writing import make_folders, sync

LOG: Final = "_delta_log"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# There are several commits a second: keep their entries only briefly, and write checkpoints often enough for readers.
CONFIGURATION: Final = {"delta.logRetentionDuration": "interval 1 hours", "delta.checkpointInterval": "100"}
MILLISECOND_US: Final = 1000  # resolution of times in a Delta log's statistics


class DeltaLakeTable(LakeTable):
    """A Delta table. Use it from one thread at a time; data files may be written concurrently."""

    format = "delta"
    with_partitions = False  # Delta's readers take the partition columns from the log

    def __init__(self, folder: str, layout: Layout) -> None:
        super().__init__(folder, layout)
        self.schema = layout.arrow_schema()
        make_folders(folder)
        try:
            self.table = DeltaTable(folder)
        except TableNotFoundError:
            self.table = DeltaTable.create(
                folder, self.schema, mode="ignore", partition_by=layout.partition_names, configuration=CONFIGURATION
            )
            self.sync()
        self.cached: tuple[int, list[DataFile]] = (-1, [])
        self.check_schema()

    def check_schema(self) -> None:
        """Raise TableError if the table's columns differ from the layout, as other writers may change the schema."""
        names = [field.name for field in self.table.schema().fields]
        by = self.table.metadata().partition_columns
        check_columns(f"the Delta table in {self.folder}", names, by, self.layout)

    def refresh(self) -> None:
        self.table.update_incremental()
        self.check_schema()

    def last_batch(self, app_id: str) -> int:
        version = self.table.transaction_version(app_id)
        return -1 if version is None else version

    def files(self) -> list[DataFile]:
        version = self.table.version()
        if self.cached[0] != version:
            rows = pa.table(self.table.get_add_actions(flatten=True)).to_pylist()
            self.cached = version, [self.data_file(row) for row in rows]
        return self.cached[1]

    def data_file(self, row: dict[str, Any]) -> DataFile:
        path = unquote(row["path"])
        if row.get("min.offset") is None or row.get("max.timestamp") is None:
            raise TableError(f"{self.folder}: {path} has no statistics of offsets: it is not from a tier job")
        partition = {name: text(row[f"partition.{name}"]) for name in self.layout.partition_names}
        first_us, last_us = [
            (row[f"{which}.timestamp"] - EPOCH) // timedelta(microseconds=1) for which in ("min", "max")
        ]
        first, end = row["min.offset"], row["max.offset"] + 1
        return DataFile(path, row["size_bytes"], row["num_records"], partition, first, end, first_us, last_us)

    def ends(self) -> dict[str, int]:
        return highest(self.files())

    def append(self, app_id: str, batch: int, files: Sequence[DataFile]) -> None:
        known, version = self.files(), self.table.version()
        self.write([self.add_action(file, True) for file in files], [Transaction(app_id, batch)])
        # Update the cache instead of reading the log of many files again, unless another writer has committed.
        if self.table.version() == version + 1:
            self.cached = version + 1, [*known, *files]

    def swap(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        now_ms = time.time_ns() // 1_000_000
        actions: list[AddAction | RemoveAction] = [self.add_action(file, False) for file in new]
        for file in old:
            actions.append(RemoveAction(file.path, False, now_ms, file.octets, self.values(file)))
        self.write(actions, [])

    def write(self, actions: Sequence[AddAction | RemoveAction], transactions: list[Transaction]) -> None:
        # No retries in deltalake: another writer may have committed this batch, or the same offsets.
        properties = CommitProperties(app_transactions=transactions, max_commit_retries=0)
        by = self.layout.partition_names
        try:
            self.table.create_write_transaction(list(actions), "append", self.schema, by, commit_properties=properties)
        except CommitFailedError as error:
            raise Conflict(str(error)) from None
        self.table.update_incremental()
        self.sync()

    def sync(self) -> None:
        """Sync the log's newest entry and its folder, which deltalake does not."""
        log = os.path.join(self.folder, LOG)
        sync(os.path.join(log, f"{self.table.version():020d}.json"))
        sync(log)

    def add_action(self, file: DataFile, data_change: bool) -> AddAction:
        statistics = {
            "numRecords": file.rows,
            "minValues": {"offset": file.first, "timestamp": iso(file.first_us)},
            "maxValues": {"offset": file.end - 1, "timestamp": iso(file.last_us + MILLISECOND_US - 1)},
        }
        changed_ms = os.stat(self.path(file)).st_mtime_ns // 1_000_000
        return AddAction(file.path, file.octets, self.values(file), changed_ms, data_change, json.dumps(statistics))

    def values(self, file: DataFile) -> dict[str, str | None]:
        """Return the partition values of a file, with None for empty ones, which Delta does not have."""
        return {name: value or None for name, value in file.partition.items()}

    def forget(self, before_s: float) -> None:
        """Do nothing: a removed file stays in the log, marked as removed."""

    def referenced(self) -> set[str]:
        return {file.path for file in self.files()}


def iso(stamp_us: int) -> str:
    """Return a time in the form of Delta's statistics, cut off to milliseconds."""
    return (EPOCH + timedelta(microseconds=stamp_us)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def text(value: object) -> str:
    return "" if value is None else str(value)
