"""An Iceberg table, using `pyiceberg`: the job's last batch is a table property, set in the commit of the files.

It is a property and not part of a snapshot, as snapshots expire.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Any, Final

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationException
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.table import Table, Transaction
from pyiceberg.transforms import IdentityTransform

from forebay.core.errors import OptionError
from forebay.spark.tables.layout import NAME_OCTETS_MAX, NEEDED, DataFile, Layout, TableError, check_columns, local_path
from forebay.spark.tables.table import Conflict, LakeTable, highest
from forebay.spark.tables.writing import make_folders, sync

BATCH: Final = "forebay.batch."
NAMESPACE: Final = "forebay"
CATALOG: Final = "catalog.db"
RETRIES: Final = "commit.retry.num-retries"
MAPPING: Final = "schema.name-mapping.default"
# Every commit writes the table's whole metadata anew.
PROPERTIES: Final = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.metrics.default": "none",
}
METRICS: Final = "write.metadata.metrics.column."
SNAPSHOTS_MAX: Final = 200  # snapshots to keep; files of older ones are kept for a safe time for their readers
EPOCH: Final = date(1970, 1, 1)


class IcebergTable(LakeTable):
    """An Iceberg table. Use it from one thread at a time; data files may be written concurrently."""

    format = "iceberg"
    with_partitions = True  # Iceberg's readers expect every column in the file

    def __init__(self, table: Table, layout: Layout) -> None:
        super().__init__(local_path(table.location()), layout)
        self.table = table
        self.cached: tuple[int | None, dict[str, DataFile]] = (None, {})  # snapshot, and its files by path
        self.settle()

    def settle(self) -> None:
        """Disable pyiceberg's retries and check the columns; call after every refresh of the table."""
        # Only in this object, not in the table. No retries in pyiceberg: another writer may have committed this
        # batch, or the same offsets.
        self.table.metadata.properties[RETRIES] = "0"
        names = [field.name for field in self.table.schema().fields]
        by = [field.name for field in self.table.spec().fields]
        check_columns(f"the Iceberg table in {self.folder}", names, by, self.layout)

    def refresh(self) -> None:
        self.table.refresh()
        self.settle()

    def last_batch(self, app_id: str) -> int:
        return int(self.table.properties.get(BATCH + app_id, -1))

    def files(self) -> list[DataFile]:
        snapshot = self.table.current_snapshot()
        number = snapshot.snapshot_id if snapshot is not None else None
        if number != self.cached[0]:
            # Reuse the decoded description of known files.
            known = self.cached[1]
            found = self.iceberg_files()
            self.cached = number, {path: known.get(path) or self.data_file(file) for path, file in found.items()}
        return list(self.cached[1].values())

    def iceberg_files(self) -> dict[str, IcebergFile]:
        """Return the files as pyiceberg describes them, by their paths relative to the table's folder."""
        found = [task.file for task in self.table.scan().plan_files()]
        return {os.path.relpath(local_path(file.file_path), self.folder): file for file in found}

    def data_file(self, file: IcebergFile) -> DataFile:
        path = os.path.relpath(local_path(file.file_path), self.folder)
        schema = self.table.schema()
        offset, stamp = schema.find_field("offset").field_id, schema.find_field("timestamp").field_id
        low, high = file.lower_bounds or {}, file.upper_bounds or {}
        if not {offset, stamp} <= set(low):
            raise TableError(f"{self.folder}: {path} has no statistics of offsets: it is not from a tier job")
        values = [file.partition[at] for at in range(len(self.layout.partition_names))]
        partition = dict(
            zip(self.layout.partition_names, map(self.text, self.layout.partition_names, values), strict=True)
        )
        return DataFile(
            path,
            file.file_size_in_bytes,
            file.record_count,
            partition,
            number(low[offset]),
            number(high[offset]) + 1,
            number(low[stamp]),
            number(high[stamp]),
        )

    def text(self, name: str, value: Any) -> str:
        if value is None:
            return ""
        return str(EPOCH + timedelta(days=value)) if name == "day" else str(value)

    def ends(self) -> dict[str, int]:
        return highest(self.files())

    def append(self, app_id: str, batch: int, files: Sequence[DataFile]) -> None:
        known = {file.path: file for file in self.files()}
        added = self.described(files)

        def change(transaction: Transaction) -> None:
            transaction.set_properties({BATCH + app_id: str(batch)})
            with transaction.update_snapshot().merge_append() as snapshot:
                for file in added:
                    snapshot.append_data_file(file)

        self.write(change)
        # Update the cache instead of reading the manifests again: a table has many files, a commit few.
        snapshot = self.table.current_snapshot()
        assert snapshot is not None
        self.cached = snapshot.snapshot_id, {**known, **{file.path: file for file in files}}

    def swap(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        there = self.iceberg_files()
        added = self.described(new)

        def change(transaction: Transaction) -> None:
            with transaction.update_snapshot().overwrite() as snapshot:
                for file in old:
                    snapshot.delete_data_file(there[file.path])
                for other in added:
                    snapshot.append_data_file(other)

        self.write(change)

    def described(self, files: Sequence[DataFile]) -> list[IcebergFile]:
        """Return files as Iceberg describes them, with statistics from their footers."""
        metadata = self.table.metadata
        return [parquet_file_to_data_file(self.table.io, metadata, f"file://{self.path(file)}") for file in files]

    def write(self, change: Callable[[Transaction], None]) -> None:
        try:
            with self.table.transaction() as transaction:
                change(transaction)
        except (CommitFailedException, ValidationException) as error:
            raise Conflict(str(error)) from None
        self.settle()
        self.sync()

    def sync(self) -> None:
        """Sync the files that the last commit wrote, and their folder, which pyiceberg does not."""
        paths = [self.table.metadata_location]
        snapshot = self.table.current_snapshot()
        if snapshot is not None:
            paths.append(snapshot.manifest_list)
            added = [
                each for each in snapshot.manifests(self.table.io) if each.added_snapshot_id == snapshot.snapshot_id
            ]
            paths += [manifest.manifest_path for manifest in added]
        for path in paths:
            sync(local_path(path))
        sync(os.path.dirname(local_path(self.table.metadata_location)))

    def forget(self, before_s: float) -> None:
        """Expire old snapshots, and remove the manifests that only they use.

        Each commit adds a snapshot, and writes the list of all of them anew.
        """
        snapshots = sorted(self.table.metadata.snapshots, key=lambda each: each.timestamp_ms)
        current = self.table.current_snapshot()
        old = [
            each.snapshot_id
            for at, each in enumerate(snapshots)
            if each != current and (each.timestamp_ms < before_s * 1000 or at < len(snapshots) - SNAPSHOTS_MAX)
        ]
        if old:
            try:
                self.table.maintenance.expire_snapshots().by_ids(old).commit()
            except CommitFailedException:
                return  # the next call expires them
            self.settle()
        kept = {self.table.metadata_location}
        for snapshot in self.table.metadata.snapshots:
            kept.add(snapshot.manifest_list)
            kept |= {manifest.manifest_path for manifest in snapshot.manifests(self.table.io)}
        names = {os.path.basename(path) for path in kept}
        folder = os.path.dirname(local_path(self.table.metadata_location))
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            # pyiceberg itself removes old metadata files of the table.
            if name.endswith(".avro") and name not in names and os.stat(path).st_mtime < before_s:
                os.unlink(path)

    def referenced(self) -> set[str]:
        paths: set[str] = set()
        for snapshot in self.table.metadata.snapshots:
            for manifest in snapshot.manifests(self.table.io):
                paths |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(self.table.io)}
        return {os.path.relpath(local_path(path), self.folder) for path in paths}


def open_iceberg(folder: str | None, layout: Layout | None, name: str, catalog: Catalog | None) -> IcebergTable:
    """Open an Iceberg table of a catalog, or of the catalog in the table's own folder.

    layout  creates the table with this layout if there is none; None raises TableError then
    """
    if catalog is None:
        assert folder is not None
        make_folders(folder)
        name = f"{NAMESPACE}.{re.sub(r'[^A-Za-z0-9_]', '_', os.path.basename(folder))}"
        catalog = SqlCatalog(NAMESPACE, uri=f"sqlite:///{os.path.join(folder, CATALOG)}", warehouse=f"file://{folder}")
    try:
        table = catalog.load_table(name)
    except NoSuchTableError:
        if layout is None:
            raise TableError(f"{name}: there is no such Iceberg table") from None
        table = create(catalog, name, f"file://{folder}" if folder else None, layout)
    return IcebergTable(table, layout if layout is not None else layout_of(table))


def create(catalog: Catalog, name: str, location: str | None, layout: Layout) -> Table:
    """Create a table in one commit, with its partitions and the name mapping for reading files without field ids."""
    namespace, _, _ = name.rpartition(".")
    if not namespace or len(name) > NAME_OCTETS_MAX:
        raise OptionError(f"into: {name!r} is not of the form NAMESPACE.NAME of a catalog's table")
    catalog.create_namespace_if_not_exists(namespace)
    schema = layout.arrow_schema()
    metrics = {METRICS + column: "full" for column in [*NEEDED, *layout.partition_names]}
    with catalog.create_table_transaction(name, schema, location, properties={**PROPERTIES, **metrics}) as transaction:
        with transaction.update_spec() as spec:
            for column in layout.partition_names:
                spec.add_field(column, IdentityTransform(), column)
        mapping = transaction.table_metadata.schema().name_mapping
        transaction.set_properties({MAPPING: mapping.model_dump_json()})
    return catalog.load_table(name)


def layout_of(table: Table) -> Layout:
    """Return the layout of an existing table."""
    by = [field.name for field in table.spec().fields]
    columns = [field.name for field in table.schema().fields if field.name not in by]
    return Layout(tuple(columns), tuple(by[1:]))


def number(bound: bytes) -> int:
    """Decode a bound of a 64-bit column; times are in microseconds."""
    return int.from_bytes(bound, "little", signed=True)
