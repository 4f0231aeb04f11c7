"""A vhost without clients: a test asks of it what sessions would, in a node in its hand."""

from __future__ import annotations

from mypy_extensions import u8

from forebay.core.message import AMQP091
from forebay.message.formats.table import EXCHANGE_FORMAT
from forebay.queue.leases.lease import Consumer, Delivery, Lease
from forebay.session.session import Session
from tests.logins import amqp_login
from tests.node_rig import Line, NodeRig
from tests.stores import bodies

EMPTY = b"\0\0"  # AMQP 0.9.1's properties of a message that has none
SEATS = 9  # sessions that a test may consume for, from 1 on


class Recorder(Session):
    """A session without a client, which keeps what it is handed."""

    def __init__(self, id: int, rig: OneVhost) -> None:
        login = amqp_login(next(iter(rig.options.users)))
        super().__init__(id, login, rig.vhost, rig.vhosts.directory.users.rights(login.principal, login.vhost))
        self.rig = rig

    def deliver(self, delivery: Delivery) -> None:
        self.rig.given.append(delivery)

    def cancelled(self, consumer: Consumer) -> None:
        self.rig.cancelled.append(consumer)

    def closed(self) -> None:
        self.vhost.session_closed(self.id)

    def dismiss(self, text: str, is_ours: bool = False) -> None:
        self.reason = text
        self.closing = True

    def taken_over(self) -> None:
        self.closing = True

    def shut_down(self) -> None:
        self.closing = True

    def describe(self) -> dict[str, object]:
        return {}

    # ---- no client sends anything, or has to hear of anything

    def receive(self, data: bytes) -> int:
        return len(data)

    def wanted(self, rest: bytes) -> int:
        return 0

    def end_turn(self, lsn: int, durable: int) -> None: ...

    def on_durable(self, durable: int) -> None: ...

    def waiting(self) -> bool:
        return False

    def tick(self, now_us: int) -> None: ...

    def is_publisher(self) -> bool:
        return False

    def blocked(self, reason: str) -> None: ...

    def proven(self) -> None: ...


class OneVhost(NodeRig):
    """The vhost "/" of a node, with sessions that consume what a test has them consume.

    given      what they were handed since `deliveries` was called last
    cancelled  consumers that lost their queue
    """

    def start(self) -> None:
        super().start()
        self.given: list[Delivery] = []
        self.cancelled: list[Consumer] = []
        for _ in range(SEATS):
            self.broker.seat(Line(self, "amqp", 0), self.seated)
        self.turn()

    def seated(self, id: int) -> Session:
        return Recorder(id, self)

    def deliveries(self) -> list[Delivery]:
        """End a turn; what it delivers."""
        self.given = []
        self.turn()
        return self.given

    def declare(self, name: bytes, **arguments: object) -> None:
        """A durable queue; `x_message_ttl=1` is the argument x-message-ttl."""
        given = {key.replace("_", "-"): value for key, value in arguments.items()}
        self.vhost.catalog.declare_queue(name, True, False, False, given, 1)

    def publish(self, exchange: bytes, key: bytes, body: bytes, properties: bytes = EMPTY) -> int:
        """As a client of AMQP does, CC and all."""
        format = u8(AMQP091 | EXCHANGE_FORMAT.marks(properties))
        keys = [key, *EXCHANGE_FORMAT.further_keys(properties)]
        return self.vhost.publishing.publish(
            self.vhost.router.route_all(exchange, keys, format, properties), format, properties, body
        ).status

    def held(self, queue: bytes) -> Lease:
        """The lease of all that a new consumer gets."""
        self.vhost.consumers.consume(queue, 1, 1, b"c", False, False, 0, {})
        return leased(self.deliveries())

    def taken(self, queue: bytes) -> Lease:
        """The lease of the one record that is next."""
        delivery = self.vhost.consumers.get(queue, 1, 1, False)
        assert delivery is not None and delivery.lease is not None, f"queue {queue!r} is empty"
        return delivery.lease

    def kept(self, queue: bytes) -> list[bytes]:
        """The bodies of what is in a queue and not settled, by age."""
        where = self.vhost.catalog.queue(queue)
        found = bodies(where.log)
        live = where.needed(0, where.log.end)
        return [found[offset] for first, end in live for offset in range(first, end) if offset in found]


def leased(deliveries: list[Delivery]) -> Lease:
    lease = deliveries[0].lease
    assert lease is not None
    return lease
