"""The resources that are served over CoAP, and how each request for one is answered.

    /publish/<topic>     POST, PUT   publish the payload
    /topic/<topic>       GET         the retained message; observed: each new message
    /subscribe/<filter>  GET         observed: each new message of the topics that match
    /.well-known/core    GET         the list of these

Rights, limits, rates and outcomes are the HTTP bridge's (`forebay.admin.bridge`).
"""

from __future__ import annotations

import asyncio
from typing import Final

import orjson

from forebay.admin.bridge.message import checked
from forebay.admin.bridge.publishing import PublishAnswer, place_of, publish_request, retry_s, status_of
from forebay.admin.caller import Caller
from forebay.admin.coap.bodies import BodyTransfers, cut
from forebay.admin.coap.formats import BY_NUMBER, JSON, LINKS, number_of
from forebay.admin.coap.notifications import Notification
from forebay.admin.coap.observations import Observation, Observations, resource_of
from forebay.admin.coap.query import PUBLISH, READ, CoapQuery
from forebay.admin.coap.reach import Address, Reach
from forebay.broker.mqtt.retained import RetainedMessage
from forebay.broker.mqtt.sessions import is_topic
from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, PeerError, RequestError
from forebay.core.errors import TOO_MANY as AT_LIMIT
from forebay.directory.logins.login import LoginContext, LoginRefused
from forebay.message.formats.table import format_of
from forebay.message.properties import properties_of
from forebay.node.peer import peer_at
from forebay.server.broker_view import BrokerView
from forebay.server.transport.coap_traffic import UNPROVEN
from forebay.wire.coap.answer import (
    BAD_OPTION,
    BAD_REQUEST,
    CHANGED,
    CONTENT,
    FORBIDDEN,
    METHOD_NOT_ALLOWED,
    NO_PROXY,
    NOT_ACCEPTABLE,
    NOT_FOUND,
    TOO_LARGE,
    TOO_MANY,
    UNAUTHORIZED,
    UNAVAILABLE,
    UNSUPPORTED_FORMAT,
    CoapAnswer,
)
from forebay.wire.coap.message import GET, POST, PUT, CoapMessage
from forebay.wire.coap.request import DEREGISTER, NONE, REGISTER, CoapRequest, read_request

COAP: Final = "coap"
PUBLISH_PATH: Final = b"publish"
TOPIC_PATH: Final = b"topic"
SUBSCRIBE_PATH: Final = b"subscribe"
CORE_PATH: Final = [b".well-known", b"core"]
CORE: Final = b"</publish>,</topic>;obs,</subscribe>;obs"
UNPROVEN_PLACE: Final = "unproven"  # address under which wrong logins are counted whose source may be forged
ACKNOWLEDGEMENT_OCTETS: Final = 4
FIRST_S: Final = 5.0  # in which a retained message comes to an observer
CODES: Final = {
    200: CHANGED,
    202: CHANGED,
    400: BAD_REQUEST,
    403: FORBIDDEN,
    404: NOT_FOUND,
    413: TOO_LARGE,
    429: TOO_MANY,
    503: UNAVAILABLE,
}


class Arrival:
    """A request as it has come.

    octets_max   that its answer may have, 0 for no limit: the client has not shown that it is there
    observation  that it has begun, and whose first notification is the answer
    """

    __slots__ = ("address", "message", "observation", "octets_max", "request")

    def __init__(self, address: Address, message: CoapMessage, octets_max: int) -> None:
        self.address = address
        self.message = message
        self.request: CoapRequest = read_request(message)
        self.octets_max = octets_max
        self.observation: Observation | None = None


class CoapRequests:
    """Answers requests of one listener."""

    def __init__(self, app: BrokerView, reach: Reach, observations: Observations) -> None:
        self.app = app
        self.reach = reach
        self.observations = observations
        self.loop = asyncio.get_running_loop()
        options = app.options
        self.transfers = BodyTransfers(app.coap, options.message_octets_max, options.coap_octets_max)

    async def answer(self, arrival: Arrival) -> CoapAnswer:
        """Return the answer to a request."""
        request = arrival.request
        if request.bad_option != NONE:
            return CoapAnswer(BAD_OPTION, b"option %d" % int(request.bad_option))
        if request.is_proxied:
            return CoapAnswer(NO_PROXY)
        now_s = self.loop.time()
        if request.echo and self.reach.check_echo(arrival.address, request.echo, now_s):
            arrival.octets_max = 0
        try:
            return await self.dispatch(arrival)
        except LoginRefused as error:
            return self.refused_login(arrival, error)
        except (RequestError, PeerError) as error:
            code = TOO_MANY if error.reason == AT_LIMIT else CODES[status_of(error)]
            return CoapAnswer(code, error.text.encode("utf-8", "replace"))

    async def dispatch(self, arrival: Arrival) -> CoapAnswer:
        """Return the answer of the resource that a request names."""
        path, method = arrival.request.path, arrival.message.code
        if path == CORE_PATH:
            return CoapAnswer(CONTENT, CORE, LINKS) if method == GET else CoapAnswer(METHOD_NOT_ALLOWED)
        kind = path[0] if len(path) > 1 else b""
        if kind == PUBLISH_PATH:
            return await self.publish(arrival) if method in (POST, PUT) else CoapAnswer(METHOD_NOT_ALLOWED)
        if kind in (TOPIC_PATH, SUBSCRIBE_PATH):
            return await self.read(arrival, kind == TOPIC_PATH) if method == GET else CoapAnswer(METHOD_NOT_ALLOWED)
        return CoapAnswer(NOT_FOUND)

    # ---- who asks

    async def login(self, arrival: Arrival, query: CoapQuery) -> Caller:
        """Return who asks; LoginRefused.

        Whoever has not shown that it is there is counted with all others of whom that is unknown: a forged source must
        not keep its owner from logging in.
        """
        address = arrival.address
        peer = peer_at(*address)
        place = LoginContext(UNPROVEN_PLACE if arrival.octets_max else address[0], COAP, peer=peer.name)
        place.loopback = peer.loopback
        values = query.values
        token, user = values.get("token"), values.get("user")
        if token is None and user is None:
            raise LoginRefused("no credentials")
        try:
            if token is not None:
                principal = await self.app.login("", token, peer.loopback, place)
            else:
                principal = await self.app.login(user or "", values.get("password", ""), peer.loopback, place)
        except LoginRefused as error:
            self.app.refuse_login(place, error)
            raise
        return Caller(self.app, principal, address[0], COAP)

    def refused_login(self, arrival: Arrival, error: LoginRefused) -> CoapAnswer:
        """Return the answer to a refused login. Who has to wait among the unproven may show first that it is there."""
        if not error.wait_s:
            return CoapAnswer(UNAUTHORIZED, error.text.encode())
        if arrival.octets_max:
            return self.challenge(arrival)
        answer = CoapAnswer(TOO_MANY, b"too many wrong logins")
        answer.max_age = error.wait_s
        return answer

    def challenge(self, arrival: Arrival) -> CoapAnswer:
        """Return the answer that has a client show that it is there (RFC 9175, section 2.3)."""
        self.app.coap.refused[UNPROVEN] += 1
        answer = CoapAnswer(UNAUTHORIZED)
        answer.echo = self.reach.echo(arrival.address, self.loop.time())
        return answer

    # ---- publishing

    async def publish(self, arrival: Arrival) -> CoapAnswer:
        """Publish the body of a request, when all of its blocks are there."""
        request, message = arrival.request, arrival.message
        content_type = BY_NUMBER.get(int(request.content_format))
        if content_type is None and request.content_format != NONE:
            return CoapAnswer(UNSUPPORTED_FORMAT)
        if request.accept not in (NONE, JSON):
            return CoapAnswer(NOT_ACCEPTABLE)
        query = CoapQuery(request.queries, PUBLISH)
        caller = await self.login(arrival, query)
        topic = topic_of(request.path)
        body = message.payload
        if request.block1 is not None:
            await self.check_publish(caller, query, topic)
            whole = self.transfers.add(arrival.address, message, request, request.block1, self.loop.time())
            if isinstance(whole, CoapAnswer):
                return whole
            body = whole
        wanted = query.publish_request(topic.decode("utf-8", "surrogateescape"), body, content_type)
        outcome = await publish_request(self.app, caller, query.vhost, wanted)
        return self.published(request, outcome)

    async def check_publish(self, caller: Caller, query: CoapQuery, topic: bytes) -> None:
        """Refuse what could not be published, before its body takes memory."""
        wanted = query.publish_request(topic.decode("utf-8", "surrogateescape"), b"", None)
        message = checked(wanted, self.app.options)
        _, rights = await place_of(self.app, caller, query.vhost)
        await self.app.decided(lambda: rights.check_publish_topic(message.topic))

    def published(self, request: CoapRequest, outcome: PublishAnswer) -> CoapAnswer:
        """Return the answer that tells of an outcome."""
        answer = CoapAnswer(CODES[outcome.status], outcome.reason.encode("utf-8", "replace"))
        answer.changes = outcome.status < 400
        answer.block1 = request.block1
        if outcome.status in (429, 503):
            answer.max_age = retry_s(outcome.status)
        elif answer.changes and request.accept == JSON:
            answer.payload = orjson.dumps(outcome.fields())
            answer.format = JSON
        return answer

    # ---- reading

    async def read(self, arrival: Arrival, is_plain: bool) -> CoapAnswer:
        """Answer with what is retained on a topic, or begin or end an observation."""
        request = arrival.request
        key = (arrival.address, arrival.message.token)
        if request.observe == DEREGISTER:
            self.observations.cancel(key)
        query = CoapQuery(request.queries, READ)
        caller = await self.login(arrival, query)
        filter = topic_of(request.path)
        vhost, rights = await place_of(self.app, caller, query.vhost)
        self.check_filter(filter, is_plain)
        await self.app.decided(lambda: rights.check_subscribe(filter))
        resource = resource_of(request.path, request.queries)
        block = request.block2
        if block is not None and block.number:
            found = self.observations.block_of(arrival.address, resource, block, arrival.octets_max)
            if found is not None:
                return found
        elif request.observe == REGISTER:
            return await self.observe(arrival, caller, vhost, filter, is_plain, resource)
        if not is_plain:
            if request.observe == DEREGISTER:
                return CoapAnswer(CONTENT)
            return CoapAnswer(BAD_REQUEST, b"a topic filter is to be observed: send the option Observe")
        return self.retained(arrival, vhost, filter)

    def check_filter(self, filter: bytes, is_plain: bool) -> None:
        """Refuse what cannot be read here."""
        if not is_topic(filter) or filter.startswith(b"$share/"):
            raise RequestError(INVALID, "queues and shared subscriptions are read over HTTP, MQTT and AMQP")
        if is_plain and (b"+" in filter or b"#" in filter):
            raise RequestError(INVALID, "a topic has no + and no #: filters are observed at /subscribe")

    async def observe(
        self, arrival: Arrival, caller: Caller, vhost: Vhost, filter: bytes, is_plain: bool, resource: bytes
    ) -> CoapAnswer:
        """Begin an observation, and answer with its first notification."""
        observations = self.observations
        key = (arrival.address, arrival.message.token)
        observation, count = await observations.begin(caller, vhost, filter, is_plain, key, resource)
        first = await first_of(observation) if count else None
        observations.set_current(observation, first)
        answer = observation.next_answer(
            first, arrival.octets_max - ACKNOWLEDGEMENT_OCTETS if arrival.octets_max else 0
        )
        if answer is None:
            observations.end(observation)
            return self.challenge(arrival)
        observation.is_proven = not arrival.octets_max
        arrival.observation = observation
        return answer

    def retained(self, arrival: Arrival, vhost: Vhost, topic: bytes) -> CoapAnswer:
        """Answer with the retained message of a topic."""
        message = retained_of(vhost, topic)
        if message is None:
            return CoapAnswer(NOT_FOUND)
        octet = message.format
        content_type = properties_of(octet, message.properties).content_type
        format = NONE if content_type is None else number_of(content_type)
        if arrival.request.accept not in (NONE, format):
            return CoapAnswer(NOT_ACCEPTABLE)
        answer = CoapAnswer(CONTENT, b"", format)
        answer.max_age = 0
        body = format_of(octet).payload(message.body)
        return cut(answer, body, arrival.request.block2, arrival.octets_max) or self.challenge(arrival)


async def first_of(observation: Observation) -> Notification | None:
    """Return the first of the retained messages of an observation; None if it does not come."""
    try:
        async with asyncio.timeout(FIRST_S):
            found = await observation.transport.take()
    except TimeoutError:
        return None
    return None if found is None or found.is_last else found


def topic_of(path: list[bytes]) -> bytes:
    """Return the topic or topic filter that a path names."""
    return b"/".join(path[1:])


def retained_of(vhost: Vhost, topic: bytes) -> RetainedMessage | None:
    """Return the retained message of a topic."""
    for number in vhost.mqtt_clients.retained_numbers(topic):
        return vhost.mqtt_clients.retained_message(number)
    return None
