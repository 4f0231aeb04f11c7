"""Whether the answer of an operation is of the shape that the operation declares."""

from __future__ import annotations

import msgspec

from forebay.management.table import OPERATIONS


def check_shape(operation: str, answer: object) -> None:
    """Assert that an answer, as JSON has it, has the fields that its operation declares, and no others."""
    try:
        known = msgspec.convert(answer, OPERATIONS[operation].answer())
    except msgspec.ValidationError as error:
        raise AssertionError(f"{operation}: {error}: {answer}") from None
    assert known == answer, f"{operation}: fields that are not declared"
