"""What a consumer may ask for, and how it hears that it may not."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from forebay.broker.consuming.consumer_arguments import ConsumerArguments, stream_start
from forebay.core.errors import INVALID, RequestError
from forebay.core.message import MQTT
from forebay.core.option_names import QUEUE_TYPES
from forebay.queue.declaration.arguments import SETTINGS
from forebay.queue.declaration.limits import limits_of
from forebay.queue.declaration.spec import QueueSpec, check_declaration
from forebay.queue.queue import STREAM, Queue
from forebay.queue.source.source import LogSource
from tests.logs import memory_log

HOUR_US = 3_600_000_000
NOW_US = 100 * 24 * HOUR_US


def asked(**arguments: object) -> ConsumerArguments:
    return ConsumerArguments({f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}, b"/", b"q")


def test_who_asks_for_nothing() -> None:
    found = asked()
    assert (found.group, found.start, found.auto_commit, found.priority) == (b"", None, True, 0)
    assert (found.timeout_us, found.values, found.unfiltered) == (0, None, False)
    assert found.filter is None


def test_who_asks_for_everything() -> None:
    found = asked(
        consumer_group="g",
        stream_offset=7,
        auto_commit=False,
        priority=-3,
        consumer_timeout=1500,
        stream_filter=["a", b"\xff"],
        stream_match_unfiltered=True,
        cancel_on_ha_failover=5,
    )
    assert (found.group, found.start, found.auto_commit, found.priority) == (b"g", 7, False, -3)
    assert (found.timeout_us, found.values, found.unfiltered) == (1_500_000, [b"a", b"\xff"], True)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("priority", "high", '"expected integer, got longstr"'),
        ("priority", True, '"expected integer, got bool"'),
        ("priority", None, '"expected integer, got void"'),
        ("priority", [1], '"expected integer, got array"'),
        ("priority", 1 << 63, f"{1 << 63} is beyond all bounds"),
        ("consumer-timeout", "1h", '"expected integer, got longstr"'),
        ("consumer-timeout", -1, f"-1 is not within 0 .. {1 << 40} ms"),
        ("consumer-timeout", (1 << 40) + 1, f"{(1 << 40) + 1} is not within 0 .. {1 << 40} ms"),
        ("auto-commit", "yes", '"expected bool, got longstr"'),
        ("stream-match-unfiltered", 1, '"expected bool, got signedint"'),
        ("stream-filter", {}, '"expected longstr or array of them, got table"'),
        ("stream-filter", ["a"] * 1001, "1001 values are not within 1 .. 1000"),
    ],
)
def test_what_is_refused_and_why(name: str, value: object, text: str) -> None:
    with pytest.raises(RequestError) as refused:
        ConsumerArguments({f"x-{name}": value}, b"/", b"q")
    assert refused.value.text == f"invalid arg 'x-{name}' for queue 'q' in vhost '/': {text}"


@pytest.mark.parametrize("name", [5, "a@b", "a\0b", "x" * 256])
def test_names_that_no_group_has(name: object) -> None:
    with pytest.raises(RequestError, match="x-consumer-group"):
        asked(consumer_group=name)


@pytest.fixture
def stream(tmp_path: Path) -> Queue:
    """Ten records, one an hour, the last at NOW_US; the first three are not kept."""
    log = memory_log(str(tmp_path))
    for hour in range(10):
        log.append(MQTT, b"", b"k", b"", b"x")
        log.seal(NOW_US - (9 - hour) * HOUR_US)
    log.truncate(3)
    return Queue(1, b"q", STREAM, QueueSpec(True, False, False, {"x-queue-type": "stream"}, 30_000), LogSource(log))


@pytest.mark.parametrize(
    ("start", "offset"),
    [
        (None, 10),
        ("next", 10),
        ("first", 3),
        ("resume", 3),
        ("last", 9),
        (b"last", 9),
        (5, 5),
        ("5", 5),
        ("offset=5", 5),
        (0, 3),
        (1 << 40, 10),
        (f"timestamp={(NOW_US - 2 * HOUR_US) // 1000}", 7),
        ("timestamp=0", 3),
        ("timestamp=9999999999999999", 10),
        ("90m", 8),
        ("2h", 7),
        ("1D", 3),
        ("1M", 3),
        ("999999999Y", 3),
        ("1s", 9),
    ],
)
def test_where_a_reader_starts(stream: Queue, start: object, offset: int) -> None:
    assert stream_start(stream, start, NOW_US) == offset


@pytest.mark.parametrize(("start", "offset"), [(None, 3), ("next", 10), ("last", 9), (5, 5)])
def test_a_group_with_a_name_starts_at_the_first_record_unless_it_asks(
    stream: Queue, start: object, offset: int
) -> None:
    assert stream_start(stream, start, NOW_US, True) == offset


@pytest.mark.parametrize(
    "start", ["", "middle", "1x", "0s", "1.5h", "h", "-1", "offset=", "timestamp=x", True, 1.5, {}, ["first"]]
)
def test_where_no_reader_can_start(stream: Queue, start: object) -> None:
    with pytest.raises(RequestError, match="x-stream-offset"):
        stream_start(stream, start, NOW_US)


def test_a_stream_of_nothing_starts_at_its_end(stream: Queue) -> None:
    stream.log.truncate(10)
    assert [stream_start(stream, start, NOW_US) for start in ("first", "last", "next", "1h", 0)] == [10] * 5


def test_what_a_kind_of_group_cannot_do_is_refused(stream: Queue) -> None:
    wanted: dict[str, object] = {"x-priority": 1}
    text = "invalid arg 'x-priority' for queue 'q' in vhost '/' of queue type rabbit_stream_queue"
    with pytest.raises(RequestError) as refused:
        ConsumerArguments(wanted, b"/", b"q").check_kind(wanted, stream, False)
    assert refused.value.text == text
    ConsumerArguments(wanted, b"/", b"q").check_kind(wanted, stream, True)


@pytest.mark.parametrize("given", ["/n > 5", b"/n > 5"])
def test_a_filter(given: object) -> None:
    found = asked(filter=given).filter
    assert found is not None
    assert (found.text, found.asks_body) == ("/n > 5", True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("/n >", "filter, position 5, the end: a value is due here"),
        ("/n > 5 AND age_ms < 7", "filter, 'age_ms': a consumer's filter looks at a message once; see stored_ms"),
        (b"/n = '\xff'", "x-filter: no UTF-8 at octet 6"),
        (None, "x-filter: expected longstr, got void"),
        (["/n > 5"], "x-filter: expected longstr, got array"),
    ],
)
def test_what_is_no_filter(given: object, said: str) -> None:
    with pytest.raises(RequestError) as caught:
        asked(filter=given)
    assert (caught.value.reason, caught.value.text) == (INVALID, said)


ODD: list[object] = [None, True, -1, 0, 1 << 63, 1.5, "", "a", "first", b"\xff", [], ["a"], [[1]], {}, {"a": {"b": []}}]
CONSUMER_ARGUMENTS = (
    "x-consumer-group",
    "x-stream-offset",
    "x-auto-commit",
    "x-priority",
    "x-consumer-timeout",
    "x-stream-filter",
    "x-stream-match-unfiltered",
    "x-filter",
    "x-delivery-headers",
    "x-delivery-counts",
)


@pytest.mark.parametrize("name", CONSUMER_ARGUMENTS)
def test_a_consumer_may_say_whatever_a_table_holds(stream: Queue, name: str) -> None:
    """It is taken or refused, and nothing else becomes of it."""
    for value in ODD:
        with suppress(RequestError):
            stream_start(stream, ConsumerArguments({name: value}, b"/", b"q").start, NOW_US)


@pytest.mark.parametrize("name", [setting.argument for setting in SETTINGS] + ["x-queue-type"])
def test_a_declaration_may_say_whatever_a_table_holds(name: str) -> None:
    for value in ODD:
        for queue_type in QUEUE_TYPES:
            arguments = {"x-queue-type": queue_type, name: value}
            with suppress(RequestError):
                check_declaration("queue 'q' in vhost '/'", False, True, False, False, arguments)
                spec = QueueSpec(True, False, False, arguments, 1000)
                limits_of(spec, {}, {}, -1)
                spec.check_equivalent("queue 'q' in vhost '/'", True, False, False, {name: value}, True)
