"""Consistent hashing: one destination a message, by weight, and the same one as long as it can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from forebay.core.errors import PRECONDITION, RequestError
from forebay.core.message import Properties
from forebay.routing.hash_exchange import CONSISTENT_HASH, WEIGHT_MAX, WEIGHTS_MAX, HashExchange
from forebay.routing.kinds import make_exchange

VALUES = [b"value-%d" % number for number in range(2000)]


def hashing(names: Sequence[str], weight: bytes = b"1", arguments: dict[str, object] | None = None) -> HashExchange:
    """An exchange with one destination a name, numbered from 1 on."""
    exchange = make_exchange(CONSISTENT_HASH, b"x", True, False, False, arguments or {})
    assert isinstance(exchange, HashExchange)
    for number, name in enumerate(names, 1):
        exchange.bind(number, weight, {}, name.encode())
    return exchange


def test_without_bindings_it_leads_nowhere() -> None:
    assert hashing([]).route(b"key", []) == []


def test_a_key_always_goes_to_the_one_destination() -> None:
    exchange = hashing(["a", "b", "c", "d"])
    for value in VALUES[:100]:
        assert len(exchange.route(value, [])) == 1
        assert exchange.route(value, []) == exchange.route(value, [])


def test_where_a_key_goes_is_the_same_in_every_process() -> None:
    """Figures once computed: if they change, keys move at an upgrade."""
    exchange = hashing(["alpha", "beta", "gamma", "delta"])
    assert [exchange.route(b"key-%d" % number, [])[0] for number in range(12)] == [4, 2, 3, 1, 1, 1, 2, 4, 4, 3, 1, 2]


def test_neither_order_nor_numbers_matter() -> None:
    names = ["a", "b", "c", "d", "e"]
    one = hashing(names)
    other = make_exchange(CONSISTENT_HASH, b"y", True, False, False, {})
    for name in reversed(names):
        other.bind(100 + names.index(name), b"1", {}, name.encode())
    for value in VALUES[:200]:
        assert one.route(value, [])[0] + 99 == other.route(value, [])[0]


def test_shares_are_even() -> None:
    exchange = hashing([f"q{number}" for number in range(10)])
    shares = Counter(exchange.route(value, [])[0] for value in VALUES)
    assert len(shares) == 10
    assert max(shares.values()) < 1.5 * len(VALUES) / 10
    assert min(shares.values()) > 0.5 * len(VALUES) / 10


def test_the_binding_key_is_the_weight() -> None:
    exchange = hashing(["a", "b"])
    exchange.bind(3, b"2", {}, b"c")
    shares = Counter(exchange.route(value, [])[0] for value in VALUES)
    assert 0.4 < shares[3] / len(VALUES) < 0.6


def test_a_destination_that_comes_takes_from_all_and_gives_back_when_it_goes() -> None:
    names = [f"q{number}" for number in range(9)]
    exchange = hashing(names)
    before = {value: exchange.route(value, []) for value in VALUES}
    exchange.bind(10, b"1", {}, b"q9")
    moved = {value: before[value][0] for value in VALUES if exchange.route(value, []) != before[value]}
    assert all(exchange.route(value, []) == [10] for value in moved)
    assert 0.05 < len(moved) / len(VALUES) < 0.2
    assert len(set(moved.values())) == 9
    exchange.unbind(10, b"1", {})
    assert {value: exchange.route(value, []) for value in VALUES} == before


def test_a_greater_weight_only_takes_more() -> None:
    exchange = hashing(["a", "b", "c"])
    mine = {value for value in VALUES if exchange.route(value, []) == [1]}
    exchange.unbind(1, b"1", {})
    exchange.bind(1, b"3", {}, b"a")
    assert mine < {value for value in VALUES if exchange.route(value, []) == [1]}


def test_an_exchange_and_a_queue_of_one_name_share() -> None:
    exchange = make_exchange(CONSISTENT_HASH, b"x", True, False, False, {})
    exchange.bind(1, b"1", {}, b"same")
    exchange.bind(-7, b"1", {}, b"same")
    assert {exchange.route(value, [])[0] for value in VALUES} == {1, -7}


def test_the_ring_grows_and_shrinks_with_its_bindings() -> None:
    exchange = hashing([f"q{number}" for number in range(300)])
    assert exchange.ring.count == 9600
    assert len(exchange.ring.firsts) == 16384
    for number in range(1, 301):
        exchange.unbind(number, b"1", {})
    assert (exchange.ring.count, len(exchange.ring.firsts), exchange.weights) == (0, 16, 0)
    assert exchange.ring.firsts == [None] * 16


def test_a_header_is_hashed_where_the_argument_names_one() -> None:
    exchange = hashing(["a", "b", "c", "d"], arguments={"hash-header": "account"})
    assert exchange.by_content
    by_text = {exchange.route(b"any", [("account", f"n{number}")])[0] for number in range(50)}
    by_number = {exchange.route(b"any", [("account", number)])[0] for number in range(50)}
    assert by_text == by_number == {1, 2, 3, 4}
    assert exchange.route(b"k", [("account", "n1")]) == exchange.route(b"other", [("x", 1), ("account", "n1")])
    assert exchange.route(b"k", []) == exchange.route(b"other", [("x", 1)])


@pytest.mark.parametrize("name", ["message_id", "correlation_id", "timestamp"])
def test_a_property_is_hashed_where_the_argument_names_one(name: str) -> None:
    exchange = hashing(["a", "b", "c", "d"], arguments={"hash-property": name})
    assert exchange.by_content
    seen = set()
    for number in range(50):
        content = Properties()
        content.message_id = f"m{number}"
        content.correlation_id = b"c%d" % number
        content.timestamp_s = 1_700_000_000 + number
        (destination,) = exchange.pick(exchange.value_of(b"k", content))
        assert exchange.pick(exchange.value_of(b"other", content)) == [destination]
        seen.add(destination)
    assert seen == {1, 2, 3, 4}
    assert len(exchange.pick(exchange.value_of(b"k", Properties()))) == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"hash-header": "a", "hash-property": "message_id"}, "hash-header and hash-property are mutually exclusive"),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        ({"hash-property": 7}, "hash-property: 7 is not a text"),
        ({"hash-header": True}, "hash-header: True is not a text"),
    ],
)
def test_arguments_that_it_refuses(arguments: dict[str, object], why: str) -> None:
    with pytest.raises(RequestError) as caught:
        hashing([], arguments=arguments)
    assert (caught.value.reason, caught.value.text) == (PRECONDITION, why)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (b"heavy", 'The binding key must be an integer: <<"heavy">>'),
        (b"", "The binding key must be an integer: <<>>"),
        (b"1.5", 'The binding key must be an integer: <<"1.5">>'),
        (b" 1", 'The binding key must be an integer: <<" 1">>'),
        ("²".encode(), 'The binding key must be an integer: <<"²">>'),
        (b"0", "The binding key must be greater than 0"),
        (b"-3", "The binding key must be greater than 0"),
        (b"10001", f"The binding key must be at most {WEIGHT_MAX}: 10001"),
    ],
)
def test_binding_keys_that_it_refuses_and_nothing_changes(key: bytes, why: str) -> None:
    exchange = hashing(["a"])
    with pytest.raises(RequestError) as caught:
        exchange.bind(2, key, {}, b"b")
    assert (caught.value.reason, caught.value.text) == (PRECONDITION, why)
    assert (exchange.binding_count, exchange.ring.count) == (1, 32)


def test_the_weights_of_an_exchange_have_a_limit() -> None:
    exchange = hashing([])
    exchange.weights = WEIGHTS_MAX - 1
    assert exchange.bind(1, b"1", {}, b"a")
    with pytest.raises(RequestError, match=f"come to more than {WEIGHTS_MAX}"):
        exchange.bind(2, b"1", {}, b"b")


def test_what_is_hashed_may_not_change_by_a_redeclaration() -> None:
    exchange = hashing([], arguments={"hash-header": "a"})
    exchange.check_equivalent(b"/", CONSISTENT_HASH, True, False, False, {"hash-header": "a", "note": 1})
    with pytest.raises(RequestError, match=r"inequivalent arg 'hash-header'.*received 'b' but current is 'a'"):
        exchange.check_equivalent(b"/", CONSISTENT_HASH, True, False, False, {"hash-header": "b"})
