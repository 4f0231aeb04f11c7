"""Exchanges: which destinations a message goes to, what is one binding, and what is refused."""

import pytest

from forebay.core.errors import PRECONDITION, RequestError
from forebay.routing.exchange import DIRECT, FANOUT, HEADERS, TOPIC, Exchange, TopicExchange, frozen
from forebay.routing.kinds import make_exchange

KINDS = [DIRECT, FANOUT, TOPIC, HEADERS]


def exchange(kind: bytes) -> Exchange:
    return make_exchange(kind, b"x", True, False, False, {})


def test_make_exchange_keeps_what_it_was_given() -> None:
    for kind in KINDS:
        made = make_exchange(kind, b"name", False, True, True, {"alternate-exchange": "other"})
        assert (made.name, made.kind, made.durable, made.auto_delete, made.internal) == (
            b"name",
            kind,
            False,
            True,
            True,
        )
        assert made.arguments == {"alternate-exchange": "other"}
        assert made.by_content is (kind == HEADERS)
        assert made.is_unused()


def test_unknown_kind_is_named() -> None:
    with pytest.raises(RequestError, match="unknown exchange type 'x-magic'") as caught:
        make_exchange(b"x-magic", b"x", True, False, False, {})
    assert caught.value.reason == PRECONDITION


@pytest.mark.parametrize("kind", KINDS)
def test_binding_is_idempotent_and_arguments_belong_to_it(kind: bytes) -> None:
    x = exchange(kind)
    assert x.bind(1, b"k", {})
    assert not x.bind(1, b"k", {})
    assert x.bind(1, b"k", {"note": "other"})
    assert not x.bind(1, b"k", {"note": "other"})
    assert x.has(1, b"k", {"note": "other"})
    assert not x.has(1, b"k", {"note": "third"})
    assert not x.has(2, b"k", {})
    assert x.binding_count == 2
    assert x.route(b"k", [("note", "other")]) == [1]
    assert not x.unbind(1, b"k", {"note": "third"})
    assert not x.unbind(2, b"k", {})
    assert x.unbind(1, b"k", {})
    assert x.route(b"k", [("note", "other")]) == [1]
    assert x.unbind(1, b"k", {"note": "other"})
    assert x.route(b"k", [("note", "other")]) == []
    assert not x.unbind(1, b"k", {})
    assert x.is_unused()
    assert x.binding_count == 0


@pytest.mark.parametrize("kind", KINDS)
def test_destinations_in_the_order_of_binding(kind: bytes) -> None:
    x = exchange(kind)
    for destination in (5, 3, 9, 1):
        x.bind(destination, b"k", {})
    assert x.route(b"k", []) == [5, 3, 9, 1]
    assert x.unbind(3, b"k", {})
    x.bind(3, b"k", {})
    assert x.route(b"k", []) == [5, 9, 1, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_remove_destination(kind: bytes) -> None:
    x = exchange(kind)
    x.bind(1, b"k", {})
    x.bind(1, b"l", {})
    x.bind(2, b"k", {})
    x.bind(1, b"k", {"a": 1})
    assert x.remove_destination(1) == 3
    assert x.remove_destination(1) == 0
    assert x.route(b"k", []) == [2]
    assert not x.is_unused()
    assert [(b.destination, b.routing_key, b.arguments) for b in x.list_bindings()] == [(2, b"k", {})]
    assert x.remove_destination(2) == 1
    assert x.is_unused()
    assert x.route(b"k", []) == []


def test_direct() -> None:
    x = exchange(DIRECT)
    x.bind(1, b"a", {})
    x.bind(2, b"a", {})
    x.bind(2, b"b", {})
    assert x.route(b"a", []) == [1, 2]
    assert x.route(b"b", []) == [2]
    assert x.route(b"c", []) == []
    assert x.route(b"a.*", []) == []


def test_fanout_ignores_the_key() -> None:
    x = exchange(FANOUT)
    x.bind(2, b"a", {})
    x.bind(1, b"b", {})
    x.bind(2, b"c", {})
    assert x.route(b"anything", []) == [2, 1]


def test_topic_takes_amqp_patterns() -> None:
    x = exchange(TOPIC)
    patterns = ["a.b.c", "a.*.c", "a.#.b", "a.b.b.c", "#", "#.#", "b.b.c", "a.b.b", "*.*.*", "*.c.*", "vodka.#", ""]
    for number, pattern in enumerate(patterns):
        x.bind(number, pattern.encode(), {})

    def names(key: str) -> list[str]:
        return [patterns[number] for number in x.route(key.encode(), [])]

    assert names("a.b.c") == ["a.b.c", "a.*.c", "#", "#.#", "*.*.*"]
    assert names("a.b") == ["a.#.b", "#", "#.#"]
    assert names("a.b.b") == ["a.#.b", "#", "#.#", "a.b.b", "*.*.*"]
    assert names("") == ["#", "#.#", ""]
    assert names("vodka") == ["#", "#.#", "vodka.#"]
    assert names("vodka.gin") == ["#", "#.#", "vodka.#"]
    assert names("a.c.a.b") == ["a.#.b", "#", "#.#"]
    assert names("$SYS.x.y") == ["#", "#.#", "*.*.*"]


def test_topic_takes_mqtt_topics_too() -> None:
    x = make_exchange(TOPIC, b"amq.topic", True, False, False, {})
    assert isinstance(x, TopicExchange)
    x.bind(1, b"sensors.*.temp", {})
    x.bind(2, b"#", {})
    assert x.route(b"sensors.4.temp", []) == [1, 2]
    assert x.route_topic(b"sensors/4/temp", True) == [1, 2]
    assert x.route_topic(b"$SYS/4/temp", True) == []
    assert x.route_topic(b"$SYS/4/temp", False) == [2]
    # A '/' of an AMQP key is an ordinary character, and a '.' of an MQTT topic is one.
    x.bind(3, b"a/b.c", {})
    assert x.route(b"a/b.c", []) == [2, 3]
    assert x.route_topic(b"a.b/c", True) == [2, 3]
    assert x.route_topic(b"a/b/c", True) == [2]


ORDER = {"type": "order", "urgent": True, "x-note": "n"}


@pytest.mark.parametrize(
    ("mode", "headers", "expected"),
    [
        (None, [("type", "order"), ("urgent", True)], True),
        ("all", [("type", "order"), ("urgent", True)], True),
        ("all", [("type", "order"), ("urgent", True), ("more", 1)], True),
        ("all", [("type", "order")], False),
        ("all", [("type", "order"), ("urgent", 1)], False),
        ("all", [], False),
        ("all-with-x", [("type", "order"), ("urgent", True)], False),
        ("all-with-x", [("type", "order"), ("urgent", True), ("x-note", "n")], True),
        ("any", [("type", "order")], True),
        ("any", [("urgent", True)], True),
        ("any", [("urgent", False)], False),
        ("any", [("x-note", "n")], False),
        ("any", [], False),
        ("any-with-x", [("x-note", "n")], True),
        ("any-with-x", [("x-note", "m")], False),
    ],
)
def test_headers_modes(mode: str | None, headers: list[tuple[str, object]], expected: bool) -> None:
    x = exchange(HEADERS)
    arguments: dict[str, object] = dict(ORDER)
    if mode is not None:
        arguments["x-match"] = mode
    x.bind(4, b"ignored", arguments)
    assert x.route(b"", headers) == ([4] if expected else [])


@pytest.mark.parametrize("mode", ["all", "any"])
@pytest.mark.parametrize(
    ("asked", "given", "expected"),
    [
        (1, 1, True),
        (1, True, False),
        (1, 1.0, False),
        (1, "1", False),
        ("a", b"a", False),
        (b"a", b"a", True),
        (0.0, -0.0, True),
        (None, "whatever", True),
        (None, None, True),
        ("a", None, False),
        ([1, "a"], [1, "a"], True),
        ([1, "a"], ["a", 1], False),
        ([1], [True], False),
        ({"a": 1, "b": [None]}, {"b": [None], "a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
    ],
)
def test_headers_compare_with_their_type(mode: str, asked: object, given: object, expected: bool) -> None:
    x = exchange(HEADERS)
    x.bind(1, b"", {"x-match": mode, "h": asked})
    assert x.route(b"", [("h", given)]) == ([1] if expected else [])
    assert x.route(b"", [("other", given)]) == []


def test_headers_that_ask_for_nothing() -> None:
    x = exchange(HEADERS)
    x.bind(1, b"", {})
    x.bind(2, b"", {"x-match": "any"})
    x.bind(3, b"", {"x-ignored": 1})
    assert x.route(b"", []) == [1, 3]
    assert x.route(b"", [("a", 1)]) == [1, 3]


def test_headers_first_of_a_repeated_name_counts() -> None:
    x = exchange(HEADERS)
    x.bind(1, b"", {"a": 1})
    assert x.route(b"", [("a", 1), ("a", 2)]) == [1]
    assert x.route(b"", [("a", 2), ("a", 1)]) == []


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("some", 'Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x'),
        (7, "Invalid x-match field type signedint (value 7); expected longstr"),
    ],
)
def test_headers_refuse_an_unknown_mode_and_change_nothing(value: object, why: str) -> None:
    x = exchange(HEADERS)
    with pytest.raises(RequestError) as caught:
        x.bind(1, b"", {"x-match": value, "a": 1})
    assert caught.value.reason == PRECONDITION
    assert caught.value.text == why
    assert x.is_unused()
    assert x.binding_count == 0
    assert x.route(b"", [("a", 1)]) == []


def test_topic_refuses_too_deep_a_pattern_and_changes_nothing() -> None:
    x = exchange(TOPIC)
    with pytest.raises(RequestError, match="levels, the limit is"):
        x.bind(1, b"." * 300, {})
    assert x.is_unused()
    x.bind(1, b"#", {})
    assert x.route(b"a", []) == [1]


def test_arguments_nested_without_end_are_refused() -> None:
    value: object = 1
    for _ in range(200):
        value = [value]
    with pytest.raises(RequestError, match="nested deeper than 128"):
        frozen(value)


def test_redeclaration_must_be_equivalent() -> None:
    x = make_exchange(TOPIC, b"x", True, False, False, {"note": 1})
    x.check_equivalent(b"/", TOPIC, True, False, False, {"note": 2})  # only the alternate exchange is compared
    cases: list[tuple[bytes, bool, bool, bool, dict[str, object], str]] = [
        (
            DIRECT,
            True,
            False,
            False,
            {},
            "'type' for exchange 'x' in vhost '/': received 'direct' but current is 'topic'",
        ),
        (
            TOPIC,
            False,
            False,
            False,
            {},
            "'durable' for exchange 'x' in vhost '/': received 'false' but current is 'true'",
        ),
        (TOPIC, True, True, False, {}, "'auto_delete' for exchange 'x' in vhost '/': received 'true' but"),
        (TOPIC, True, False, True, {}, "'internal' for exchange 'x' in vhost '/': received 'true' but"),
        (
            TOPIC,
            True,
            False,
            False,
            {"alternate-exchange": "a"},
            "'alternate-exchange' for exchange 'x' in vhost '/': received the value 'a' of type 'longstr' but",
        ),
    ]
    for kind, durable, auto_delete, internal, arguments, why in cases:
        with pytest.raises(RequestError) as caught:
            x.check_equivalent(b"/", kind, durable, auto_delete, internal, arguments)
        assert caught.value.reason == PRECONDITION
        assert caught.value.text.startswith("inequivalent arg " + why)
