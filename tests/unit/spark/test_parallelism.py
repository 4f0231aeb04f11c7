"""How many tasks run at once: the driver says it where a read is planned."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forebay.server.config.sources import load_options
from forebay.spark.setup.parallelism import ADDRESS, Answers, tasks_at_once

CORES = len(os.sched_getaffinity(0))


def test_the_driver_says_what_is_so_just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter([7, 90])
    answers = Answers(lambda: next(numbers))
    monkeypatch.setenv(ADDRESS, answers.path)
    assert [tasks_at_once(), tasks_at_once()] == [7, 90]
    assert tasks_at_once() == CORES, "it has an error to tell: the session has ended"
    answers.close()
    assert not Path(answers.path).parent.exists()


def test_without_a_driver_it_is_the_cores_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(ADDRESS, raising=False)
    assert tasks_at_once() == CORES
    monkeypatch.setenv(ADDRESS, str(tmp_path / "driver"))
    assert tasks_at_once() == CORES


@pytest.mark.parametrize("said", [0, -3])
def test_a_number_that_cannot_be_is_not_believed(monkeypatch: pytest.MonkeyPatch, said: int) -> None:
    answers = Answers(lambda: said)
    monkeypatch.setenv(ADDRESS, answers.path)
    assert tasks_at_once() == CORES
    answers.close()


def test_a_broker_that_the_driver_starts_takes_it_for_no_option() -> None:
    load_options({}, {ADDRESS: "/tmp/driver"}, None)
