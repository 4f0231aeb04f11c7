"""The queries of a vhost: how many there may be at once, and whose turn it is.

A query gives way to everything else: one step of one query is done in a turn. Whoever asked by a message is answered by
a message. Whoever administers comes again with the query's number until it is done.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from forebay.broker.catalog.catalog import Catalog
from forebay.broker.publish.publishing import Publishing
from forebay.broker.publish.replies import Replies
from forebay.broker.query.replies import AskedQuery, QueryReply, answer_of, error_answer, read_request, send_answer
from forebay.broker.query.requests_contract import QueryRequestsContract
from forebay.broker.query.running import STEP_RECORDS, RunningQuery
from forebay.broker.turn import Turn
from forebay.core.errors import INVALID, NOT_FOUND, PRECONDITION, TOO_MANY, RequestError
from forebay.core.message import Properties
from forebay.message.formats.table import EXCHANGE_FORMAT
from forebay.query.plan import read_plan
from forebay.queue.queue import Queue

QUERIES_MAX: Final = 32  # of a vhost at once
USER_QUERIES_MAX: Final = 8  # of one user among them
IDLE_US: Final = 30_000_000  # after which a query is dropped that nobody comes for


@final
class Queries(QueryRequestsContract):
    """The queries under way in one vhost.

    polled  those of administrators, by number, who come for them
    asked   those of sessions, which are answered by a message; the first is the next to do a step
    """

    def __init__(self, publishing: Publishing, replies: Replies) -> None:
        self.catalog: Catalog = publishing.catalog
        self.turn: Turn = publishing.turn
        self.publishing = publishing
        self.replies = replies
        self.asked: deque[AskedQuery] = deque()
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
        return [*self.polled.values(), *[each.query for each in self.asked]]

    def advance(self, query: RunningQuery, records_max: i64) -> None:
        """Do one step of a query."""
        if self.catalog.queues_by_id.get(query.queue.id) is not query.queue:
            query.queue_gone()
            return
        query.step(self.turn.now_us, records_max)

    # ---- those that are answered by a message

    def ask(self, name: bytes, body: bytes, reply: QueryReply, session_id: i64, user: str) -> None:
        queue = self.catalog.queue(name)
        self.catalog.check_owner(queue, session_id)
        try:
            query = self.begin(queue, read_request(body), user)
        except RequestError as error:
            send_answer(self.publishing, self.replies, reply, error_answer(error))
            return
        self.asked.append(AskedQuery(query, reply, session_id))

    def begin_for(self, queue: Queue, body: bytes, session_id: i64, tag: bytes) -> AskedQuery:
        """Return a query for a new consumer, which is to get all records from the query's end on.

        The answer goes to the session's consumer of direct replies, with the consumer's tag as correlation id.
        The query is under way once it is in `asked`. Raises RequestError for anything that is wrong with it.
        """
        name = self.replies.name_of(session_id)
        if not name:
            raise RequestError(PRECONDITION, "x-query: the connection has no consumer of direct replies for the answer")
        values = read_request(body)
        if values.get("end") is not None:
            raise RequestError(INVALID, "end: a consumer gets all records from the end of its query on")
        request = Properties()
        request.correlation_id = tag
        query = self.begin(queue, values, f"connection {session_id}")
        return AskedQuery(query, QueryReply(EXCHANGE_FORMAT.number, b"", name, request), session_id)

    def do_turn(self) -> None:
        """Do one step of one query, and answer it if it is done."""
        asked = self.asked.popleft()
        self.advance(asked.query, STEP_RECORDS)
        if asked.query.is_done:
            send_answer(self.publishing, self.replies, asked.reply, answer_of(asked.query))
        else:
            self.asked.append(asked)

    def close_session(self, session_id: i64) -> None:
        """Drop the queries of a session that has ended."""
        if self.asked:
            self.asked = deque([each for each in self.asked if each.session_id != session_id])

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
