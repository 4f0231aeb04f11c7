"""Arguments of a declaration."""

from __future__ import annotations

import pytest

from forebay.core.errors import RequestError
from forebay.queue.limits import QueueSpec, age_us


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1), ("90s", 90), ("2m", 120), ("3h", 10_800), ("7D", 604_800), ("1M", 2_592_000), ("1Y", 31_536_000)],
)
def test_max_age_has_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert age_us(text) == seconds * 1_000_000


@pytest.mark.parametrize("value", ["", "D", "7", "7d", "-1D", "1.5h", "٣D", "9999999999s", 7, True, b"7D"])
def test_another_max_age_is_refused_with_its_value(value: object) -> None:
    with pytest.raises(RequestError, match="x-max-age") as caught:
        age_us(value)
    assert repr(value) in caught.value.text


def test_a_stream_reads_its_retention() -> None:
    arguments: dict[str, object] = {
        "x-queue-type": "stream",
        "x-max-age": "1h",
        "x-max-length": 5,
        "x-max-length-bytes": 1 << 40,
    }
    spec = QueueSpec(True, False, False, arguments, 30_000)
    assert (spec.stream, spec.max_age_us, spec.max_messages, spec.max_octets) == (True, 3_600_000_000, 5, 1 << 40)


def test_visibility_comes_from_the_argument_or_the_option() -> None:
    assert QueueSpec(True, False, False, {}, 30_000).visibility_ms == 30_000
    assert QueueSpec(True, False, False, {"x-visibility-timeout": 5}, 30_000).visibility_ms == 5


@pytest.mark.parametrize(("durable", "auto_delete", "exclusive"), [(False, False, False), (True, True, False)])
def test_a_stream_must_last(durable: bool, auto_delete: bool, exclusive: bool) -> None:
    with pytest.raises(RequestError, match="must be durable"):
        QueueSpec(durable, auto_delete, exclusive, {"x-queue-type": "stream"}, 1)


@pytest.mark.parametrize("value", [-1, 1 << 62, True, 1.0, "5"])
def test_a_limit_is_a_whole_number(value: object) -> None:
    with pytest.raises(RequestError, match="x-max-length"):
        QueueSpec(True, False, False, {"x-queue-type": "stream", "x-max-length": value}, 1)
