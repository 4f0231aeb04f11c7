"""The kinds of exchanges that may be declared."""

from __future__ import annotations

import pytest

from forebay.core.errors import PRECONDITION, RequestError
from forebay.routing.exchange import DIRECT, TOPIC, TopicExchange
from forebay.routing.hash_exchange import CONSISTENT_HASH, HashExchange
from forebay.routing.kinds import DELAYED, check_kind, make_exchange


@pytest.mark.parametrize("kind", [b"", b"x-magic", b"Direct"])
def test_an_unknown_kind_is_named(kind: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        check_kind(kind)
    assert (caught.value.reason, caught.value.text) == (PRECONDITION, f"unknown exchange type '{kind.decode()}'")


def test_a_delayed_exchange_routes_like_its_inner_kind() -> None:
    exchange = make_exchange(DELAYED, b"x", True, False, False, {"x-delayed-type": "topic"})
    assert isinstance(exchange, TopicExchange)
    assert exchange.kind == DELAYED
    exchange.bind(1, b"a.*", {})
    assert exchange.route(b"a.b", []) == [1]
    assert isinstance(
        make_exchange(DELAYED, b"x", True, False, False, {"x-delayed-type": CONSISTENT_HASH.decode()}), HashExchange
    )


@pytest.mark.parametrize("inner", [None, 7, "", "x-magic", "x-delayed-message"])
def test_a_delayed_exchange_needs_an_inner_kind(inner: object) -> None:
    with pytest.raises(RequestError) as caught:
        make_exchange(DELAYED, b"x", True, False, False, {} if inner is None else {"x-delayed-type": inner})
    assert caught.value.reason == PRECONDITION
    assert caught.value.text == "Invalid argument, 'x-delayed-type' must be an existing exchange type"


def test_a_delayed_exchange_keeps_its_inner_kind() -> None:
    exchange = make_exchange(DELAYED, b"x", True, False, False, {"x-delayed-type": "topic"})
    exchange.check_equivalent(b"/", DELAYED, True, False, False, {"x-delayed-type": TOPIC.decode()})
    with pytest.raises(RequestError, match="inequivalent arg 'x-delayed-type'"):
        exchange.check_equivalent(b"/", DELAYED, True, False, False, {"x-delayed-type": DIRECT.decode()})
