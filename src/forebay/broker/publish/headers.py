"""The headers of `message/requests.py` in force: further routing keys, delays, messages taken once; and their checks.

Few messages have any of these; they go a way of their own, so that the others pay nothing for them.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64, u8

from forebay.broker.publish.deduplication import Identity, address_of, identity_of
from forebay.broker.publish.outcome import NO_ROOM, TAKEN, PublishOutcome
from forebay.broker.publish.publishing import Publishing
from forebay.broker.publish.router import Route
from forebay.core.errors import RequestError
from forebay.core.message import ACCEPTED, REJECTED
from forebay.message.formats.format import Format
from forebay.message.recurrence import next_time_us
from forebay.routing.cut_work import WorkInHand


@final
class PublishHeaders:
    """The requests in the headers of one message.

    properties  as they are delivered
    delayed     as they are kept until their time has come
    keys        further routing keys
    delay_us    0 for none
    due_us      the time of the publish instead of a delay; 0 for none
    recurrence  the times at which it is published; empty for once
    identity    None where nobody asks for it to be taken only once
    """

    def __init__(self, properties: bytes) -> None:
        self.properties = properties
        self.delayed = properties
        self.keys: list[bytes] = []
        self.delay_us: i64 = 0
        self.due_us: i64 = 0
        self.delay_id = b""
        self.recurrence = b""
        self.identity: Identity | None = None

    def is_delayed(self) -> bool:
        """Return whether the message may have to wait for its time."""
        return self.delay_us > 0 or self.due_us > 0 or len(self.recurrence) > 0


def read_publish_headers(format: Format, properties: bytes) -> PublishHeaders:
    """Return the requests in checked properties of a format; RequestError(PRECONDITION) where they are nonsense."""
    found = format.read_requests(properties)
    headers = PublishHeaders(found.properties)
    headers.delayed = found.delayed
    headers.keys = found.keys
    headers.delay_us = found.delay_us
    headers.due_us = found.due_us
    headers.delay_id = found.delay_id
    headers.recurrence = found.recurrence
    headers.identity = identity_of(found.producer, found.sequence, found.deduplication_key)
    return headers


# ---- publishing


def publish_with_headers(
    publishing: Publishing,
    route: Route,
    headers: PublishHeaders,
    format: u8,
    body: bytes,
    user: bytes,
    found: Route | None = None,
) -> PublishOutcome:
    """Publish for a user with what the headers ask for; what was taken before is TAKEN, and not published again.

    found  the message's route by all its keys and headers, where it is known already
    """
    identity = headers.identity
    if identity is None:
        return publish_or_delay(publishing, route, headers, format, body, found)
    identity.user = user
    seen = publishing.deduplication
    if seen.is_known(address_of(route.exchange, route.routing_key), identity, publishing.turn.now_us):
        return TAKEN
    if not publishing.admission.take_room(seen.octets(identity)):
        return NO_ROOM
    outcome = publish_or_delay(publishing, route, headers, format, body, found)
    if outcome.status == ACCEPTED:
        seen.remember(identity)
    return outcome


def publish_or_delay(
    publishing: Publishing, route: Route, headers: PublishHeaders, format: u8, body: bytes, found: Route | None
) -> PublishOutcome:
    due_us = headers.due_us
    if due_us == 0 and headers.delay_us:
        due_us = publishing.turn.now_us + headers.delay_us
    if headers.recurrence:
        due_us = next_time_us(headers.recurrence, publishing.turn.now_us)
    if due_us <= publishing.turn.now_us:
        found = found or route_with_headers(publishing, route, headers, format)
        return publishing.publish(found, format, headers.properties, body)
    try:
        return publishing.delay(
            headers.delay_id,
            due_us,
            format,
            route.routing_key,
            headers.delayed,
            body,
            route.exchange,
            headers.recurrence,
        )
    except RequestError as error:  # too many wait already
        return PublishOutcome(REJECTED, error.text)


def route_with_headers(
    publishing: Publishing, route: Route, headers: PublishHeaders, format: u8, work: WorkInHand | None = None
) -> Route:
    """The route of the message by all its routing keys."""
    router = publishing.router
    if headers.keys:
        keys = [route.routing_key, *headers.keys]
        return router.route_all(route.exchange, keys, format, headers.properties, work)
    return route if route.headers_exchange is None else router.resolve(route, format, headers.properties, work)
