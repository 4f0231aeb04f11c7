"""The members of a group: nodes that come are taken in, and one that is gone for long gives its place to another.

Only the leader changes that, and only members that are not in sync are replaced: of the in-sync set the leader puts out
who is silent, which happens long before. An operator may remove a member at any time (`Member.remove`).
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64, mypyc_attr

from forebay.replica.register import OPERATOR, MemberAddresses, RegisterValue


@final
class PresentNode:
    """A node that says it is there: its store, and its addresses."""

    def __init__(self, store_id: str, addresses: MemberAddresses) -> None:
        self.store_id = store_id
        self.addresses = addresses


@mypyc_attr(allow_interpreted_subclasses=True)
class Membership:
    """The membership of a group.

    members_max   nodes that keep the data
    replace_us    a member that is gone for so long gives its place to a node that has none; 0: never
    gone          members that are not there, and since when
    """

    def __init__(self, members_max: int, replace_us: i64) -> None:
        self.members_max = members_max
        self.replace_us: i64 = replace_us
        self.gone: dict[str, i64] = {}

    def change(self, value: RegisterValue, present: dict[str, PresentNode], now: i64) -> RegisterValue | None:
        """The record that the leader should ask for, or None where it is as it should be. One thing at a time."""
        self.note_gone(value, present, now)
        for node in sorted(value.members):
            there = present.get(node)
            if there is not None and there.addresses != value.members[node]:
                changed = value.copy(OPERATOR, value.leader)
                changed.members[node] = there.addresses
                return changed
        for node in sorted(present):
            if node in value.members:
                continue
            leaving = ""
            if len(value.members) >= self.members_max:
                leaving = self.replaceable(value, now)
                if not leaving:
                    return None
            changed = value.copy(OPERATOR, value.leader)
            if leaving:
                del changed.members[leaving]
            changed.members[node] = present[node].addresses
            return changed
        return None

    def note_gone(self, value: RegisterValue, present: dict[str, PresentNode], now: i64) -> None:
        for node in list(self.gone):
            if node in present or node not in value.members:
                del self.gone[node]
        for node in value.members:
            if node not in present and node not in self.gone:
                self.gone[node] = now

    def replaceable(self, value: RegisterValue, now: i64) -> str:
        """A member that is gone for long enough and holds nothing that counts; "" where there is none."""
        if not self.replace_us:
            return ""
        for node in sorted(self.gone):
            if node not in value.in_sync and now - self.gone[node] >= self.replace_us:
                return node
        return ""
