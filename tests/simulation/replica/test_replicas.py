"""Groups of real members in storms: they keep what they promise, and a seed repeats itself."""

from __future__ import annotations

import pytest

from tests.simulation.replica.faults import Storm

SEEDS = 24
SEEDS_A_TEST = 4


@pytest.mark.parametrize("first", range(1, SEEDS + 1, SEEDS_A_TEST))
def test_a_group_keeps_what_it_promises(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        storm = Storm(seed)
        try:
            storm.run()
        except Exception as error:
            error.add_note(f"seed {seed}: {storm.history[-12:]}")
            raise


def test_a_seed_repeats_itself() -> None:
    runs = [Storm(5), Storm(5)]
    for run in runs:
        run.run()
    assert runs[0].history == runs[1].history
    assert runs[0].statistics == runs[1].statistics
