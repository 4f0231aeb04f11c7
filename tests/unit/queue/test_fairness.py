"""Which member of a shared subscription is next, by each strategy."""

from __future__ import annotations

import pytest

from forebay.queue.fairness import (
    HASH_CLIENT,
    HASH_TOPIC,
    LEAST_INFLIGHT,
    RANDOM,
    ROUND_ROBIN,
    STICKY,
    Fairness,
    fairness_named,
    hash_of,
)
from forebay.queue.leases.lease import Consumer

STRATEGIES = [ROUND_ROBIN, RANDOM, STICKY, LEAST_INFLIGHT, HASH_TOPIC, HASH_CLIENT]


def members(*credits: int) -> list[Consumer]:
    return [Consumer(id, 1, 1, id, 0, b"", False, credit) for id, credit in enumerate(credits)]


def picks(fairness: Fairness, consumers: list[Consumer], keys: list[bytes]) -> list[int]:
    """Who gets each message, -1 for nobody; each costs a credit."""
    found: list[int] = []
    for key in keys:
        consumer = fairness.next(consumers, key)
        if consumer is not None:
            consumer.credit -= 1
            fairness.took(consumer, fairness.share(consumers, consumer, 1))
        found.append(-1 if consumer is None else int(consumer.id))
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nobody_is_picked_where_nobody_has_room(strategy: str) -> None:
    fairness = fairness_named(strategy)
    assert fairness.next([], b"k") is None
    paused = members(0, 1)
    paused[1].paused = True
    assert fairness.next(paused, b"k") is None


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_who_has_room_is_found_wherever_the_strategy_points(strategy: str) -> None:
    keys = [b"%d" % number for number in range(9)]
    assert sorted(picks(fairness_named(strategy), members(0, 3, 0, 5), keys)) == [-1, 1, 1, 1, 3, 3, 3, 3, 3]


def test_round_robin_goes_on_behind_whoever_was_last() -> None:
    assert picks(fairness_named(ROUND_ROBIN), members(9, 1, 9), [b""] * 6) == [0, 1, 2, 0, 2, 0]


def test_sticky_stays_until_its_member_has_no_room() -> None:
    assert picks(fairness_named(STICKY), members(2, 3, 9), [b""] * 6) == [0, 0, 1, 1, 1, 2]


def test_sticky_keeps_to_a_member_whoever_else_goes() -> None:
    fairness = fairness_named(STICKY)
    consumers = members(0, 99, 99)
    assert picks(fairness, consumers, [b""]) == [1]
    assert picks(fairness, consumers[1:], [b""] * 2) == [1, 1]
    assert picks(fairness, consumers[2:], [b""] * 2) == [2, 2]


def test_least_inflight_goes_by_credit() -> None:
    assert picks(fairness_named(LEAST_INFLIGHT), members(2, 4, 3), [b""] * 6) == [1, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("strategy", [HASH_TOPIC, HASH_CLIENT])
def test_a_hash_gives_the_same_key_to_the_same_member(strategy: str) -> None:
    keys = [b"topic %d" % number for number in range(30)]
    first = picks(fairness_named(strategy), members(99, 99, 99), keys)
    assert picks(fairness_named(strategy), members(99, 99, 99), keys) == first
    assert set(first) == {0, 1, 2}


def test_random_reaches_everybody() -> None:
    found = picks(fairness_named(RANDOM), members(99, 99, 99, 99), [b""] * 60)
    assert min(found.count(id) for id in range(4)) > 5
    assert found != sorted(found)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_members_may_come_and_go(strategy: str) -> None:
    fairness = fairness_named(strategy)
    consumers = members(99, 99, 99)
    picks(fairness, consumers, [b"a", b"b"])
    assert picks(fairness, consumers[:1], [b"c"]) == [0]
    assert picks(fairness, consumers[1:], [b"d"])[0] in (1, 2)


def test_the_hash_is_fnv_1a() -> None:
    """Published values, of which the lower 31 bits are kept."""
    for key, value in [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)]:
        assert hash_of(key) == value & 0x7FFF_FFFF
