"""Celery: real workers, and all that makes them wait, retry, come back and be counted."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import celery
import pytest

from forebay.client.control import ControlClient
from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess

ROOT = Path(__file__).parent.parent.parent
WAIT_S = 60


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {WAIT_S} s: {what}"
        time.sleep(0.05)


class Site:
    """A broker, a folder for traces, workers as processes, and in this process an application that sends tasks.

    settings  of Celery, for all of them
    """

    def __init__(self, broker: BrokerProcess, folder: Path, **settings: object) -> None:
        self.broker = broker
        self.folder = folder
        self.settings = {
            "broker_url": f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}//",
            "result_backend": "rpc://",
            "worker_prefetch_multiplier": 1,
            **settings,
        }
        self.workers: list[subprocess.Popen[bytes]] = []
        self.app = celery.Celery("sender")
        self.app.conf.update(broker_transport_options={"confirm_publish": True}, **self.settings)

    def task(self, name: str, *arguments: object) -> Any:
        """A task of celery_app.py with its arguments."""
        return self.app.signature(f"tests.interop.celery_app.{name}", args=arguments)

    def start_worker(self, *options: str) -> subprocess.Popen[bytes]:
        """A worker that has begun to consume; one task at a time unless its options say otherwise."""
        name = f"worker-{len(self.workers)}"
        log = self.folder / f"{name}.log"
        command = [sys.executable, "-m", "celery", "-A", "tests.interop.celery_app", "worker", "-n", f"{name}@%h"]
        command += ["--loglevel", "INFO", *(options or ("--pool", "solo"))]
        environment = {
            **os.environ,
            "FOREBAY_CELERY_FOLDER": str(self.folder),
            "FOREBAY_CELERY_SETTINGS": json.dumps(self.settings),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        with log.open("wb") as file:
            process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, env=environment, cwd=self.folder, start_new_session=True
            )
        self.workers.append(process)
        wait_until(lambda: b" ready." in log.read_bytes(), f"{name} is ready")
        return process

    def lines(self, name: str, count: int) -> list[str]:
        """What tasks left in a file, once there are so many lines."""
        path = self.folder / name

        def read() -> list[str]:
            return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

        wait_until(lambda: len(read()) >= count, f"{count} lines in {name}")
        return read()

    def ready(self, queue: str = "celery") -> int:
        """Messages that wait in a queue."""
        channel = open_channel(self.broker)
        found = int(channel.queue_declare(queue, passive=True).method.message_count)
        channel.connection.close()
        return found

    def is_settled(self) -> bool:
        """Whether all tasks are done and acknowledged, which workers do some time after the tasks."""
        with ControlClient.connect(f"127.0.0.1:{self.broker.amqp_port}", "guest", "guest") as client:
            (queue,) = (each for each in client.items("queue.list", vhost="/") if each["queue"] == "celery")
        return queue["ready"] == queue["unacked"] == 0

    def close(self) -> None:
        """End what runs, with the children that a killed worker left."""
        self.app.close()
        for process in self.workers:
            print((self.folder / f"worker-{self.workers.index(process)}.log").read_text(errors="replace")[-5_000:])
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def start_site(broker: BrokerProcess, tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """Function that makes a site with settings of Celery."""
    sites: list[Site] = []

    def start(**settings: object) -> Site:
        sites.append(Site(broker, tmp_path, **settings))
        return sites[-1]

    yield start
    for site in sites:
        site.close()


@pytest.fixture
def site(start_site: Callable[..., Site]) -> Site:
    """A site with the usual settings."""
    return start_site()


def test_results_chains_and_groups_over_the_broker(site: Site) -> None:
    site.start_worker("--pool", "prefork", "--concurrency", "2")
    assert site.task("add", 2, 3).delay().get(timeout=WAIT_S) == 5
    chain = site.task("add", 1, 2) | site.task("add", 10) | site.task("add", 100)
    assert chain.delay().get(timeout=WAIT_S) == 113
    group = celery.group(site.task("add", number, number) for number in range(20))
    assert group.delay().get(timeout=WAIT_S) == [2 * number for number in range(20)]


def test_a_chord_with_results_elsewhere(start_site: Callable[..., Site], tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    site = start_site(result_backend=f"file://{results}")
    site.start_worker()
    chord = celery.chord([site.task("add", number, 1) for number in range(10)], site.task("total"))
    assert chord.delay().get(timeout=WAIT_S) == sum(range(1, 11))


def test_a_task_that_is_tried_again(site: Site) -> None:
    site.start_worker()
    assert site.task("stubborn", 3).delay().get(timeout=WAIT_S) == 3


def test_tasks_for_later_let_others_pass(start_site: Callable[..., Site]) -> None:
    site = start_site(worker_prefetch_multiplier=4)
    site.start_worker("--pool", "prefork", "--concurrency", "1")
    begun = time.time()
    soon = site.task("note", "order", "countdown").apply_async(countdown=3)
    later = site.task("note", "order", "eta").apply_async(eta=dt.datetime.now(dt.UTC) + dt.timedelta(seconds=5))
    site.task("note", "order", "now").delay()
    assert site.lines("order", 3) == ["now", "countdown", "eta"]
    assert soon.get(timeout=WAIT_S) >= begun + 3
    assert later.get(timeout=WAIT_S) >= begun + 5


def test_a_task_of_a_killed_worker_goes_to_another(site: Site) -> None:
    worker = site.start_worker()
    result = site.task("long", "attempts").delay()
    assert site.lines("attempts", 1) == ["False"]
    worker.kill()
    site.start_worker()
    assert site.lines("attempts", 2) == ["False", "True"]
    (site.folder / "go on").touch()
    assert result.get(timeout=WAIT_S) is True
    wait_until(site.is_settled, "an acknowledged task")


def test_urgent_tasks_come_first(start_site: Callable[..., Site]) -> None:
    site = start_site(task_queue_max_priority=10)
    for priority in (1, 9, 5, 9):
        site.task("note", "order", priority).apply_async(priority=priority)
    site.start_worker()
    assert site.lines("order", 4) == ["9", "9", "5", "1"]


def test_a_worker_takes_no_more_than_its_prefetch(start_site: Callable[..., Site]) -> None:
    site = start_site(worker_prefetch_multiplier=2)
    results = [site.task("long", "running").delay() for _ in range(9)]
    site.start_worker("--pool", "prefork", "--concurrency", "2")
    site.lines("running", 2)
    wait_until(lambda: site.ready() == 5, "two tasks that run and two that are held")
    (site.folder / "go on").touch()
    assert [result.get(timeout=WAIT_S) for result in results] == [False] * 9


def test_tasks_and_workers_survive_a_restart_of_the_broker(site: Site) -> None:
    site.start_worker()
    site.task("note", "done", "before").delay()
    wait_until(site.is_settled, "an acknowledged task")
    site.broker.restart()
    with site.app.connection_for_write() as connection:
        site.task("note", "done", "after").apply_async(connection=connection)
    assert site.lines("done", 2) == ["before", "after"]


def test_workers_answer_to_remote_control(site: Site) -> None:
    for _ in range(2):
        site.start_worker()
    answers = site.app.control.ping(timeout=WAIT_S, limit=2)
    assert [list(answer.values()) for answer in answers] == [[{"ok": "pong"}]] * 2
    queues = site.app.control.inspect(timeout=WAIT_S, limit=2).active_queues()
    assert [[queue["name"] for queue in each] for each in queues.values()] == [["celery"]] * 2


def test_quorum_queues_with_delays_made_of_queues(start_site: Callable[..., Site]) -> None:
    site = start_site(
        task_default_queue="quorum-jobs",
        task_default_queue_type="quorum",
        task_default_exchange="jobs",
        task_default_exchange_type="topic",
    )
    site.start_worker("--pool", "prefork", "--concurrency", "1")
    begun = time.time()
    later = site.task("note", "order", "later").apply_async(countdown=3)
    site.task("note", "order", "now").delay()
    assert site.lines("order", 2) == ["now", "later"]
    assert later.get(timeout=WAIT_S) >= begun + 3
    assert open_channel(site.broker).queue_declare("celery_delayed_1", passive=True).method.queue
