"""A hundred short runs; a seed repeats itself; and bugs that are planted are found."""

from __future__ import annotations

import pytest

from tests.simulation.plants import BROKERS, LyingDisk, planted
from tests.simulation.simulation import Result, Setup, attempt, simulate

SEEDS = 100
SEEDS_A_TEST = 10
STEPS = 200
PLANT_SEEDS = 100


@pytest.mark.parametrize("first", range(1, SEEDS + 1, SEEDS_A_TEST))
def test_the_broker_keeps_what_it_promises(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        failure = simulate(seed, STEPS, Result())
        assert failure is None, str(failure)


def test_a_seed_repeats_itself() -> None:
    told = [attempt(7, list(range(1, STEPS + 1)), Result(), Setup(make=planted(BROKERS[name]))) for name in BROKERS]
    again = [attempt(7, list(range(1, STEPS + 1)), Result(), Setup(make=planted(BROKERS[name]))) for name in BROKERS]
    assert told == again


@pytest.mark.parametrize("name", BROKERS)
def test_a_planted_bug_is_found(name: str) -> None:
    assert found_by(Setup(make=planted(BROKERS[name]))), f"{PLANT_SEEDS} seeds have not found {name}"


def test_a_segment_that_is_named_and_not_synced_is_found() -> None:
    assert found_by(Setup(make_disk=LyingDisk))


def found_by(setup: Setup) -> int:
    """The first seed that finds what is wrong; 0 where none does."""
    steps = list(range(1, STEPS + 1))
    return next((seed for seed in range(1, PLANT_SEEDS + 1) if attempt(seed, steps, Result(), setup)), 0)
