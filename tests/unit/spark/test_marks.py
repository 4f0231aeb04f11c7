"""Progress of streams: its JSON, and limits that are shared out."""

from __future__ import annotations

import json
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import OptionError
from forebay.spark.reading.marks import Mark, decode_marks, encode_marks, share

SIZES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 10_000), max_size=8)


def test_as_spark_keeps_them() -> None:
    marks = {"q": Mark(5, 7), "p": Mark(9, 8, 2)}
    encoded = encode_marks(marks, "spark-1")
    assert encoded["q"] == {"0": 5, "id": 7, "group": "spark-1"}
    assert encoded["p"] == {"0": 9, "id": 8, "group": "spark-1", "from": 2}
    assert decode_marks(json.loads(json.dumps(encoded))) == (marks, "spark-1")


def test_equal_marks_are_equal_text() -> None:
    marks = [("a", Mark(1, 1)), ("b", Mark(2, 2)), ("c", Mark(3, 3))]
    assert len({json.dumps(encode_marks(dict(order), "g")) for order in permutations(marks)}) == 1


@pytest.mark.parametrize("encoded", [{"q": {"0": 5}}, {"q": 5}, {"q": None}])
def test_another_sources_progress_is_refused(encoded: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=r"checkpointLocation: .* is no progress of the forebay source"):
        decode_marks(encoded)


@given(st.integers(1, 20_000), SIZES, st.integers(0, 1000))
def test_a_limit_is_used_up_and_never_exceeded(limit: int, sizes: dict[str, int], turn: int) -> None:
    shares = share(limit, sizes, turn)
    assert sum(shares.values()) == min(limit, sum(sizes.values()))
    assert all(0 <= shares[name] <= size for name, size in sizes.items())


@given(st.integers(1, 20_000), SIZES)
def test_shares_are_in_proportion(limit: int, sizes: dict[str, int]) -> None:
    total = sum(sizes.values())
    for name, found in share(limit, sizes, 0).items():
        assert abs(found - min(sizes[name], limit * sizes[name] / max(total, 1))) <= 1


@given(st.integers(1, 8), st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 10_000), min_size=1))
def test_nobody_starves(limit: int, sizes: dict[str, int]) -> None:
    served = {name for turn in range(len(sizes)) for name, found in share(limit, sizes, turn).items() if found}
    assert served == set(sizes)
