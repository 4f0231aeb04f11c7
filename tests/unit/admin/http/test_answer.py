"""What an answer says of a request that is wrong."""

from __future__ import annotations

import pytest

from forebay.admin.web.bodies import read_body
from forebay.admin.web.faults import InputFault, RefusedInput
from forebay.core.errors import RequestError


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (
            InputFault(("query", "page"), "Input should be a number", "x"),
            "query.page: 'x': Input should be a number",
        ),
        (
            InputFault(("body", "name"), "Field required", {"a": "b" * 100}),
            "body.name: Field required",
        ),
    ],
)
def test_a_fault_names_field_and_value(fault: InputFault, told: str) -> None:
    assert RefusedInput([fault]).text == told


def test_a_body_that_is_no_json_is_refused_with_the_place_of_the_fault() -> None:
    with pytest.raises(RequestError, match=r"body: no JSON.*7"):
        read_body(b'{"a": x}')
