"""Celery: real workers, and all that makes them wait, retry, come back and be counted."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import celery
import pytest

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.interop.celery_site import WAIT_S, Site
from tests.waiting import until


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
    until(site.is_settled, "an acknowledged task")


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
    until(lambda: site.ready() == 5, "two tasks that run and two that are held")
    (site.folder / "go on").touch()
    assert [result.get(timeout=WAIT_S) for result in results] == [False] * 9


def test_tasks_and_workers_survive_a_restart_of_the_broker(site: Site) -> None:
    site.start_worker()
    site.task("note", "done", "before").delay()
    until(site.is_settled, "an acknowledged task")
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
