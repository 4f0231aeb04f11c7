"""The queries of a vhost: how many there may be at once, and whose turn it is.

A query gives way to everything else: one step of one query is done in a turn. Whoever asked by a message is answered by
a message. Whoever administers comes again with the query's number until it is done.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.catalog.catalog import Catalog
from forebay.broker.query.running import RunningQuery
from forebay.broker.turn import Turn
from forebay.core.errors import NOT_FOUND, TOO_MANY, RequestError
from forebay.query.plan import read_plan
from forebay.queue.queue import Queue

QUERIES_MAX: Final = 32  # of a vhost at once
USER_QUERIES_MAX: Final = 8  # of one user among them
IDLE_US: Final = 30_000_000  # after which a query is dropped that nobody comes for


@final
class Queries:
    """The queries under way in one vhost.

    polled    those of administrators, by number, who come for them
    """

    def __init__(self, catalog: Catalog, turn: Turn) -> None:
        self.catalog = catalog
        self.turn = turn
        self.polled: dict[int, RunningQuery] = {}
        self.next_id = 1

    def begin(self, queue: Queue, values: dict[str, object], owner: str) -> RunningQuery:
        """Begin a query of a user over a queue. Raises RequestError: INVALID, TOO_MANY.

        values  its arguments, see `query.plan`
        """
        if queue.log.writer.count:
            self.turn.seal(queue)
        query = RunningQuery(self.next_id, owner, queue, read_plan(values))
        running = self.running()
        if len(running) >= QUERIES_MAX:
            raise RequestError(TOO_MANY, f"query: {QUERIES_MAX} queries run in this vhost already; try again")
        if len([each for each in running if each.owner == owner]) >= USER_QUERIES_MAX:
            raise RequestError(TOO_MANY, f"query: {USER_QUERIES_MAX} queries of user '{owner}' run already; try again")
        self.next_id += 1
        query.seen_us = self.turn.now_us
        return query

    def running(self) -> list[RunningQuery]:
        """Return all queries under way."""
        return list(self.polled.values())

    def advance(self, query: RunningQuery, records_max: i64) -> None:
        """Do one step of a query."""
        if self.catalog.queues_by_id.get(query.queue.id) is not query.queue:
            query.queue_gone()
            return
        query.step(self.turn.now_us, records_max)

    # ---- those that somebody comes for

    def keep(self, query: RunningQuery) -> None:
        """Keep a query until its user comes for it again."""
        query.seen_us = self.turn.now_us
        self.polled[query.id] = query

    def find(self, id: int, queue: Queue, owner: str) -> RunningQuery:
        """Return a kept query of a user over a queue; RequestError(NOT_FOUND)."""
        query = self.polled.get(id)
        if query is None or query.queue is not queue or query.owner != owner:
            raise RequestError(NOT_FOUND, f"query: {id} is not under way; it may have waited too long to be asked for")
        query.seen_us = self.turn.now_us
        return query

    def forget(self, query: RunningQuery) -> None:
        """Keep a query no longer."""
        self.polled.pop(query.id, None)

    def sweep(self, now_us: i64) -> None:
        """Drop the queries that nobody has come for."""
        if self.polled:
            idle = [each for each in self.polled.values() if now_us - each.seen_us > IDLE_US]
            for each in idle:
                self.forget(each)
