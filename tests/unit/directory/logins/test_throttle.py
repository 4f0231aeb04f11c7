"""Who guesses has to wait, by address and user together, and nobody else does."""

from __future__ import annotations

from forebay.core.units import US_PER_S
from forebay.directory.logins.throttle import FORGET_US, LOOKS_PER_S, REMEMBERED_MAX, Throttle

HERE = "192.0.2.1"
THERE = "192.0.2.2"


def fail(throttle: Throttle, times: int, address: str = HERE, user: str = "ada") -> None:
    for _ in range(times):
        throttle.failed(address, user)


def test_the_wait_begins_with_a_second_and_doubles_up_to_the_longest() -> None:
    throttle = Throttle(3, 10 * US_PER_S)
    fail(throttle, 3)
    assert throttle.wait_us(HERE, "ada") == 0
    waits = []
    for _ in range(6):
        throttle.now_us += throttle.wait_us(HERE, "ada")
        fail(throttle, 1)
        waits.append(throttle.wait_us(HERE, "ada") // US_PER_S)
    assert waits == [1, 2, 4, 8, 10, 10]


def test_who_fails_waits_and_nobody_else_does() -> None:
    throttle = Throttle(1, 60 * US_PER_S)
    fail(throttle, 5)
    assert throttle.wait_us(HERE, "ada") > 0
    assert throttle.wait_us(THERE, "ada") == 0
    assert throttle.wait_us(HERE, "bob") == 0
    assert throttle.wait_us(HERE) == 0


def test_of_very_many_failures_the_address_waits_but_for_who_was_right_there() -> None:
    throttle = Throttle(3, 60 * US_PER_S, many=100)
    throttle.succeeded(HERE, "ada")
    for number in range(101):
        throttle.failed(HERE, f"user {number}")
    assert throttle.wait_us(HERE, "bob") > 0
    assert throttle.wait_us(HERE) > 0
    assert throttle.wait_us(THERE, "bob") == 0
    assert throttle.wait_us(HERE, "ada") == 0


def test_a_user_that_is_guessed_at_from_everywhere_waits_but_for_where_it_was_right() -> None:
    throttle = Throttle(3, 60 * US_PER_S, many=100)
    throttle.succeeded(THERE, "ada")
    for number in range(101):
        throttle.failed(f"address {number}", "ada")
    assert throttle.wait_us(HERE, "ada") > 0
    assert throttle.wait_us(THERE, "ada") == 0
    assert throttle.wait_us(THERE, "bob") == 0


def test_so_many_failures_a_minute_are_none() -> None:
    throttle = Throttle(3, 60 * US_PER_S, many=60)
    for number in range(300):
        throttle.now_us += US_PER_S
        throttle.failed(HERE, f"user {number}")
        assert throttle.wait_us(HERE, "bob") == 0
    for number in range(62):
        throttle.failed(HERE, f"user {number}")
    assert throttle.wait_us(HERE, "bob") > 0


def test_who_was_right_there_lately_is_looked_at_so_many_times_a_second() -> None:
    throttle = Throttle(1, 60 * US_PER_S, trust_us=10 * US_PER_S)
    assert not throttle.may_look(HERE, "ada")
    throttle.succeeded(HERE, "ada")
    fail(throttle, 5)
    assert throttle.wait_us(HERE, "ada") > 0
    looks = 0
    while throttle.may_look(HERE, "ada"):
        throttle.looked(HERE, "ada")
        looks += 1
    assert looks == LOOKS_PER_S
    throttle.now_us += US_PER_S // 10
    for _ in range(LOOKS_PER_S // 10):
        assert throttle.may_look(HERE, "ada")
        throttle.looked(HERE, "ada")
    assert not throttle.may_look(HERE, "ada")
    assert not throttle.may_look(THERE, "ada")
    throttle.now_us += 10 * US_PER_S
    assert not throttle.may_look(HERE, "ada"), "it was not lately"


def test_a_minute_without_failures_makes_up_for_all() -> None:
    throttle = Throttle(3, 10 * US_PER_S)
    fail(throttle, 5)
    throttle.now_us += throttle.wait_us(HERE, "ada") + FORGET_US + 1
    fail(throttle, 3)
    assert throttle.wait_us(HERE, "ada") == 0


def test_without_free_failures_nobody_waits() -> None:
    throttle = Throttle(0, 10 * US_PER_S)
    fail(throttle, 1000)
    assert throttle.wait_us(HERE, "ada") == 0
    assert throttle.known == {}


def test_an_attack_from_everywhere_costs_no_memory() -> None:
    throttle = Throttle(1, 10 * US_PER_S)
    for number in range(2 * REMEMBERED_MAX):
        fail(throttle, 1, f"address {number}", f"user {number}")
        throttle.succeeded(f"address {number}", "ada")
    assert len(throttle.known) <= REMEMBERED_MAX + 1
    assert len(throttle.trusted) <= REMEMBERED_MAX
