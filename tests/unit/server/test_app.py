"""The composition root, in this process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop

from forebay.core.options import make_options
from forebay.server.drain import drain
from forebay.server.faults import EXIT_SOFTWARE
from tests.held_app import opened_app


def test_work_that_comes_back_after_the_end_is_left_as_after_a_crash(tmp_path: Path) -> None:
    """What the end of the threads hands back comes to the loop only when every file is closed."""

    async def stop_with_a_job_on_its_way() -> None:
        options = make_options({"data": str(tmp_path)})
        app = opened_app(options)
        job = app.store.plan(app.broker.wanted, app.now_us())
        assert job is not None and job.spare is not None
        app.process.work.submit_job(job)
        await drain(app, asyncio.Event())
        await asyncio.sleep(0)
        assert job.spare_handle >= 0
        app.job_done(job, None)

    uvloop.run(stop_with_a_job_on_its_way())


def test_the_node_is_told_of_the_memory_and_the_disk(tmp_path: Path) -> None:
    async def look() -> None:
        options = make_options({"data": str(tmp_path)})
        app = opened_app(options)
        assert 0 < app.totals.memory_octets <= app.totals.memory_octets_peak
        assert app.broker.surroundings.memory_octets == app.totals.memory_octets
        assert 0 < app.broker.surroundings.free_octets == pytest.approx(app.disk.free_octets(), rel=0.1)
        await drain(app, asyncio.Event())

    uvloop.run(look())


def test_a_login_before_the_first_tick_is_of_now(tmp_path: Path) -> None:
    """With a clock at 0 it would be half a century old at that tick, and its user unknown there."""

    async def log_in_and_tick() -> None:
        options = make_options({"data": str(tmp_path)})
        app = opened_app(options)
        app.auth.throttle.succeeded("192.0.2.1", "ada")
        app.tick()
        assert app.auth.throttle.is_trusted("192.0.2.1", "ada")
        await drain(app, asyncio.Event())

    uvloop.run(log_in_and_tick())


def test_an_error_of_our_own_stops_the_broker(tmp_path: Path) -> None:
    """What is in memory may be wrong then; what is on the disk is not, and the next start reads that."""
    code = """
import asyncio, sys
from forebay.core.options import make_options
from tests.held_app import opened_app

async def run():
    options = make_options({"data": sys.argv[1]})
    app = opened_app(options)
    app.vhosts.by_number[9] = None  # no longer what the broker takes it for
    app.loop.call_soon(app.process.guard, app.tick)
    await asyncio.Event().wait()

asyncio.run(run())
"""
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ended.returncode == EXIT_SOFTWARE
    assert "wrong about its own state" in ended.stderr
