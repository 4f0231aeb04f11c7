"""The tree of topics: what a filter finds, and what removing leaves behind."""

from __future__ import annotations

import pytest

from forebay.routing.topic_tree import TopicTree

TOPICS = [b"a", b"a/b", b"a/b/c", b"a/", b"/a", b"/", b"b", b"$SYS", b"$SYS/x", b"$SYS/x/y", b"a/$x"]


@pytest.fixture
def tree() -> TopicTree:
    tree = TopicTree()
    for number, topic in enumerate(TOPICS):
        tree.set(topic, number)
    return tree


def found(tree: TopicTree, filter: bytes) -> list[bytes]:
    return sorted(TOPICS[number] for number in tree.match(filter))


@pytest.mark.parametrize(
    ("filter", "topics"),
    [
        (b"a", [b"a"]),
        (b"a/b", [b"a/b"]),
        (b"none", []),
        (b"a/none/c", []),
        (b"+", [b"a", b"b"]),
        (b"a/+", [b"a/", b"a/b", b"a/$x"]),
        (b"+/+", [b"a/", b"a/b", b"/a", b"/", b"a/$x"]),
        (b"+/b/+", [b"a/b/c"]),
        (b"a/#", [b"a", b"a/", b"a/b", b"a/b/c", b"a/$x"]),
        (b"a/b/c/#", [b"a/b/c"]),
        (b"+/#", [b"a", b"a/b", b"a/b/c", b"a/", b"/a", b"/", b"b", b"a/$x"]),
        (b"#", [b"a", b"a/b", b"a/b/c", b"a/", b"/a", b"/", b"b", b"a/$x"]),
        (b"$SYS/#", [b"$SYS", b"$SYS/x", b"$SYS/x/y"]),
        (b"$SYS/+", [b"$SYS/x"]),
        (b"$SYS/x/+", [b"$SYS/x/y"]),
        (b"/", [b"/"]),
        (b"/+", [b"/", b"/a"]),
    ],
)
def test_what_a_filter_finds(tree: TopicTree, filter: bytes, topics: list[bytes]) -> None:
    assert found(tree, filter) == sorted(topics)


def test_a_topic_has_one_number(tree: TopicTree) -> None:
    assert tree.size() == len(TOPICS)
    tree.set(b"a/b", -7)
    assert tree.size() == len(TOPICS)
    assert tree.get(b"a/b") == -7
    assert tree.match(b"a/b") == [-7]
    assert tree.get(b"none") is None
    assert tree.get(b"a/b/c/d") is None


def test_a_level_on_the_way_is_no_topic() -> None:
    tree = TopicTree()
    tree.set(b"a/b/c", 1)
    assert tree.get(b"a/b") is None
    assert not tree.remove(b"a/b")
    assert tree.match(b"a/+") == []


def test_removing_takes_the_nodes_that_lead_nowhere() -> None:
    tree = TopicTree()
    for topic in (b"a/b/c/d", b"a/b", b"x"):
        tree.set(topic, 1)
    assert tree.remove(b"a/b/c/d")
    assert not tree.remove(b"a/b/c/d")
    a = tree.root.child(b"a")
    assert a is not None
    b = a.child(b"b")
    assert b is not None and b.filled and b.children is None
    assert tree.remove(b"a/b")
    assert tree.remove(b"x")
    assert tree.is_empty() and tree.size() == 0


def test_depth_is_no_recursion() -> None:
    tree = TopicTree()
    deep = b"/".join([b"a"] * 5000)
    tree.set(deep, 1)
    assert tree.match(b"#") == [1]
    assert tree.match(b"/".join([b"+"] * 5000)) == [1]
    assert tree.match(deep + b"/#") == [1]
    assert tree.remove(deep)
    assert tree.is_empty()
