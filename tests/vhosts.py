"""A vhost on a store on real files, whose turns and whose clock a test moves."""

from __future__ import annotations

from pathlib import Path

from mypy_extensions import u8

from forebay.broker.facts import marks_of
from forebay.broker.vhost import Vhost
from forebay.broker.vhosts import Vhosts
from forebay.core.message import AMQP091
from forebay.core.options import make_options
from forebay.log.store import Liveness, Store
from forebay.log.wal import Commit
from forebay.queue.leases import Delivery, Lease
from forebay.wire.amqp091_deaths import keys_in_cc
from tests.stores import SMALL, SmallDisk, TestClock, bodies

EMPTY = b"\0\0"  # AMQP 0.9.1's properties of a message that has none


class Wanted(Liveness):
    """What a vhost, or all of them, still want of the log."""

    def __init__(self, whose: Vhost | Vhosts) -> None:
        self.whose = whose

    def live(self, queue: int, first: int, end: int) -> list[tuple[int, int]]:
        return self.whose.live(queue, first, end)


class OneVhost:
    """The vhost "/", recovered from its folder."""

    def __init__(self, folder: Path, clock: TestClock | None = None) -> None:
        self.disk = SmallDisk(str(folder))
        self.clock = clock or TestClock()
        self.store = Store(self.disk, self.clock, SMALL)
        recovery = self.store.open()
        self.vhost = Vhost(b"/", self.store, make_options({}))
        self.vhost.recover(recovery.entries, self.clock.us)
        self.store.start(self.vhost.checkpoint())
        self.turn()

    def turn(self, sync: bool = True) -> list[Delivery]:
        """End a turn; what it handed out."""
        deliveries = self.vhost.end_turn(self.clock.us)
        self.write(self.store.commit() if sync else None)
        return deliveries

    def write(self, commit: Commit | None) -> None:
        if commit is not None:
            commit.run()
            self.store.synced(commit)
            self.vhost.synced()

    def flush(self) -> None:
        """Take to the disk also what nobody waits for, as the server does each second."""
        self.write(self.store.flush())

    def settle(self) -> None:
        """Turns until there is nothing to do without somebody's doing."""
        self.turn()
        while self.vhost.has_work():
            self.turn()

    def later(self, ms: int) -> None:
        """Let time go by, and do what it brings."""
        self.clock.us += 1000 * ms
        self.vhost.tick(self.clock.us)
        self.vhost.sweep(self.clock.us)
        self.settle()

    def declare(self, name: bytes, **arguments: object) -> None:
        """A durable queue; `x_message_ttl=1` is the argument x-message-ttl."""
        given = {key.replace("_", "-"): value for key, value in arguments.items()}
        self.vhost.declare_queue(name, True, False, False, given, 1)

    def publish(self, exchange: bytes, key: bytes, body: bytes, properties: bytes = EMPTY) -> int:
        """As a client of AMQP does, CC and all."""
        format = u8(AMQP091 | marks_of(AMQP091, properties))
        keys = [key, *keys_in_cc(properties)]
        return self.vhost.publish(self.vhost.route_all(exchange, keys, format, properties), format, properties, body)

    def held(self, queue: bytes) -> Lease:
        """The lease of all that a new consumer gets."""
        self.vhost.consume(queue, 1, 1, b"c", False, False, 0, {})
        return leased(self.turn())

    def taken(self, queue: bytes) -> Lease:
        """The lease of the one record that is next."""
        delivery = self.vhost.get(queue, 1, 1, False)
        assert delivery is not None and delivery.lease is not None, f"queue {queue!r} is empty"
        return delivery.lease

    def kept(self, queue: bytes) -> list[bytes]:
        """The bodies of what is in a queue and not settled, by age."""
        where = self.vhost.queue(queue)
        found = bodies(where.log)
        live = where.live(0, where.log.end)
        return [found[offset] for first, end in live for offset in range(first, end) if offset in found]

    def crash(self) -> None:
        self.disk.close_all()


def leased(deliveries: list[Delivery]) -> Lease:
    lease = deliveries[0].lease
    assert lease is not None
    return lease
