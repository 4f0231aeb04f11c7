"""Transactions of a channel against a model: what they settle and publish happens at the commit, or never."""

from __future__ import annotations

import shutil
import tempfile

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.conformance.amqp091 import raw
from tests.conformance.amqp091.raw import method, number, publish, short
from tests.examples import examples
from tests.props.test_amqp091_session import DECLARE, OPENING
from tests.sessions import SessionRig

SELECT, COMMIT, ROLLBACK = (90, 10), (90, 20), (90, 30)
MULTIPLE = 1
REQUEUE = 2
GET_OK = number(raw.GET_OK[0], 2) + number(raw.GET_OK[1], 2)


class TxMachine(RuleBasedStateMachine):
    """Channel 1 has transactions, channel 2 looks on.

    ready    messages in the queue that nobody holds
    held     tag -> message of what channel 1 holds
    pending  tag -> whether it is to return, of what its commit settles
    written  messages that its commit publishes
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.rig = SessionRig(self.folder, "amqp")
        self.rig.send(OPENING + DECLARE + method(1, SELECT))
        self.rig.turn()
        self.ready: set[int] = set()
        self.held: dict[int, int] = {}
        self.pending: dict[int, bool] = {}
        self.written: list[int] = []
        self.next_message = 1
        self.next_tag = 1

    def do(self, *octets: bytes) -> list[tuple[int, bytes]]:
        """Send, and end the turn: kind and payload of the frames that came."""
        start = len(self.rig.sent)
        self.rig.send(b"".join(octets))
        self.rig.turn()
        rest = self.rig.sent[start:]
        found = []
        while rest:
            end = 7 + int.from_bytes(rest[3:7], "big")
            found.append((rest[0], rest[7:end]))
            rest = rest[end + 1 :]
        assert not self.rig.session.closing, self.rig.session.reason
        return found

    @rule(in_transaction=st.booleans(), count=st.integers(1, 3))
    def publish(self, in_transaction: bool, count: int) -> None:
        for _ in range(count):
            self.do(publish(1 if in_transaction else 2, "q", b"%d" % self.next_message))
            if in_transaction:
                self.written.append(self.next_message)
            else:
                self.ready.add(self.next_message)
            self.next_message += 1

    @rule()
    def get(self) -> None:
        frames = self.do(method(1, raw.GET, b"\0\0" + short("q") + b"\0"))
        if not self.ready:
            assert len(frames) == 1
            return
        assert frames[0][1].startswith(GET_OK)
        assert frames[0][1][4:12] == number(self.next_tag, 8)
        message = int(frames[2][1])
        self.ready.remove(message)
        self.held[self.next_tag] = message
        self.next_tag += 1

    @rule(at=st.integers(0, 20), multiple=st.booleans(), how=st.sampled_from(["ack", "discard", "return"]))
    def settle(self, at: int, multiple: bool, how: str) -> None:
        """Of what the client holds and has not settled in this transaction; with `multiple` tag 0 stands for all."""
        free = [tag for tag in self.held if tag not in self.pending]
        if not free:
            return
        tag = free[at % len(free)]
        sent = 0 if multiple and at % 5 == 0 else tag
        bits = (MULTIPLE if multiple else 0) | (REQUEUE if how == "return" else 0)
        frames = self.do(method(1, raw.ACK if how == "ack" else raw.NACK, number(sent, 8) + number(bits, 1)))
        assert frames == []
        last = tag if sent else max(free)
        for each in free:
            if each == tag or (multiple and each <= last):
                self.pending[each] = how == "return"

    @rule()
    def settle_again(self) -> None:
        """What is settled already closes the channel, and all returns."""
        if not self.pending:
            return
        frames = self.do(method(1, raw.ACK, number(min(self.pending), 8) + b"\0"))
        assert len(frames) == 1
        assert b"unknown delivery tag" in frames[0][1]
        self.do(method(1, raw.CHANNEL_CLOSE_OK), method(1, raw.CHANNEL_OPEN, b"\0"), method(1, SELECT))
        self.ready.update(self.held.values())
        self.held, self.pending, self.written = {}, {}, []
        self.next_tag = 1

    @rule()
    def recover(self) -> None:
        self.do(method(1, raw.RECOVER, b"\x01"))
        for tag in [tag for tag in self.held if tag not in self.pending]:
            self.ready.add(self.held.pop(tag))

    @rule()
    def commit(self) -> None:
        frames = self.do(method(1, COMMIT))
        assert frames == [(1, number(90, 2) + number(21, 2))]
        for tag, returns in self.pending.items():
            message = self.held.pop(tag)
            if returns:
                self.ready.add(message)
        self.ready.update(self.written)
        self.pending, self.written = {}, []

    @rule()
    def rollback(self) -> None:
        assert self.do(method(1, ROLLBACK)) == [(1, number(90, 2) + number(31, 2))]
        self.pending, self.written = {}, []

    @invariant()
    def nothing_else_is_in_the_queue(self) -> None:
        assert self.rig.vhost.catalog.queue(b"q").ready() == len(self.ready)

    def teardown(self) -> None:
        self.rig.close()
        shutil.rmtree(self.folder)


TxMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestTransactions = TxMachine.TestCase
