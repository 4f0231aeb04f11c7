"""Tier jobs whose driver, worker or broker is killed: every record is in the table, none twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import forebay.spark
from forebay.spark.jobs.tier import Tiered
from forebay.spark.tables.opening import open_table
from tests.changing_files import changing_files
from tests.spark import tier_driver
from tests.spark.conftest import Feed
from tests.spark.streams import wait_until
from tests.waiting import pause, stand_still, until

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

WAIT_S = 400


def bodies(first: int, end: int) -> list[bytes]:
    return [b"body %d" % at for at in range(first, end)]


def offsets(into: Path) -> list[int]:
    """Of all committed rows, from the files."""
    table = open_table(str(into))
    return sorted(
        at for file in table.files() for at in pq.read_table(table.path(file), columns=["offset"])[0].to_pylist()
    )


def once(feed: Feed, queue: str, into: Path) -> Tiered:
    done = forebay.spark.tier(feed.spark, queue, {"forebay.servers": feed.server}, str(into), once=True)
    assert isinstance(done, Tiered)
    return done


@pytest.mark.timeout(900)
@pytest.mark.parametrize("place", ["before", "between"])
def test_the_driver_is_killed(feed: Feed, tmp_path: Path, place: str) -> None:
    feed.stream("s")
    feed.publish("s", bodies(0, 200))
    command = [sys.executable, str(tier_driver.__file__), feed.server, "s", str(tmp_path), place]
    with (tmp_path / "driver.log").open("wb") as log:
        driver = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        code = driver.wait(WAIT_S)
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    assert code == -signal.SIGKILL, (tmp_path / "driver.log").read_text()
    committed = 50 if place == "before" else 100
    for format in tier_driver.FORMATS:
        into = tmp_path / format
        assert offsets(into) == list(range(committed))
        there = list(into.rglob("queue=*/**/*.parquet"))
        assert len(there) > len(open_table(str(into)).files()) or place == "between", "the batch's files were written"
        done = once(feed, "s", into)
        assert done.rows == 200 - committed
        assert offsets(into) == list(range(200))
        assert once(feed, "s", into) == Tiered()


def writers_of(folder: Path) -> Iterator[int]:
    """Processes that have a file open which is being written below the folder."""
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        try:
            for handle in os.listdir(f"/proc/{pid}/fd"):
                name = os.readlink(f"/proc/{pid}/fd/{handle}")
                if name.startswith(str(folder)) and name.endswith(".tmp"):
                    yield pid
        except OSError:
            continue  # it is not there any more


def test_a_worker_is_killed_while_it_writes(feed: Feed, tmp_path: Path) -> None:
    into = tmp_path / "lake"
    feed.stream("s")
    feed.publish("s", [bytes(8192)] * 8000)
    done: list[Tiered] = []
    job = threading.Thread(target=lambda: done.append(once(feed, "s", into)))
    job.start()
    # A broker that stands still keeps the task where it is.
    until(
        lambda: any("queue=" in str(path) for path in changing_files(into, "*.tmp")),
        meanwhile=partial(pause, 0.0005),
        seconds=WAIT_S,
    )
    stand_still(feed.broker.pid)
    try:
        killed = list(writers_of(into))
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
    finally:
        os.kill(feed.broker.pid, signal.SIGCONT)
    job.join(WAIT_S)
    assert killed
    assert [each.rows for each in done] == [8000]
    assert offsets(into) == list(range(8000))
    assert list(into.rglob("queue=*/**/*.tmp")), "a task that is killed cannot tidy up"
    forebay.spark.compact(feed.spark, str(into), safe_s=0)
    assert [*into.rglob("queue=*/**/*.tmp")] == []
    assert offsets(into) == list(range(8000))


def wait_for_rows(into: Path, count: int, query: StreamingQuery) -> None:
    wait_until(lambda: open_table(str(into)).ends().get("s", 0) >= count, query, f"{count} rows")


def test_the_broker_is_killed_and_comes_back(feed: Feed, tmp_path: Path) -> None:
    into = tmp_path / "lake"
    feed.stream("s")
    query = forebay.spark.tier(
        feed.spark, "s", {"forebay.servers": feed.server, "retryMs": "120000"}, str(into), "delta", truncate=True
    )
    assert not isinstance(query, Tiered)
    feed.publish("s", bodies(0, 100))
    wait_for_rows(into, 100, query)  # a broker that was never there is not waited for
    for end in (200, 300, 400):
        feed.publish("s", bodies(end - 100, end))
        feed.connection.close()
        feed.broker.kill9()
        feed.broker.start()
        feed = Feed(feed.spark, feed.broker)
    wait_for_rows(into, 400, query)
    query.stop()
    feed.connection.close()
    assert offsets(into) == list(range(400))
    rows = forebay.spark.read_tiered(feed.spark, "s", str(into), {"forebay.servers": feed.server})
    assert rows.count() == 400
