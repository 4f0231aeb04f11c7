"""A whole broker in the test's hand: no socket, no thread, and time only when the test lets it go by.

Clients are those of the conformance tests: what they take for their socket is one end of a `Line`. Reading from it has
the node make turns, run its commits and answer its questions until there is something to read. `tests/mqtt_rig.py`,
`tests/sessions.py` and `tests/vhosts.py` have narrower ways in: clients of MQTT, one session, a vhost without clients.
"""

from __future__ import annotations

import socket
from collections import deque
from pathlib import Path
from typing import cast

from forebay.broker.joining import Joining
from forebay.broker.vhost import Vhost
from forebay.broker.vhosts import Vhosts
from forebay.core.options import make_options
from forebay.core.ports import Random
from forebay.directory.logins.authorizer import Proof
from forebay.directory.logins.login import Auth
from forebay.log.store import Job, Store
from forebay.log.wal import Commit
from forebay.node.broker import NodeBroker
from forebay.node.group.lone_member import LoneMember, NodeMember
from forebay.node.link import Link
from forebay.node.node import Node
from forebay.node.peer import peer_at
from forebay.node.ready import Ready
from forebay.node.shutdown import say_goodbye, stop_reading
from tests.stores import SMALL, SmallDisk, TestClock

STEPS_MAX = 10_000  # without an octet for whoever waits for one
READ_OCTETS = 256 << 10
WAIT_S = 20
TICK_US = 100_000
LOOPBACK = "127.0.0.1"


class Counted(Random):
    """Octets that every run of a test has again."""

    def __init__(self) -> None:
        self.next = 0

    def octets(self, count: int) -> bytes:
        self.next += 1
        return self.next.to_bytes(8, "big").rjust(count, b"\0")[-count:]


class RigNode(Node):
    """One whose broker the test's rig makes."""

    def __init__(self, rig: NodeRig, member: NodeMember, random: Random) -> None:
        super().__init__(rig.options, member, rig.clock, random)
        self.rig = rig

    def make_broker(self) -> NodeBroker:
        return self.rig.make_broker(self)


class Line(Link):
    """A connection of a node, and what its client takes for a socket.

    sent    octets on their way to the client
    unread  octets of the client that the broker does not read for now
    gone    the broker has closed, or the client has
    """

    __slots__ = ("gone", "rig", "sent", "ticks_max", "unread")

    def __init__(self, rig: NodeRig, protocol: str, port: int) -> None:
        super().__init__(rig.broker, protocol, peer_at(LOOPBACK, port))
        self.rig = rig
        self.sent = bytearray()
        self.unread = b""
        self.gone = False
        self.settimeout(WAIT_S)

    # ---- the client's end

    def settimeout(self, seconds: float) -> None:
        """How long `recv` waits, by the node's clock."""
        self.ticks_max = round(seconds * 1_000_000) // TICK_US

    def sendall(self, octets: bytes) -> None:
        """The octets of one read, as soon as the broker reads."""
        if self.gone:
            raise ConnectionResetError
        self.unread += octets
        self.read_on()
        self.rig.check()

    def read_on(self) -> bool:
        """Have the broker read what it may; whether there was any."""
        if self.holds or not self.unread or self.gone:
            return False
        octets, self.unread = self.unread[:READ_OCTETS], self.unread[READ_OCTETS:]
        self.received(octets)
        return True

    def recv(self, octets: int) -> bytes:
        """The octets that are there, or come within the time-out; empty at the end."""
        ticks = steps = 0
        while not self.sent and not self.gone:
            steps += 1
            assert steps < STEPS_MAX, "the broker works without end, and nothing comes"
            if not self.rig.step():
                if ticks == self.ticks_max:
                    raise TimeoutError("timed out")
                ticks += 1
                steps = 0
                self.rig.tick()
        taken = bytes(self.sent[:octets])
        del self.sent[:octets]
        return taken

    def shutdown(self, how: int) -> None:
        """The client sends no more, which the broker takes for the end."""
        self.close()

    def close(self) -> None:
        """The connection is gone, once the broker has read what it reads."""
        while self.read_on():
            pass
        if not self.gone:
            self.gone = True
            self.broker.lost(self)


class NodeRig:
    """A node, and what a server does around it: turns, syncs, work on files, time, and the end.

    Rigs that have more to say to a protocol or a vhost are made of this one, and leave all of that to it.

    folder     of its disk
    holding    commits wait for `sync`
    commit     that waits, or None
    jobs       work on files that waits
    said       lines for the log
    """

    def __init__(self, folder: Path, clock: TestClock | None = None, **options: object) -> None:
        self.folder = folder
        self.clock = clock or TestClock()
        self.options = make_options(options)
        self.holding = False
        self.said: list[str] = []
        self.ports = 40_000
        self.start()

    def start(self) -> None:
        """Begin on what the disk holds."""
        self.disk = self.make_disk()
        self.node = self.make_node()
        self.lines: list[Line] = []
        self.commit: Commit | None = None
        self.proofs: deque[Proof | Joining] = deque()
        self.jobs: deque[Job] = deque()
        self.again_us = 0  # when the node is to be woken
        self.recover()

    def recover(self) -> None:
        """Come to the state in which the disk was left, and begin."""
        for line in self.node.open():
            self.said.append(line)
        self.opened_node(self.node)
        assert self.node.take().leads
        self.broker = self.node.lead()
        self.node.load()
        self.broker.begin()

    def opened_node(self, node: Node) -> None:
        """The node has read its folder, and is about to lead."""

    def make_disk(self) -> SmallDisk:
        """A disk on the folder."""
        return SmallDisk(str(self.folder))

    def make_node(self) -> Node:
        """A node on the disk and the clock."""
        return RigNode(self, self.make_member(), self.make_random())

    def make_member(self) -> NodeMember:
        """The part of the node in its group, which is the whole of it."""
        return LoneMember(self.make_store())

    def make_store(self) -> Store:
        """A store whose files are small, so that a test fills them."""
        return Store(self.disk, self.clock, SMALL)

    def make_random(self) -> Random:
        return Counted()

    def make_broker(self, node: Node) -> NodeBroker:
        """The broker of the node, as it begins to lead."""
        return NodeBroker(node.options, node.member.store, node.clock, node.chance)

    @property
    def store(self) -> Store:
        return self.broker.store

    @property
    def vhosts(self) -> Vhosts:
        return self.broker.vhosts

    @property
    def vhost(self) -> Vhost:
        """The vhost "/"."""
        return self.broker.vhosts.find(b"/")

    @property
    def auth(self) -> Auth:
        return self.broker.auth

    # ---- connections

    def dial(self, listener: str) -> socket.socket:
        """A connection to a listener; its client's end."""
        return cast(socket.socket, self.connect(listener))

    def connect(self, listener: str) -> Line:
        """A connection to a listener, as both its ends have it."""
        self.ports += 1
        line = Line(self, listener, self.ports)
        self.lines.append(line)
        self.broker.opened(line)
        return line

    # ---- turns, and what they ask for

    def turn(self, sync: bool = True) -> None:
        """End a turn, due or not; `sync`: and have on the disk what somebody waits for."""
        self.do(self.node.turn())
        if sync:
            self.sync()

    def sync(self) -> None:
        """Have on the disk what somebody waits for, who hears of it."""
        while self.commit is not None:
            self.write()
            if self.store.due_lsn() > self.store.durable:  # of turns that ended while the disk was busy
                self.do(self.node.turn())

    def flush(self) -> None:
        """End a turn, and have on the disk also what nobody waits for, as each second does."""
        self.sync()
        self.broker.flush_due = True
        self.turn()

    def step(self) -> bool:
        """One turn, or one thing that the node has asked for; whether there was any."""
        if self.broker.is_due:
            self.do(self.node.turn())
        elif self.commit is not None and not self.holding:
            self.write()
        elif self.proofs:
            self.prove()
        elif self.jobs:
            self.work()
        else:
            return any(line.read_on() for line in self.lines)
        return True

    def settle(self) -> None:
        """Do all that comes without anybody's doing, and of what a test has done below the node itself."""
        self.broker.is_due = True
        steps = 0
        while self.step():
            steps += 1
            assert steps < STEPS_MAX, "the broker works without end"

    def write(self) -> None:
        """Run the commit that waits."""
        commit, self.commit = self.commit, None
        assert commit is not None
        commit.run()
        self.node.synced(commit)
        self.do(self.node.take())

    def prove(self) -> Proof | Joining:
        """Run the proof that waits first, or put a body together."""
        proof = self.proofs.popleft()
        proof.run()
        self.broker.answered(proof)
        return proof

    def work(self) -> None:
        """Do the work on files that waits first."""
        job = self.jobs.popleft()
        job.run()
        self.node.job_done(job)

    def check(self) -> None:
        """Nothing may have been wrong with the broker itself."""
        broker = self.broker
        if broker.stopped is not None:
            raise broker.stopped.error
        for fault in broker.out.faults:
            raise fault.error

    def do(self, ready: Ready) -> None:
        """Do what a node is ready with."""
        if ready.stop is not None:
            raise ready.stop.error
        for fault in ready.faults:
            raise fault.error
        self.said += [words % given for _, words, given in ready.lines]
        self.commit = ready.commit or self.commit
        if ready.job is not None:
            self.jobs.append(ready.job)
        self.proofs.extend(ready.proofs)
        self.again_us = ready.again_us or self.again_us
        for link in cast("list[Line]", ready.send):
            link.sent += b"".join(link.take())
        for link in cast("list[Line]", ready.close):
            link.sent += b"".join(link.take())
            link.unread = b""
            link.close()
        for link in cast("list[Line]", ready.cut):
            link.unread = b""
            link.close()
        self.lines = [line for line in self.lines if not line.gone]
        self.broker.sent()

    # ---- files of the log

    def checkpoint(self) -> None:
        """Begin a new file, whether or not the last one is full."""
        self.turn()
        self.rotate()
        self.turn()

    def rotate(self) -> None:
        """As `checkpoint`, but that nothing of it is on the disk yet."""
        if self.store.finished is None:
            self.store.rotate(self.broker.checkpoint())

    def plan(self) -> Job | None:
        """The work on files that a second brings by its end, not done yet."""
        self.broker.every_second(self.clock.us)
        self.do(self.node.turn())
        self.sync()
        if self.broker.is_due and not self.jobs:  # what waited for the disk alone
            self.do(self.node.turn())
        return self.jobs[0] if self.jobs else None

    def housekeep(self) -> bool:
        """Do the work on files that a second brings by its end; whether there was any."""
        if self.plan() is None:
            return False
        self.work()
        return True

    # ---- time

    def tick(self, us: int = TICK_US) -> None:
        """A tenth of a second goes by, or so many microseconds in one."""
        self.clock.us += us
        if 0 < self.again_us <= self.clock.us:
            self.again_us = 0
            self.broker.wake(self.clock.us)
        self.broker.tick(self.clock.us)

    def wait(self, seconds: float) -> None:
        """Time goes by in tenths of a second, and all happens that it brings."""
        for _ in range(round(seconds * 10)):
            self.tick()
            self.settle()

    def jump(self, ms: int) -> None:
        """Time goes by at once, and a second is over; what is due comes with the next turn."""
        self.tick(1000 * ms)
        self.broker.every_second(self.clock.us)

    def later(self, ms: int) -> None:
        """As `jump`, and all happens that it brings."""
        self.jump(ms)
        self.settle()

    # ---- ends

    def crash(self) -> None:
        """As after `kill -9`: what was not synced is lost, and every client sees the end."""
        for line in self.lines:
            line.gone = True
        self.disk.close_all()
        self.start()

    def stop(self) -> None:
        """End as server/drain.py has a broker end, whose clients go as soon as they are told."""
        node, broker = self.node, self.broker
        stop_reading(broker)
        self.settle()
        say_goodbye(broker)
        self.do(node.take())
        self.settle()
        for line in list(self.lines):
            line.close()
        self.settle()
        self.note_end()
        self.do(node.take())
        broker.ended = True
        while (commit := self.commit or broker.store.flush()) is not None:
            self.commit = None
            commit.run()
            node.synced(commit)
            self.check()
        broker.store.close()
        self.close()

    def note_end(self) -> None:
        """Write down what is known now that all clients are gone."""
        self.broker.vhosts.commit_streams()

    def restart(self) -> None:
        """Stop, and begin again."""
        self.stop()
        self.crash()

    def close(self) -> None:
        """Leave the files as they are."""
        self.disk.close_all()
