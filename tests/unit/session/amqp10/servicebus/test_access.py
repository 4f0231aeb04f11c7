"""The entities that tokens give access to."""

from __future__ import annotations

import pytest

from forebay.core.errors import REFUSED, TOO_MANY, RequestError
from forebay.session.amqp10.servicebus.access import SCOPES_MAX, EntityAccess

NOW = 1000


@pytest.mark.parametrize(
    ("path", "covered"),
    [
        ("jobs", True),
        ("jobs/$management", True),
        ("jobs/$DeadLetterQueue/$management", True),
        ("jobs2", False),
        ("job", False),
        ("a/jobs", False),
        ("", False),
    ],
)
def test_a_scope_covers_what_is_below_it(path: str, covered: bool) -> None:
    assert EntityAccess({"jobs": NOW + 1}).covers(path, NOW) is covered


def test_the_whole_covers_everything() -> None:
    access = EntityAccess({"": 0})
    assert access.covers("jobs", NOW)
    assert access.covers("", NOW)
    assert not access.is_signed
    assert access.until_us() == 0


def test_scopes_expire_one_by_one() -> None:
    access = EntityAccess({"a": NOW + 1})
    access.allow("b", NOW + 5)
    assert access.until_us() == NOW + 5
    assert not access.covers("a", NOW + 1)
    assert access.covers("b", NOW + 1)
    assert access.forget_expired(NOW + 1)
    assert not access.forget_expired(NOW + 1)
    assert list(access.scopes) == ["b"]
    with pytest.raises(RequestError, match="no token") as refused:
        access.check("a", NOW + 1)
    assert refused.value.reason == REFUSED


def test_an_expired_scope_below_one_that_is_not_is_covered_by_that() -> None:
    assert EntityAccess({"a": NOW + 5, "a/b": NOW}).covers("a/b", NOW)


def test_scopes_are_not_without_end() -> None:
    access = EntityAccess({"0": NOW})
    for number in range(1, SCOPES_MAX):
        access.allow(str(number), NOW)
    access.allow("0", NOW + 1)
    with pytest.raises(RequestError) as refused:
        access.allow("more", NOW)
    assert refused.value.reason == TOO_MANY
