"""No input costs more than linear work: counted in lines, turns and octets, never in seconds."""

from __future__ import annotations

from typing import Final

import pytest

from tests.fuzz.costs import FAMILIES, FREE, cost_of

TIMES: Final = 8
MORE: Final = 1.25  # that a thing of the longer input may cost: names of many have more digits, too


@pytest.mark.parametrize("name", FAMILIES)
def test_eight_times_as_long_costs_eight_times_as_much(name: str) -> None:
    family = FAMILIES[name]
    short, long = cost_of(family, family.first), cost_of(family, family.first * TIMES)
    for what, count in long.counts().items():
        most = MORE * TIMES * short.counts()[what] + FREE[what] * long.octets
        assert count <= most, f"{name}: {what} of {short} and {long}"
