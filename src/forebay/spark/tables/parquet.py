"""A folder of Parquet files, in which Spark's own log names the committed files.

    <folder>/_spark_metadata/<n>            "v1", then a line of JSON for each file that commit n added
    <folder>/_spark_metadata/<n>.compact    the same for all files of the table, every tenth n

`spark.read.parquet(folder)` reads only the files in that log. Spark derives the interval of compact files from the last
two of them, so there must be exactly one in every ten numbers. Only a compact file can state that files were replaced.
So a commit that replaces files fills the numbers up to the next one that ends in 9. The log also begins at 9: before
the first compact file, Spark would use the interval in its own settings.

Spark ignores the field `forebay` of a line:

    {"path": …, "forebay": {"file": {DataFile}, "batches": {job: its last batch in this file}}}
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import quote

from forebay.core.errors import CorruptFile
from forebay.spark.tables.layout import DataFile, Layout
from forebay.spark.tables.table import Conflict, LakeTable, highest, write_file
from forebay.spark.tables.writing import make_folders, sync

LOG: Final = "_spark_metadata"
VERSION: Final = "v1"
COMPACT: Final = ".compact"
COMPACT_EVERY: Final = 10


class ParquetTable(LakeTable):
    """A table of Parquet files with Spark's log.

    Use it from one thread at a time; data files may be written concurrently.
    """

    format = "parquet"
    with_partitions = False  # Spark takes the partition columns from the folders' names

    def __init__(self, folder: str, layout: Layout) -> None:
        super().__init__(folder, layout)
        self.log = os.path.join(folder, LOG)
        self.latest = -1
        self.entries: dict[str, dict[str, Any]] = {}  # the line of each file, by the file's path
        self.cached: dict[str, DataFile] = {}
        self.batches: dict[str, int] = {}
        make_folders(self.log)
        if not self.numbers():
            with suppress(Conflict):  # another process has created the log
                self.write(COMPACT_EVERY - 1, [])
        self.refresh()

    def refresh(self) -> None:
        numbers = self.numbers()
        latest = numbers[-1]
        if latest == self.latest:
            return
        start = latest - (latest + 1) % COMPACT_EVERY
        if start > self.latest:
            self.entries, self.cached = {}, {}
        else:
            start = self.latest + 1
        for number in range(start, latest + 1):
            self.take(self.read(number))
        self.latest = latest

    def numbers(self) -> list[int]:
        """Return the numbers of the commits in the log, ascending."""
        names = [name.removesuffix(COMPACT) for name in os.listdir(self.log)]
        return sorted([int(name) for name in names if name.isdecimal()])

    def read(self, number: int) -> list[dict[str, Any]]:
        path = os.path.join(self.log, self.name(number))
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        if not lines or lines[0] != VERSION:
            raise CorruptFile(path, 0, f"begins with {lines[0][:20] if lines else ''!r}, not {VERSION!r}")
        return [json.loads(line) for line in lines[1:]]

    def take(self, lines: list[dict[str, Any]]) -> None:
        for line in lines:
            about = line.get("forebay")
            if about is None:
                raise CorruptFile(self.log, 0, f"{line.get('path')} was put there by Spark, not by a tier job")
            file = DataFile(**about["file"])
            self.entries[file.path] = line
            self.cached[file.path] = file
            for app_id, batch in about["batches"].items():
                self.batches[app_id] = max(batch, self.batches.get(app_id, -1))

    def last_batch(self, app_id: str) -> int:
        return self.batches.get(app_id, -1)

    def files(self) -> list[DataFile]:
        return list(self.cached.values())

    def ends(self) -> dict[str, int]:
        return highest(self.cached.values())

    def append(self, app_id: str, batch: int, files: Sequence[DataFile]) -> None:
        lines = [self.line(file, {app_id: batch}) for file in files]
        number = self.latest + 1
        self.write(number, [*self.entries.values(), *lines] if is_compact(number) else lines)
        self.latest = number
        self.take(lines)

    def swap(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        batches: dict[str, int] = {}
        for file in old:
            for app_id, batch in self.entries[file.path]["forebay"]["batches"].items():
                batches[app_id] = max(batch, batches.get(app_id, -1))
        gone = {file.path for file in old}
        lines = [line for path, line in self.entries.items() if path not in gone]
        lines += [self.line(file, batches) for file in new]
        # Write every number up to the compact one, so that no other writer with the same view commits in between.
        while not is_compact(self.latest + 1):
            self.write(self.latest + 1, [])
            self.latest += 1
        self.write(self.latest + 1, lines)
        self.latest += 1
        self.entries, self.cached = {}, {}
        self.take(lines)

    def line(self, file: DataFile, batches: dict[str, int]) -> dict[str, Any]:
        """Return the line of a file, with the fields that Spark needs and the field `forebay`."""
        path = self.path(file)
        return {
            "path": f"file://{quote(path)}",
            "size": file.octets,
            "isDir": False,
            "modificationTime": os.stat(path).st_mtime_ns // 1_000_000,
            "blockReplication": 1,
            "blockSize": 32 << 20,
            "action": "add",
            "forebay": {"file": asdict(file), "batches": batches},
        }

    def write(self, number: int, lines: list[dict[str, Any]]) -> None:
        text = "\n".join([VERSION, *[json.dumps(line) for line in lines]])
        write_file(os.path.join(self.log, self.name(number)), text.encode())

    def name(self, number: int) -> str:
        return f"{number}{COMPACT}" if is_compact(number) else str(number)

    def forget(self, before_s: float) -> None:
        """Remove old log files that a later compact file replaces."""
        start = self.latest - (self.latest + 1) % COMPACT_EVERY
        for number in self.numbers():
            path = os.path.join(self.log, self.name(number))
            # Keep the last two compact files, from which Spark derives their interval.
            if number < start - COMPACT_EVERY and os.stat(path).st_mtime < before_s:
                os.unlink(path)
        sync(self.log)

    def referenced(self) -> set[str]:
        return set(self.entries)


def is_compact(number: int) -> bool:
    """Return whether the commit of this number is a compact file, which names all files of the table."""
    return (number + 1) % COMPACT_EVERY == 0
