"""Arguments and policies that speak of nodes are in force, or refused by name and value."""

from __future__ import annotations

import pytest

from forebay.core.errors import RequestError
from forebay.queue.declaration.placement import LOCATORS, SIZES, Placement

THREE = Placement(3, clustered=True)
ALONE = Placement()


@pytest.mark.parametrize("name", SIZES)
def test_as_many_members_as_there_are_is_in_force_and_more_is_refused(name: str) -> None:
    for placement, least, most in ((THREE, 1, 3), (ALONE, 1, 1)):
        for number in (least, most):
            placement.check_arguments({"x-" + name: number}, "queue 'q' in vhost '/'")
            placement.check_definition({name: number}, "policy 'p'")
        with pytest.raises(RequestError) as caught:
            placement.check_arguments({"x-" + name: most + 1}, "queue 'q' in vhost '/'")
        assert f"invalid arg 'x-{name}' for queue 'q' in vhost '/': {most + 1} is more than the {most} member" in (
            caught.value.text
        )
        with pytest.raises(RequestError) as caught:
            placement.check_definition({name: most + 1}, "policy 'p'")
        assert caught.value.text.startswith(f"policy 'p': {name}: {most + 1} is more than")


@pytest.mark.parametrize("name", LOCATORS)
def test_who_leads_is_not_said_by_queue_in_a_cluster(name: str) -> None:
    ALONE.check_arguments({"x-" + name: "balanced"}, "queue 'q' in vhost '/'")
    with pytest.raises(RequestError, match="'balanced' cannot be: one node leads all queues; forebay cluster transfer"):
        THREE.check_arguments({"x-" + name: "balanced"}, "queue 'q' in vhost '/'")


def test_a_size_is_a_number_and_other_arguments_are_none_of_its_business() -> None:
    with pytest.raises(RequestError, match="'3' is no number of members"):
        THREE.check_arguments({"x-quorum-target-group-size": "3"}, "queue 'q' in vhost '/'")
    THREE.check_arguments({"x-max-length": 99, "queue-leader-locator": "of no prefix"}, "queue 'q' in vhost '/'")
