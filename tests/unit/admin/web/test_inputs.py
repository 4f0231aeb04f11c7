"""Arguments of handlers, read out of requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from msgspec import Meta, field
from starlette.requests import Request

from forebay.admin.web.bodies import Body, Exact, read_struct
from forebay.admin.web.faults import RefusedInput
from forebay.admin.web.fields import Header, InPath, Provided, Query
from forebay.admin.web.inputs import ArgumentReader, read_signature
from forebay.core.errors import RequestError


class Declaration(Body):
    """A body as RabbitMQ's are."""

    name: str
    durable: bool = False
    arguments: dict[str, Any] = {}
    apply_to: str = field(name="apply-to", default="all")


class Chosen(Exact):
    """A body of ours."""

    offsets: list[Annotated[int, Meta(ge=0)]]
    limit: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="How many.")] = None


async def caller_of(request: Request) -> str:
    return request.headers.get("who", "")


async def handler(
    caller: Annotated[str, Provided(caller_of, "management")],
    queue: Annotated[bytes, InPath(description="The queue.")],
    count: Annotated[int | None, Query(ge=1, le=9)] = None,
    is_all: Annotated[bool, Query("all")] = False,
    names: Annotated[Sequence[str], Query("name")] = (),
    x_reason: Annotated[str, Header(max_length=3)] = "",
) -> None:
    """Take what tests give."""


def read(query: str, **headers: str) -> dict[str, Any]:
    """The arguments of `handler`; RefusedInput."""
    head = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    request = Request({"type": "http", "query_string": query.encode(), "headers": head})

    async def ask() -> dict[str, Any]:
        reader = ArgumentReader(request, {"queue": b"\xff"}, "/queues/{queue}")
        found = await reader.arguments(read_signature(handler))
        if reader.faults:
            raise RefusedInput(reader.faults)
        return found

    return asyncio.run(ask())


def test_arguments_come_from_where_their_annotations_say() -> None:
    assert read("count=5&all=yes&name=a&name=b", who="me", x_reason="why") == {
        "caller": "me",
        "queue": b"\xff",
        "count": 5,
        "is_all": True,
        "names": ["a", "b"],
        "x_reason": "why",
    }
    assert read("") == {"caller": "", "queue": b"\xff", "count": None, "is_all": False, "names": (), "x_reason": ""}
    assert read_signature(handler).needs() == "management"


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("count=x", "query.count: 'x': Input should be a valid integer, unable to parse string as an integer"),
        ("count=null", "query.count: 'null': Input should be a valid integer, unable to parse string as an integer"),
        ("count=0", "query.count: '0': Input should be greater than or equal to 1"),
        ("count=10", "query.count: '10': Input should be less than or equal to 9"),
        ("all=perhaps", "query.all: 'perhaps': Input should be a valid boolean, unable to interpret input"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_value(query: str, told: str) -> None:
    with pytest.raises(RefusedInput) as refused:
        read(query)
    assert refused.value.text == told


def test_a_body_is_read_as_tools_send_it() -> None:
    given = {"name": 5, "durable": "true", "arguments": [], "apply_to": "queues", "node": "n"}
    found = read_struct(Declaration, given, "/p")
    assert found == Declaration(name="5", durable=True, arguments={}, apply_to="queues")
    assert read_struct(Declaration, {"name": "a", "durable": None}, "/p") == Declaration(name="a")


@pytest.mark.parametrize(
    ("kind", "given", "told"),
    [
        (Declaration, {"durable": True}, "body.name: {'durable': True}: Field required"),
        (Declaration, {"name": "a", "durabel": 1}, "'durabel' is no field: did you mean durable?"),
        (Declaration, 5, "body: 5: Input should be a valid dictionary or object to extract fields from"),
        (Chosen, {"offsets": [1, -1]}, "body.offsets.1: -1: Input should be greater than or equal to 0"),
        (Chosen, {"offsets": [], "limit": "null"}, "body.limit: 'null': Input should be a valid integer"),
        (Chosen, {"offset": []}, "body: 'offset' is no field of what /p takes: did you mean offsets?"),
    ],
)
def test_a_wrong_body_is_refused_with_the_field(kind: type[Body] | type[Exact], given: object, told: str) -> None:
    with pytest.raises(RequestError) as refused:
        read_struct(kind, given, "/p")
    assert told in refused.value.text
