"""A cluster in a few words: who is out of sync, and for whom confirms wait."""

from __future__ import annotations

from forebay.management.cluster_words import summary_of, waits_of
from forebay.management.control import Cluster


def member(node: str, behind: int | None = 0, why: str = "") -> dict[str, object]:
    return {"node": node, "in_sync": not why, "frames_behind": behind, "why": why}


class Told(Cluster):
    """A cluster that tells what a test wants."""

    name = "shop"
    node = "a"

    def __init__(self, *members: dict[str, object], waits: str = "", too_few: bool = False) -> None:
        self.members = list(members)
        self.waits = waits
        self.too_few = too_few

    def status(self) -> dict[str, object]:
        return {
            "name": "shop",
            "epoch": 3,
            "leader": "a",
            "min_in_sync": 2,
            "answering": ["a"],
            "members": self.members,
            "waits": self.waits,
            "too_few_in_sync": self.too_few,
        }

    def transfer(self, node: str) -> None:
        raise AssertionError(node)

    def remove(self, node: str) -> None:
        raise AssertionError(node)

    def drain(self, node: str) -> None:
        raise AssertionError(node)

    def undrain(self, node: str) -> None:
        raise AssertionError(node)


def test_a_broker_that_stands_alone_has_nothing_to_say() -> None:
    assert summary_of(None) is None


def test_all_in_sync_is_a_short_line() -> None:
    found = summary_of(Told(member("a"), member("b")))
    assert found is not None
    assert found["line"] == "shop, epoch 3, led by a, 2 of 2 in sync"
    assert (found["waits"], found["out_of_sync"]) == ("", {})


def test_the_slowest_in_sync_is_named_and_who_is_out_with_the_reason() -> None:
    told = Told(member("a"), member("b", 4112), member("c", 9000, "catches up"), waits="x")
    assert waits_of(told.status()) == "waits for node b, 4,112 frames behind"
    found = summary_of(told)
    assert found is not None
    assert found["line"] == (
        "shop, epoch 3, led by a, 2 of 3 in sync, c catches up; waits for node b, 4,112 frames behind"
    )
    assert waits_of(Told(member("a"), member("b"), waits="x").status()) == "waits for the leader's own disk"


def test_too_few_that_answer_go_before_everything_else() -> None:
    words = waits_of(Told(member("a"), member("b", 4112), waits="x", too_few=True).status())
    assert words == "nothing is confirmed: 1 in sync answer, min_in_sync is 2"
