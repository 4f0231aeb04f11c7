"""A folder of Parquet files whose committed ones are those that Spark's own log in it names.

    <folder>/_spark_metadata/<n>            "v1", then a line of JSON for each file that commit n added
    <folder>/_spark_metadata/<n>.compact    the same for all files of the table, every tenth n

`spark.read.parquet(folder)` goes by that log, and shows nothing else. Spark takes the distance of the last two compact
files for how often they come: there must be exactly one in every ten numbers. So a commit that replaces files, which
only a compact one can say, fills the numbers up to the next that ends in 9. The log begins at 9 too: before the first
compact file Spark would go by its own settings.

Spark passes over the field `forebay` of a line:

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
    """See the module. Not for two threads at a time but for the files it writes."""

    format = "parquet"
    with_partitions = False  # Spark takes them from the folders' names

    def __init__(self, folder: str, layout: Layout) -> None:
        super().__init__(folder, layout)
        self.log = os.path.join(folder, LOG)
        self.latest = -1
        self.entries: dict[str, dict[str, Any]] = {}  # line of each file by its path
        self.cached: dict[str, DataFile] = {}
        self.batches: dict[str, int] = {}
        make_folders(self.log)
        if not self.numbers():
            with suppress(Conflict):  # somebody else began it
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
        """The numbers of the commits in the log."""
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
        # Every number up to the compact one is taken, so that nobody who saw the log as we did commits in between.
        while not is_compact(self.latest + 1):
            self.write(self.latest + 1, [])
            self.latest += 1
        self.write(self.latest + 1, lines)
        self.latest += 1
        self.entries, self.cached = {}, {}
        self.take(lines)

    def line(self, file: DataFile, batches: dict[str, int]) -> dict[str, Any]:
        """The line of a file: the fields that Spark wants, and ours."""
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
        """Logs that a compact one stands for."""
        start = self.latest - (self.latest + 1) % COMPACT_EVERY
        for number in self.numbers():
            path = os.path.join(self.log, self.name(number))
            # Spark finds out how often compact files come from the last two of them.
            if number < start - COMPACT_EVERY and os.stat(path).st_mtime < before_s:
                os.unlink(path)
        sync(self.log)

    def referenced(self) -> set[str]:
        return set(self.entries)


def is_compact(number: int) -> bool:
    """True if the commit of this number names all files."""
    return (number + 1) % COMPACT_EVERY == 0
