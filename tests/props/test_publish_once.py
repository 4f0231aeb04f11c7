"""Publishes that say which message they are, over turns, lost frames, new files and crashes, against a list.

A crash goes back to the last frame on the disk, for the messages and for what is known of them alike: whatever a
publisher sends again is taken exactly if the message is not there.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from mypy_extensions import u8

from forebay.broker.publish.headers import read_publish_headers
from forebay.core.message import ACCEPTED, AMQP091, Properties
from forebay.message.formats.table import EXCHANGE_FORMAT
from forebay.wire.amqp091.properties import encode_properties
from tests.examples import examples
from tests.vhosts import OneVhost

QUEUES = st.sampled_from([b"q", b"r"])
PADDING = st.sampled_from([b"", b"L" * 3000])  # long ones fill a file soon
MINUTE_MS = 60_000

Known = tuple[dict[tuple[bytes, str], int], set[tuple[bytes, str]], list[tuple[bytes, bytes]]]


class OnceMachine(RuleBasedStateMachine):
    """The model: last numbers, keys, and what is in the queues; `durable` is what a crash goes back to."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.rig = OneVhost(self.folder)
        for name in (b"q", b"r"):
            self.rig.declare(name)
        self.rig.turn()
        self.last: dict[tuple[bytes, str], int] = {}
        self.keys: set[tuple[bytes, str]] = set()
        self.taken: list[tuple[bytes, bytes]] = []
        self.durable: Known = ({}, set(), [])
        self.bodies = 0

    def publish(self, queue: bytes, padding: bytes, **headers: object) -> bytes:
        """Publish as a session does; the body."""
        self.bodies += 1
        body = b"%d %b" % (self.bodies, padding)
        properties = Properties()
        properties.headers = [(name.replace("_", "-"), value) for name, value in headers.items()]
        special = read_publish_headers(EXCHANGE_FORMAT, encode_properties(properties))
        vhost = self.rig.vhost
        route = vhost.router.route(b"", queue)
        assert vhost.publishing.publish_with_headers(route, special, u8(AMQP091), body, b"ada").status == ACCEPTED
        return body

    @rule(queue=QUEUES, producer=st.sampled_from(["a", "b"]), step=st.integers(-2, 3), padding=PADDING)
    def numbered(self, queue: bytes, producer: str, step: int, padding: bytes) -> None:
        name = (queue, producer)
        number = max(0, self.last.get(name, 0) + step)
        body = self.publish(queue, padding, x_producer_id=producer, x_sequence=number)
        if number > self.last.get(name, -1):
            self.last[name] = number
            self.taken.append((queue, body))

    @rule(queue=QUEUES, key=st.sampled_from(["k0", "k1", "k2", "k3"]), padding=PADDING)
    def keyed(self, queue: bytes, key: str, padding: bytes) -> None:
        body = self.publish(queue, padding, x_deduplication_key=key)
        if (queue, key) not in self.keys:
            self.keys.add((queue, key))
            self.taken.append((queue, body))

    @rule(sync=st.booleans(), ms=st.integers(0, 10))
    def turn(self, sync: bool, ms: int) -> None:
        self.rig.turn(sync)
        self.rig.clock.us += ms * 1000
        if sync and not self.rig.store.due_lsn() > self.rig.store.durable:
            self.durable = (dict(self.last), set(self.keys), list(self.taken))

    @precondition(lambda self: self.rig.store.finished is None)
    @rule()
    def rotate_and_housekeep(self) -> None:
        """Old files are rewritten without what nobody wants."""
        self.turn(True, 0)
        self.rig.checkpoint()
        self.rig.housekeep()

    @rule()
    def the_window_ends(self) -> None:
        self.turn(True, 0)
        self.rig.later(10 * MINUTE_MS + 1)
        self.turn(True, 0)
        self.last.clear()
        self.keys.clear()
        self.durable = ({}, set(), list(self.taken))

    @rule()
    def crash(self) -> None:
        self.rig.crash()
        self.last, self.keys, self.taken = dict(self.durable[0]), set(self.durable[1]), list(self.durable[2])

    @invariant()
    def each_message_is_there_once(self) -> None:
        for name in (b"q", b"r"):
            there = self.rig.kept(name)
            assert there == [body for queue, body in self.taken if queue == name][: len(there)]
            if not self.rig.vhost.catalog.queue(name).log.writer.count:
                assert len(there) == len([body for queue, body in self.taken if queue == name])

    def teardown(self) -> None:
        self.rig.close()
        shutil.rmtree(self.folder)


OnceMachine.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
TestPublishOnce = OnceMachine.TestCase
