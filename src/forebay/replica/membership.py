"""The membership of a group: adds new nodes, and replaces a member that has been gone for long.

Only the leader changes the membership, and only members that are not in sync are replaced. The leader drops a silent
member from the in-sync set long before. An operator may remove a member at any time (`Member.remove`).
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64, mypyc_attr

from forebay.replica.register import OPERATOR, MemberAddresses, RegisterValue


@final
class PresentNode:
    """A node that has announced itself: its store, and its addresses."""

    def __init__(self, store_id: str, addresses: MemberAddresses) -> None:
        self.store_id = store_id
        self.addresses = addresses


@mypyc_attr(allow_interpreted_subclasses=True)
class Membership:
    """The membership of a group.

    members_max  the number of nodes that keep the data
    replace_us   time after which an absent member is replaced by a node that is not a member; 0 for never
    gone         absent members, and since when each is absent
    """

    def __init__(self, members_max: int, replace_us: i64) -> None:
        self.members_max = members_max
        self.replace_us: i64 = replace_us
        self.gone: dict[str, i64] = {}

    def change(self, value: RegisterValue, present: dict[str, PresentNode], now: i64) -> RegisterValue | None:
        """Return the next record that the leader should propose, or None if the membership is as it should be.

        One call changes one thing: an address, or one node that joins, with the member that it replaces.
        """
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
        """Return a member that has been absent for `replace_us` and is not in sync, or "" if there is none."""
        if not self.replace_us:
            return ""
        for node in sorted(self.gone):
            if node not in value.in_sync and now - self.gone[node] >= self.replace_us:
                return node
        return ""
