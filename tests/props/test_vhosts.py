"""Vhosts that come and go, with queues of the same names, over crashes and changes of files, against a dictionary."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from forebay.broker.vhosts import Vhosts
from forebay.core.message import ACCEPTED, AMQP091
from tests.examples import examples
from tests.vhosts import OneVhost

VHOSTS = st.sampled_from([b"/", b"one", b"two", b"three"])
QUEUES = st.sampled_from([b"a", b"b"])


class VhostMachine(RuleBasedStateMachine):
    """`model` is what there is, `durable` what is on disk: vhost -> queue -> bodies that wait."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="vhosts-")
        self.rig = OneVhost(Path(self.folder.name), None, mqtt_sys_interval_s=0)
        self.model: dict[bytes, dict[bytes, list[bytes]]] = {b"/": {}}
        self.durable = self.copy()
        self.numbers: set[int] = {0}  # that were given
        self.kept: set[int] = {0}  # of which the disk knows
        self.count = 0

    def copy(self) -> dict[bytes, dict[bytes, list[bytes]]]:
        return {name: {queue: list(bodies) for queue, bodies in queues.items()} for name, queues in self.model.items()}

    @property
    def vhosts(self) -> Vhosts:
        return self.rig.vhosts

    def turn(self) -> None:
        self.rig.jump(1000)
        assert self.rig.deliveries() == []
        self.rig.flush()
        self.durable = self.copy()
        self.kept = set(self.numbers)

    @rule(name=VHOSTS)
    def add(self, name: bytes) -> None:
        is_new = name not in self.model
        number = int(self.vhosts.add(name).number)
        assert (number not in self.numbers) is is_new
        self.numbers.add(number)
        self.model.setdefault(name, {})

    @rule(name=VHOSTS)
    def delete(self, name: bytes) -> None:
        if name != b"/" and name in self.model:
            self.vhosts.delete(name)
            del self.model[name]

    @rule(name=VHOSTS, queue=QUEUES)
    def declare(self, name: bytes, queue: bytes) -> None:
        if name in self.model:
            self.vhosts.find(name).catalog.declare_queue(queue, True, False, False, {}, 1)
            self.model[name].setdefault(queue, [])

    @rule(name=VHOSTS, queue=QUEUES, octets=st.integers(0, 700))
    def publish(self, name: bytes, queue: bytes, octets: int) -> None:
        if queue in self.model.get(name, {}):
            vhost = self.vhosts.find(name)
            self.count += 1
            body = b"%d " % self.count + b"x" * octets
            assert vhost.publishing.publish(vhost.router.route(b"", queue), AMQP091, b"", body).status == ACCEPTED
            self.model[name][queue].append(body)

    @rule(name=VHOSTS, queue=QUEUES)
    def take(self, name: bytes, queue: bytes) -> None:
        if queue in self.model.get(name, {}):
            delivery = self.vhosts.find(name).consumers.get(queue, 1, 1, True)
            bodies = self.model[name][queue]
            found = [] if delivery is None else [delivery.block.body(delivery.index)]
            assert found == bodies[:1]
            del bodies[:1]

    @rule()
    def sync(self) -> None:
        self.turn()

    @rule()
    def housekeep(self) -> None:
        self.turn()
        self.rig.housekeep()

    @rule()
    def crash(self) -> None:
        """As after `kill -9`: what was not synced is as if it had not been."""
        self.model = self.durable
        self.numbers = set(self.kept)
        self.durable = self.copy()
        self.rig.crash()

    @invariant()
    def everything_is_where_it_belongs(self) -> None:
        assert {vhost.name for vhost in self.vhosts.all()} == set(self.model)
        seen: set[int] = set()
        for vhost in self.vhosts.all():
            for name, bodies in self.model[vhost.name].items():
                queue = vhost.catalog.queues[name]
                assert int(queue.id) not in seen
                seen.add(int(queue.id))
                assert queue.ready() == len(bodies)
        owned = {log for log, stored in self.rig.store.logs.stored.items() if stored.log.durable}
        assert all(self.vhosts.of_log(log) is not None for log in owned)

    def teardown(self) -> None:
        self.rig.close()
        self.folder.cleanup()


TestVhosts = VhostMachine.TestCase
TestVhosts.settings = settings(max_examples=examples(40), stateful_step_count=30, deadline=None)
