"""Arguments as they come, and what is said of those that are wrong."""

from __future__ import annotations

import pytest

from forebay.core.errors import INVALID, RequestError
from forebay.management.arguments import merged, octets, read_request
from forebay.management.requests.fields import OFFSET_MAX, RANGES_MAX
from forebay.management.requests.queues import QueueMoveRequest, QueueShowRequest, QueueTruncateRequest
from forebay.management.requests.table import REQUESTS


def read_move(**values: object) -> QueueMoveRequest:
    made = read_request("queue.move", QueueMoveRequest, values)
    assert isinstance(made, QueueMoveRequest)
    return made


def test_a_request_has_its_defaults_and_what_was_given() -> None:
    made = read_move(queue="q", **{"from": 5}, offsets=[3, [7, 9]], to=None)
    assert (made.vhost, made.queue, made.first, made.limit, made.to) == ("/", "q", 5, 100, "")
    assert made.offsets == [3, [7, 9]]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "queue.move: queue is missing: name of the queue"),
        ({"queue": "q", "name": 1}, "queue.move: 'name' is no argument; known are vhost, queue, "),
        ({"queue": 5}, "queue.move: queue: 5 is not what it must be: text"),
        ({"queue": "\ud83d"}, "queue.move: queue: '\\ud83d' is not what it must be: text"),
        ({"queue": "q", "from": True}, "queue.move: from: True is not what it must be: whole number"),
        ({"queue": "q", "from": 1.0}, "queue.move: from: 1.0 is not what it must be: whole number"),
        ({"queue": "q", "from": 1 << 70}, "queue.move: from: 1180591620717411303424 is not what it must be"),
        ({"queue": "q", "from": -1}, f"from: -1 is not within 0 .. {OFFSET_MAX}"),
        ({"queue": "q", "limit": 1001}, "limit: 1001 is not within 1 .. 1000"),
        ({"queue": "q", "offsets": [1, [3, 2]]}, "queue.move: offsets: a list is not what it must be: list of offsets"),
        ({"queue": "q", "offsets": [[1, 2, 3]]}, "queue.move: offsets: a list is not what it must be: list of offsets"),
        ({"queue": "q", "offsets": [-1]}, "queue.move: offsets: a list is not what it must be: list of offsets"),
        ({"queue": "q", "offsets": [0] * (RANGES_MAX + 1)}, "queue.move: offsets: a list is not what it must be"),
    ],
)
def test_what_is_wrong_is_named_with_its_value(values: dict[str, object], text: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_request("queue.move", QueueMoveRequest, values)
    assert caught.value.reason == INVALID
    assert caught.value.text.startswith(text)


def test_a_number_without_an_upper_bound_has_a_lower_one() -> None:
    with pytest.raises(RequestError, match="below: -1 is below 0"):
        read_request("queue.truncate", QueueTruncateRequest, {"queue": "q", "below": -1})


@pytest.mark.parametrize("name", [b"plain", "f\xfcr".encode(), b"\xff\xfe/", b""])
def test_a_name_of_octets_comes_back_as_it_was(name: bytes) -> None:
    made = read_request("queue.show", QueueShowRequest, {"queue": name})
    assert isinstance(made, QueueShowRequest)
    assert octets(made.queue) == name


def test_offsets_and_pairs_become_ranges_that_ascend() -> None:
    assert merged(None) is None
    assert merged([]) == []
    assert merged([5, [1, 3], 3, [9, 12], [10, 11]]) == [(1, 4), (5, 6), (9, 12)]


def test_every_request_names_its_operation() -> None:
    for name, request in REQUESTS.items():
        assert request.__doc__ == f"Arguments of `{name}`."
