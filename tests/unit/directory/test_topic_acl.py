"""Rules for MQTT topics: what each line says, and that they mean what a simple model says they mean."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import RequestError
from forebay.directory.topic_acl import READ, AclBook, ClientAcl, Levels, covers, overlaps

BOOK = """
# of those who do not say who they are
topic read public/#

user ada
topic orders/+/new
topic write audit
topic read $SYS/#
topic deny orders/secret/#

pattern readwrite devices/%u/%c/#
pattern read ${username}/in
pattern deny devices/+/+/keys
"""


def may_subscribe(acl: ClientAcl, filter: str) -> bool:
    return acl.decide(READ, filter.split("/"))


def client(user: str = "ada", client_id: str = "c1", is_anonymous: bool = False, text: str = BOOK) -> ClientAcl:
    book = AclBook()
    book.load(text)
    return ClientAcl(book, user, client_id, is_anonymous)


@pytest.mark.parametrize(
    ("topic", "publish", "subscribe"),
    [
        ("orders/1/new", True, True),
        ("orders/1", False, False),
        ("audit", True, False),
        ("orders/secret/new", False, False),
        ("orders/+/new", True, False),
        ("devices/ada/c1/heat", True, True),
        ("devices/ada/c1", True, True),
        ("devices/ada/c2/heat", False, False),
        ("devices/ada/c1/keys", False, False),
        ("devices/ada/c1/#", False, False),
        ("ada/in", False, True),
        ("$SYS/broker/version", False, True),
        ("public/x", False, False),
        ("#", False, False),
    ],
)
def test_what_the_rules_say_of_ada(topic: str, publish: bool, subscribe: bool) -> None:
    acl = client()
    if "+" not in topic and "#" not in topic:
        assert acl.may_publish(topic) is publish
    assert may_subscribe(acl, topic) is subscribe


def test_rules_before_the_first_user_are_of_clients_without_a_name() -> None:
    assert may_subscribe(client("guest", is_anonymous=True), "public/#")
    assert not client("guest", is_anonymous=True).may_publish("public/x")
    assert not may_subscribe(client("guest"), "public/x")


@pytest.mark.parametrize("name", ["+", "#", "a/b", "a+", ""])
def test_a_name_that_would_mean_more_than_itself_fits_no_pattern(name: str) -> None:
    acl = client(user=name, text="pattern readwrite home/%u/#")
    assert not acl.may_publish("home/bob/x")
    assert not may_subscribe(acl, "home/+/x")
    assert not may_subscribe(acl, "home//x")


def test_a_wildcard_at_the_start_leaves_out_what_begins_with_a_dollar() -> None:
    acl = client(text="user ada\ntopic #\n")
    assert may_subscribe(acl, "#") and acl.may_publish("a/b")
    assert not may_subscribe(acl, "$SYS/#")


def test_new_rules_are_taken_up_at_once() -> None:
    acl = client(text="user ada\ntopic a\n")
    assert acl.may_publish("a")
    acl.book.load("user ada\ntopic b\n")
    assert not acl.may_publish("a")
    assert acl.may_publish("b")


@pytest.mark.parametrize("line", ["topic", "user", "topics a", "topic a/#/b", "topic a+", "pattern write a#"])
def test_a_line_that_is_no_rule_is_named_and_changes_nothing(line: str) -> None:
    book = AclBook()
    book.load("user ada\ntopic a\n")
    with pytest.raises(RequestError, match="line 2: "):
        book.load(f"# first\n{line}\n")
    assert book.version == 1


FILTERS = st.lists(st.sampled_from(["a", "b", "+"]), min_size=1, max_size=3).flatmap(
    lambda levels: st.sampled_from([levels, [*levels, "#"]])
)
TOPICS = [list(each) for size in range(1, 6) for each in itertools.product("abc", repeat=size)]


def matched(filter: Levels) -> set[tuple[str, ...]]:
    """Of all short topics those that a filter matches, as the standard has it."""

    def matches(topic: Levels) -> bool:
        for at, level in enumerate(filter):
            if level == "#":
                return True
            if at >= len(topic) or level not in ("+", topic[at]):
                return False
        return len(topic) == len(filter)

    return {tuple(topic) for topic in TOPICS if matches(topic)}


@given(FILTERS, FILTERS)
def test_covering_and_overlapping_are_what_sets_of_topics_say(one: Levels, other: Levels) -> None:
    assert covers(one, other) == (matched(other) <= matched(one))
    assert overlaps(one, other) == bool(matched(one) & matched(other))


@given(st.text(max_size=200))
def test_no_text_breaks_the_parser(text: str) -> None:
    book = AclBook()
    try:
        book.load(text)
    except RequestError:
        return
    may_subscribe(ClientAcl(book, "u", "c", False), "a/b")
