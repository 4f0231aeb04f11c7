"""A hundred short runs; a seed repeats itself; and bugs that are planted are found."""

from __future__ import annotations

import pytest

from tests.simulation.kinds import LIMITED_DELIVERIES, OVER_ONE_LOG, USUAL
from tests.simulation.plants import NODES, LyingDisk, planted
from tests.simulation.simulation import Result, Setup, attempt, simulate

SEEDS = 100
VIEW_SEEDS = 10
SEEDS_A_TEST = 10
STEPS = 200
PLANT_SEEDS = 120
# The queues in which these bugs are.
PLACES: dict[str, tuple[str, ...]] = {
    "the place of readers forgotten": ("stream", "classic"),
    "a purge undone by a crash": ("classic", "quorum"),
    "a dead letter settled before it is stored": ("letters", "limited"),
    "a message back at a link that cannot take it": ("classic", "quorum"),
    "a number of deliveries that a crash loses": ("counted",),
    "a delivery at most once before its settlement is on the disk": ("once",),
    "a group's deletion undone by a restart": ("grouped", "classic"),
    "a group that is back where it was": ("grouped", "classic"),
    "a group that has settled what another has": ("grouped", "classic"),
    "a view that begins anew": OVER_ONE_LOG,
    "a filter of a view lost by a restart": OVER_ONE_LOG,
    "a replaced message that stays": ("latest",),
    "the latest message of a key lost": ("latest",),
}
CALM = ("the place of readers forgotten",)  # it takes readers that are left alone for a while


@pytest.mark.parametrize("first", range(1, SEEDS + 1, SEEDS_A_TEST))
def test_the_broker_keeps_what_it_promises(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        failure = simulate(seed, STEPS, Result())
        assert failure is None, str(failure)


@pytest.mark.parametrize("first", range(1, VIEW_SEEDS + 1, SEEDS_A_TEST))
def test_views_have_what_comes_into_their_stream(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        failure = simulate(seed, STEPS, Result(), Setup(kinds=OVER_ONE_LOG))
        assert failure is None, str(failure)


def test_no_end_of_the_broker_loses_a_number_of_deliveries() -> None:
    for seed in range(1, SEEDS_A_TEST + 1):
        failure = simulate(seed, STEPS, Result(), Setup(kinds=LIMITED_DELIVERIES))
        assert failure is None, str(failure)


def test_a_seed_repeats_itself() -> None:
    told = [attempt(7, list(range(1, STEPS + 1)), Result(), Setup(make=planted(NODES[name]))) for name in NODES]
    again = [attempt(7, list(range(1, STEPS + 1)), Result(), Setup(make=planted(NODES[name]))) for name in NODES]
    assert told == again


@pytest.mark.parametrize("name", NODES)
def test_a_planted_bug_is_found(name: str) -> None:
    setup = Setup(make=planted(NODES[name]), kinds=PLACES.get(name, USUAL), is_stormy=name not in CALM)
    assert found_by(setup), f"{PLANT_SEEDS} seeds have not found {name}"


def test_a_segment_that_is_named_and_not_synced_is_found() -> None:
    assert found_by(Setup(make_disk=LyingDisk))


def found_by(setup: Setup) -> int:
    """The first seed that finds what is wrong; 0 where none does."""
    steps = list(range(1, STEPS + 1))
    return next((seed for seed in range(1, PLANT_SEEDS + 1) if attempt(seed, steps, Result(), setup)), 0)
