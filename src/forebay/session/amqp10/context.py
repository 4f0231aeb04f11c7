"""The state that the sessions and links of one AMQP 1.0 connection share."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.publish.commands import ABOUT_QUEUES, MESSAGE, command_at
from forebay.core.options import Options
from forebay.directory.logins.login import Auth
from forebay.directory.permissions import READ
from forebay.routing.cut_work import WorkInHand
from forebay.session.amqp10.addresses import PublishAddress
from forebay.session.amqp10.link import LinkEndpoint
from forebay.session.amqp10.servicebus.access import EntityAccess
from forebay.session.amqp10.servicebus.locks import PeekLocks
from forebay.session.amqp10.transactions import Transactions
from forebay.session.login import Amqp10Login
from forebay.session.session import Session
from forebay.session.shared.target import PublishTarget
from forebay.session.subscribe_rate import subscribe_bucket
from forebay.session.traffic import Traffic

TARGETS_MAX: Final = 1000
ROUTE_POINTS: Final = 10  # of the meter: what it costs to find where a publish leads


@final
class LinkContext:
    """The state of one connection.

    node         name of the broker's node
    knows_rabbitmq  the client expects to talk to RabbitMQ
    frame_octets_max  of the frames that the client takes
    transactions those that are open
    receivers    links that deliver to the client, by the numbers of their consumers
    targets      of messages that say themselves where they go
    publishes    the client has published
    committed    a purge in this turn: nothing leaves before it is on disk
    handles      links of all sessions that have not been detached by the client
    temporary    queue made for the attach in hand, which is not answered yet; b"" for none
    renewal      link that asked for the proof of a token which is under way
    partial_octets  of messages of which not all frames have come
    past         counts of sessions that are gone, and of those that were begun
    responses    links by which answers to requests go, of nodes other than `/management`
    access       of a client of Azure Service Bus, to whom addresses are entities; None for any other
    locks        what such a client has locked
    """

    def __init__(self, session: Session, login: Amqp10Login, auth: Auth, options: Options) -> None:
        self.session = session
        self.auth = auth
        self.vhost = session.vhost
        self.rights = session.rights
        self.out = session.out
        self.parts = session.parts
        self.meter = session.meter
        self.options = options
        self.work = WorkInHand(session.vhost.budgets.publishes)
        self.user = login.principal.user.encode("utf-8", "surrogateescape")
        self.container = login.container
        self.knows_rabbitmq = login.knows_rabbitmq
        self.node = "forebay"
        self.frame_octets_max: i64 = login.frame_octets_max
        self.message_octets_max: i64 = options.message_octets_max
        self.depth_max: i64 = options.table_depth_max
        self.transactions = Transactions(options.transaction_octets_max)
        self.receivers: dict[int, LinkEndpoint] = {}
        self.targets: dict[bytes, PublishTarget] = {}
        self.publishes = False
        self.committed = False
        self.past = Traffic()
        self.responses: list[LinkEndpoint] = []
        self.access: EntityAccess | None = None
        self.locks: PeekLocks | None = None
        if login.scopes is not None:
            self.access = EntityAccess(login.scopes)
            self.locks = PeekLocks(session.vhost, session.id)
        self.handles: i64 = 0
        self.temporary = b""
        self.renewal: LinkEndpoint | None = None
        self.partial_octets: i64 = 0
        self.subscribes = subscribe_bucket(options)

    def find_target(self, raw: bytes, address: PublishAddress) -> PublishTarget:
        """Return the target of an address, which the octets `raw` stand for. Raises Later, Undecided, RequestError."""
        target = self.targets.get(raw)
        if target is not None and target.is_valid():
            return target
        self.publishes = True
        self.meter.take(ROUTE_POINTS)
        exchange, key = address.exchange, address.routing_key
        vhost = self.vhost
        command, subject = command_at(exchange, key)
        if command in ABOUT_QUEUES:
            self.rights.check_queue(READ, subject)
            vhost.check_owner(subject, self.session.id)
        else:
            if exchange:
                vhost.exchange(exchange)
            self.rights.check_publish(exchange, key, vhost.is_topic_exchange(exchange))
        if command == MESSAGE:
            route = vhost.routes.route(exchange, key, self.work)
        else:
            route = vhost.routes.command_route(key, subject)
        target = PublishTarget(raw, route, self.rights.grants.version, False, command, subject)
        if route.is_valid:
            self.work.finish()
            if len(self.targets) >= TARGETS_MAX:
                self.targets.clear()
            self.targets[raw] = target
        return target

    def find_target_again(self, target: PublishTarget) -> PublishTarget:
        """Return the target of the same address, as the topology is now. Raises Later, Undecided, RequestError."""
        found = self.find_target(target.raw, PublishAddress(target.route.exchange, target.route.routing_key))
        self.finish_work()
        return found

    def finish_work(self) -> None:
        """Count the work that finding the way of a message took, and forget it."""
        self.meter.take(self.work.take_spent())
        self.work.finish()
