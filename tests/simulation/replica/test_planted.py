"""Bugs around a member, of disks and operators, are found where chance is aimed; those of members also by storms."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from forebay.core.errors import ForebayError
from forebay.replica.member import Member
from tests.simulation.replica.faults import Storm
from tests.simulation.replica.plants import AROUND, MEMBERS
from tests.simulation.replica.violation import Violation

NOTHING: frozenset[str] = frozenset()


def calm(plants: frozenset[str], nodes: int, min_in_sync: int, seed: int = 1) -> Storm:
    """All is well for some seconds."""
    cluster = Storm(seed, plants=plants, nodes=nodes, min_in_sync=min_in_sync, is_quiet=True)
    cluster.run_to(2)
    assert len(cluster.value.in_sync) == nodes
    return cluster


def until(cluster: Storm, is_so: Callable[[], bool]) -> None:
    """At most 5 s."""
    end = cluster.now + 5
    while not is_so():
        assert cluster.now < end, "it never came to that"
        cluster.run_to(cluster.now + 0.001)


def a_wiped_folder_is_another_store(plants: frozenset[str]) -> None:
    cluster = calm(plants, 2, 1)
    a, b = cluster.nodes
    cluster.down(b, 0.3, True)
    b.wipe()
    cluster.down(a, 4, True)
    cluster.run_to(5)
    assert not b.is_leading()
    cluster.run_to(9)
    cluster.is_publishing = False
    cluster.run_to(11)
    cluster.checks.final()


def the_operator_leaves_the_intact_store(plants: frozenset[str]) -> None:
    cluster = calm(plants, 3, 1)
    a, b, c = cluster.nodes
    cluster.down(c, 60, True)
    cluster.run_to(3)
    assert set(cluster.value.in_sync) == {"a", "b"}
    cluster.pause(b, 0.5)
    cluster.down(a, 1, True)
    a.wipe()
    cluster.operate("remove", b)
    confirmed = len(cluster.checks.confirmed)
    cluster.run_to(10)
    if len(cluster.checks.confirmed) == confirmed:
        raise Violation(f"6: nobody leads: {cluster.value}")


def a_promise_survives_its_process(plants: frozenset[str]) -> None:
    for seed in range(1, 7):  # chance says how much of a sync has happened when the process dies
        lead_and_die(calm(plants, 3, 1, seed))


def lead_and_die(cluster: Storm) -> None:
    a, b, c = cluster.nodes
    cluster.down(a, 60, True)
    until(cluster, lambda: b.running is not None and b.running.promise == 2)
    b.slow = 1000.0  # its promise comes on the disk, and nothing of this epoch will
    until(cluster, b.is_leading)
    cluster.run_to(cluster.now + 0.05)
    cluster.pause(c, 0.5)
    cluster.down(b, 0.005, True)
    b.slow = 1.0
    cluster.run_to(cluster.now + 5)
    assert cluster.checks.confirmed


def a_cut_is_on_the_disk_before_its_acknowledgement(plants: frozenset[str]) -> None:
    cluster = calm(plants, 3, 1)
    a, b, c = cluster.nodes
    cluster.blocked["a", "b"] = 1e9
    cluster.run_to(cluster.now + 0.3)
    assert len(c.log.frames) > len(b.log.frames)  # frames that were never committed
    cluster.blocked.clear()
    cluster.down(a, 60, True)
    until(cluster, lambda: cluster.statistics["cuts"] > 0 and 0 < b.barrier <= c.commit)
    cluster.down(c, 0.01, True)
    cluster.down(b, 60, True)
    cluster.run_to(cluster.now + 4)
    assert c.is_leading()


AIMED: list[tuple[Callable[[frozenset[str]], None], str]] = [
    (a_wiped_folder_is_another_store, "no_uuid"),
    (the_operator_leaves_the_intact_store, "operator_removes_isr"),
    (a_promise_survives_its_process, "promise_volatile"),
    (a_cut_is_on_the_disk_before_its_acknowledgement, "trunc_not_durable"),
]
# A seed by which a storm finds it; the others are found by the scenarios of their rules alone.
STORMS = {
    "accept_lower": 6,
    "cut_own_tail": 1,
    "no_prev_check": 1,
    "restart_same_epoch": 1,
}


@pytest.mark.parametrize(("aimed", "plant"), AIMED)
def test_the_rule_holds(aimed: Callable[[frozenset[str]], None], plant: str) -> None:
    aimed(NOTHING)


@pytest.mark.parametrize(("aimed", "plant"), AIMED)
def test_the_bug_is_found(aimed: Callable[[frozenset[str]], None], plant: str) -> None:
    with pytest.raises(Violation):
        aimed(AROUND[plant])


@pytest.mark.parametrize("plant", STORMS)
def test_a_storm_finds_the_bug(plant: str) -> None:
    storm = Storm(STORMS[plant], MEMBERS.get(plant, Member), AROUND.get(plant, NOTHING))
    with pytest.raises((Violation, AssertionError, ForebayError)):
        storm.run()
