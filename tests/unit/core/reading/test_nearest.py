"""Names that are most likely misspelt."""

from __future__ import annotations

import pytest

from forebay.core.reading.nearest import slip_among

KNOWN = ("durable", "auto_delete", "arguments")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ((), ("", "")),
        (("durable", "arguments"), ("", "")),
        (("durabel", "autodelete"), ("durabel", "durable")),
        (("colour", "autodelete"), ("autodelete", "auto_delete")),
        (("durable", "durables"), ("", "")),
    ],
)
def test_a_slip_is_like_a_known_name_that_is_not_given(given: tuple[str, ...], found: tuple[str, str]) -> None:
    assert slip_among(given, KNOWN) == found
