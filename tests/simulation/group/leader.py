"""The broker of a node that leads: that of one node, on a store whose commits others have to have."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from forebay.node.ready import Ready
from tests.simulation.broker import TICKS_A_SECOND, Broker, Line

if TYPE_CHECKING:
    from tests.simulation.group.process import Process


class LeaderBroker(Broker):
    """As the process of a node has it.

    delivers_committed  as the gate is for
    is_tight  its disk has been full while it led
    barrier  the frame with which it begins to lead: once that is committed, so is all that it has found
    has_delivered  it might, at some time
    """

    delivers_committed = True

    def __init__(self, process: Process) -> None:
        self.process = process
        self.is_tight = process.machine.is_full()
        self.disk = process.machine.disk
        self.begin(process.machine.clock, process.node)
        self.real.gate = process.group.setup.gate()
        self.has_delivered = False
        self.node.load()
        self.real.begin()
        self.barrier = int(self.store.lsn) - 1
        self.epoch = process.member.epoch

    @property
    def is_over(self) -> bool:
        """It serves nobody any more."""
        return self.process.is_over

    def has_begun(self) -> bool:
        """All that it has found is committed."""
        return self.durable() >= self.barrier

    def receive(self, line: Line, octets: bytes) -> None:
        if not self.is_over:
            super().receive(line, octets)

    def turn(self) -> int:
        self.note_lease()
        return super().turn()

    def do(self, ready: Ready) -> None:
        super().do(ready)
        self.note_lease()
        self.process.obey(ready)

    def step(self) -> None:
        """Do what the group asks for between turns."""
        self.do(self.node.take())

    def sync(self) -> None:
        """The own disk has what is on its way there, and then whatever is on its way anywhere arrives."""
        self.write()
        self.process.group.pump()

    def write(self) -> None:
        """What is on its way to the own disk comes there."""
        commit, self.commit = self.commit, None
        if commit is not None and not self.is_over:
            commit.run()
            self.node.synced(commit)
            self.step()

    def second(self) -> None:
        """Do what is due each second, though no time goes by, and what files have to be rewritten for it."""
        for _ in range(TICKS_A_SECOND):
            self.real.tick(self.clock.us)
        self.turn()
        self.write()
        self.end_job()

    def part(self) -> None:
        """As `server/cluster/draining.py`: tell clients to go, as nothing else that was written for them may leave."""
        for line in cast("list[Line]", list(self.real.open)):
            if line.session is not None and not line.closing:
                self.forget(line)
                line.session.hold_lsn = 0
                line.session.send_elsewhere("b:1883")
                line.farewell = b"".join(line.take_written())

    def forget(self, line: Line) -> None:
        line.drop()

    def abandon(self) -> None:
        """Serve nobody any more, as another leads."""
        self.node.abandon()

    def check_lease(self) -> None:
        self.note_lease()
        self.node.check_lease()

    def note_lease(self) -> None:
        self.has_delivered = self.has_delivered or self.process.can_deliver()
