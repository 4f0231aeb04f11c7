"""The preferred leader gets leadership once it has kept up for a while, and not before."""

from __future__ import annotations

from forebay.replica.register import TRANSFER
from tests.replica_rig import MS, SECOND, HeldMember, leader, value


def preferring(preferred: str, in_sync: str = "abc") -> HeldMember:
    held = leader(in_sync=in_sync)
    held.settings.preferred = preferred
    held.settings.preferred_us = 3 * SECOND
    return held


def keep_up(held: HeldMember, time: int, *nodes: str) -> None:
    """Have these answer, and have all that the leader has, for so long."""
    for _ in range(time // (50 * MS)):
        held.pass_time(50 * MS)
        held.answer(*nodes)
        held.acknowledge(len(held.log.frames), *nodes)


def handed_to(held: HeldMember) -> list[str]:
    """Those to whom it was to be handed over since this was asked."""
    changes, held.changes = held.changes, []
    return [change.value.leader for change in changes if change.value.why == TRANSFER]


def test_leadership_goes_to_it_once_it_has_kept_up_for_long_enough() -> None:
    held = preferring("b")
    keep_up(held, 2900 * MS, "b", "c")
    assert handed_to(held) == []
    keep_up(held, 200 * MS, "b", "c")
    assert handed_to(held)[:1] == ["b"]


def test_a_node_that_lags_begins_anew_to_keep_up() -> None:
    held = preferring("b")
    keep_up(held, 2500 * MS, "b", "c")
    held.append()
    held.sync()
    for _ in range(6):  # longer than a heartbeat
        held.pass_time(50 * MS)
        held.answer("b", "c")
    keep_up(held, 2500 * MS, "b", "c")
    assert handed_to(held) == []
    keep_up(held, 700 * MS, "b", "c")
    assert handed_to(held)[:1] == ["b"]


def test_nobody_else_gets_it_and_it_stays_where_it_is() -> None:
    for preferred in ("", "a", "d"):
        held = preferring(preferred)
        keep_up(held, 4 * SECOND, "b", "c")
        assert handed_to(held) == []


def test_one_that_is_not_in_sync_or_drained_does_not_get_it() -> None:
    held = preferring("c", in_sync="ab")
    keep_up(held, 4 * SECOND, "b")
    assert handed_to(held) == []
    held = preferring("b")
    held.member.avoided = {"b"}
    keep_up(held, 4 * SECOND, "b", "c")
    assert handed_to(held) == []
    held.member.avoided = set()
    keep_up(held, 3200 * MS, "b", "c")
    assert handed_to(held)[:1] == ["b"]


def test_who_leads_no_more_hands_over_nothing() -> None:
    held = preferring("b")
    held.see(value(3, "c"))
    held.pass_time(4 * SECOND)
    assert handed_to(held) == []
