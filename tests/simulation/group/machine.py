"""One machine of a group: its disk, its clocks, and the process of the node, if it runs."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from forebay.core.errors import StorageError
from forebay.log.store import Job
from forebay.log.wal import Commit
from tests.simulation.disk import ROOM, SimDisk
from tests.simulation.group.process import Process
from tests.stores import TestClock

if TYPE_CHECKING:
    from tests.simulation.group.group import Group


class Machine:
    """One machine.

    begins_us, rate  of its clock that never goes back
    is_on            it answers, if only that nobody listens there
    slow_us          its disk takes what it is given no earlier
    is_drained       an operator wants it to lead no more: as long as its process lives, or begins anew
    commit, job      of a follower, for its disk
    """

    def __init__(self, name: str, group: Group, disk: SimDisk, clock: TestClock) -> None:
        self.name: Final = name
        self.group = group
        self.disk = disk
        self.clock = clock
        self.begins_us = 0
        self.rate = 1.0
        self.is_on = False
        self.slow_us = 0
        self.is_drained = False
        self.process: Process | None = None
        self.commit: Commit | None = None
        self.job: Job | None = None

    def is_full(self) -> bool:
        """Its disk has no more room, or little."""
        return self.disk.octets_max < ROOM

    def now(self) -> int:
        return self.begins_us + int(self.group.now_us * self.rate)

    def start(self) -> None:
        self.is_on = True
        self.process = Process(self, self.group)
        self.group.register.watchers.append(self.process)
        self.group.register.read(self.process, self.group.now_us)
        self.process.step()

    def stop(self, is_on: bool) -> None:
        """The process is gone: killed, by a failure of its own, or with the power of its machine."""
        process, self.process = self.process, None
        self.is_on = is_on
        self.is_drained = False
        self.commit = self.job = None
        if process is not None:
            process.end()
            self.group.register.forget(process)
        self.group.gone(self)
        self.disk.forget()

    def begin_anew(self) -> None:
        """The process takes its own place; start it next."""
        is_drained = self.is_drained
        self.stop(True)
        self.is_drained = is_drained

    def interrupt(self, chance: Random) -> None:
        """What the disk is doing gets so far and no further."""
        process = self.process
        broker = None if process is None else process.broker
        works = [self.commit, self.job, *([broker.commit, broker.job] if broker is not None else [])]
        self.disk.changes_left = chance.choice((0, chance.randint(0, 4), chance.randint(0, 12), 40))
        try:
            for work in chance.sample(works, len(works)):
                if work is not None:
                    work.run()
        except StorageError:
            pass
        if broker is not None:
            broker.commit = broker.job = None

    def kill(self, chance: Random) -> None:
        """The process is gone, and what it has written is there."""
        self.interrupt(chance)
        self.stop(True)

    def crash(self, chance: Random, is_on: bool) -> None:
        """The power goes: of what was not synced any part is lost."""
        self.interrupt(chance)
        self.disk.crash(chance)
        self.stop(is_on)
