"""What an answer says of a request that is wrong."""

from __future__ import annotations

import pytest
from fastapi.exceptions import RequestValidationError

from forebay.admin.http.refusals import fault_of


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (
            {"type": "int_parsing", "loc": ("query", "page"), "msg": "Input should be a number", "input": "x"},
            "query.page: 'x': Input should be a number",
        ),
        (
            {"type": "missing", "loc": ("body", "name"), "msg": "Field required", "input": {"a": "b" * 100}},
            "body.name: Field required",
        ),
        (
            {
                "type": "json_invalid",
                "loc": ("body", 7),
                "msg": "JSON decode error",
                "input": {},
                "ctx": {"error": "Bad"},
            },
            "body: not JSON at character 7: Bad",
        ),
    ],
)
def test_a_fault_names_field_and_value(fault: dict[str, object], told: str) -> None:
    assert fault_of(RequestValidationError([fault])) == told
