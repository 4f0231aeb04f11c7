"""The table of a vhost's bindings: listing, and what goes when a queue or an exchange goes."""

import pytest

from forebay.core.errors import NOT_FOUND, RequestError
from forebay.routing.bindings import Bindings
from forebay.routing.exchange import DIRECT, FANOUT, HEADERS, TOPIC, Binding
from forebay.routing.kinds import make_exchange


def table() -> Bindings:
    bindings = Bindings(b"/")
    bindings.add_exchange(make_exchange(DIRECT, b"d", True, False, False, {}))
    bindings.add_exchange(make_exchange(TOPIC, b"t", True, True, False, {}))
    bindings.add_exchange(make_exchange(FANOUT, b"f", True, True, False, {}))
    return bindings


def seen(found: list[Binding]) -> list[tuple[bytes, int, bytes]]:
    return [(binding.exchange, binding.destination, binding.routing_key) for binding in found]


def test_lists() -> None:
    bindings = table()
    assert bindings.bind(b"t", 1, b"a.#", {})
    assert bindings.bind(b"d", 2, b"k", {})
    assert bindings.bind(b"d", 1, b"k", {"a": 1})
    assert not bindings.bind(b"d", 1, b"k", {"a": 1})
    assert seen(bindings.list_all()) == [(b"d", 2, b"k"), (b"d", 1, b"k"), (b"t", 1, b"a.#")]
    assert seen(bindings.list_exchange(b"t")) == [(b"t", 1, b"a.#")]
    assert seen(bindings.list_destination(1)) == [(b"t", 1, b"a.#"), (b"d", 1, b"k")]
    assert bindings.list_destination(3) == []
    assert bindings.list_destination(1)[1].arguments == {"a": 1}
    assert bindings.has(b"d", 1, b"k", {"a": 1})
    assert not bindings.has(b"d", 1, b"k", {})


def test_missing_exchange_is_named() -> None:
    bindings = table()
    for action in (
        lambda: bindings.bind(b"none", 1, b"", {}),
        lambda: bindings.unbind(b"none", 1, b"", {}),
        lambda: bindings.exchange(b"none"),
        lambda: bindings.list_exchange(b"none"),
    ):
        with pytest.raises(RequestError, match="no exchange 'none' in vhost '/'") as caught:
            action()
        assert caught.value.reason == NOT_FOUND
    assert bindings.remove_exchange(b"none") == []


def test_removing_a_destination_names_the_exchanges_to_delete() -> None:
    bindings = table()
    bindings.bind(b"d", 1, b"a", {})
    bindings.bind(b"d", 1, b"b", {})
    bindings.bind(b"t", 1, b"#", {})
    bindings.bind(b"t", 2, b"#", {})
    bindings.bind(b"f", 1, b"", {})
    assert bindings.remove_destination(1) == [b"f"]  # d is not auto-delete, t is still bound
    assert seen(bindings.list_all()) == [(b"t", 2, b"#")]
    assert bindings.remove_destination(1) == []
    assert bindings.remove_destination(2) == [b"t"]
    assert bindings.places == {}


def test_unbinding_names_the_exchange_to_delete() -> None:
    bindings = table()
    bindings.bind(b"t", 1, b"a", {})
    bindings.bind(b"t", 1, b"b", {})
    assert bindings.unbind(b"t", 1, b"c", {}) == []
    assert bindings.unbind(b"t", 1, b"a", {}) == []
    assert seen(bindings.list_destination(1)) == [(b"t", 1, b"b")]
    assert bindings.unbind(b"t", 1, b"b", {}) == [b"t"]
    assert bindings.places == {}
    bindings.bind(b"d", 1, b"a", {})
    assert bindings.unbind(b"d", 1, b"a", {}) == []


def test_an_auto_delete_exchange_that_was_never_bound_stays() -> None:
    bindings = table()
    assert bindings.unbind(b"t", 1, b"a", {}) == []
    assert bindings.remove_destination(1) == []


def test_removing_an_exchange_takes_its_bindings_along() -> None:
    bindings = table()
    bindings.bind(b"d", 1, b"a", {})
    bindings.bind(b"d", 2, b"a", {"x": [1]})
    bindings.bind(b"f", 2, b"", {})
    assert bindings.remove_exchange(b"d") == []
    assert seen(bindings.list_all()) == [(b"f", 2, b"")]
    assert bindings.list_destination(1) == []
    with pytest.raises(RequestError):
        bindings.exchange(b"d")
    bindings.add_exchange(make_exchange(HEADERS, b"d", True, False, False, {}))
    assert bindings.list_exchange(b"d") == []


def test_a_refused_binding_leaves_no_trace() -> None:
    bindings = table()
    bindings.add_exchange(make_exchange(HEADERS, b"h", True, False, False, {}))
    with pytest.raises(RequestError):
        bindings.bind(b"h", 1, b"", {"x-match": "never"})
    assert bindings.list_all() == []
    assert bindings.places == {}


def test_a_binding_may_lead_to_an_exchange() -> None:
    bindings = table()
    number = bindings.exchange(b"t").number
    assert number < 0
    assert bindings.by_number[number] is bindings.exchange(b"t")
    assert bindings.bind(b"d", number, b"k", {})
    assert bindings.exchange(b"d").route(b"k", []) == [number]
    assert seen(bindings.list_destination(number)) == [(b"d", number, b"k")]
    assert bindings.remove_exchange(b"t") == []
    assert bindings.list_all() == []
    assert number not in bindings.by_number
    bindings.add_exchange(make_exchange(TOPIC, b"t", True, False, False, {}))
    assert bindings.exchange(b"t").number != number


def test_removing_an_exchange_names_the_auto_delete_exchanges_that_led_to_it_alone() -> None:
    bindings = table()
    end = bindings.exchange(b"d").number
    bindings.bind(b"t", end, b"#", {})
    bindings.bind(b"f", end, b"", {})
    bindings.bind(b"f", 1, b"", {})
    assert bindings.remove_exchange(b"d") == [b"t"]
    assert seen(bindings.list_all()) == [(b"f", 1, b"")]


def test_an_exchange_bound_to_itself_goes_like_any_other() -> None:
    bindings = table()
    bindings.bind(b"t", bindings.exchange(b"t").number, b"#", {})
    assert bindings.remove_exchange(b"t") == []
    assert bindings.places == {}
