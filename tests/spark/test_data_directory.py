"""Reads of a data directory: WAL and segments, while the broker writes, moves and removes files, and after a crash."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention

from forebay.core.errors import CorruptFile, RequestError, StorageError
from forebay.spark.arrow.batches import BatchMaker
from forebay.spark.directory.files import ReadOnlyDisk
from forebay.spark.directory.local import LocalLogs
from forebay.spark.reading.logs import DataLost
from tests.changing_files import changing_files
from tests.spark.conftest import Feed
from tests.spark_schema import full_schema
from tests.stores import Everything, Opened
from tests.waiting import pause, until


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """A store with small files, whose queue q1 has its name on the disk."""
    store = Opened(tmp_path, [1, 2])
    store.housekeep(Everything())
    yield store
    store.crash()


def rows(root: Path, queue: str = "q1", first: int | None = None, end: int | None = None) -> dict[int, bytes]:
    """Bodies by offset, as a task of Spark reads them."""
    logs = LocalLogs(str(root))
    with logs:
        start, last = logs.bounds(queue)
    with LocalLogs(str(root)) as logs:
        low, high = start if first is None else first, last if end is None else end
        batches = BatchMaker(full_schema(), queue).batches(logs.blocks(queue, low, high, True), low, high)
        found: dict[int, bytes] = {}
        for batch in batches:
            for row in batch.select(["offset", "value"]).to_pylist():
                assert row["offset"] not in found
                found[row["offset"]] = row["value"]
    assert list(found) == sorted(found)
    return found


def files(root: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in root.rglob("*") if path.is_file()}


def test_what_is_in_the_wal(opened: Opened, tmp_path: Path) -> None:
    opened.publish(1, b"a", b"b")
    opened.publish(2, b"other")
    opened.publish(1, b"c")
    opened.sync()
    before = files(tmp_path)
    assert rows(tmp_path) == {0: b"a", 1: b"b", 2: b"c"}
    assert rows(tmp_path, "q2") == {0: b"other"}
    assert rows(tmp_path, first=1, end=2) == {1: b"b"}
    assert files(tmp_path) == before


def test_segments_and_wal_are_one_log(opened: Opened, tmp_path: Path) -> None:
    expected: dict[int, bytes] = {}
    for at in range(300):
        body = b"%d " % at + bytes(at % 97)
        opened.publish(1, body)
        opened.publish(2, bytes(50))
        opened.sync()
        expected[at] = body
        if opened.store.checkpoint_due():
            opened.store.rotate([])
            opened.sync()
        if at % 7 == 0:
            opened.housekeep(Everything())
            assert rows(tmp_path) == expected
    names = {path.suffix for path in tmp_path.rglob("*")}
    assert {".seg", ".wal"} <= names
    assert rows(tmp_path, first=10, end=290) == {at: expected[at] for at in range(10, 290)}


def test_records_that_nobody_wanted_are_gaps(opened: Opened, tmp_path: Path) -> None:
    everything = Everything()
    for at in range(200):
        opened.publish(1, b"%d" % at + bytes(1000))
        opened.sync()
        if opened.store.checkpoint_due():
            opened.store.rotate([])
            opened.sync()
    everything.settled[1] = set(range(20, 180))
    while opened.housekeep(everything):
        opened.sync()
    found = rows(tmp_path)
    assert set(range(20)) | set(range(180, 200)) <= set(found)
    assert len(found) < 200
    assert all(body.startswith(b"%d\0" % offset) for offset, body in found.items())


def test_what_a_segment_left_out_is_not_read_from_the_wal(opened: Opened, tmp_path: Path) -> None:
    for at in range(12):
        opened.publish(1, b"%d" % at + bytes(1000))
    opened.sync()
    everything = Everything()
    everything.settled[1] = set(range(6))
    assert opened.store.checkpoint_due()
    opened.store.rotate([])
    opened.sync()
    while not list(tmp_path.rglob("*.seg")):
        assert opened.housekeep(everything)
    assert len(list((tmp_path / "wal").glob("*.wal"))) == 2  # the old file is still there
    assert list(rows(tmp_path)) == list(range(6, 12))


def test_a_truncated_log_starts_where_it_says(opened: Opened, tmp_path: Path) -> None:
    for at in range(20):
        opened.publish(1, b"%d" % at)
    opened.logs[1].truncate(7)
    opened.housekeep(Everything())
    opened.sync()
    assert min(rows(tmp_path)) == 7
    with pytest.raises(DataLost, match="offsets 3 to 6 of queue 'q1' are gone"):
        rows(tmp_path, first=3)


def test_a_write_on_its_way_is_not_read(opened: Opened, tmp_path: Path) -> None:
    opened.publish(1, b"whole")
    opened.sync()
    wal = max((tmp_path / "wal").glob("*.wal"))
    octets = wal.read_bytes()
    opened.publish(1, b"torn", bytes(500))
    opened.sync()
    after = wal.read_bytes()
    end = max(at for at in range(len(after)) if at >= len(octets) or after[at] != octets[at])
    torn = bytearray(after)
    torn[end - 3 : end + 1] = bytes(4)
    wal.write_bytes(torn)
    assert rows(tmp_path) == {0: b"whole"}


def test_a_damaged_block_is_named(opened: Opened, tmp_path: Path) -> None:
    opened.publish(1, b"needle" * 10)
    opened.sync()
    wal = max((tmp_path / "wal").glob("*.wal"))
    octets = wal.read_bytes()
    with LocalLogs(str(tmp_path)) as logs:
        assert logs.bounds("q1") == (0, 1)
        at = octets.index(b"needle")
        wal.write_bytes(octets[:at] + b"x" + octets[at + 1 :])
        with pytest.raises(
            CorruptFile, match=re.escape(str(wal)) + r": at octet \d+: checksum of the block at offset 0"
        ):
            list(logs.blocks("q1", 0, 1, True))


def test_times(opened: Opened, tmp_path: Path) -> None:
    start = opened.clock.us
    for _ in range(5):
        opened.clock.us += 1000
        opened.publish(1, b"a", b"b")
    opened.sync()
    with LocalLogs(str(tmp_path)) as logs:
        assert [logs.offset_at("q1", start + at * 500) for at in (0, 2, 3, 4, 10, 11)] == [0, 0, 2, 2, 8, 10]


def test_names(opened: Opened, tmp_path: Path) -> None:
    with LocalLogs(str(tmp_path)) as logs, pytest.raises(RequestError, match=r"no queue 'q3' .* there are: q1, q2"):
        logs.bounds("q3")
    with (
        LocalLogs(str(tmp_path / "queues")) as logs,
        pytest.raises(StorageError, match="no data directory"),
    ):
        logs.bounds("q1")
    opened.store.drop_log(1)
    opened.store.note(9, 0, 0, b"", True)
    opened.sync()
    with LocalLogs(str(tmp_path)) as logs, pytest.raises(RequestError, match="no queue 'q1'"):
        logs.bounds("q1")


def test_nothing_can_be_written(tmp_path: Path) -> None:
    disk = ReadOnlyDisk(str(tmp_path))
    changes: list[Callable[[], object]] = [
        lambda: disk.make_folder("a"),
        lambda: disk.remove_folders(["a"]),
        lambda: disk.put_files([("a/b", b"c")]),
        lambda: disk.pwrite(0, [], 0),
        lambda: disk.reserve(0, 1),
        lambda: disk.truncate(0, 0),
        lambda: disk.rename("a", "b"),
        lambda: disk.remove("a"),
    ]
    for change in changes:
        with pytest.raises(StorageError, match="only reads"):
            change()


def test_reads_while_files_come_and_go(opened: Opened, tmp_path: Path) -> None:
    """Every look at the directory sees all that was on the disk before it began."""
    on_disk = 0
    stop = threading.Event()
    failures: list[BaseException] = []
    looks = 0

    def look() -> None:
        nonlocal looks
        try:
            while not stop.is_set():
                least = on_disk
                found = rows(tmp_path)
                assert list(found) == list(range(len(found)))
                assert len(found) >= least
                looks += 1
        except BaseException as error:  # noqa: BLE001  handed to the test's own thread
            failures.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        while on_disk < 1500 or looks < 5:
            opened.publish(1, b"%d" % on_disk + bytes(300))
            opened.sync()
            on_disk += 1
            if opened.store.checkpoint_due():
                opened.store.rotate([])
                opened.sync()
                pause(0.005)  # a broker removes files once a second: a look must have a moment between two removals
            opened.housekeep(Everything())
            if failures:
                break
    finally:
        stop.set()
        thread.join()
    assert failures == []
    assert len(rows(tmp_path)) == on_disk


def test_spark_reads_the_files_of_a_running_a_stopped_and_a_killed_broker(
    start_feed: Callable[..., Feed],
) -> None:
    feed = start_feed(wal_octets_max=1 << 20, wal_chunk_octets=1 << 20)
    feed.stream("s")
    bodies = [b"%d" % at + bytes(1000) for at in range(5000)]
    for at in range(0, 5000, 500):
        feed.publish("s", bodies[at : at + 500])
    until(lambda: changing_files(feed.broker.data / "queues", "queue.json"))
    until(lambda: changing_files(feed.broker.data / "queues", "*.seg"))
    check_files(feed, bodies)
    with pytest.raises(PySparkException, match="no queue 'nowhere' in data directory"):
        feed.read_files("nowhere").collect()
    feed.connection.close()
    feed.broker.kill9()
    check_files(feed, bodies)
    feed.broker.restart()
    feed.broker.stop()
    check_files(feed, bodies)


def check_files(feed: Feed, bodies: list[bytes]) -> None:
    """Every message of the queue `s` is read from the files, once."""
    frame = feed.read_files("s", minPartitions=3)
    count = len(bodies)
    assert frame.agg(F.count("*"), F.countDistinct("offset"), F.max("offset")).first() == (count, count, count - 1)
    assert frame.filter("offset = 4321").select("value").first() == (bytearray(bodies[4321]),)


def test_no_file_stays_open(opened: Opened, tmp_path: Path) -> None:
    opened.publish(1, b"a")
    opened.sync()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        rows(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before
