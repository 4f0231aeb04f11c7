"""Routes run the operations of administrators here: rights, portions, and an answer when it is on disk."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.responses import Response

from forebay.admin.caller import Caller
from forebay.admin.http.answer import as_json
from forebay.core.errors import INVALID, RequestError
from forebay.management.requests.fields import LIMIT_DEFAULT, LIMIT_MAX
from forebay.server.broker_view import BrokerView

SCAN_SLICE: Final = 200  # messages that a portion looks at before others have their turn
SCANNED_MAX: Final = 100_000  # that one request looks at
SUMS: Final = ("done", "held", "gone", "kept", "scanned", "refused")


async def answer(app: BrokerView, caller: Caller, name: str, values: dict[str, object]) -> Response:
    """The answer of an operation; RequestError where the caller may not ask, or the operation refuses."""
    return as_json(await perform(app, caller, name, values))


async def perform(
    app: BrokerView, caller: Caller, name: str, values: dict[str, object], as_client: bool = False
) -> dict[str, object]:
    """Perform an operation and return its bare result; values that are None were not given.

    as_client  administrators, too, may do only what their permissions let their clients do
    """
    waits = app.control.waits(name)
    if waits:
        app.hurry()
    fields = await run(app, caller, name, given_of(values), as_client)
    if waits:
        await app.on_disk()
    return fields


async def run(
    app: BrokerView, caller: Caller, name: str, given: dict[str, object], as_client: bool = False
) -> dict[str, object]:
    """The same, not on the disk yet."""
    caller.noted = caller.noted or app.control.changes(name)
    return await app.decided(lambda: app.control.perform(caller.origin, name, given, as_client))


def given_of(values: dict[str, object]) -> dict[str, object]:
    """The arguments that were given: those that are not None."""
    return {key: value for key, value in values.items() if value is not None}


async def in_portions(
    app: BrokerView, caller: Caller, name: str, values: dict[str, object], limit: int | None
) -> dict[str, object]:
    """The same of an operation that goes through a queue in portions: many small ones, and between them a turn.

    limit  messages to be changed in all, None for all; a request looks at no more than SCANNED_MAX
    """
    given = given_of(values)
    totals: dict[str, object] = {}
    end: int | None = None
    left = limit
    if left is not None and left < 1:
        raise RequestError(INVALID, f"limit: {left} is below 1")
    while True:
        app.hurry()
        most = LIMIT_DEFAULT if left is None else min(left, LIMIT_DEFAULT)
        fields = await run(app, caller, name, {**given, "limit": most, "scan": SCAN_SLICE})
        end = number(fields, "end") if end is None else end
        for each in SUMS:
            if each in fields:
                totals[each] = number(totals, each) + number(fields, each)
        if "refusal" in fields:
            totals.setdefault("refusal", fields["refusal"])
        left = None if left is None else left - number(fields, "done")
        # Moved messages may come to the end of the same queue: they are not moved again.
        if "next" not in fields or number(fields, "next") >= end:
            break
        given["from"] = fields["next"]
        if left == 0 or number(totals, "scanned") >= SCANNED_MAX:
            totals["next"] = fields["next"]
            break
        await asyncio.sleep(0)
    await app.on_disk()
    return totals


async def messages(
    app: BrokerView, caller: Caller, name: str, values: dict[str, object], limit: int
) -> dict[str, object]:
    """The answer of `queue.messages` or `dlq.show`, in portions."""
    if not 1 <= limit <= LIMIT_MAX:
        raise RequestError(INVALID, f"limit: {limit} is not within 1 .. {LIMIT_MAX}")
    given = given_of(values)
    items: list[object] = []
    first = given.get("from", 0)
    looked = 0
    while True:
        portion = {**given, "limit": min(limit - len(items), SCAN_SLICE), "scan": SCAN_SLICE}
        fields = await run(app, caller, name, portion)
        found = fields["items"]
        assert isinstance(found, list)
        items += found
        looked += SCAN_SLICE
        if "next" not in fields:
            return {"items": items}
        given["from"] = fields["next"]
        if len(items) >= limit or looked >= SCANNED_MAX or given["from"] == first:
            return {"items": items, "next": fields["next"]}
        await asyncio.sleep(0)


def number(fields: dict[str, object], name: str) -> int:
    value = fields.get(name, 0)
    assert isinstance(value, int)
    return value
