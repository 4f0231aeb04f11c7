"""Topic patterns: what matches, in which order, and what is refused."""

import pytest

from forebay.core.errors import INVALID, RequestError
from forebay.routing.topic_trie import (
    LEVELS_MAX,
    TopicTrie,
    check_filter,
    check_topic,
    matches,
    swap_key,
)

# pattern, topic, whether it matches
CASES = [
    (b"a/b", b"a/b", True),
    (b"a/b", b"a/c", False),
    (b"a/b", b"a", False),
    (b"a", b"a/b", False),
    (b"a", b"ab", False),
    (b"ab", b"a", False),
    (b"+", b"a", True),
    (b"+", b"a/b", False),
    (b"+/+", b"a/b", True),
    (b"+/+", b"/b", True),
    (b"+", b"", False),
    (b"/+", b"/a", True),
    (b"+/", b"a/", True),
    (b"+/", b"a", False),
    (b"a/+", b"a/", True),
    (b"a/+/c", b"a/b/c", True),
    (b"a/+/c", b"a//c", True),
    (b"a/+/c", b"a/b/b/c", False),
    (b"#", b"a/b/c", True),
    (b"#", b"/", True),
    (b"#", b"", True),
    (b"", b"", True),
    (b"", b"a", False),
    (b"a", b"", False),
    (b"a/#", b"a", True),
    (b"a/#", b"a/", True),
    (b"a/#", b"a/b/c", True),
    (b"a/#", b"ab", False),
    (b"a/#/z", b"a/z", True),
    (b"a/#/z", b"a/b/c/z", True),
    (b"a/#/z", b"a/z/b", False),
    (b"#/z", b"z", True),
    (b"#/z", b"a/z/b/z", True),
    (b"#/a/#", b"b/c/a/d", True),
    (b"#/a/#", b"b/c/d", False),
    (b"#/#", b"", True),
    (b"#/#", b"a", True),
    (b"#/+", b"", False),
    (b"#/+", b"a", True),
    (b"+/#", b"a", True),
    (b"+/#", b"", False),
    (b"a/#/b/#/c", b"a/c/b/b/c", True),
    (b"a/#/b/#/c", b"a/c/c", False),
    (b"#/a/b", b"a/a/b", True),
    (b"#/a/b/#/c", b"a/b/a/b/c", True),
    (b"$SYS/#", b"$SYS/uptime", True),
    (b"a+/b", b"a+/b", True),
    (b"a+/b", b"ax/b", False),
    ("größe/+".encode(), "größe/ß".encode(), True),
]


@pytest.mark.parametrize(("pattern", "topic", "expected"), CASES)
def test_one_pattern(pattern: bytes, topic: bytes, expected: bool) -> None:
    assert matches(pattern, topic) is expected
    trie = TopicTrie()
    trie.add(pattern, 7)
    assert trie.match(topic, False) == ([7] if expected else [])


@pytest.mark.parametrize(
    ("pattern", "topic", "expected"),
    [
        (b"#", b"$SYS/uptime", False),
        (b"+/uptime", b"$SYS/uptime", False),
        (b"#/uptime", b"$SYS/uptime", False),
        (b"+", b"$SYS", False),
        (b"#/$SYS", b"$SYS", False),
        (b"$SYS/#", b"$SYS/uptime", True),
        (b"$SYS/#", b"$SYS", True),
        (b"$SYS/+", b"$SYS/uptime", True),
        (b"#", b"a/$SYS", True),
        (b"+/$SYS", b"a/$SYS", True),
    ],
)
def test_dollar_rule(pattern: bytes, topic: bytes, expected: bool) -> None:
    trie = TopicTrie()
    trie.add(pattern, 1)
    assert trie.match(topic, True) == ([1] if expected else [])
    assert trie.match(topic, False) == [1]


def test_destinations_are_distinct_and_in_binding_order() -> None:
    trie = TopicTrie()
    trie.add(b"a/#", 30)
    trie.add(b"a/b", 10)
    trie.add(b"#", 20)
    trie.add(b"a/b", 30)
    trie.add(b"+/b", 10)
    assert trie.match(b"a/b", True) == [30, 10, 20]
    assert trie.match(b"a/c", True) == [30, 20]
    assert trie.match(b"c/b", True) == [20, 10]
    assert trie.remove(b"a/#", 30)
    assert trie.match(b"a/b", True) == [10, 20, 30]


def test_binding_twice_is_once() -> None:
    trie = TopicTrie()
    trie.add(b"a/+", 1)
    trie.add(b"a/+", 2)
    trie.add(b"a/+", 1)
    assert trie.match(b"a/b", True) == [1, 2]
    assert trie.remove(b"a/+", 1)
    assert not trie.remove(b"a/+", 1)
    assert trie.match(b"a/b", True) == [2]


def test_removing_what_is_not_there() -> None:
    trie = TopicTrie()
    trie.add(b"a/b/c", 1)
    assert not trie.remove(b"a/b", 1)
    assert not trie.remove(b"a/b/c", 2)
    assert not trie.remove(b"a/b/c/d", 1)
    assert not trie.remove(b"#", 1)
    assert trie.match(b"a/b/c", True) == [1]


def test_empty_nodes_go_and_shared_ones_stay() -> None:
    trie = TopicTrie()
    trie.add(b"a/#/c", 1)
    trie.add(b"a", 2)
    trie.add(b"a/+", 3)
    assert trie.remove(b"a/#/c", 1)
    assert trie.root.children[b"a"].hash is None
    assert trie.match(b"a", True) == [2]
    assert trie.remove(b"a", 2)
    assert trie.match(b"a/x", True) == [3]
    assert trie.remove(b"a/+", 3)
    assert trie.is_empty()


def test_many_hashes_do_not_explode() -> None:
    pattern = b"/".join([b"#/a"] * 100) + b"/b"
    topic = b"/".join([b"a"] * 250)
    trie = TopicTrie()
    trie.add(pattern, 1)
    trie.add(b"/".join([b"#/+"] * 100), 2)
    assert trie.match(topic, True) == [2]
    assert trie.match(topic + b"/b", True) == [1, 2]
    assert not matches(pattern, topic)
    assert matches(pattern, topic + b"/b")


def test_too_many_levels_are_refused_and_leave_the_trie_usable() -> None:
    trie = TopicTrie()
    trie.add(b"#", 1)
    deep = b"/" * LEVELS_MAX
    with pytest.raises(RequestError, match=f"has {LEVELS_MAX + 1} levels, the limit is {LEVELS_MAX}"):
        trie.add(deep, 2)
    with pytest.raises(RequestError):
        trie.match(deep, True)
    assert trie.match(deep[1:], True) == [1]
    assert trie.remove(b"#", 1)
    assert trie.is_empty()


@pytest.mark.parametrize(
    "good", [b"a", b"/", b"//", b"+", b"#", b"a/#", b"+/+/#", b"/#", b"$SYS/#", b"$queue/q/+", "é/ü".encode(), b"a b"]
)
def test_good_filters(good: bytes) -> None:
    check_filter(good)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"", "topic filter '' is empty"),
        (b"a#", "topic filter 'a#': '#' must be the last level and stand alone in it"),
        (b"a/#/b", "topic filter 'a/#/b': '#' must be the last level"),
        (b"##", "topic filter '##': '#' must"),
        (b"#/", "topic filter '#/': '#' must"),
        (b"a+", "topic filter 'a+': '+' must stand alone in its level"),
        (b"a/++", "topic filter 'a/++': '+' must"),
        (b"a\0b", "contains the null character"),
        (b"a/\xff", r"topic filter 'a/\xff' is not UTF-8"),
        (b"\xed\xa0\x80", "is not UTF-8"),
        (b"a" * 65536, "has 65536 octets, the limit is 65535"),
        (b"/" * LEVELS_MAX, "levels, the limit is"),
    ],
)
def test_bad_filters(bad: bytes, why: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_filter(bad)
    assert caught.value.reason == INVALID
    assert why in caught.value.text
    assert len(caught.value.text) < 400


@pytest.mark.parametrize("good", [b"a", b"/", b"a/b/c", b"$SYS/x", b"$queue/flights/UA/EWR", b" "])
def test_good_topics(good: bytes) -> None:
    check_topic(good)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"", "topic '' is empty"),
        (b"a/+", "topic 'a/+' contains a wildcard"),
        (b"#", "topic '#' contains a wildcard"),
        (b"a#b", "contains a wildcard"),
        (b"a\0", "contains the null character"),
        (b"\xc0\x80", "is not UTF-8"),
    ],
)
def test_bad_topics(bad: bytes, why: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_topic(bad)
    assert caught.value.reason == INVALID
    assert why in caught.value.text


def test_swap_key() -> None:
    assert swap_key(b"a.*.#") == b"a/+/#"
    assert swap_key(b"a/b+c.d*e") == b"a.b*c/d+e"
    every = bytes(range(256))
    assert swap_key(swap_key(every)) == every
