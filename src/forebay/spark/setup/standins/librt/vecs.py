"""A stand-in for `librt.vecs`: lists of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


class vec(list[T]):  # noqa: N801  the library's name
    """A list of numbers. As in the library, use the result of `append` and `extend` in place of the argument."""


def append(numbers: vec[T], number: T) -> vec[T]:
    """Append a number and return the list."""
    list.append(numbers, number)
    return numbers


def extend(numbers: vec[T], more: Iterable[T]) -> vec[T]:
    """Append several numbers and return the list."""
    list.extend(numbers, more)
    return numbers
