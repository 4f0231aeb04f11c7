"""Queries against a list of dicts, whatever is published, taken, settled and given back, and over restarts."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from forebay.queue.leases.lease import Lease
from forebay.queue.queue import Queue
from tests.examples import examples
from tests.vhosts import OneVhost

KEYS = st.sampled_from(["a", "b", None])
ORDERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "/v": lambda row: (row["v"] is not None, row["v"] or 0, row["offset"]),
    "/v DESC": lambda row: (row["v"] is None, -(row["v"] or 0), row["offset"]),
    "": lambda row: row["offset"],
}


class QueryMachine(RuleBasedStateMachine):
    """The model: the unsettled messages, by offset, each a dict of what it says and where it stands."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.rig = OneVhost(self.folder)
        self.rig.declare(b"q")
        self.rig.turn()
        self.model: dict[int, dict[str, Any]] = {}
        self.leases: dict[int, Lease] = {}
        self.next = 0

    def queue(self) -> Queue:
        return self.rig.vhost.catalog.queue(b"q")

    @rule(key=KEYS, value=st.one_of(st.none(), st.integers(0, 4)), turn=st.booleans())
    def publish(self, key: str | None, value: int | None, turn: bool) -> None:
        self.rig.publish(b"", b"q", json.dumps({"k": key, "v": value}).encode())
        self.model[self.next] = {"offset": self.next, "k": key, "v": value, "state": "ready"}
        self.next += 1
        if turn:
            self.rig.turn()

    @rule()
    def take(self) -> None:
        delivery = self.rig.vhost.consumers.get(b"q", 1, 1, False)
        ready = [offset for offset, each in self.model.items() if each["state"] == "ready"]
        if delivery is None or delivery.lease is None:
            assert not ready
            return
        offset = int(delivery.lease.first)
        assert offset in ready
        self.leases[offset] = delivery.lease
        self.model[offset]["state"] = "leased"

    @rule(last=st.booleans())
    def acknowledge(self, last: bool) -> None:
        if self.leases:
            offset = max(self.leases) if last else min(self.leases)
            self.rig.vhost.settling.ack(self.leases.pop(offset), offset, 1)
            del self.model[offset]
            self.rig.turn()

    @rule(delay_ms=st.sampled_from([0, 1_000_000_000]))
    def give_back(self, delay_ms: int) -> None:
        if self.leases:
            offset = min(self.leases)
            self.rig.vhost.settling.nack(self.leases.pop(offset), offset, 1, delay_ms)
            self.model[offset]["state"] = "delayed" if delay_ms else "ready"
            self.rig.turn()

    @rule()
    def restart(self) -> None:
        """Have a broker begin that knows nothing but its files: what was held is ready again."""
        self.rig.restart()
        self.leases = {}
        for each in self.model.values():
            if each["state"] == "leased":
                each["state"] = "ready"

    def asked(self, records: int, **given: object) -> list[dict[str, Any]]:
        """All pages of a query, in steps of so many records."""
        rows: list[dict[str, Any]] = []
        following: object = given
        while isinstance(following, dict):
            given = {**given, **following}
            query = self.rig.vhost.queries.begin(self.queue(), given, "u")
            while not query.is_done:
                self.rig.vhost.queries.advance(query, records)
            answer: dict[str, Any] = query.answer()
            rows += answer["rows"]
            following = answer.get("next")
        return rows

    @rule(
        records=st.integers(1, 5),
        order=st.sampled_from(sorted(ORDERS)),
        limit=st.integers(1, 4),
        top=st.one_of(st.none(), st.integers(1, 6)),
        skip=st.integers(0, 3),
        least=st.integers(0, 4),
        state=st.sampled_from(["ready", "leased", "delayed", ""]),
    )
    def query(self, records: int, order: str, limit: int, top: int | None, skip: int, least: int, state: str) -> None:
        where = f"/v >= {least}" + (f" AND state = '{state}'" if state else "")
        wanted = [row for row in self.model.values() if row["v"] is not None and row["v"] >= least]
        wanted = sorted((row for row in wanted if not state or row["state"] == state), key=ORDERS[order])
        wanted = wanted[skip:] if top is None else wanted[skip : skip + top]
        select = "offset, /k AS k, /v AS v, state"
        found = self.asked(records, where=where, order_by=order, limit=limit, top_n=top, skip=skip, select=select)
        assert found == wanted

    @rule(records=st.integers(1, 5), limit=st.integers(1, 2))
    def group(self, records: int, limit: int) -> None:
        wanted: dict[object, list[Any]] = {}
        for row in self.model.values():
            wanted.setdefault(row["k"], []).append(row["v"])
        select = "/k AS k, COUNT(*) AS n, COUNT(/v) AS c, SUM(/v) AS s, MIN(/v) AS l, COUNT_DISTINCT(/v) AS d"
        found = self.asked(records, select=select, group_by="/k", order_by="n DESC, k", limit=limit)
        assert {row["k"]: row for row in found} == {
            key: {
                "k": key,
                "n": len(values),
                "c": len(said := [each for each in values if each is not None]),
                "s": sum(said) if said else None,
                "l": min(said, default=None),
                "d": len(set(said)),
            }
            for key, values in wanted.items()
        }
        assert [-row["n"] for row in found] == sorted(-row["n"] for row in found)

    def teardown(self) -> None:
        self.rig.close()
        shutil.rmtree(self.folder)


QueryMachine.TestCase.settings = settings(max_examples=examples(20), stateful_step_count=25, deadline=None)
TestQuery = QueryMachine.TestCase
