"""One node: its part in a group, and the broker on the same store while it leads. It has no socket or thread.

    node = Node(options, LoneMember(Store(disk, clock, store_options(options))), clock, chance)
    node.open()                         # what the disk holds
    node.take().leads                   # a node that is the whole group leads at once
    broker = node.lead()
    node.load()                         # the broker comes to the state that the log holds
    broker.begin()
    link = Link(broker, "amqp", peer_at("127.0.0.1", 1))
    broker.opened(link)                 # a client has connected
    link.received(octets)               # what it has sent, cut anywhere
    while broker.is_due:
        ready = node.turn()             # what is to be done now: see ready.py
        ...                             # link.take() of each in ready.send and ready.close has the octets to send
        ready.commit.run()              # if there is one, when and where one likes; and then
        node.synced(ready.commit)       # confirms leave with the next turn
    broker.tick(clock.now_us())         # ten times a second; what is due each second happens in every tenth
    broker.lost(link)                   # its connection is gone, whoever ended it

A node of a larger group has a `GroupMember`, whose `replica` is told what comes from other members and the register.
A node that follows has no broker, and the same calls: `take` has what is to be done, `synced` and `job_done` bring back
the work of the disk. `Ready.leads` says that the node is to lead, `Ready.anew` that its process is to begin anew.

What came in is decided at once. `broker.is_due` says that a turn is to be made, in which everything is sealed,
delivered and given to the disk. Between two turns `take` gives what has come together so far. `broker.answered` and
`job_done` bring back what `Ready.proofs` and `Ready.job` asked for, `broker.wake` is due at `Ready.again_us`. A node
that must not go on says so in `Ready.stop`, and does nothing more.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from forebay.core.options import Options
from forebay.core.ports import Clock, Random
from forebay.log.room import Growth
from forebay.log.store import Job
from forebay.log.wal import Commit
from forebay.node.broker import NodeBroker
from forebay.node.group.lone_member import NodeMember
from forebay.node.ready import STORAGE, Ready


@mypyc_attr(allow_interpreted_subclasses=True)
class Node:
    """A node of a group. A single node is a group of one.

    member   its part in the group, with the store
    broker   broker of a node that leads; None while it follows
    is_over  whether the node no longer leads, so that its member is notified of nothing more
    """

    def __init__(self, options: Options, member: NodeMember, clock: Clock, chance: Random, built_us: int = 0) -> None:
        self.options = options
        self.member = member
        self.clock = clock
        self.chance = chance
        self.built_us = built_us
        self.broker: NodeBroker | None = None
        self.is_over = False

    # ---- the start

    def open(self) -> list[str]:
        """Read the data folder, and return messages about it for the log."""
        return self.member.open()

    def make_broker(self) -> NodeBroker:
        """Return a new broker on the store of this node."""
        return NodeBroker(self.options, self.member.store, self.clock, self.chance, self.built_us)

    def lead(self) -> NodeBroker:
        """Make the broker of this node, which leads from here on. `load` comes next."""
        broker = self.broker = self.make_broker()
        return broker

    def load(self) -> None:
        """Restore the broker from what the log holds, and begin to write. DiskFull if there is no room for that."""
        assert self.broker is not None
        self.broker.load_from(self.member.recovery(), self.member.epoch)
        self.member.begin()

    # ---- the turn

    def turn(self) -> Ready:
        """Run a turn of the broker if this node leads. Return what is to be done."""
        broker = self.broker
        if broker is not None:
            self.check_lease()
            broker.turn()
        return self.take()

    def take(self) -> Ready:
        """Return what is to be done since the last call."""
        broker = self.broker
        if broker is None:
            ready = Ready()
            self.member.take(ready)
            return ready
        self.advance(broker)
        return broker.take()

    def flush(self) -> Ready:
        """Return what is to be done, with a commit of all that is noted, also of what nobody waits for."""
        if self.broker is not None:
            self.broker.flush()
        return self.take()

    def advance(self, broker: NodeBroker) -> None:
        """Release output that the group has committed. End the broker if another node leads."""
        if self.is_over or broker.stopped is not None:
            return
        lsn = self.member.take(broker.out)
        if broker.out.anew:
            self.abandon()
        elif lsn:
            broker.out.committed = lsn
            self.check_lease()
            broker.committed(lsn)

    def check_lease(self) -> None:
        """Open the gate for deliveries, or close it, as the leader's lease is at this moment."""
        broker = self.broker
        if broker is not None and broker.gate is not None:
            broker.open_gate(not self.is_over and self.member.can_deliver())

    # ---- what comes back from the disk

    def synced(self, commit: Commit, error: BaseException | None = None) -> None:
        """Record that a commit is on this node's disk, or that it failed."""
        broker = self.broker
        if broker is None:
            self.member.followed(commit, error)
        elif error is not None:
            broker.stop(STORAGE, error)
        elif self.is_over:
            self.member.store.written(commit)
        else:
            broker.is_due = True
            self.member.written(commit)
            self.advance(broker)

    def job_done(self, job: Job | Growth, error: BaseException | None = None) -> None:
        """Record that files are rewritten or room is reserved, or that it failed."""
        if self.broker is not None:
            self.broker.job_done(job, error)
        elif isinstance(job, Job):
            self.member.store.done(job, error)

    # ---- the end

    def abandon(self) -> None:
        """End the broker at once, as another node leads. Nothing more leaves it."""
        self.is_over = True
        if self.broker is not None:
            self.broker.abandon()
