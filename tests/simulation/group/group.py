"""Three machines, the network between them and the register: everything that happens without clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from forebay.core.errors import StorageError
from forebay.log.replication.copying import Snapshot
from forebay.log.store import Store
from forebay.node.commit_gate import CommitGate
from forebay.replica.membership import PresentNode
from forebay.replica.outcome import Change
from forebay.replica.register import MemberAddresses, founding
from forebay.replica.settings import ReplicaSettings
from tests.node_rig import Counted
from tests.simulation.broker import OPTIONS, SimBroker
from tests.simulation.disk import ROOM
from tests.simulation.group.leader import LeaderBroker
from tests.simulation.group.machine import Machine
from tests.simulation.group.network import Network
from tests.simulation.group.process import Process, SimGroupMember
from tests.simulation.group.register import SimRegister
from tests.simulation.model.promises import Wrong
from tests.simulation.simulation import Setup
from tests.stores import TestClock

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

NAMES: Final = ("a", "b", "c")
TICK_US: Final = 50_000
PUMP_MAX: Final = 20_000
HEAL_TICKS: Final = 300
ADDRESSES: Final = MemberAddresses("host:1", {})
QUORUM: Final = 2


def snapshot_of(store: Store) -> Snapshot | None:
    return store.snapshot()


@dataclass(frozen=True, slots=True)
class GroupSetup(Setup):
    """The parts of a run of a group; planted bugs have others.

    is_parted  nodes are cut off more than anything else
    """

    is_parted: bool = False
    kind: type[SimBroker] = SimBroker
    broker: type[LeaderBroker] = LeaderBroker
    member: type[SimGroupMember] = SimGroupMember
    register: type[SimRegister] = SimRegister
    gate: Callable[[], CommitGate | None] = CommitGate
    snapshot: Callable[[Store], Snapshot | None] = snapshot_of

    def begin(self, seed: int) -> Simulation:
        from tests.simulation.group.simulation import GroupSimulation

        return GroupSimulation(seed, self)


class Group:
    """Everything but the clients.

    now_us   of a clock that never goes back, of which the machines' differ a little
    random   chance, of the step that is being done
    chance   octets of chance
    told     what members have said since anybody looked
    """

    def __init__(self, setup: GroupSetup, clock: TestClock, seed: int) -> None:
        self.setup = setup
        self.clock = clock
        self.now_us = 0
        self.random = random = Random(seed)
        self.chance = Counted()
        self.options = OPTIONS
        self.settings = ReplicaSettings()
        self.settings.min_in_sync = QUORUM
        self.network = Network(NAMES)
        self.register = setup.register()
        self.told: list[str] = []
        self.copies = 0
        self.served_epoch = 0  # clients go back to no leader of before
        self.ticked_us = 0
        self.machines = {name: Machine(name, self, setup.make_disk(), clock) for name in NAMES}
        for machine in self.machines.values():
            machine.begins_us = random.randint(0, 100_000_000)
            machine.rate = 1 + random.uniform(-0.02, 0.02)
        self.found()

    def found(self) -> None:
        """The first node begins a group, and the others come to it."""
        for machine in self.machines.values():
            machine.start()
            assert machine.process is not None
            if not self.register.revision:
                member = machine.process.member
                value = founding("sim", machine.name, member.identity.store, ADDRESSES, QUORUM, member.found_group())
                self.register.set(value, self.now_us)

    # ---- who is there

    def processes(self) -> list[Process]:
        return [each.process for each in self.machines.values() if each.process is not None]

    def present(self) -> dict[str, PresentNode]:
        """The nodes that say that they are there."""
        found = [each for each in self.processes() if each.copying is None]
        return {each.name: PresentNode(each.member.identity.store, ADDRESSES) for each in found}

    def drained(self) -> set[str]:
        return {name for name, machine in self.machines.items() if machine.is_drained}

    def leader_at(self, name: str) -> Process | None:
        """The process of that node, if it leads."""
        process = self.machines[name].process if name in self.machines else None
        return process if process is not None and process.broker is not None and not process.is_over else None

    def serving(self) -> LeaderBroker | None:
        """The broker that clients are to go to: the newest of those whose beginning is committed."""
        brokers = [each.broker for each in self.processes() if each.broker is not None and not each.is_over]
        begun = [each for each in brokers if each.epoch >= self.served_epoch and each.has_begun()]
        newest = max(begun, key=lambda each: each.epoch, default=None)
        if newest is not None:
            self.served_epoch = newest.epoch
        return newest

    def is_changing(self) -> bool:
        """Whether somebody has begun to lead whom clients do not know yet."""
        brokers = [each.broker for each in self.processes() if each.broker is not None and not each.is_over]
        return any(each.epoch > self.served_epoch for each in brokers)

    def is_linked(self, a: str, b: str) -> bool:
        return (min(a, b), max(a, b)) in self.network.connected and self.network.is_open(a, b)

    def may_wipe(self, machine: Machine) -> bool:
        """Whether another that is in sync has what is on this disk."""
        record = self.register.record
        others = [each for each in self.processes() if each.name in record.in_sync and each.machine is not machine]
        return any(record.in_sync[each.name] == each.member.identity.store for each in others)

    # ---- what happens

    def ask(self, process: Process, change: Change) -> None:
        self.register.ask(process, change, self.now_us, self.random.random() < 0.5)

    def gone(self, machine: Machine) -> None:
        """A process is gone: the others see their connections end, if the machine can still say so."""
        for other in self.machines.values():
            if other is not machine:
                self.reset(machine.name, other.name, machine.is_on)

    def reset(self, a: str, b: str, is_seen: bool = True) -> None:
        """A connection breaks, and those of its ends that see it are told."""
        if not self.network.break_off(a, b) or not (is_seen and self.network.is_open(a, b)):
            return
        for name, peer in ((a, b), (b, a)):
            process = self.machines[name].process
            if process is not None and not process.is_over:
                process.member.replica.reset(peer, process.now())

    def pump(self, most: int = PUMP_MAX) -> None:
        """Let everything happen, or so much of it, for which no time has to go by."""
        done = 1
        while done and most > 0:
            done = self.pump_once(most)
            most -= done
        if most <= 0 and done and most + done >= PUMP_MAX:
            raise AssertionError("the nodes talk without end")

    def pump_once(self, most: int) -> int:
        """One thing of each kind; how many there were."""
        done = 0
        while done < most and (said := self.register.due(self.now_us)) is not None:
            done += 1
            process = said.process
            if said.change is not None:
                process.member.replica.outcome(said.change, said.outcome, process.now())
            if said.view is not None:
                self.guard(process, partial(process.seen, said.view))
            self.guard(process, process.step)
        for way in self.network.ways:
            receiver = self.machines[way[1]].process
            if done < most and receiver is not None and (octets := self.network.next(way, self.now_us)) is not None:
                done += 1
                self.guard(receiver, partial(receiver.message, way[0], octets))
                self.guard(receiver, receiver.step)
        for machine in self.machines.values():
            follower = machine.process
            if done < most and follower is not None and machine.commit is not None and machine.slow_us <= self.now_us:
                done += 1
                self.guard(follower, follower.run_commit)
                self.guard(follower, follower.step)
        self.begin_anew()
        return done

    def guard(self, process: Process, call: Callable[[], object]) -> None:
        """Where its disk fails a process stops."""
        if process.is_over:
            return
        try:
            call()
        except StorageError as error:
            self.told.append(f"{process.name} stops: {error}")
            process.machine.stop(True)

    def begin_anew(self) -> None:
        """Processes that are to begin anew do."""
        for machine in self.machines.values():
            if machine.process is not None and machine.process.is_anew:
                machine.begin_anew()
                self.try_start(machine)

    def try_start(self, machine: Machine) -> None:
        try:
            machine.start()
        except StorageError as error:
            if machine.disk.syncs_left is None and not machine.is_full():
                raise Wrong(f"{machine.name} does not start: {error}") from error
            machine.stop(True)

    def pass_time(self, us: int) -> None:
        """Time goes by on the clocks that never go back, and everything happens that comes with it."""
        end = self.now_us + us
        while self.now_us < end:
            self.now_us = min(end, self.ticked_us + TICK_US)
            self.pump()
            if self.now_us >= self.ticked_us + TICK_US:
                self.ticked_us = self.now_us
                self.connect()
                for process in self.processes():
                    self.guard(process, process.tick)
                self.begin_anew()
                self.pump()

    def connect(self) -> None:
        """Nodes that have no connection try to have one."""
        for a, b in self.network.pairs:
            if (a, b) in self.network.connected or not self.network.is_open(a, b):
                continue
            first, second = self.machines[a], self.machines[b]
            if first.process is not None and second.process is not None:
                self.network.connected.add((a, b))
                first.process.member.replica.connected(b, first.now())
                second.process.member.replica.connected(a, second.now())
                continue
            for machine, other in ((first, second), (second, first)):
                if machine.process is not None and other.is_on and other.process is None:
                    machine.process.member.replica.refused(other.name, machine.now(), machine.now())
                    self.guard(machine.process, machine.process.step)

    # ---- an end of all faults

    def heal(self) -> None:
        self.network.heal()
        self.register.heal()
        for machine in self.machines.values():
            machine.slow_us = 0
            machine.is_drained = False
            machine.disk.syncs_left = None
            machine.disk.octets_max = ROOM
            if machine.process is None:
                self.try_start(machine)

    def is_well(self) -> bool:
        """Somebody leads, may deliver, and all are in sync and connected."""
        broker = self.serving()
        record = self.register.record
        return (
            broker is not None
            and broker.process.name == record.leader
            and broker.process.can_deliver()
            and set(record.in_sync) == set(NAMES)
            and len(self.network.connected) == len(self.network.pairs)
        )
