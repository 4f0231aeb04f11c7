"""The view of a cluster's members: since when each stands as it does, and the events of that."""

from __future__ import annotations

from forebay.replica.outcome import FOLLOWER, LEADER
from forebay.replica.status import FollowerStatus, MemberStatus
from forebay.server.cluster.watch import ClusterWatch

SILENT_MS_MAX = 600


def status(role: str, in_sync: list[str], silent: dict[str, int] | None = None) -> MemberStatus:
    """Of `a`, where `a` leads `b` and `c`."""
    found = MemberStatus("a", role, 3, "a")
    found.in_sync, found.min_in_sync = in_sync, 2
    for name in ("b", "c"):
        why = "" if name in in_sync else "does not answer"
        found.others.append(FollowerStatus(name, FOLLOWER, 9, 0, 0, (silent or {}).get(name, 0), why))
    return found


class Heard:
    """The events of one watch."""

    def __init__(self) -> None:
        self.watch = ClusterWatch()
        self.events: list[tuple[str, dict[str, object]]] = []

    def look(self, found: MemberStatus, now_ms: int, members: str = "abc") -> list[tuple[str, dict[str, object]]]:
        """The events of one look."""
        self.events = []
        self.watch.look(
            found, list(members), SILENT_MS_MAX, now_ms, lambda type, fields: self.events.append((type, fields))
        )
        return self.events


def test_a_member_that_leaves_the_set_and_comes_back_is_told_of_with_the_reason() -> None:
    heard = Heard()
    assert heard.look(status(LEADER, ["a", "b", "c"]), 1) == []
    assert heard.watch.since_ms == {"a": 1, "b": 1, "c": 1}
    out = {"node": "b", "epoch": 3, "why": "does not answer"}
    assert heard.look(status(LEADER, ["a", "c"]), 2) == [("cluster.node_out_of_sync", out)]
    assert heard.watch.since_ms == {"a": 1, "b": 2, "c": 1}
    assert heard.look(status(LEADER, ["a", "c"]), 3) == []
    assert heard.look(status(LEADER, ["a", "b", "c"]), 4) == [("cluster.node_in_sync", {"node": "b", "epoch": 3})]
    assert heard.look(status(LEADER, ["a", "c"]), 5, "ac") == []
    assert heard.watch.since_ms == {"a": 1, "c": 1}


def test_too_few_that_answer_are_told_of_once() -> None:
    heard = Heard()
    heard.look(status(LEADER, ["a", "b"]), 1)
    few = {"in_sync": ["a"], "min_in_sync": 2, "epoch": 3}
    assert heard.look(status(LEADER, ["a", "b"], {"b": 601}), 2) == [("cluster.too_few_in_sync", few)]
    assert heard.watch.too_few
    assert heard.look(status(LEADER, ["a", "b"], {"b": 900}), 3) == []
    enough = {**few, "in_sync": ["a", "b"]}
    assert heard.look(status(LEADER, ["a", "b"]), 4) == [("cluster.enough_in_sync", enough)]


def test_a_follower_tells_of_nothing() -> None:
    heard = Heard()
    heard.look(status(FOLLOWER, ["a", "b", "c"]), 1)
    assert heard.look(status(FOLLOWER, ["a"]), 2) == []
    assert heard.watch.since_ms["b"] == 2
