"""The observations of clients (RFC 7641): one notification at a time, each until the client acknowledges it.

A client that rejects one, or is silent for as long as a confirmable message is repeated, is observing no more. One that
has heard nothing for a long time is asked whether it is there.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Final

from forebay.admin.bridge.transport import begin_session, end_all
from forebay.admin.caller import Caller
from forebay.admin.coap.bodies import cut, octets_of
from forebay.admin.coap.formats import number_of
from forebay.admin.coap.notifications import Notification, NotificationTransport
from forebay.admin.coap.outbox import ConfirmableOutbox
from forebay.admin.coap.reach import Address, Reach
from forebay.broker.vhost import Vhost
from forebay.core.errors import TOO_MANY, RequestError
from forebay.directory.permissions import Rights
from forebay.node.peer import peer_at
from forebay.server.broker_view import BrokerView
from forebay.server.faults import REQUEST
from forebay.server.net import Connection
from forebay.server.transport.coap_traffic import ACKNOWLEDGED, LOST
from forebay.session.coap import ObserverSession
from forebay.session.login import Login
from forebay.wire.coap.answer import CONTENT, UNAVAILABLE, CoapAnswer
from forebay.wire.coap.message import CONFIRMABLE, EMPTY, CoapMessage
from forebay.wire.coap.request import BlockOption

PROBE_S: Final = 900.0  # of silence, after which a client is asked whether it is there
FETCH_S: Final = 10.0  # for which a client may fetch the next block of a long notification before a newer one is sent
SEQUENCES: Final = 1 << 24
Key = tuple[Address, bytes]


class Observation:
    """One client's observation of one resource.

    resource   path and queries, by which later blocks are asked for
    current    the notification that was sent last, of which the client may fetch the other blocks
    is_proven  the client has shown that it is there
    """

    def __init__(
        self, address: Address, token: bytes, resource: bytes, transport: NotificationTransport, is_proven: bool
    ) -> None:
        self.address = address
        self.token = token
        self.resource = resource
        self.transport = transport
        self.is_proven = is_proven
        self.sequence = 0
        self.current: Notification | None = None
        self.fetched_s = 0.0
        self.is_fetched = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def next_answer(self, notification: Notification | None, octets_max: int) -> CoapAnswer | None:
        """Return the next notification; None if it cannot be sent within `octets_max` octets, 0 for no limit."""
        self.sequence = (self.sequence + 1) % SEQUENCES
        body, content_type = (b"", b"") if notification is None else (notification.body, notification.content_type)
        answer = CoapAnswer(CONTENT, body, number_of(content_type.decode("utf-8", "replace")))
        answer.max_age = int(PROBE_S)
        answer.observe = self.sequence
        return cut(answer, body, None, octets_max)


class Observations:
    """All observations of one listener."""

    def __init__(self, app: BrokerView, outbox: ConfirmableOutbox, reach: Reach, own_address: tuple[str, int]) -> None:
        self.app = app
        self.outbox = outbox
        self.reach = reach
        self.own_address = own_address
        self.traffic = app.coap
        self.loop = asyncio.get_running_loop()
        self.by_token: dict[Key, Observation] = {}
        self.by_resource: dict[Key, Observation] = {}
        self.at: Counter[Address] = Counter()

    async def begin(
        self, caller: Caller, vhost: Vhost, filter: bytes, is_plain: bool, key: Key, resource: bytes
    ) -> tuple[Observation, int]:
        """Begin an observation, in place of one with the same token, and return how many retained messages come first.

        raises  RequestError: TOO_MANY, or the filter or the caller's rights are wrong. PeerError: too many connections
        """
        address, token = key
        self.cancel(key)
        self.check_room(address)
        options = self.app.options

        def make(id: int, login: Login, vhost: Vhost, rights: Rights) -> ObserverSession:
            return ObserverSession(id, login, vhost, rights, is_plain)

        def wrap(connection: Connection) -> NotificationTransport:
            connection.listener = "coap"
            return NotificationTransport(connection, self.traffic, options.coap_octets_max, self.own_address)

        peer = peer_at(*address)
        self.at[address] += 1
        try:
            transport, session = await begin_session(self.app, caller, vhost, peer, make, wrap)
            try:
                count = session.subscribe(filter)
            except RequestError:
                transport.connection.connection_lost(None)
                raise
        except BaseException:
            self.leave(address)
            raise
        self.cancel(key)  # one that has begun meanwhile
        is_proven = self.reach.is_proven(address, self.loop.time())
        observation = Observation(address, token, resource, transport, is_proven)
        self.by_token[key] = observation
        self.by_resource[address, resource] = observation
        self.traffic.observations = len(self.by_token)
        self.app.touch(transport.connection)
        return observation, count

    def check_room(self, address: Address) -> None:
        """Refuse an observation if there are as many as there may be."""
        options = self.app.options
        if self.at.total() >= options.coap_observations_max:
            raise RequestError(
                TOO_MANY, f"there are {options.coap_observations_max} observations, coap_observations_max"
            )
        most = options.coap_address_observations_max
        if self.at[address] >= most:
            raise RequestError(TOO_MANY, f"there are {most} observations here, coap_address_observations_max")

    def leave(self, address: Address) -> None:
        """Count an observation of an address no more."""
        self.at[address] -= 1
        if self.at[address] <= 0:
            del self.at[address]
            self.outbox.forget(address)

    def run(self, observation: Observation, first: CoapAnswer) -> None:
        """Notify the client of what comes after its first notification."""
        if not has_more(first):
            observation.is_fetched.set()
        observation.task = self.loop.create_task(self.notify(observation))

    def cancel(self, key: Key) -> bool:
        """End an observation as its client wants it; return whether there was one."""
        observation = self.by_token.get(key)
        if observation is None:
            return False
        self.end(observation)
        return True

    def end(self, observation: Observation) -> None:
        """End an observation, and its session."""
        key = (observation.address, observation.token)
        if self.by_token.get(key) is not observation:
            return
        del self.by_token[key]
        resource = (observation.address, observation.resource)
        if self.by_resource.get(resource) is observation:
            del self.by_resource[resource]
        self.set_current(observation, None)
        observation.transport.connection.connection_lost(None)
        observation.transport.abort()
        if observation.task is not None and observation.task is not asyncio.current_task():
            observation.task.cancel()
        self.leave(observation.address)
        self.traffic.observations = len(self.by_token)

    def set_current(self, observation: Observation, notification: Notification | None) -> None:
        """Keep a notification for the client to fetch the rest of it, and let go of the one before."""
        older, observation.current = observation.current, notification
        if older is not None and not older.is_last:
            self.traffic.give_back(older.octets)

    async def notify(self, observation: Observation) -> None:
        """Send notifications until the observation ends."""
        try:
            await self.let_fetch(observation)
            while await self.notify_once(observation):
                continue
        except Exception as error:  # noqa: BLE001  the observation's boundary
            self.app.faults.note(REQUEST, f"an observation of {observation.address[0]}", error)
        finally:
            self.end(observation)

    async def notify_once(self, observation: Observation) -> bool:
        """Send the next notification, or ask a silent client whether it is there; return whether that goes on."""
        try:
            async with asyncio.timeout(PROBE_S):
                notification = await observation.transport.take()
        except TimeoutError:
            probe = CoapMessage(CONFIRMABLE, EMPTY, 0)
            return await self.outbox.deliver(probe, observation.address) != LOST
        if notification is None:
            return False
        if notification.is_last:
            await self.send_end(observation, notification)
            return False
        self.set_current(observation, notification)
        answer = observation.next_answer(notification, 0)
        assert answer is not None
        message = answer.message(CONFIRMABLE, 0, observation.token)
        if not await self.deliver(observation, message):
            return False
        if has_more(answer):
            observation.is_fetched.clear()
            await self.let_fetch(observation)
        return True

    async def deliver(self, observation: Observation, message: CoapMessage, octets_max: int = 0) -> bool:
        """Send a notification, and return whether the client has acknowledged it."""
        outcome = await self.outbox.deliver(message, observation.address, octets_max)
        self.traffic.notifications[outcome] += 1
        if outcome == ACKNOWLEDGED:
            observation.is_proven = True
            return True
        return False

    async def send_end(self, observation: Observation, notification: Notification) -> None:
        """Tell a client that its observation is over, once."""
        answer = CoapAnswer(UNAVAILABLE, notification.body)
        message = answer.message(CONFIRMABLE, 0, observation.token)
        await self.outbox.deliver(message, observation.address, octets_max=octets_of(answer))

    async def let_fetch(self, observation: Observation) -> None:
        """Wait while the client fetches the other blocks of what it was sent last."""
        observation.fetched_s = self.loop.time()
        while not observation.is_fetched.is_set():
            left_s = observation.fetched_s + FETCH_S - self.loop.time()
            if left_s <= 0:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await observation.is_fetched.wait()

    def block_of(self, address: Address, resource: bytes, wanted: BlockOption, octets_max: int) -> CoapAnswer | None:
        """Return a later block of the notification that the client was sent last; None if there is none."""
        observation = self.by_resource.get((address, resource))
        current = None if observation is None else observation.current
        if observation is None or current is None:
            return None
        observation.fetched_s = self.loop.time()
        answer = CoapAnswer(CONTENT, b"", number_of(current.content_type.decode("utf-8", "replace")))
        made = cut(answer, current.body, wanted, octets_max)
        if made is None or made.block2 is None or not made.block2.more:
            observation.is_fetched.set()
        return made

    def tell_end(self) -> None:
        """The broker stops: have every client be told that its observation is over."""
        end_all(self.app, NotificationTransport)

    def end_all(self) -> None:
        """End all observations at once."""
        for observation in list(self.by_token.values()):
            self.end(observation)


def resource_of(path: list[bytes], queries: list[bytes]) -> bytes:
    """Return the name of a resource, by which two requests for it are told to be for the same."""
    return b"\0".join([*path, b"", *queries])


def has_more(answer: CoapAnswer) -> bool:
    """Return whether the client has to fetch more blocks of an answer."""
    return answer.block2 is not None and bool(answer.block2.more)
