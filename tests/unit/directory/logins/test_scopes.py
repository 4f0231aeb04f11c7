"""Scopes of tokens, as RabbitMQ writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.directory.logins.authorizer import EXCHANGE, QUEUE
from forebay.directory.logins.scopes import ScopeAuthorizer, matches, parse_scopes


def authorizer(*words: str) -> ScopeAuthorizer:
    return ScopeAuthorizer(parse_scopes(words, "")[0])


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [
        ("*", "", True),
        ("*", "any/thing", True),
        ("%2F", "/", True),
        ("a*", "a", True),
        ("a*c", "abc", True),
        ("a*c", "ab", False),
        ("*b*", "abc", True),
        ("a.c", "abc", False),
        ("%2A", "*", True),
        ("%2A", "x", False),
        ("a%2A*", "a*b", True),
        ("", "", True),
        ("", "x", False),
    ],
)
def test_a_pattern_matches_names(pattern: str, name: str, is_match: bool) -> None:
    assert matches(pattern, name) is is_match


def test_scopes_say_who_may_what() -> None:
    mine = authorizer("read:%2F/orders", "write:sales/shop.*", "write:*/amq.topic/a.*", "configure:sales/*")
    assert mine.may_enter("/") and mine.may_enter("sales")
    assert mine.may("/", "read", QUEUE, "orders")
    assert not mine.may("/", "read", QUEUE, "orders2")
    assert not mine.may("sales", "read", QUEUE, "orders")
    assert mine.may("sales", "write", EXCHANGE, "shop.eu")
    assert mine.may_topic("x", "write", "amq.topic", "a.b")
    assert not mine.may_topic("x", "write", "amq.topic", "b")
    assert mine.may_topic("sales", "write", "shop.eu", "any"), "a scope without a routing key is for all"
    assert not authorizer().may_enter("/")


def test_only_words_with_the_prefix_count() -> None:
    words = ["forebay.read:*/*", "read:*/x", "other.tag:administrator", "forebay.tag:administrator", "forebay.tag:king"]
    scopes, tags = parse_scopes(words, "forebay.")
    assert [(each.right, each.vhost, each.name, each.key) for each in scopes] == [("read", "*", "*", "*")]
    assert tags == ["administrator"]


@pytest.mark.parametrize("word", ["read", "read:", "read:*", "eat:*/*", "read:a/b/c/d", ":*/*", "tag:"])
def test_what_is_no_scope_gives_nothing(word: str) -> None:
    assert parse_scopes([word], "") == ([], [])


@given(st.lists(st.text(alphabet=st.sampled_from("read:wit*/%2F.tag")), max_size=5), st.text(max_size=20))
def test_no_word_breaks_anything(words: list[str], name: str) -> None:
    mine = authorizer(*words)
    mine.may_enter(name)
    mine.may(name, "read", QUEUE, name)
    mine.may_topic(name, "write", name, name)
