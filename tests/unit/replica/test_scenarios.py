"""Each rule holds, and the bug that breaks it, planted, is caught by the scenario of that rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from forebay.replica.member import Member
from tests.simulation.replica.plants import MEMBERS
from tests.unit.replica.leader.test_in_sync_set import GROWING
from tests.unit.replica.leader.test_leading import LEADING
from tests.unit.replica.test_following import FOLLOWING
from tests.unit.replica.test_suspicion import TAKING_OVER

Scenario = Callable[[type[Member]], None]
PAIRS: list[tuple[Scenario, str]] = [*FOLLOWING, *LEADING, *GROWING, *TAKING_OVER]


@pytest.mark.parametrize("scenario", dict.fromkeys(scenario for scenario, _ in PAIRS))
def test_the_rule_holds(scenario: Scenario) -> None:
    scenario(Member)


@pytest.mark.parametrize(("scenario", "plant"), PAIRS)
def test_the_bug_is_caught(scenario: Scenario, plant: str) -> None:
    with pytest.raises(AssertionError):
        scenario(MEMBERS[plant])


def test_every_bug_of_a_member_has_its_scenario() -> None:
    assert {plant for _, plant in PAIRS} == set(MEMBERS)
