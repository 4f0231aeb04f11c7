"""Publishing for callers without a session, over HTTP and over CoAP. Outcomes are status codes of HTTP."""

from __future__ import annotations

import asyncio
from typing import Final

from mypy_extensions import u8

from forebay.admin.bridge.message import Message, PublishRequest, check_right, checked
from forebay.admin.caller import Caller
from forebay.broker.mqtt.sessions import is_topic
from forebay.broker.publish.outcome import NO_ROOM
from forebay.broker.publish.route import Route
from forebay.broker.vhost import Vhost
from forebay.core.errors import NOT_ALLOWED, NOT_FOUND, REFUSED, PeerError, RequestError
from forebay.core.message import ACCEPTED, REJECTED
from forebay.core.units import US_PER_MS
from forebay.directory.permissions import Rights
from forebay.message.formats.table import topic_octet
from forebay.queue.queue import SHARE
from forebay.routing.exchange import text
from forebay.server.broker_view import BrokerView
from forebay.session.mqtt.incoming.publish import topic_address

OK: Final = 200
ACCEPTED_STATUS: Final = 202
BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
NOT_THERE: Final = 404
TOO_LARGE: Final = 413
TOO_MANY: Final = 429
UNAVAILABLE: Final = 503
RETRY_FULL_S: Final = 1  # what is to be waited for a queue's consumers
RETRY_LACK_S: Final = 5  # and for memory or disk


class PublishAnswer:
    """The outcome of one publish.

    offsets   by queue, of those that took it
    due_us    when it is published; 0 for at once
    """

    def __init__(self, status: int, reason: str = "") -> None:
        self.status = status
        self.reason = reason
        self.routed = False
        self.duplicate = False
        self.offsets: dict[str, int] = {}
        self.due_us = 0

    def fields(self) -> dict[str, object]:
        """Return the outcome as fields of a JSON object."""
        if self.reason:
            return {"error": "rejected", "reason": self.reason}
        fields: dict[str, object] = {"routed": self.routed, "offsets": self.offsets}
        if self.duplicate:
            fields["duplicate"] = True
        if self.due_us:
            fields["due_ms"] = self.due_us // US_PER_MS
        return fields


def retry_s(status: int) -> int:
    """Return after how many seconds a refused publish may be tried again."""
    return RETRY_FULL_S if status == TOO_MANY else RETRY_LACK_S


def status_of(error: RequestError | PeerError) -> int:
    """Return the status of a request that nobody can do anything with."""
    if isinstance(error, PeerError):
        return TOO_LARGE
    if error.reason in (REFUSED, NOT_ALLOWED):
        return FORBIDDEN
    return NOT_THERE if error.reason == NOT_FOUND else BAD_REQUEST


async def place_of(app: BrokerView, caller: Caller, name: str) -> tuple[Vhost, Rights]:
    """The vhost of that name and what the caller may do there; RequestError."""
    vhost = app.vhosts.by_name.get(name.encode())
    if vhost is None:
        raise RequestError(NOT_FOUND, f"vhost: '{name}' does not exist")
    return vhost, await app.decided(lambda: caller.rights(vhost.name))


async def publish_request(app: BrokerView, caller: Caller, vhost: str, wanted: PublishRequest) -> PublishAnswer:
    """Publish a message, and return what came of it when it is on the disk; RequestError, PeerError if it cannot be."""
    message = checked(wanted, app.options)
    where, rights = await place_of(app, caller, vhost)
    await app.decided(lambda: check_right(rights, message))
    await with_room(app)
    outcome = publish(app, where, message, rights.user)
    if outcome.status < BAD_REQUEST:
        await app.on_disk()
        await pay(app, caller, 1, len(wanted.body))
    return outcome


async def pay(app: BrokerView, caller: Caller, messages: int, octets: int) -> None:
    """Keep a caller waiting who publishes faster than a user may."""
    await asyncio.sleep(app.debt_of_user(caller.user, messages, octets))


async def with_room(app: BrokerView) -> None:
    """Wait where only too much is on its way to the disk: over TCP such a publisher would not be read."""
    while app.readings.is_over_limit() and not app.readings.alarms():
        await app.on_disk()


def publish(app: BrokerView, vhost: Vhost, message: Message, user: str) -> PublishAnswer:
    """Publish a user's checked message; nothing of what is refused is on its way."""
    if app.readings.is_over_limit():
        alarms = ", ".join(app.readings.alarms()) or "too much is not on the disk yet"
        return PublishAnswer(UNAVAILABLE, f"the broker takes in nothing for now: {alarms}")
    vhost.touch()
    identity = message.identity
    seen = vhost.deduplication
    if identity is not None:
        identity.user = user.encode()
        if seen.is_known(topic_address(message.topic), identity, vhost.turn.now_us):
            known = PublishAnswer(OK)
            known.routed = known.duplicate = True
            return known
        if not vhost.admission.take_room(seen.octets(identity)):
            return PublishAnswer(UNAVAILABLE, NO_ROOM.reason)
    try:
        outcome = delay(app, vhost, message) if message.delay_ms else publish_now(vhost, message)
    except RequestError as error:
        return PublishAnswer(BAD_REQUEST, error.text)
    if identity is not None and outcome.status < BAD_REQUEST and (outcome.routed or outcome.due_us):
        seen.remember(identity)
    return outcome


def format_of(message: Message) -> u8:
    return topic_octet(message.qos, message.retain)


def delay(app: BrokerView, vhost: Vhost, message: Message) -> PublishAnswer:
    """Keep a message until its time."""
    due_us = app.now_us() + message.delay_ms * US_PER_MS
    kept = vhost.publishing.delay(b"", due_us, format_of(message), message.topic, message.properties, message.body)
    if kept.status == REJECTED:
        return PublishAnswer(UNAVAILABLE, kept.reason)
    outcome = PublishAnswer(ACCEPTED_STATUS)
    outcome.due_us = due_us
    return outcome


def publish_now(vhost: Vhost, message: Message) -> PublishAnswer:
    format = format_of(message)
    route = vhost.router.route_topic(message.topic, None)
    if route.headers_exchange is not None:
        route = vhost.router.resolve(route, format, message.properties)
    unwilling = refused_by_queue(route, len(message.body))
    if unwilling is not None:
        return unwilling
    if message.retain and is_topic(message.topic):
        retained = vhost.publishing.retain(message.topic, format, message.properties, message.body)
        if retained.status == REJECTED:
            return PublishAnswer(UNAVAILABLE, retained.reason)
    offsets = {
        text(queue.name): int(queue.log.end + queue.log.writer.count) for queue in route.queues if queue.kind != SHARE
    }
    result = vhost.publishing.publish(route, format, message.properties, message.body)
    if result.status == REJECTED:
        return PublishAnswer(UNAVAILABLE, result.reason)
    outcome = PublishAnswer(OK)
    outcome.routed = result.status == ACCEPTED
    outcome.offsets = offsets if outcome.routed else {}
    return outcome


def refused_by_queue(route: Route, octets: int) -> PublishAnswer | None:
    """The outcome where a queue would refuse a message of so many octets, or holds too much: nobody is given it."""
    for queue in route.queues:
        if queue.crowded or (queue.is_full() and queue.last_values is None):
            return PublishAnswer(TOO_MANY, f"queue '{text(queue.name)}' is full, or over its share of the broker")
        if queue.is_too_long(octets):
            return PublishAnswer(TOO_LARGE, f"queue '{text(queue.name)}' {queue.refusal(octets)}")
    return None
