"""Filters, orders and columns of lists, without a broker."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forebay.admin.http.paging import Listing, answer_list, field_at, only, path_of, rank
from forebay.admin.http.slices import SLICE_ITEMS

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.lists(st.integers())
)
OBJECTS = st.recursive(
    st.dictionaries(st.sampled_from("abc"), VALUES), lambda inner: st.dictionaries(st.sampled_from("abc"), inner)
)
PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(tuple)


@given(VALUES, VALUES)
def test_values_of_all_types_have_an_order(one: Any, other: Any) -> None:
    assert (rank(one) < rank(other)) or (rank(other) < rank(one)) or rank(one) == rank(other)


def test_what_is_missing_comes_first() -> None:
    values: list[Any] = ["b", 2, None, "a", 1.5, True]
    assert sorted(values, key=rank) == [None, True, 1.5, 2, "a", "b"]


def test_numbers_in_names_count_as_numbers() -> None:
    names = ["device-19", "device-2", "device", "a10b2", "a10b10", "a9", "device-2-1"]
    assert sorted(names, key=rank) == ["a9", "a10b2", "a10b10", "device", "device-2", "device-2-1", "device-19"]


@given(OBJECTS, st.lists(PATHS, max_size=4))
def test_columns_have_the_values_of_the_whole(facts: dict[str, Any], paths: list[tuple[str, ...]]) -> None:
    found = only(facts, paths)
    for path in paths:
        assert field_at(found, path) == field_at(facts, path)


@given(OBJECTS)
def test_every_field_is_the_whole(facts: dict[str, Any]) -> None:
    assert only(facts, [(name,) for name in facts]) == facts


def test_dots_lead_into_objects() -> None:
    assert path_of("messages_details.rate") == ("messages_details", "rate")
    assert path_of("") == ()
    assert field_at({"messages_details": {"rate": 2.0}}, path_of("messages_details.rate")) == 2.0
    assert field_at({"messages_details": 1}, path_of("messages_details.rate")) is None


def test_names_pass_in_either_case() -> None:
    assert Listing(name="or").wants("ORDERS")
    assert not Listing(name="or").wants("events")
    assert Listing().wants("anything")


def test_lists_of_two_callers_are_made_one_after_the_other() -> None:
    """So that of all lists that are asked for only a few are in memory."""
    turns = asyncio.Semaphore(1)
    made: list[str] = []

    async def listed(caller: str) -> None:
        def make(number: int) -> dict[str, object]:
            made.append(caller)
            return {"number": number}

        await answer_list(range(5 * SLICE_ITEMS), str, make, Listing(turns=turns))

    async def both() -> None:
        await asyncio.gather(listed("a"), listed("b"))

    asyncio.run(both())
    assert made == ["a"] * 5 * SLICE_ITEMS + ["b"] * 5 * SLICE_ITEMS
