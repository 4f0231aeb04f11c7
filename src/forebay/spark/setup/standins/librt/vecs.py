"""Lists of numbers, as mypyc's library has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


class vec(list[T]):  # noqa: N801  the library's name
    """A list. Whoever adds to one goes on with what comes back."""


def append(numbers: vec[T], number: T) -> vec[T]:
    """The list with another number."""
    list.append(numbers, number)
    return numbers


def extend(numbers: vec[T], more: Iterable[T]) -> vec[T]:
    """The list with other numbers."""
    list.extend(numbers, more)
    return numbers
