"""Dead letters over crashes at any place: each message is in exactly one queue, whatever died, moved or went back.

Queues `a`, `b` and `c` hand their dead letters on to each other and to `dead`. Every message is one body; the crash
leaves what the disk had been given when its last change was allowed.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from forebay.broker.redrive import dead_letter_queues as dlq
from forebay.core.errors import RequestError
from forebay.core.message import ACCEPTED, Properties
from forebay.queue.leases.lease import FAILED, UNTRIED, Lease
from forebay.wire.amqp091 import properties as amqp
from tests.examples import examples
from tests.stores import PowerCut
from tests.vhosts import EMPTY, OneVhost

WORK = [b"a", b"b", b"c"]
QUEUES = [*WORK, b"dead"]
QUEUE = st.sampled_from(WORK)


def expiring(ms: int) -> bytes:
    said = Properties()
    said.expiration_ms = ms
    return amqp.encode_properties(said)


class DeadLetterMachine(RuleBasedStateMachine):
    """A broker whose turns and syncs are made by hand, and the messages that it has accepted.

    sure     accepted and on disk, and settled by nobody
    maybe    accepted, acknowledged or discarded since the last sync: after a crash they are there or not, once
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.broker = OneVhost(self.folder / "data")
        self.sure: set[bytes] = set()
        self.maybe: set[bytes] = set()
        self.held: list[tuple[Lease, int, bytes]] = []
        self.next = 0

    @initialize(at_least_once=st.booleans())
    def begin(self, at_least_once: bool) -> None:
        """`a` overflows into `b`, `b` expires into `c`, and what fails in `c` goes to `dead`, which may be full."""
        declare = self.broker.declare
        more = {"x_max_length": 3, "x_overflow": "reject-publish"} if at_least_once else {}
        declare(b"dead", **more)
        declare(b"a", x_dead_letter_exchange="", x_dead_letter_routing_key="b", x_max_length=5)
        declare(b"b", x_dead_letter_exchange="", x_dead_letter_routing_key="c", x_message_ttl=1000)
        strategy = {"x_dead_letter_strategy": "at-least-once", "x_overflow": "reject-publish"} if at_least_once else {}
        declare(b"c", x_dead_letter_exchange="", x_dead_letter_routing_key="dead", x_delivery_limit=1, **strategy)
        self.broker.settle()

    @rule(queue=QUEUE, count=st.integers(1, 8), ms=st.sampled_from([0, 0, 500]), long=st.booleans())
    def publish(self, queue: bytes, count: int, ms: int, long: bool) -> None:
        for _ in range(count):
            body = b"%d" % self.next + b"." * (700 if long else 0)
            self.next += 1
            if self.broker.publish(b"", queue, body, expiring(ms) if ms else EMPTY) == ACCEPTED:
                self.maybe.add(body)

    @rule(queue=st.sampled_from(QUEUES), count=st.integers(1, 4))
    def take(self, queue: bytes, count: int) -> None:
        for _ in range(count):
            delivery = self.broker.vhost.consumers.get(queue, 1, 1, False)
            if delivery is None:
                return
            assert delivery.lease is not None
            body = delivery.block.body(delivery.index)
            assert body not in {each[2] for each in self.held}
            self.held.append((delivery.lease, int(delivery.lease.first), body))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), how=st.sampled_from(["ack", "reject", "reject", "requeue", "mqtt"]))
    def settle_one(self, data: st.DataObject, how: str) -> None:
        lease, first, body = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        vhost = self.broker.vhost
        if how == "reject" and lease.consumer.queue != vhost.catalog.queue(b"dead").id:
            vhost.settling.reject(lease, first, 1)
        elif how == "requeue":
            vhost.settling.nack(lease, first, 1, 0, FAILED)
        elif how == "mqtt" and lease.consumer.queue != vhost.catalog.queue(b"dead").id:
            try:
                vhost.dead_letters.reject(lease, first, b"")
            except RequestError:
                vhost.settling.nack(lease, first, 1, 0, UNTRIED)
        else:
            self.gone({body}, vhost.settling.ack(lease, first, 1))

    def gone(self, bodies: set[bytes], count: int) -> None:
        assert count == len(bodies)
        self.sure -= bodies
        self.maybe |= bodies

    @rule(how=st.sampled_from(["redrive", "purge", "edit", "elsewhere"]), limit=st.integers(1, 5), queue=QUEUE)
    def administrate(self, how: str, limit: int, queue: bytes) -> None:
        vhost = self.broker.vhost
        vhost.turn.seal(vhost.catalog.queue(b"dead"))
        letters = list(dlq.walk(vhost, vhost.catalog.queue(b"dead"), 0))
        held = {body for _, _, body in self.held}
        waiting = [each for each in letters if each.block.body(each.index) not in held]
        try:
            if how == "redrive":
                dlq.redrive(vhost, b"dead", None, b"", 0, limit)
            elif how == "elsewhere":
                dlq.redrive(vhost, b"dead", None, queue, 0, limit)
            elif how == "purge":
                bodies = {each.block.body(each.index) for each in waiting[:limit]}
                self.gone(bodies, dlq.discard(vhost, b"dead", None, 0, limit).done)
            elif waiting:
                dlq.edit(vhost, b"dead", dlq.offset_of(waiting[0]), None, {"looked-at": True})
        except RequestError as error:
            if "full" not in error.text and "does not say where it died" not in error.text:
                raise

    @rule(ms=st.sampled_from([1, 600, 1500]))
    def wait(self, ms: int) -> None:
        self.broker.jump(ms)

    @rule(sync=st.booleans())
    def turn(self, sync: bool) -> None:
        self.broker.turn(sync)
        if sync:
            self.learn()

    def learn(self) -> None:
        """Have everything on disk, settlements too: what is there now is there for sure."""
        self.broker.flush()
        there = {body for queue in QUEUES for body in self.broker.kept(queue)}
        self.sure |= self.maybe & there
        self.maybe.clear()

    @rule(changes=st.integers(0, 6))
    def crash(self, changes: int) -> None:
        """The power goes after so many more changes of the disk, in a turn or between two."""
        if changes:
            self.broker.disk.changes_max = changes
            try:
                self.broker.settle()
                self.learn()
            except PowerCut:
                pass
        self.broker.crash()
        self.held.clear()
        there = self.each_once()
        lost = self.sure - there
        assert not lost, f"lost: {sorted(lost)}"
        assert there <= self.sure | self.maybe
        self.sure = there
        self.maybe.clear()

    def each_once(self) -> set[bytes]:
        """All that the queues have; nothing twice."""
        found = [body for queue in QUEUES for body in self.broker.kept(queue)]
        assert len(found) == len(set(found)), sorted(body for body in found if found.count(body) > 1)
        return set(found)

    @invariant()
    def nothing_is_in_two_places(self) -> None:
        there = self.each_once()
        assert there <= self.sure | self.maybe

    def teardown(self) -> None:
        for lease, first, _ in self.held:
            self.broker.vhost.settling.nack(lease, first, 1, 0)
        for _ in range(2):
            self.go_round()
        self.broker.settle()
        self.learn()
        assert self.sure == self.each_once()
        self.broker.close()
        shutil.rmtree(self.folder)

    def go_round(self) -> None:
        """Everything goes the whole way, from `a` to `dead`: no message sent back is taken for one in a circle."""
        vhost = self.broker.vhost
        dlq.redrive(vhost, b"dead", None, b"a", 0, 100)
        self.publish(b"a", 6, 0, False)  # the others give way
        self.broker.settle()
        self.broker.later(2000)
        while (delivery := vhost.consumers.get(b"c", 1, 1, False)) is not None:
            assert delivery.lease is not None
            vhost.settling.nack(delivery.lease, delivery.lease.first, 1, 0, FAILED)
            self.broker.settle()


DeadLetterMachine.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
TestDeadLetters = DeadLetterMachine.TestCase
