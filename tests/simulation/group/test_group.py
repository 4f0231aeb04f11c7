"""Short runs of three nodes; a seed repeats itself; and bugs that are planted are found."""

from __future__ import annotations

import pytest

from tests.simulation.group.group import GroupSetup
from tests.simulation.group.plants import GROUPS
from tests.simulation.kinds import LIMITED_DELIVERIES, OVER_ONE_LOG
from tests.simulation.simulation import Result, attempt, simulate

SEEDS = 20
SEEDS_A_TEST = 4
VIEW_SEEDS = 3
STEPS = 300
PLANT_SEEDS = 60


@pytest.mark.parametrize("first", range(1, SEEDS + 1, SEEDS_A_TEST))
def test_the_group_keeps_what_its_leaders_promise(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        failure = simulate(seed, STEPS, Result(), GroupSetup())
        assert failure is None, str(failure)


def test_views_outlive_their_leaders() -> None:
    for seed in range(1, VIEW_SEEDS + 1):
        failure = simulate(seed, STEPS, Result(), GroupSetup(kinds=OVER_ONE_LOG))
        assert failure is None, str(failure)


def test_no_take_over_loses_a_number_of_deliveries() -> None:
    for seed in range(5, 5 + SEEDS_A_TEST):
        failure = simulate(seed, STEPS, Result(), GroupSetup(kinds=LIMITED_DELIVERIES))
        assert failure is None, str(failure)


def test_a_seed_repeats_itself() -> None:
    names = ("a new leader without the committed tail", "a lease that nobody checks")
    runs = [[attempt(1, list(range(1, STEPS + 1)), Result(), GROUPS[name]) for name in names] for _ in range(2)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("name", GROUPS)
def test_a_planted_bug_is_found(name: str) -> None:
    steps = list(range(1, STEPS + 1))
    found = any(attempt(seed, steps, Result(), GROUPS[name]) for seed in range(1, PLANT_SEEDS + 1))
    assert found, f"{PLANT_SEEDS} seeds have not found {name}"
