"""The latest record of each key: keys, room, and what is forgotten."""

from __future__ import annotations

import pytest

from forebay.core.message import AMQP091
from forebay.filter.parser import parse_value
from forebay.message.subject import PublishedSubject
from forebay.queue.counts import Counts
from forebay.queue.declaration.limits import Limits
from forebay.queue.last_value.last_values import KEY_OCTETS_MAX, KEYS_USUAL, LastValues


def made(expression: str = "/k") -> LastValues:
    return LastValues(parse_value(expression), Counts())


def key_of(expression: str, body: bytes) -> bytes:
    return made(expression).key_of(PublishedSubject(AMQP091, b"", b"a.b", b"\0\0", body, b""))


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (b'{"k": "x"}', b"x"),
        (b'{"k": 7}', b"7"),
        (b'{"k": 7.0}', b"7"),
        (b'{"k": 7.5}', b"7.5"),
        (b'{"k": true}', b"true"),
        (b'{"k": ["x", "y"]}', b"x"),
        (b'{"k": ""}', b""),
        (b'{"k": null}', b""),
        (b'{"k": {}}', b""),
        (b"{}", b""),
        (b"no JSON", b""),
        (b'{"k": "%s"}' % (b"x" * KEY_OCTETS_MAX), b"x" * KEY_OCTETS_MAX),
        (b'{"k": "%s"}' % (b"x" * (KEY_OCTETS_MAX + 1)), b""),
        (b'{"k": "\xc3\xa9"}', b"\xc3\xa9"),
    ],
)
def test_the_key_of_a_message(body: bytes, key: bytes) -> None:
    assert key_of("/k", body) == key


def test_a_key_may_be_computed() -> None:
    assert key_of("CONCAT(routing_key, '/', /k)", b'{"k": 1}') == b"a.b/1"
    assert key_of("octets % 3", b"12345") == b"2"


def test_a_newer_record_replaces_the_older_one_of_its_key() -> None:
    values = made()
    for offset, key in enumerate([b"a", b"b", b"a", b"c", b"a"]):
        values.put(key, offset, 10 + offset)
    assert {key: each.offset for key, each in values.by_key.items()} == {b"a": 4, b"b": 1, b"c": 3}
    assert list(values.by_offset) == [1, 3, 4], "ascending"
    assert (values.replaced, values.counts.replaced, values.octets) == ([0, 2], 2, 11 + 13 + 14)


def test_room_for_keys_and_octets() -> None:
    values, limits = made(), Limits()
    limits.max_messages, limits.max_octets = 2, 100
    values.put(b"a", 0, 40)
    assert values.has_room(b"b", 60, limits)
    assert not values.has_room(b"b", 61, limits)
    assert values.has_room(b"a", 100, limits), "the older one of its key goes"
    values.put(b"b", 1, 40)
    assert not values.has_room(b"c", 1, limits)
    assert values.has_room(b"b", 60, limits)
    assert not values.has_room(b"b", 61, limits)
    limits.max_messages = 1
    assert values.has_room(b"b", 1, limits), "a policy has made the limit smaller"


def test_without_a_limit_there_is_one() -> None:
    values, limits = made(), Limits()
    for number in range(KEYS_USUAL):
        values.put(b"%d" % number, number, 1)
    assert values.is_full(0, 0, limits)
    assert not values.has_room(b"new", 1, limits)
    assert values.has_room(b"7", 1, limits)
