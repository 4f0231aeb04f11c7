"""Nodes that come are taken in, and one that is gone for long gives its place to another."""

from __future__ import annotations

from forebay.replica.membership import Membership, PresentNode
from forebay.replica.register import MemberAddresses, RegisterValue, founding

STORES = {name: name * 32 for name in "abcdef"}


def addresses(name: str, port: int = 1) -> MemberAddresses:
    return MemberAddresses(f"{name}:{port}", {})


def there(*names: str) -> dict[str, PresentNode]:
    return {name: PresentNode(STORES[name], addresses(name)) for name in names}


def group(*names: str) -> RegisterValue:
    """One that the first of these leads, and in which no other is in sync."""
    value = founding("g", names[0], STORES[names[0]], addresses(names[0]), 1, "")
    for name in names[1:]:
        value.members[name] = addresses(name)
    return value


def test_nodes_are_taken_in_one_at_a_time_as_long_as_there_is_room() -> None:
    membership = Membership(3, 0)
    first = membership.change(group("a"), there("a", "b", "c", "d"), 0)
    assert first is not None and sorted(first.members) == ["a", "b"] and sorted(first.in_sync) == ["a"]
    second = membership.change(first, there("a", "b", "c", "d"), 0)
    assert second is not None and sorted(second.members) == ["a", "b", "c"]
    assert membership.change(second, there("a", "b", "c", "d"), 0) is None


def test_a_member_with_other_addresses_is_found_there() -> None:
    present = there("a", "b")
    present["b"] = PresentNode(STORES["b"], addresses("b", 2))
    changed = Membership(3, 0).change(group("a", "b"), present, 0)
    assert changed is not None and changed.members["b"].peer == "b:2"


def test_who_is_gone_for_long_gives_its_place_to_another() -> None:
    membership = Membership(3, 100)
    value = group("a", "b", "c")
    assert membership.change(value, there("a", "b", "d"), 0) is None
    assert membership.change(value, there("a", "b", "d"), 99) is None
    changed = membership.change(value, there("a", "b", "d"), 100)
    assert changed is not None and sorted(changed.members) == ["a", "b", "d"]


def test_who_comes_back_in_time_keeps_its_place() -> None:
    membership = Membership(3, 100)
    value = group("a", "b", "c")
    membership.change(value, there("a", "b", "d"), 0)
    membership.change(value, there("a", "b", "c", "d"), 50)
    assert membership.change(value, there("a", "b", "d"), 120) is None


def test_who_is_in_sync_is_never_replaced() -> None:
    membership = Membership(3, 100)
    value = group("a", "b", "c")
    value.in_sync["c"] = STORES["c"]
    membership.change(value, there("a", "b", "d"), 0)
    assert membership.change(value, there("a", "b", "d"), 1000) is None


def test_without_a_time_nobody_is_replaced() -> None:
    membership = Membership(3, 0)
    value = group("a", "b", "c")
    membership.change(value, there("a", "b", "d"), 0)
    assert membership.change(value, there("a", "b", "d"), 1 << 50) is None
