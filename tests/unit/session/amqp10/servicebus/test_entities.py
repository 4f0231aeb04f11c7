"""Addresses as entities."""

from __future__ import annotations

import pytest

from forebay.core.errors import INVALID, NOT_IMPLEMENTED, RequestError
from forebay.session.amqp10.servicebus.entities import parse_entity


@pytest.mark.parametrize(
    ("address", "path", "queue", "letters", "management"),
    [
        ("jobs", "jobs", b"jobs", False, False),
        ("amqps://host:5671/jobs", "jobs", b"jobs", False, False),
        ("SB://host/jobs/", "jobs", b"jobs", False, False),
        ("amqp://host/a/b", "a/b", b"a/b", False, False),
        ("jobs/$DeadLetterQueue", "jobs/$DeadLetterQueue", b"jobs", True, False),
        ("jobs/$deadletterqueue/$Management", "jobs/$deadletterqueue/$Management", b"jobs", True, True),
        ("jobs/$management", "jobs/$management", b"jobs", False, True),
        ("jobs/management", "jobs/management", b"jobs/management", False, False),
    ],
)
def test_entities(address: str, path: str, queue: bytes, letters: bool, management: bool) -> None:
    found = parse_entity(address)
    assert (found.path, found.queue) == (path, queue)
    assert (found.is_dead_letters, found.is_management) == (letters, management)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("", INVALID),
        ("/", INVALID),
        ("amqps://host", INVALID),
        ("$management", INVALID),
        ("$queue/jobs", INVALID),
        ("$dlq/jobs", INVALID),
        ("$delayed/cancel/x", INVALID),
        ("jobs/$management/$management", INVALID),
        ("x" * 256, INVALID),
        ("topic/Subscriptions/all", NOT_IMPLEMENTED),
        ("topic/subscriptions/all/$DeadLetterQueue", NOT_IMPLEMENTED),
        ("jobs/$Transfer/$DeadLetterQueue", NOT_IMPLEMENTED),
    ],
)
def test_what_is_no_queue(address: str, reason: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse_entity(address)
    assert refused.value.reason == reason
