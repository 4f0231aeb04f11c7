"""The machine: each limit is assessed by what a broker needs."""

from __future__ import annotations

import os
import resource

import pytest

from forebay import __version__
from forebay.cli.doctor.diagnosis import ERROR, GOOD, NOTE, WARNING, Diagnosis, worst
from forebay.cli.doctor.machine import (
    UNSYNCHRONISED,
    clock,
    clock_state,
    handles,
    limit_of,
    memory,
    memory_there,
    version,
)

GIB = 1 << 30
NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("most", "level"), [(20_000, GOOD), (10_512, GOOD), (10_511, WARNING), (1024, WARNING), (-1, GOOD)]
)
def test_open_files(most: int, level: str) -> None:
    found = handles(most, 10_000, "this user")
    assert found.level == level
    assert ("no more than 512 connections" in found.text) == (most == 1024)
    assert ("10,512" in found.remedy) == (level == WARNING)


def test_the_limit_is_that_of_the_process() -> None:
    assert limit_of(os.getpid()) == limit_of(None) == resource.getrlimit(resource.RLIMIT_NOFILE)[1]


@pytest.mark.parametrize(
    ("octets_max", "available", "level"),
    [(GIB, 6 * GIB, GOOD), (7 * GIB, 6 * GIB, WARNING), (9 * GIB, 6 * GIB, ERROR), (4 * GIB, GIB // 2, NOTE)],
)
def test_memory(octets_max: int, available: int, level: str) -> None:
    found = memory(octets_max, 8 * GIB, available)
    assert found.level == level
    assert ("memory_octets_max" in found.remedy) == (level in {WARNING, ERROR})


def test_this_machine_has_memory() -> None:
    there, available = memory_there()
    assert 0 < available <= there


@pytest.mark.parametrize(
    ("now", "state", "newest", "broker", "level", "said"),
    [
        (NOW, 0, None, None, GOOD, "synchronised"),
        (NOW, 0, NOW - 5, NOW + 1, GOOD, "synchronised"),
        (NOW, UNSYNCHRONISED, None, None, NOTE, "no NTP"),
        (1_000.0, 0, None, None, ERROR, "years behind"),
        (NOW, 0, NOW + 7_200, None, ERROR, "2 h behind what the data folder has seen"),
        (NOW, 0, None, NOW - 65, WARNING, "differs from the one here by 1 min 5 s"),
    ],
)
def test_the_clock(now: float, state: int, newest: float | None, broker: float | None, level: str, said: str) -> None:
    found = clock(now, state, newest, broker)
    assert (found.level, said in found.text) == (level, True), found
    assert bool(found.remedy) == (level != GOOD)


def test_the_kernel_knows_its_clock() -> None:
    assert 0 <= clock_state() <= UNSYNCHRONISED


def test_a_broker_of_another_version_is_named() -> None:
    assert version(__version__, "compiled").level == GOOD
    assert version(__version__, "interpreted").level == NOTE
    found = version("0.0.9", "compiled")
    assert (found.level, "but the broker is 0.0.9" in found.text) == (WARNING, True)


def test_the_worst_finding_counts() -> None:
    assert worst([]) == GOOD
    assert worst([Diagnosis("a", NOTE, ""), Diagnosis("b", ERROR, ""), Diagnosis("c", WARNING, "")]) == ERROR
