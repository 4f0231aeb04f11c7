"""Tables of every format without Spark: commits, what others commit meanwhile, merges, and what readers see."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog

from forebay.core.errors import OptionError
from forebay.spark.schema import arrow_schema
from forebay.spark.tables.compaction import compact, merge, plan_merges, sweep
from forebay.spark.tables.layout import DataFile, Layout, TableError, make_layout, partition_folder
from forebay.spark.tables.opening import open_table
from forebay.spark.tables.table import CommitFailed, Conflict, LakeTable
from forebay.spark.tables.writing import PartitionWriter, WriteOptions

FORMATS = ["parquet", "delta", "iceberg"]
NOON_US = 1_700_000_000_000_000  # 2023-11-14 22:13:20
HOUR_US = 3_600_000_000
COLUMNS = ("offset", "timestamp", "value", "routing_key")
OCTETS = 1 << 20


def batch(first: int, count: int, layout: Layout, step_us: int = 1, keys: tuple[str, ...] = ("k",)) -> pa.RecordBatch:
    offsets = np.arange(first, first + count)
    columns = {
        "offset": pa.array(offsets),
        "timestamp": pa.array(NOON_US + offsets * step_us, pa.timestamp("us", "UTC")),
        "value": pa.array([b"body %d" % at for at in offsets]),
        "routing_key": pa.array([keys[at % len(keys)] for at in offsets]),
    }
    schema = arrow_schema(layout.source_schema())
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def written(table: LakeTable, queue: str, *batches: pa.RecordBatch, octets: int = OCTETS) -> list[DataFile]:
    writer = PartitionWriter(table.folder, table.layout, queue, WriteOptions("none", octets, table.with_partitions))
    for each in batches:
        writer.write(each)
    return writer.finish()


def add(
    table: LakeTable, first: int, count: int, app: str = "app", number: int | None = None, queue: str = "q"
) -> bool:
    number = first if number is None else number
    return table.commit(app, number, written(table, queue, batch(first, count, table.layout)))


def merged(table: LakeTable, files_min: int = 2) -> int:
    options = WriteOptions("none", OCTETS, table.with_partitions)
    return compact(
        table, options, lambda plans: (merge(table.folder, each, options) for each in plans), files_min
    ).replaced


def seen(table: LakeTable) -> list[tuple[str, int, bytes]]:
    """Queue, offset and body of every row, as a reader sees them who knows nothing of us."""
    if table.format == "delta":
        frame = pl.read_delta(table.folder)
    elif table.format == "iceberg":
        name = f"forebay.{os.path.basename(table.folder)}"
        catalog = SqlCatalog("forebay", uri=f"sqlite:///{table.folder}/catalog.db", warehouse=f"file://{table.folder}")
        frame = pl.DataFrame(catalog.load_table(name).scan().to_arrow())
    else:
        paths = [table.path(file) for file in open_table(table.folder).files()]
        frame = pl.read_parquet(paths, hive_partitioning=True) if paths else pl.DataFrame()
    return sorted(frame.select("queue", "offset", "value").rows()) if len(frame) else []


def rows(*ranges: tuple[str, int, int]) -> list[tuple[str, int, bytes]]:
    return sorted((queue, at, b"body %d" % at) for queue, first, end in ranges for at in range(first, end))


@pytest.fixture(params=FORMATS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], LakeTable]:
    """Opens one and the same table, each time anew."""
    layout = make_layout(COLUMNS, "day")
    return lambda: open_table(str(tmp_path / "table"), request.param, layout)


def test_a_batch_is_committed_once(make: Callable[[], LakeTable]) -> None:
    table = make()
    assert (table.last_batch("app"), table.files(), table.ends()) == (-1, [], {})
    assert add(table, 0, 10, number=0)
    assert add(table, 10, 5, number=1)
    files = written(table, "q", batch(10, 5, table.layout))
    assert not table.commit("app", 1, files)
    again = make()
    assert (again.last_batch("app"), again.last_batch("other"), again.ends()) == (1, -1, {"q": 15})
    assert not again.commit("app", 0, files)
    assert seen(table) == rows(("q", 0, 15))
    for found in (table, again):
        by_first = {file.first: file for file in found.files()}
        assert {first: (file.end, file.rows, file.queue) for first, file in by_first.items()} == {
            0: (10, 10, "q"),
            10: (15, 5, "q"),
        }
        assert all(os.stat(found.path(file)).st_size == file.octets for file in by_first.values())
        assert by_first[0].first_us <= NOON_US
        assert by_first[0].last_us >= NOON_US + 9


def test_offsets_are_not_there_twice(make: Callable[[], LakeTable]) -> None:
    table = make()
    add(table, 0, 10)
    with pytest.raises(TableError, match=r"offsets 9 to below 11 of queue 'q' .* to below 10"):
        add(table, 9, 2, app="another", number=0)
    assert table.last_batch("another") == -1
    assert add(table, 9, 2, app="another", number=0, queue="q2")
    assert seen(table) == rows(("q", 0, 10), ("q2", 9, 11))


def test_jobs_beside_each_other(make: Callable[[], LakeTable]) -> None:
    """Every commit of each is there, however they meet."""
    tables = [make() for _ in range(3)]
    errors: list[BaseException] = []

    def work(table: LakeTable, queue: str) -> None:
        try:
            for number in range(8):
                assert add(table, number * 3, 3, app=queue, number=number, queue=queue)
                if number == 5:
                    merged(table)
        except BaseException as error:  # noqa: BLE001  the main thread raises it
            errors.append(error)

    threads = [threading.Thread(target=work, args=(table, f"q{at}")) for at, table in enumerate(tables)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert seen(tables[0]) == rows(("q0", 0, 24), ("q1", 0, 24), ("q2", 0, 24))
    assert [make().last_batch(f"q{at}") for at in range(3)] == [7, 7, 7]


def test_a_driver_that_was_thought_dead_commits_nothing(make: Callable[[], LakeTable]) -> None:
    """Two processes run the same batch of the same job: one of them has looked before the other committed."""
    old, new = make(), make()
    assert add(new, 0, 10, number=0)
    assert not add(old, 0, 10, number=0)
    assert add(new, 10, 10, number=1)
    assert not add(old, 10, 10, number=1)
    assert seen(old) == rows(("q", 0, 20))


def test_what_others_committed_in_the_same_moment_is_seen(make: Callable[[], LakeTable]) -> None:
    table, other = make(), make()
    files = written(table, "q", batch(0, 10, table.layout))
    assert add(other, 0, 10, app="other", queue="q2")
    assert table.commit("app", 0, files)
    assert table.ends() == {"q": 10, "q2": 10}
    assert {file.queue for file in table.files()} == {"q", "q2"}


def test_merged_files_stand_for_the_others(make: Callable[[], LakeTable]) -> None:
    table = make()
    for number in range(23):
        add(table, number * 10, 10, number=number)
    before = [table.path(file) for file in table.files()]
    assert merged(table) == 23
    again = make()
    for found in (table, again):
        (file,) = found.files()
        assert (file.first, file.end, file.rows, found.last_batch("app")) == (0, 230, 230, 22)
    assert all(os.path.exists(path) for path in before), "somebody may be reading them"
    assert seen(again) == rows(("q", 0, 230))
    assert add(again, 230, 10, number=23)
    assert merged(table) == 2, "it sees what others committed"
    assert seen(table) == rows(("q", 0, 240))
    merged_path = next(iter(table.files())).path
    values = pa.parquet.read_table(os.path.join(table.folder, merged_path), columns=["offset"])["offset"].to_pylist()
    assert values == list(range(240)), "in order"


def test_a_merge_that_came_late_changes_nothing(make: Callable[[], LakeTable]) -> None:
    table, late = make(), make()
    for number in range(4):
        add(table, number * 10, 10, number=number)
    late.refresh()
    files = late.files()
    options = WriteOptions("none", OCTETS, late.with_partitions)
    other = merge(late.folder, sorted(files, key=lambda file: file.first), options)
    assert merged(table) == 4
    assert not late.replace(files, [other])
    assert seen(late) == rows(("q", 0, 40))


def test_what_nobody_refers_to_goes_after_a_while(make: Callable[[], LakeTable]) -> None:
    table = make()
    for number in range(4):
        add(table, number * 10, 10, number=number)
    orphans = [table.path(file) for file in written(table, "q", batch(40, 10, table.layout))]
    assert merged(table) == 4
    there = list(Path(table.folder).rglob("queue=*/**/*.parquet"))
    assert len(there) == 6
    assert sweep(table, 3600) == 0
    for path in there:
        os.utime(path, (time.time() - 7200,) * 2)  # replaced just now, so they stay; the orphan is as old as it looks
    assert sweep(table, 3600) == 1
    assert not os.path.exists(orphans[0])
    assert sweep(table, 0) == 4
    assert [str(path) for path in Path(table.folder).rglob("queue=*/**/*.parquet")] == [table.path(table.files()[0])]
    assert seen(make()) == rows(("q", 0, 40))
    assert add(table, 40, 10, number=4)
    assert seen(make()) == rows(("q", 0, 50))


@pytest.mark.parametrize("format", FORMATS)
def test_partitions(format: str, tmp_path: Path) -> None:
    layout = make_layout(COLUMNS, ["hour", "routing_key"])
    table = open_table(str(tmp_path / "t"), format, layout)
    keys = ("a/b", "%41=ü", "", "plain")
    table.commit("app", 0, written(table, "q/1 ü", batch(0, 40, layout, HOUR_US // 4, keys)))
    files = table.files()
    assert len(files) == 40, "four keys take turns in an hour"
    for file in files + open_table(table.folder).files():
        assert list(file.partition) == ["queue", "day", "hour", "routing_key"]
        assert file.queue == "q/1 ü"
        start = datetime.fromtimestamp(file.first_us / 1e6, UTC)
        assert (file.partition["day"], int(file.partition["hour"])) == (str(start.date()), start.hour)
        assert file.partition["routing_key"] == keys[file.first % 4]
    assert seen(table) == rows(("q/1 ü", 0, 40))
    assert merged(table) == 0, "files of different partitions are not merged"


def test_parquet_partitions_are_escaped_as_spark_does() -> None:
    assert partition_folder({"queue": "a/b", "routing_key": ""}) == "queue=a%2Fb/routing_key=__HIVE_DEFAULT_PARTITION__"
    with pytest.raises(OptionError, match="over 255 octets"):
        partition_folder({"queue": "q" * 250})


def test_files_have_about_the_size_that_is_asked(tmp_path: Path) -> None:
    layout = make_layout(COLUMNS, None)
    table = open_table(str(tmp_path / "t"), "parquet", layout)
    batches = [batch(at * 4000, 4000, layout) for at in range(20)]
    files = written(table, "q", *batches, octets=1 << 18)
    assert [file.first for file in files] == [0, *[file.end for file in files[:-1]]]
    assert files[-1].end == 80_000
    assert len(files) > 5


def test_nothing_is_left_of_a_task_that_failed(tmp_path: Path) -> None:
    layout = make_layout(COLUMNS, "routing_key")
    writer = PartitionWriter(str(tmp_path), layout, "q", WriteOptions("zstd", 1 << 16, False))
    for at in range(9):
        writer.write(batch(at * 4000, 4000, layout, keys=("a", "b")))
    writer.write(batch(36_000, 10, layout))
    assert writer.files
    assert writer.open
    writer.abandon()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("format", FORMATS)
def test_another_form_is_refused(format: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "t")
    with pytest.raises(TableError, match="there is no table"):
        open_table(folder)
    open_table(folder, format, make_layout(COLUMNS, "day"))
    assert open_table(folder).format == format
    other = next(each for each in FORMATS if each != format)
    with pytest.raises(TableError, match=rf"format: {other}, but the table in .* is {format}"):
        open_table(folder, other, make_layout(COLUMNS, "day"))
    with pytest.raises(TableError, match="columns do not change"):
        open_table(folder, format, make_layout((*COLUMNS, "key"), "day"))
    with pytest.raises(TableError, match="columns do not change"):
        open_table(folder, format, make_layout(COLUMNS, "hour"))


def test_columns_that_others_added_are_refused(tmp_path: Path) -> None:
    table = open_table(str(tmp_path / "t"), "delta", make_layout(COLUMNS, "day"))
    DeltaTable(table.folder).alter.add_columns([Field("more", PrimitiveType("string"))])
    with pytest.raises(TableError, match="more"):
        add(table, 0, 1)


@pytest.mark.parametrize(
    ("columns", "by", "words"),
    [
        (["value", "nope"], "day", "columns: 'nope'"),
        (["value", "queue"], "day", "columns: 'queue'"),
        (["value", "value"], "day", "twice"),
        (None, "week", "partition_by: 'week'"),
        (None, "value", "partition_by: 'value'"),
        (None, ["day", "day"], "twice"),
    ],
)
def test_bad_layouts(columns: list[str] | None, by: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        make_layout(columns, by)


def test_tables_are_on_mounted_file_systems(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="s3://"):
        open_table("s3://bucket/t", "delta", make_layout(None, "day"))
    assert open_table(f"file://{tmp_path}/t", "delta", make_layout(None, "day")).folder == f"{tmp_path}/t"


def test_an_iceberg_table_of_a_catalog(tmp_path: Path) -> None:
    catalog = SqlCatalog("mine", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/warehouse")
    layout = make_layout(COLUMNS, "day")
    with pytest.raises(TableError, match=r"no such Iceberg table"):
        open_table("lake.flights", catalog=catalog)
    table = open_table("lake.flights", "iceberg", layout, catalog)
    assert add(table, 0, 10)
    assert open_table("lake.flights", catalog=catalog).layout == layout
    assert len(catalog.load_table("lake.flights").scan().to_arrow()) == 10


def test_iceberg_keeps_few_snapshots(tmp_path: Path) -> None:
    table = open_table(str(tmp_path / "t"), "iceberg", make_layout(COLUMNS, "day"))
    for number in range(6):
        add(table, number, 1, number=number)
    metadata = tmp_path / "t" / "metadata"
    before = len(list(metadata.glob("*.avro")))
    table.forget(time.time() + 1)
    assert len(list(metadata.glob("*.avro"))) < before
    assert seen(table) == rows(("q", 0, 6))
    assert open_table(table.folder).last_batch("app") == 5


def test_who_never_gets_through_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = open_table(str(tmp_path / "t"), "parquet", make_layout(COLUMNS, "day"))

    def always_late(*_: object) -> None:
        raise Conflict("somebody was quicker")

    monkeypatch.setattr(table, "append", always_late)
    monkeypatch.setattr("forebay.spark.tables.table.ATTEMPT_S", 0)
    with pytest.raises(CommitFailed, match="50 tries"):
        add(table, 0, 1)


def sized(octets: list[int]) -> Iterator[DataFile]:
    for at, each in enumerate(octets):
        yield DataFile(f"{at}.parquet", each, 1, {"queue": "q"}, at, at + 1, at, at)


@given(st.lists(st.integers(1, 300), max_size=60), st.integers(2, 8))
def test_merges_are_of_neighbours_and_worth_it(octets: list[int], files_min: int) -> None:
    files = list(sized(octets))
    merges = plan_merges(files, 100, files_min)
    names = [file.path for each in merges for file in each]
    assert len(names) == len(set(names))
    for each in merges:
        assert len(each) >= files_min
        assert [file.first for file in each] == list(range(each[0].first, each[-1].end)), "neighbours, in order"
        assert all(file.octets < 50 for file in each)
        assert sum(file.octets for file in each) <= 200


@settings(max_examples=30)
@given(st.integers(3, 400), st.integers(3, 20))
def test_a_stream_of_files_is_merged_seldom(count: int, files_min: int) -> None:
    """How often a row is rewritten grows as a logarithm does."""
    files: list[DataFile] = []
    rewritten = 0
    for at in range(count):
        files.append(DataFile(f"{at}", 1, 1, {"queue": "q"}, at, at + 1, 0, 0))
        for each in plan_merges(files, 1 << 20, files_min):
            total = sum(file.octets for file in each)
            rewritten += total
            files = [file for file in files if file not in each]
            files.append(DataFile(f"m{at}", total, 1, {"queue": "q"}, each[0].first, each[-1].end, 0, 0))
    assert sum(file.octets for file in files) == count
    assert rewritten <= count * (2 + np.log2(count))
