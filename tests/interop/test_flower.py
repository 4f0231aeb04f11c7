"""Flower, Celery's monitor, shows the lengths of queues by our HTTP API."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.broker_process import BrokerProcess, free_port
from tests.interop.celery_site import ROOT, Site
from tests.waiting import until


@pytest.fixture
def site(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> Iterator[Site]:
    """Celery on a broker with HTTP."""
    made = Site(start_broker(http="127.0.0.1:0"), tmp_path)
    yield made
    made.close()


@pytest.fixture
def flower(site: Site) -> Iterator[str]:
    """Address of a Flower that watches the site."""
    port = free_port()
    broker_api = f"http://guest:guest@127.0.0.1:{site.broker.port('http')}/api/"
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "tests.interop.celery_app",
        f"--broker={site.settings['broker_url']}",
    ]
    command += ["flower", "--address=127.0.0.1", f"--port={port}", f"--broker-api={broker_api}"]
    environment = {
        **os.environ,
        "FLOWER_UNAUTHENTICATED_API": "true",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    log = site.folder / "flower.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment, cwd=site.folder)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()
        print(log.read_text(errors="replace")[-5_000:])


def lengths(flower: str) -> dict[str, int]:
    """Messages by queue as Flower tells; nothing while it is not there."""
    try:
        answer = httpx.get(f"{flower}/api/queues/length", timeout=60)
    except httpx.TransportError:
        return {}
    queues = answer.json()["active_queues"] if answer.status_code == 200 else []
    return {queue["name"]: queue["messages"] for queue in queues}


def test_flower_shows_how_long_queues_are(site: Site, flower: str) -> None:
    site.start_worker("--pool", "threads", "--concurrency", "1")
    site.task("long", "ran").delay()
    site.lines("ran", 1)
    for _ in range(5):
        site.task("long", "ran").delay()
    until(lambda: lengths(flower).get("celery") == 6, "all six tasks are told of")
    (site.folder / "go on").touch()
    site.lines("ran", 6)
    until(lambda: lengths(flower).get("celery") == 0, "an empty queue")
