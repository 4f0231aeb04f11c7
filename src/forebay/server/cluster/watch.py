"""Watching the members of a cluster: since when each stands as it does, and what of that is worth an event."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from forebay.replica.outcome import LEADER
from forebay.replica.status import MemberStatus

TOOK_OVER: Final = "cluster.took_over"
IN_SYNC: Final = "cluster.node_in_sync"
OUT_OF_SYNC: Final = "cluster.node_out_of_sync"
TOO_FEW: Final = "cluster.too_few_in_sync"
ENOUGH: Final = "cluster.enough_in_sync"

Note = Callable[[str, dict[str, object]], None]


class ClusterWatch:
    """The standings of all members, as one node sees them.

    since_ms  each member's standing, by name: since when, in milliseconds since 1970
    too_few   fewer than `min_in_sync` answer, so that nothing is confirmed
    """

    def __init__(self) -> None:
        self.since_ms: dict[str, int] = {}
        self.standing: dict[str, str] = {}
        self.too_few = False
        self.looked = False  # as the leader

    def look(self, found: MemberStatus, members: Sequence[str], silent_ms_max: int, now_ms: int, note: Note) -> None:
        """Update the standing of all members. While this node leads, note each change as an event."""
        for node in [each for each in self.standing if each not in members]:
            del self.standing[node], self.since_ms[node]
        for node in members:
            standing = standing_of(found, node)
            before = self.standing.get(node, "")
            if standing == before:
                continue
            self.standing[node] = standing
            self.since_ms[node] = now_ms
            if self.looked and found.role == LEADER:
                self.note_change(found, node, before, note)
        if found.role != LEADER:
            return
        self.looked = True
        answering = answering_of(found, silent_ms_max)
        too_few = len(answering) < found.min_in_sync
        if too_few != self.too_few:
            self.too_few = too_few
            fields: dict[str, object] = {
                "in_sync": answering,
                "min_in_sync": found.min_in_sync,
                "epoch": int(found.epoch),
            }
            note(TOO_FEW if too_few else ENOUGH, fields)

    def note_change(self, found: MemberStatus, node: str, before: str, note: Note) -> None:
        """Note as an event that a member is now in sync, or no longer."""
        fields: dict[str, object] = {"node": node, "epoch": int(found.epoch)}
        is_in_sync = node in found.in_sync
        if is_in_sync and before not in (LEADER, IN_SYNC):
            note(IN_SYNC, fields)
        elif not is_in_sync and before in (LEADER, IN_SYNC):
            why = [each.why for each in found.others if each.name == node]
            note(OUT_OF_SYNC, {**fields, "why": why[0] if why else ""})


def standing_of(found: MemberStatus, node: str) -> str:
    """Return the standing of a member: LEADER, IN_SYNC or OUT_OF_SYNC."""
    if node == found.leader:
        return LEADER
    return IN_SYNC if node in found.in_sync else OUT_OF_SYNC


def answering_of(found: MemberStatus, silent_ms_max: int) -> list[str]:
    """Return the names of the in-sync members that this leader hears, itself among them."""
    silent = {each.name for each in found.others if each.silent_ms > silent_ms_max}
    return [node for node in found.in_sync if node not in silent]


def took_over_fields(found: MemberStatus, why: str, recovery_ms: int) -> Mapping[str, object]:
    """Return the fields of the event of a take-over that has just happened."""
    return {"node": found.name, "epoch": int(found.epoch), "why": why, "recovery_ms": recovery_ms}
