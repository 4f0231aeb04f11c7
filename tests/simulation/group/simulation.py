"""A run of a group of three: the steps, clients and models of the simulation of one node, on whoever leads.

To the model a change of leader is a restart: clients lose their connections, what was committed is there, and of the
rest the new leader may have anything. It is compared once all that the new leader has found is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from forebay.core.errors import RequestError
from tests.simulation.clients.amqp import AmqpClient
from tests.simulation.disk import ROOM
from tests.simulation.group.ghosts import Ghost, check_farewell
from tests.simulation.group.group import HEAL_TICKS, NAMES, TICK_US, Group, GroupSetup
from tests.simulation.group.leader import LeaderBroker
from tests.simulation.group.machine import Machine
from tests.simulation.leavings import clear_up
from tests.simulation.model.promises import NEVER, Wrong, check
from tests.simulation.simulation import Action, Setup, Simulation

MS: Final = 1000
SECOND_US: Final = 1000 * MS
SETTLE_TICKS: Final = 40
NEVER_MS: Final = 60_000  # of a disk: longer than others wait for it
STRIDE_MAX_US: Final = 1_500_000
TOLD_US: Final = 70_000_000  # once a minute they hear of all files that nobody needs: by then they have removed them


class GroupSimulation(Simulation):
    """Three nodes, their clients, disks, network and register.

    is_served  clients have a leader
    ends       faults that end at a step, and how
    ghosts     clients that stay with a leader that is deposed
    """

    broker: LeaderBroker

    def __init__(self, seed: int, setup: Setup) -> None:
        assert isinstance(setup, GroupSetup)
        self.group_setup = setup
        self.is_served = False
        self.lost_durable = 0
        self.ends: list[tuple[int, Callable[[], None]]] = []
        self.ghosts: list[Ghost] = []
        super().__init__(seed, setup)

    def choose(self, is_stormy: bool) -> tuple[Sequence[Action], Sequence[float]]:
        return STEPS, PARTED if self.group_setup.is_parted else STORMY if is_stormy else WEIGHTS

    def begin(self) -> None:
        self.group = Group(self.group_setup, self.clock, self.seed)
        self.await_health()
        broker = self.group.serving()
        assert broker is not None
        self.broker = broker
        self.vhosts.begin(broker)
        self.is_served = True

    # ---- who leads

    def look(self) -> None:
        """See who serves clients now."""
        self.tell_all()
        if not hasattr(self, "broker"):
            return  # the group is being founded
        serving = self.group.serving()
        if self.is_served and serving is not self.broker:
            self.lose_leader()
        if not self.is_served and serving is not None:
            self.change_over(serving)

    def tell_all(self) -> None:
        for text in self.group.told:
            self.tell(text)
        self.group.told.clear()

    def lose_leader(self) -> None:
        """The leader of before is gone, or another has taken its place."""
        self.is_served = False
        self.tell(f"{self.broker.process.name} serves no more")
        for client in self.clients():
            line = client.line
            if line is not None and line.farewell:
                check_farewell(client, line.farewell)
            if isinstance(client, AmqpClient) and line is not None and not self.broker.is_over and not line.is_ending():
                self.ghosts.append(Ghost(client, line, self.broker))
            elif not self.broker.is_over:
                client.cut(self.broker)
            client.lose()
        self.vhosts.turned(NEVER)
        self.lost_durable = self.broker.durable()

    def change_over(self, broker: LeaderBroker) -> None:
        """A new leader serves: all that was promised is there."""
        self.fault("take-over", f"{broker.process.name} serves in epoch {broker.epoch}")
        self.broker = broker
        self.vhosts.begin(broker)
        self.is_served = True
        self.audit(True, self.lost_durable)
        if broker.is_tight:
            self.tighten()

    def haunt(self, chance: Random) -> None:
        """Deposed leaders and the clients that stay with them go on."""
        self.ghosts = [each for each in self.ghosts if not each.is_over]
        for broker in {each.broker.epoch: each.broker for each in self.ghosts}.values():
            process = broker.process
            for ghost in self.ghosts:
                if ghost.broker is broker:
                    self.group.guard(process, partial(ghost.act, chance))
            for act in (broker.turn, broker.write, *([broker.second] if chance.random() < 0.2 else [])):
                self.group.guard(process, act)
            self.group.pump()
        for ghost in self.ghosts:
            ghost.read(self.broker)

    # ---- steps

    def step(self, number: int) -> None:
        self.group.random = Random(self.seed << 33 | number)
        for at, end in list(self.ends):
            if at <= number:
                self.ends.remove((at, end))
                end()
        super().step(number)
        self.look()

    def failed(self, chance: Random) -> None:
        machine = self.broker.process.machine
        machine.stop(True)
        self.ends_in(chance, partial(self.start, machine))

    def act(self, chance: Random) -> None:
        if self.is_served:
            super().act(chance)
        else:
            self.wait(chance)

    def wait(self, chance: Random) -> None:
        """Nobody leads: clients try again later."""
        self.pass_time(chance.choice((20, 100, 300)) * MS)

    def go(self, chance: Random) -> None:
        if not self.is_served:
            return
        super().go(chance)
        if self.ghosts:
            self.haunt(chance)
        if chance.random() < 0.3:
            self.pass_time(chance.choice((1, 5, 20, 60)) * MS)

    def sync(self) -> None:
        """The leader's disk has what it was given, and what is on its way between nodes arrives, in part or all."""
        chance = self.group.random
        if chance.random() < 0.8 and self.broker.process.machine.slow_us <= self.group.now_us:
            self.guard(self.broker.write)
        self.group.pump(chance.choice((1, 3, 6, 12, 20_000, 20_000)) if chance.random() < 0.5 else 20_000)
        self.look()

    def guard(self, call: Callable[[], object]) -> None:
        self.group.guard(self.broker.process, call)

    def pass_time(self, us: int) -> None:
        end = self.group.now_us + us
        while self.group.now_us < end:
            self.group.pass_time(min(TICK_US, end - self.group.now_us))
            self.look()

    def second(self, chance: Random) -> None:
        ms = chance.choice((20, 100, 400, 1000, 1000, 5000, 60_000))
        self.later(ms)
        self.tell(f"{ms} ms go by")
        if chance.random() < 0.8:
            self.go(chance)

    def later(self, ms: int, ticks: int = 0) -> None:
        """Clocks on the wall go as far; those that never go back only so far that it does not take long.

        Those on the wall stand while somebody begins to lead: the model takes that for one moment.
        """
        self.pass_time(min(ms * MS, STRIDE_MAX_US))
        if self.is_served and not self.group.is_changing():
            super().later(ms, ticks)

    def housekeep(self, chance: Random) -> None:
        if self.is_served:
            super().housekeep(chance)
        for process in self.group.processes():
            if chance.random() < 0.5 and process.copying is None:
                self.group.guard(process, process.end_job)

    def cut(self, chance: Random) -> None:
        if self.is_served:
            super().cut(chance)

    def take_over(self, chance: Random) -> None:
        if self.is_served:
            super().take_over(chance)

    def jump(self, chance: Random) -> None:
        if self.is_served:
            super().jump(chance)

    def deed(self, chance: Random) -> None:
        if self.is_served:
            super().deed(chance)

    def rest(self, chance: Random) -> None:
        self.heal()
        super().rest(chance)
        broker = self.broker
        check(
            broker.durable() == broker.store.on_disk, f"all is well, and frame {broker.store.on_disk} is not committed"
        )

    def exchange(self) -> None:
        if not self.is_served:
            self.heal()
        super().exchange()
        self.look()
        for _ in range(SETTLE_TICKS):
            if not self.is_served or self.broker.durable() == self.broker.store.on_disk:
                break  # as long as a node is away or comes back it takes time
            self.pass_time(TICK_US)

    def heal(self) -> None:
        """All faults end, and some time later all is well."""
        self.ends.clear()
        self.group.heal()
        self.await_health()

    def await_health(self) -> None:
        for _ in range(HEAL_TICKS):
            if self.group.is_well():
                break
            if self.is_served:
                self.guard(self.broker.end_job)  # as long as one runs nobody can copy the files
            self.group.pass_time(TICK_US)
            self.look()
        else:
            record = self.group.register.record
            states = [str(each) for each in self.group.processes()]
            raise Wrong(
                f"not well after {HEAL_TICKS * TICK_US} us: {record.leader} leads {list(record.in_sync)}: {states}"
            )
        self.look()

    # ---- faults

    def machine(self, chance: Random) -> Machine:
        """One of the machines, most often that of the leader."""
        if self.is_served and chance.random() < 0.5:
            return self.broker.process.machine
        return self.group.machines[chance.choice(NAMES)]

    def ends_in(self, chance: Random, end: Callable[[], None]) -> None:
        self.ends.append((self.steps + chance.randint(2, 30), end))

    def arrive(self, chance: Random) -> None:
        """Some of what clients have said arrives just before something happens to the leader."""
        if self.is_served and chance.random() < 0.5:
            for client in self.clients():
                client.push(self.broker, chance)
            self.turn()

    def crash(self, chance: Random) -> None:
        machine = self.machine(chance)
        if machine.process is None:
            self.restart(chance)
            return
        self.arrive(chance)
        is_on = chance.random() < 0.7
        self.fault("power cut", f"the power of {machine.name} is cut")
        machine.crash(chance, is_on)
        self.look()
        self.ends_in(chance, partial(self.start, machine))

    def kill(self, chance: Random) -> None:
        machine = self.machine(chance)
        if machine.process is None:
            self.restart(chance)
            return
        self.arrive(chance)
        self.fault("kill", f"{machine.name} is killed")
        machine.kill(chance)
        self.look()
        self.ends_in(chance, partial(self.start, machine))

    def all_down(self, chance: Random) -> None:
        self.fault("all down", "the power of all is cut")
        self.arrive(chance)
        for machine in self.group.machines.values():
            machine.crash(chance, True)
            self.ends_in(chance, partial(self.start, machine))
        self.look()

    def leave(self, chance: Random) -> None:
        """A node that does not lead is away for long, in some cases with its disk."""
        machine = self.group.machines[chance.choice(NAMES)]
        if machine.process is None or machine.process.broker is not None:
            return
        self.fault("away", f"{machine.name} is away")
        machine.crash(chance, chance.random() < 0.5)
        if chance.random() < 0.6 and self.group.may_wipe(machine):
            self.fault("wiped", f"the folder of {machine.name} is empty")
            machine.disk = self.group.setup.make_disk()
        self.look()
        self.ends.append((self.steps + chance.randint(10, 80), partial(self.start, machine)))

    def start(self, machine: Machine) -> None:
        if machine.process is None:
            self.tell(f"{machine.name} starts")
            self.group.try_start(machine)

    def restart(self, chance: Random) -> None:
        """Whoever is down starts."""
        for machine in self.group.machines.values():
            self.start(machine)

    def part(self, chance: Random) -> None:
        """A node is cut off from others, one way or both, and perhaps from the register."""
        name = self.machine(chance).name
        others = [each for each in NAMES if each != name]
        others = chance.choice((others, others, others[:1]))
        kinds = chance.choice(("both", "both", "out", "in"))
        ways = [(name, other) for other in others] if kinds != "in" else []
        ways += [(other, name) for other in others] if kinds != "out" else []
        with_register = chance.random() < 0.4
        self.fault("partition", f"{name} is cut off from {others}, {kinds}, and the register: {with_register}")
        network, register = self.group.network, self.group.register
        network.blocked.update(ways)
        if with_register:
            register.cut.add(name)

        def end() -> None:
            self.tell(f"{name} is cut off no more")
            for way in ways:
                if chance.random() < 0.5:
                    self.group.reset(*way)
            network.blocked.difference_update(ways)
            register.cut.discard(name)

        self.ends_in(chance, end)

    def depose(self, chance: Random) -> None:
        """The leader is cut off from everybody but its clients, and goes on with them while another leads."""
        if not self.is_served:
            return
        for client in chance.sample([each for each in self.publishers() if not each.model.ending], 2):
            if client.line is None:
                client.connect(self.broker, chance)
            self.tell(f"{client} {client.prepare(chance)}")
        self.exchange()
        before = self.broker
        name = before.process.name
        self.fault("deposed", f"{name} is cut off from all but its clients")
        ways = [way for way in self.group.network.ways if name in way]
        self.group.network.blocked.update(ways)
        self.group.register.cut.add(name)
        for _ in range(HEAL_TICKS // 5):
            self.pass_time(TICK_US)
            if self.broker is not before:
                break
        for _ in range(chance.choice((1, 10, 30))):
            if self.is_served:
                self.haunt(chance)
            self.pass_time(TICK_US)

        def end() -> None:
            self.group.network.blocked.difference_update(ways)
            self.group.register.cut.discard(name)

        self.ends_in(chance, end)

    def slow_link(self, chance: Random) -> None:
        way = chance.choice(self.group.network.ways)
        delay_us = chance.choice((2, 30, 200, 700)) * MS
        self.fault("slow link", f"from {way[0]} to {way[1]} it takes {delay_us} us")
        self.group.network.delays_us[way] = delay_us

        def end() -> None:
            self.group.network.delays_us.pop(way, None)

        self.ends_in(chance, end)

    def break_link(self, chance: Random) -> None:
        way = chance.choice(self.group.network.ways)
        self.fault("reset", f"the connection between {way[0]} and {way[1]} breaks")
        self.group.reset(*way)

    def slow_disk(self, chance: Random) -> None:
        machine = self.machine(chance)
        ms = chance.choice((50, 300, 900, 2000, NEVER_MS))
        kind = "silent disk" if ms == NEVER_MS else "slow disk"
        self.fault(kind, f"the disk of {machine.name} answers nothing for {ms} ms")
        machine.slow_us = self.group.now_us + ms * MS

    def fill_disk(self, chance: Random) -> None:
        """A disk is full, for a while, or has room again."""
        machine = self.machine(chance)
        if machine.is_full():
            self.make_room(machine)
            return
        self.fault("full disk", f"the disk of {machine.name} is full")
        if self.is_served and self.broker.process.machine is machine:
            for client in self.clients():
                client.push(self.broker, None)
            self.tighten()
        if machine.process is not None and machine.process.broker is not None:
            machine.process.broker.is_tight = True  # also of one that does not serve yet
        machine.disk.octets_max = machine.disk.used() + chance.choice((0, 2000, 9000))
        self.ends_in(chance, partial(self.make_room, machine))

    def tighten(self) -> None:
        for model in self.vhosts.there():
            model.tighten()

    def make_room(self, machine: Machine) -> None:
        if machine.is_full():
            self.tell(f"there is room on the disk of {machine.name} again")
            machine.disk.octets_max = ROOM
        self.start(machine)

    def drain_node(self, chance: Random) -> None:
        """An operator wants a node to lead no more, so that it can be stopped; or to lead again."""
        machine = self.machine(chance)
        if machine.is_drained:
            self.tell(f"{machine.name} is drained no more")
            machine.is_drained = False
            return
        record = self.group.register.record
        left = [name for name in record.in_sync if name != machine.name and not self.group.machines[name].is_drained]
        if machine.process is None or len(left) < record.min_in_sync:
            self.tell(f"{machine.name} is not drained: there are only {left} besides")
            return
        self.fault("drain", f"{machine.name} is drained")
        machine.is_drained = True
        if chance.random() < 0.5:
            self.stop_drained(machine, chance)

    def stop_drained(self, machine: Machine, chance: Random) -> None:
        """What the operator wants it for: once another leads, or after a while, it is stopped."""
        for _ in range(HEAL_TICKS // 5):
            if self.is_served and self.broker.process.machine is not machine:
                break
            self.pass_time(TICK_US)
        if machine.process is not None:
            self.tell(f"{machine.name} is stopped")
            machine.kill(chance)
            self.look()
        self.ends_in(chance, partial(self.start, machine))

    def fail_sync(self, chance: Random) -> None:
        machine = self.machine(chance)
        self.fault("failed sync", f"the disk of {machine.name} will fail")
        machine.disk.syncs_left = chance.randint(0, 2)
        self.ends_in(chance, partial(self.start, machine))

    def trouble_register(self, chance: Random) -> None:
        register = self.group.register
        kind = chance.choice(("away", "slow", "vague", "vague"))
        self.fault(f"register {kind}", f"the register is {kind}")
        register.away = register.away or kind == "away"
        register.delay_us = 200 * MS if kind == "slow" else register.delay_us
        register.vague = 2 if kind == "vague" else register.vague
        self.ends_in(chance, register.heal)

    def transfer(self, chance: Random) -> None:
        if self.is_served:
            self.fault("transfer", f"{self.broker.process.name} is to hand over")
            self.arrive(chance)
            self.guard(lambda: self.hand_over(chance))

    def hand_over(self, chance: Random) -> None:
        process = self.broker.process
        others = [each for each in NAMES if each != process.name]
        try:
            process.member.replica.transfer(chance.choice(others), process.now())
        except RequestError as error:
            self.tell(f"refused: {error.text}")
        process.step()

    # ---- a run

    def run(self, steps: list[int]) -> None:
        for number in steps:
            self.step(number)
        self.steps += 1
        chance = Random(self.seed)
        self.rest(chance)
        self.all_down(chance)
        self.heal()
        self.drain(chance)
        self.rest(chance)
        clear_up(self)
        self.look_at_files()

    def look_at_files(self) -> None:
        """Everything was deleted: soon followers have no more files than who leads."""
        end = self.group.now_us + TOLD_US
        while (excess := self.excess_files()) and self.group.now_us < end:
            self.guard(self.broker.second)
            self.pass_time(SECOND_US)
        check(not excess, excess)

    def excess_files(self) -> str:
        """The followers that have more files than who leads, in words."""
        most = len(self.broker.process.machine.disk.files())
        told: list[str] = []
        for machine in self.group.machines.values():
            files = machine.disk.files()
            if len(files) > most:
                told.append(f"{machine.name} has {len(files)} files, and the leader {most}: {sorted(files)}")
        return ", ".join(told)


STEPS: Final = (
    GroupSimulation.act,
    GroupSimulation.go,
    GroupSimulation.second,
    GroupSimulation.housekeep,
    GroupSimulation.rest,
    GroupSimulation.cut,
    GroupSimulation.crash,
    GroupSimulation.kill,
    GroupSimulation.all_down,
    GroupSimulation.leave,
    GroupSimulation.restart,
    GroupSimulation.part,
    GroupSimulation.depose,
    GroupSimulation.slow_link,
    GroupSimulation.break_link,
    GroupSimulation.slow_disk,
    GroupSimulation.fail_sync,
    GroupSimulation.trouble_register,
    GroupSimulation.transfer,
    GroupSimulation.take_over,
    GroupSimulation.jump,
    GroupSimulation.deed,
    GroupSimulation.fill_disk,
    GroupSimulation.drain_node,
)
WEIGHTS: Final = (600, 150, 60, 60, 12, 12, 12, 8, 4, 10, 10, 16, 5, 8, 6, 8, 3, 6, 10, 6, 2, 6, 6, 6)
STORMY: Final = (600, 150, 60, 60, 6, 12, 40, 20, 10, 50, 30, 40, 20, 8, 6, 8, 3, 6, 30, 6, 0, 60, 30, 10)
PARTED: Final = (400, 150, 60, 30, 12, 4, 4, 4, 0, 4, 60, 40, 80, 8, 6, 0, 0, 20, 30, 0, 0, 10, 4, 25)
