"""Routes run the operations of administrators here: rights, portions, and an answer when it is on disk."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from fastapi import Response

from forebay.admin.forebay.needs import ADMINISTER, CONFIGURE_QUEUE, ENTER, MOVE, NEEDS
from forebay.admin.http.answer import as_json
from forebay.admin.login import Caller
from forebay.admin.rights import check_vhost
from forebay.broker.address import named_queue
from forebay.broker.auth.permissions import CONFIGURE, READ, WRITE, Rights
from forebay.broker.auth.users import ADMINISTRATOR
from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, RequestError
from forebay.management.control import LIMIT_DEFAULT, LIMIT_MAX
from forebay.server.app import App

NO_SESSION: Final = 0
SCAN_SLICE: Final = 200  # messages that a portion looks at before others have their turn
SCANNED_MAX: Final = 100_000  # that one request looks at
SUMS: Final = ("done", "held", "gone", "scanned", "refused")


async def answer(app: App, caller: Caller, name: str, values: dict[str, object]) -> Response:
    """The answer of an operation; RequestError where the caller may not ask, or the operation refuses."""
    return as_json(await perform(app, caller, name, values))


async def perform(app: App, caller: Caller, name: str, values: dict[str, object]) -> dict[str, object]:
    """As `answer`, undressed. Values that are None were not given."""
    rights = await app.decided(lambda: check(app, caller, name, values))
    given = {key: value for key, value in values.items() if value is not None}
    changes = app.control.changes(name)
    if changes:
        app.store.hurry()
    facts = await app.decided(lambda: caller.perform(name, given, rights))
    if changes:
        await app.on_disk()
    return facts


def check(app: App, caller: Caller, name: str, values: dict[str, object]) -> Rights | None:
    """The caller's rights in an operation; None for administrators, who may do everything.

    raises  RequestError: REFUSED unless the caller may run the operation on this vhost and queue, LOCKED where the
            queue is a connection's own; Undecided
    """
    if ADMINISTRATOR in caller.tags:
        return None
    need = NEEDS.get(name, ADMINISTER)
    if need == ADMINISTER:
        caller.check_administrator()
    vhost = values.get("vhost")
    known = check_vhost(app, caller, vhost if isinstance(vhost, str) else "/")
    if need == ENTER:
        return None
    queue = values.get("queue")
    if not isinstance(queue, str):
        caller.check_administrator()
        return None
    rights = caller.rights(known.name)
    octets = queue.encode()
    rights.check_queue(CONFIGURE if need == CONFIGURE_QUEUE else READ, octets)
    found = known.catalog.queues.get(named_queue(octets))
    if found is not None:
        known.catalog.check_owner(found, NO_SESSION)
    if need == MOVE:
        check_target(known, rights, values)
    return rights


def check_target(vhost: Vhost, rights: Rights, values: dict[str, object]) -> None:
    """RequestError(REFUSED) where nothing may be published to where messages are to go.

    Where each keeps its routing key, that is looked at when it goes.
    """
    exchange, key = values.get("exchange"), values.get("routing_key")
    name = exchange.encode() if isinstance(exchange, str) else b""
    if isinstance(key, str):
        rights.check_publish(name, key.encode(), vhost.catalog.is_topic_exchange(name))
    else:
        rights.check_exchange(WRITE, name)


async def in_portions(
    app: App, caller: Caller, name: str, values: dict[str, object], limit: int | None
) -> dict[str, object]:
    """The same of an operation that goes through a queue in portions: many small ones, and between them a turn.

    limit  messages to be changed in all, None for all; a request looks at no more than SCANNED_MAX
    """
    rights = await app.decided(lambda: check(app, caller, name, values))
    given = {key: value for key, value in values.items() if value is not None}
    totals: dict[str, object] = {}
    end: int | None = None
    left = limit
    if left is not None and left < 1:
        raise RequestError(INVALID, f"limit: {left} is below 1")
    while True:
        app.store.hurry()
        most = LIMIT_DEFAULT if left is None else min(left, LIMIT_DEFAULT)
        portion = {**given, "limit": most, "scan": SCAN_SLICE}
        facts = await app.decided(partial(caller.perform, name, portion, rights))
        end = number(facts, "end") if end is None else end
        for each in SUMS:
            if each in facts:
                totals[each] = number(totals, each) + number(facts, each)
        if "refusal" in facts:
            totals.setdefault("refusal", facts["refusal"])
        left = None if left is None else left - number(facts, "done")
        # What is moved may come to the end of the same queue: it is not met again.
        if "next" not in facts or number(facts, "next") >= end:
            break
        given["from"] = facts["next"]
        if left == 0 or number(totals, "scanned") >= SCANNED_MAX:
            totals["next"] = facts["next"]
            break
        await asyncio.sleep(0)
    await app.on_disk()
    return totals


async def messages(app: App, caller: Caller, name: str, values: dict[str, object], limit: int) -> dict[str, object]:
    """The answer of `queue.messages` or `dlq.show`, in portions."""
    await app.decided(lambda: check(app, caller, name, values))
    if not 1 <= limit <= LIMIT_MAX:
        raise RequestError(INVALID, f"limit: {limit} is not within 1 .. {LIMIT_MAX}")
    given = {key: value for key, value in values.items() if value is not None}
    items: list[object] = []
    first = given.get("from", 0)
    looked = 0
    while True:
        facts = caller.perform(name, {**given, "limit": min(limit - len(items), SCAN_SLICE), "scan": SCAN_SLICE})
        found = facts["items"]
        assert isinstance(found, list)
        items += found
        looked += SCAN_SLICE
        if "next" not in facts:
            return {"items": items}
        given["from"] = facts["next"]
        if len(items) >= limit or looked >= SCANNED_MAX or given["from"] == first:
            return {"items": items, "next": facts["next"]}
        await asyncio.sleep(0)


def number(facts: dict[str, object], name: str) -> int:
    value = facts.get(name, 0)
    assert isinstance(value, int)
    return value
