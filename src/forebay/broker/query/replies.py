"""Queries that are asked by a message: the request, and its answer as a message."""

from __future__ import annotations

from typing import Final, final

import msgspec
from mypy_extensions import i64, u8

from forebay.broker.publish.publishing import Publishing
from forebay.broker.publish.replies import Replies
from forebay.broker.query.running import RunningQuery
from forebay.core.errors import INVALID, RequestError
from forebay.core.message import OCTETS_ID, QOS_SHIFT, TEXT_ID, Properties
from forebay.core.reading.json_text import JsonError, read_json
from forebay.message.formats.table import format_of
from forebay.message.shown import plain

REQUEST_OCTETS_MAX: Final = 64 << 10
JSON_TYPE: Final = "application/json"
QOS: Final = 1  # of answers over MQTT


@final
class QueryReply:
    """The place that the answer to a query goes to.

    format       of the request, and of the answer
    routing_key  of the default exchange, the name of a consumer of direct replies, or a topic of MQTT
    exchange     "" unless the client named another one; no meaning for a topic
    request      properties of the request, whose correlation id, or else message id, is the answer's correlation id
    """

    def __init__(self, format: i64, exchange: bytes, routing_key: bytes, request: Properties) -> None:
        self.format: i64 = format_of(format).number
        self.exchange = exchange
        self.routing_key = routing_key
        self.request = request


@final
class AskedQuery:
    """A query that was asked by a message of a session, and the place for its answer."""

    def __init__(self, query: RunningQuery, reply: QueryReply, session_id: i64) -> None:
        self.query = query
        self.reply = reply
        self.session_id: i64 = session_id


def read_request(body: bytes) -> dict[str, object]:
    """Return the arguments in the body of a request: an object of JSON, or nothing. Raises RequestError(INVALID)."""
    if not body:
        return {}
    if len(body) > REQUEST_OCTETS_MAX:
        raise RequestError(INVALID, f"query: has {len(body)} bytes, more than {REQUEST_OCTETS_MAX}")
    try:
        values = read_json(body, "query")
    except JsonError as error:
        raise RequestError(INVALID, f"query: {error}") from None
    if not isinstance(values, dict):
        raise RequestError(INVALID, "query: is no object of JSON")
    return values


def answer_of(query: RunningQuery) -> dict[str, object]:
    """Return the answer of a query that is done, or the error that it ended with."""
    try:
        return query.answer()
    except RequestError as error:
        return error_answer(error)


def error_answer(error: RequestError) -> dict[str, object]:
    """Return what the answer says of an error."""
    return {"error": error.reason, "reason": error.text}


def correlate(answer: Properties, request: Properties) -> None:
    """Give an answer the correlation id by which its client knows it."""
    answer.correlation_id = request.correlation_id
    answer.correlation_id_type = request.correlation_id_type
    if request.correlation_id is None and request.message_id is not None:
        is_octets = request.message_id_type == OCTETS_ID
        answer.correlation_id = bytes.fromhex(request.message_id) if is_octets else request.message_id.encode()
        answer.correlation_id_type = request.message_id_type or TEXT_ID


def send_answer(publishing: Publishing, replies: Replies, reply: QueryReply, answer: dict[str, object]) -> None:
    """Publish the answer to a query; it is lost if its place is gone, or does not take it."""
    format = format_of(reply.format)
    properties = Properties()
    properties.durable = False
    properties.content_type = JSON_TYPE
    correlate(properties, reply.request)
    properties.body_is_text = True
    column = format.encode(properties)
    body = format.body_of_text(msgspec.json.encode(plain(answer)))
    octet = u8(format.number)
    if format.keys_are_topics:
        publishing.publish_topic(reply.routing_key, octet | u8(QOS << QOS_SHIFT), column, body)
    elif not reply.exchange and replies.has(reply.routing_key):
        replies.append(reply.routing_key, octet, column, body)
    else:
        try:
            route = publishing.router.route(reply.exchange, reply.routing_key)
            if route.headers_exchange is not None:
                route = publishing.router.resolve(route, octet, column)
        except RequestError:
            return  # the exchange or queue is gone
        publishing.publish(route, octet, column, body)
