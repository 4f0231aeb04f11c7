"""What a user may do, pattern by pattern."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from forebay.core.errors import CHANNEL, INVALID, REFUSED, RequestError
from forebay.directory.permissions import (
    CONFIGURE,
    READ,
    WRITE,
    Grants,
    Permission,
    Rights,
    TopicPermission,
    allows,
    check_pattern,
    compiled,
)
from forebay.directory.topic_acl import AclBook
from forebay.filter.pattern import NAME_CHARACTERS_MAX


@pytest.mark.parametrize(
    ("pattern", "name", "allowed"),
    [
        (".*", "anything", True),
        (".*", "", True),
        ("", "", True),
        ("", "x", False),
        ("^q", "queue", True),
        ("^q", "my-queue", False),
        ("q", "my-queue", True),
        ("^(a|b)$", "b", True),
        ("^(a|b)$", "ab", False),
        ("^amq\\.default$", "amq.default", True),
    ],
)
def test_patterns_are_searched_for(pattern: str, name: str, allowed: bool) -> None:
    assert allows(pattern, name) is allowed


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "x" * 4097])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(RequestError, match="read: ") as caught:
        check_pattern("read", pattern)
    assert caught.value.reason == INVALID


def rights(configure: str = "^c", write: str = "^w", read: str = "^r") -> Rights:
    return Rights("ada", b"v", Grants(Permission(configure, write, read), {}))


@pytest.mark.parametrize("right", [CONFIGURE, WRITE, READ])
def test_each_right_has_its_pattern(right: str) -> None:
    mine = rights()
    mine.check_queue(right, right[:1].encode())
    mine.check_exchange(right, right[:1].encode())
    with pytest.raises(RequestError) as caught:
        mine.check_queue(right, b"x")
    assert (caught.value.reason, caught.value.scope) == (REFUSED, CHANNEL)
    assert caught.value.text == f"{right} access to queue 'x' in vhost 'v' refused for user 'ada'"
    with pytest.raises(RequestError) as caught:
        mine.check_exchange(right, b"x")
    assert caught.value.text == f"{right} access to exchange 'x' in vhost 'v' refused for user 'ada'"


def test_the_exchange_without_a_name_has_one() -> None:
    rights(write="^amq\\.default$").check_exchange(WRITE, b"")
    with pytest.raises(RequestError, match=r"exchange 'amq\.default'"):
        rights().check_exchange(WRITE, b"")


def test_who_has_no_permission_may_do_nothing_and_hears_of_a_new_one() -> None:
    grants = Grants(None, {})
    mine = Rights("ada", b"v", grants)
    with pytest.raises(RequestError, match="refused"):
        mine.check_queue(READ, b"q")
    grants.permission = Permission(".*", ".*", ".*")
    mine.check_queue(READ, b"q")


def test_topics_of_an_exchange_without_restriction_are_free() -> None:
    mine = Rights("ada", b"v", Grants(Permission(".*", ".*", ".*"), {b"x": TopicPermission("^w", "^r")}))
    mine.check_topic(WRITE, b"other", b"anything")
    mine.check_topic(WRITE, b"x", b"w.1")
    mine.check_topic(READ, b"x", b"r.1")
    for right, key in ((WRITE, b"r.1"), (READ, b"w.1")):
        with pytest.raises(RequestError) as caught:
            mine.check_topic(right, b"x", key)
        assert caught.value.text == (
            f"{right} access to topic '{key.decode()}' in exchange 'x' in vhost 'v' refused for user 'ada'"
        )


@pytest.mark.parametrize("client_id", ["c", "c|d", "("])
def test_names_in_a_pattern_are_taken_literally(client_id: str) -> None:
    pattern = r"^{username}/{vhost}/{client_id}$"
    mine = Rights("a?a", b"v+", Grants(Permission(".*", ".*", ".*"), {b"x": TopicPermission(pattern, pattern)}))
    mine.client_id = client_id
    mine.check_topic(WRITE, b"x", f"a?a/v+/{client_id}".encode())
    for other in (f"aa/v+/{client_id}", f"a?a/vv/{client_id}", "a?a/v+/d"):
        with pytest.raises(RequestError):
            mine.check_topic(WRITE, b"x", other.encode())


@pytest.mark.parametrize("name", ["#", "*", "+", "a/b", "a.b", "a#", ""])
@pytest.mark.parametrize("mark", ["{client_id}", "{username}"])
def test_a_name_that_is_more_than_one_level_of_a_topic_stands_for_none(mark: str, name: str) -> None:
    pattern = rf"^dev\.{mark}$"
    grants = Grants(Permission(".*", ".*", ".*"), {b"amq.topic": TopicPermission(pattern, pattern)})
    mine = Rights(name if mark == "{username}" else "ada", b"v", grants)
    mine.client_id = name if mark == "{client_id}" else "c"
    for right in (READ, WRITE):
        with pytest.raises(RequestError, match="topic permission has"):
            mine.check_topic(right, b"amq.topic", f"dev.{name}".encode())
    free = Rights(name, b"v", Grants(Permission(".*", ".*", ".*"), {b"amq.topic": TopicPermission("^dev", "^dev")}))
    free.check_topic(READ, b"amq.topic", f"dev.{name}".encode())  # no pattern names it


def test_only_topic_exchanges_ask_for_the_key() -> None:
    mine = Rights("ada", b"v", Grants(Permission(".*", ".*", ".*"), {b"x": TopicPermission("^w", "^r")}))
    mine.check_publish(b"x", b"anything", False)
    mine.check_bind(b"q", b"x", b"anything", False)
    with pytest.raises(RequestError, match="write access to topic"):
        mine.check_publish(b"x", b"anything", True)
    with pytest.raises(RequestError, match="read access to topic"):
        mine.check_bind(b"q", b"x", b"anything", True)


def ruled(text: str) -> Rights:
    book = AclBook()
    book.load(text)
    return Rights("ada", b"v", Grants(Permission(".*", ".*", ".*"), {}), book)


def refused(check: Callable[[], None]) -> bool:
    try:
        check()
    except RequestError as error:
        return error.reason == REFUSED
    return False


@pytest.mark.parametrize(
    ("exchange", "key", "may"),
    [
        (b"amq.topic", b"a.b", True),
        (b"amq.topic", b"a.secret", False),
        (b"amq.topic", b"other", False),
        (b"other", b"a.secret", True),
        (b"", b"jobs", True),
        (b"", b"$queue/jobs", True),
        (b"", b"$queue/jobs/eu", False),
        (b"", b"other", True),
        (b"", b"$queue/other", False),
        (b"", b"locked", False),
        (b"", b"$queue/locked", False),
        (b"", b"$dlq/x", True),
        (b"", b"$dlq/locked", False),
    ],
)
def test_rules_are_over_the_address_however_it_is_said(exchange: bytes, key: bytes, may: bool) -> None:
    mine = ruled(
        "user ada\ntopic a/#\ntopic deny a/secret\ntopic $queue/jobs\ntopic deny $queue/locked\ntopic deny $dlq/locked"
    )
    assert refused(lambda: mine.check_publish(exchange, key, exchange == b"amq.topic")) is not may


@pytest.mark.parametrize(
    ("queue", "may"), [(b"jobs", True), (b"parted", False), (b"locked", False), (b"$dlq/locked", False), (b"a/b", True)]
)
def test_a_queue_is_read_whole_only_where_nothing_of_it_is_denied(queue: bytes, may: bool) -> None:
    denied = ("$queue/parted/eu", "$queue/locked", "$dlq/locked", "$queue/a/b")
    mine = ruled("user ada\n" + "\n".join(f"topic deny {each}" for each in denied))
    assert refused(lambda: mine.check_queue(READ, queue)) is not may
    mine.check_queue(WRITE, queue)


def test_who_has_no_client_identifier_is_denied_what_it_would_be_with_any() -> None:
    mine = ruled("pattern a/#\npattern deny a/%c/secret")
    mine.check_publish(b"amq.topic", b"a.c1.open", True)
    assert refused(lambda: mine.check_publish(b"amq.topic", b"a.c1.secret", True))
    other = ruled("pattern a/#\npattern deny a/%c/secret")
    other.client_id = "c2"
    other.check_publish(b"amq.topic", b"a.c1.secret", True)


# ---- patterns that would take long


def test_no_name_makes_a_pattern_take_long() -> None:
    for pattern, name in (
        (r"^mine\.(a|a)*$", "mine." + "a" * 200 + "b"),
        (r"^plant1\..*-cmd-.*-v1$", "plant1." + "-cmd-" * 800),
        ("(x+x+)+y", "x" * 255),
    ):
        found = compiled(pattern)
        assert found is not None
        assert not allows(pattern, name)
        assert found.work < 20 * len(name)


def test_a_name_that_is_too_long_passes_no_pattern_but_everything() -> None:
    name = "a" * (NAME_CHARACTERS_MAX + 1)
    assert not allows("^a", name)
    assert allows("^a", name[1:])
    assert allows(".*", name)


def test_a_topic_that_is_too_long_is_refused() -> None:
    grants = Grants(Permission(".*", ".*", ".*"), {b"amq.topic": TopicPermission("^a", "")})
    one = Rights("ada", b"/", grants)
    one.check_topic("write", b"amq.topic", b"a" * NAME_CHARACTERS_MAX)
    with pytest.raises(RequestError) as caught:
        one.check_topic("write", b"amq.topic", b"a" * (NAME_CHARACTERS_MAX + 1))
    assert caught.value.reason == REFUSED


def test_what_was_stored_and_is_no_pattern_any_more_lets_nothing_pass() -> None:
    assert compiled(r"(a)\1") is None
    assert not allows(r"(a)\1", "aa")
