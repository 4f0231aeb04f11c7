"""Queries of queues that AMQP 0.9.1 asks by a message."""

from __future__ import annotations

from mypy_extensions import i64

from forebay.broker.contract import VhostContract
from forebay.broker.query.replies import QueryReply
from forebay.core.errors import PRECONDITION, REFUSED, RequestError
from forebay.core.message import AMQP091
from forebay.directory.logins.authorizer import Undecided
from forebay.directory.permissions import Rights
from forebay.message.formats.table import EXCHANGE_FORMAT
from forebay.routing.exchange import text


def ask_query(
    vhost: VhostContract, rights: Rights, session_id: i64, queue: bytes, properties: bytes, body: bytes
) -> None:
    """Begin the query in the body of a message, whose answer goes to the queue or consumer in its reply-to."""
    request = EXCHANGE_FORMAT.decode(properties)
    if not request.reply_to:
        raise RequestError(PRECONDITION, "reply-to: missing; a query needs a place for its answer")
    key = request.reply_to.encode("utf-8", "surrogateescape")
    if not vhost.direct_replies.has(key):
        try:
            rights.check_publish(b"", key, False)
        except Undecided:  # the message has been taken apart by now, and cannot come again
            raise RequestError(REFUSED, f"publish to '{text(key)}' once before answers are sent there") from None
    vhost.query_requests.ask(queue, body, QueryReply(AMQP091, b"", key, request), session_id, rights.user)
