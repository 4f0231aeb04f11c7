"""Merges small files of a table into large ones, and later removes the replaced files.

Streams write a file for every micro-batch. Only neighbours by offset within a partition are merged, so that a
partition stays in order and the statistics of its files stay narrow. The new files replace the old ones in one commit.

Readers that listed the table's files before that commit still open the old ones. So replaced files are recorded
beforehand under `_forebay/replaced/`, and removed only after a safe time, if the table does not refer to them any more.
Files that no commit ever named are removed in the same way.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import pyarrow.parquet as pq

from forebay.spark.tables.layout import DataFile
from forebay.spark.tables.table import ABOUT, LakeTable, write_file
from forebay.spark.tables.writing import OpenFile, WriteOptions

REPLACED: Final = "replaced"
MERGED_MAX: Final = 1000  # most files in one merge, which opens each of them
BATCH_ROWS: Final = 65_536

Merge = list[DataFile]


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a compaction: the number of files replaced, and of files written."""

    replaced: int = 0
    written: int = 0


def plan_merges(files: Iterable[DataFile], octets: int, files_min: int = 2) -> list[Merge]:
    """Return runs of neighbouring files of one partition that are worth merging.

    octets     target size of a file in bytes; a merged file has at most twice that
    files_min  the least number of files in a run. From three on, a file joins a run only if the files after it are as
               long together, so that a row is rewritten about log2 times
    """
    partitions: dict[str, list[DataFile]] = {}
    for file in files:
        partitions.setdefault(json.dumps(file.partition), []).append(file)
    merges: list[Merge] = []
    for members in partitions.values():
        run: Merge = []
        total = 0
        for file in sorted(members, key=lambda each: each.first, reverse=True):
            joins = file.octets < octets // 2 and len(run) < MERGED_MAX and total + file.octets <= 2 * octets
            if run and files_min > 2:
                joins = joins and file.octets <= max(total, 2 * run[-1].octets)
            if not joins:
                merges += worth(run, files_min)
                run, total = [], 0
            if file.octets < octets // 2:
                run.append(file)
                total += file.octets
        merges += worth(run, files_min)
    return merges


def worth(run: Merge, files_min: int) -> list[Merge]:
    return [run[::-1]] if len(run) >= files_min else []


def merge(root: str, files: Sequence[DataFile], options: WriteOptions) -> DataFile:
    """Write the rows of several files into one file, in order. Runs on an executor."""
    assert all(earlier.end <= later.first for earlier, later in pairwise(files)), "files overlap"
    merged: OpenFile | None = None
    try:
        for file in files:
            with pq.ParquetFile(os.path.join(root, file.path)) as parquet:
                for batch in parquet.iter_batches(BATCH_ROWS):
                    if merged is None:
                        merged = OpenFile(root, files[0].partition, batch.schema, options)
                    merged.add(batch)
        assert merged is not None, f"{files[0].path} and others have no rows"
        found = merged.finish()
    except BaseException:
        if merged is not None:
            merged.abandon()
        raise
    assert found.rows == sum(file.rows for file in files), f"{found.path}: {found.rows} rows"
    return found


def compact(
    table: LakeTable,
    options: WriteOptions,
    run: Callable[[list[Merge]], Iterator[DataFile]],
    files_min: int = 2,
) -> Compacted:
    """Merge the files of a table that are worth merging.

    run  writes the merged file of each plan, in their order
    """
    table.refresh()
    merges = plan_merges(table.files(), options.octets, files_min)
    if not merges:
        return Compacted()
    written = list(run(merges))
    replaced = [file for each in merges for file in each]
    note_replaced(table, [file.path for file in replaced])
    if not table.replace(replaced, written):
        # Another compaction has replaced them; the rows are in its files.
        for file in written:
            os.unlink(table.path(file))
        return Compacted()
    return Compacted(len(replaced), len(written))


def note_replaced(table: LakeTable, paths: list[str]) -> None:
    values = {"paths": paths, "at_s": time.time()}
    name = f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.json"
    write_file(os.path.join(table.folder, ABOUT, REPLACED, name), json.dumps(values).encode())


def sweep(table: LakeTable, safe_s: float) -> int:
    """Remove files that the table has not referred to for a safe time, and return their number.

    safe_s  seconds; longer than any reader needs from listing the files to the last of them, and than any job's batch
    """
    before_s = time.time() - safe_s
    table.refresh()
    table.forget(before_s)
    # List files before reading the table's references: these then include files committed in between.
    there = list(data_files(table.folder))
    notes = replaced_notes(table)
    table.refresh()
    referenced = table.referenced()
    waiting = {path for _, at_s, paths in notes if at_s > before_s for path in paths}
    removed = 0
    for path in there:
        full = os.path.join(table.folder, path)
        if path not in referenced and path not in waiting and os.stat(full).st_mtime < before_s:
            os.unlink(full)
            removed += 1
    for note, at_s, _ in notes:
        if at_s <= before_s:
            os.unlink(note)
    return removed


def replaced_notes(table: LakeTable) -> list[tuple[str, float, list[str]]]:
    folder = os.path.join(table.folder, ABOUT, REPLACED)
    found: list[tuple[str, float, list[str]]] = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name.endswith(".json") and not name.startswith("."):
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as file:
                values = json.load(file)
            found.append((path, values["at_s"], values["paths"]))
    return found


def data_files(root: str) -> Iterator[str]:
    """Yield the relative path of every data file below a table's folder, complete or not."""
    for name in os.listdir(root):
        # Partitions only: other folders belong to the table's format.
        if not name.startswith("queue="):
            continue
        for folder, _, names in os.walk(os.path.join(root, name)):
            for each in names:
                if each.endswith((".parquet", ".tmp")):
                    yield os.path.relpath(os.path.join(folder, each), root)
