"""Harm: crashes, power cuts, wiped folders, partitions, pauses, slow disks, a register that is away, and operators."""

from __future__ import annotations

from typing import Final

from forebay.replica.outcome import Change
from forebay.replica.register import FORCED, OPERATOR
from tests.simulation.replica.cluster import ADDRESSES, DRIFT, Cluster
from tests.simulation.replica.replica import Replica
from tests.simulation.replica.violation import Violation

FAULTS: Final = (
    *("crash", "crash", "power", "wipe", "all_down", "isolate", "oneway", "split", "pause", "pause", "slow_disk"),
    *("reg_down", "reg_cut", "reg_slow", "loss", "late", "clock", "add", "remove", "transfer", "transfer", "forced"),
    *("crash_lead", "pause_lead", "bounce", "trim", "trim"),
)
SECONDS = 10.0  # of faults
HEAL_SECONDS = 8.0


class Storm(Cluster):
    """A cluster to which chance does harm, and which is to be well again some seconds after."""

    def fault(self, kinds: list[str], end: float) -> None:
        chance = self.random
        self.at(chance.expovariate(1 / 0.2), self.fault, kinds, end)
        if self.now >= end:
            return
        kind = chance.choice(kinds)
        is_leader = chance.random() < 0.35 or kind.endswith("_lead")
        node = self.by_name[self.value.leader] if is_leader else chance.choice(self.nodes)
        seconds = chance.choice([0.02, 0.1, 0.3, 1, 2.5]) * chance.uniform(0.5, 1.5)
        self.statistics["faults"] += 1
        self.statistics[f"fault {kind}"] += 1
        if kind in {
            "crash",
            "power",
            "crash_lead",
            "bounce",
            "wipe",
            "all_down",
            "pause",
            "pause_lead",
            "slow_disk",
            "trim",
        }:
            self.harm_node(kind, node, seconds)
        elif kind in {"isolate", "split", "oneway"}:
            self.partition(kind, node, seconds)
        elif kind in {"transfer", "add", "remove", "forced"}:
            self.operate(kind, node)
        else:
            self.harm_world(kind, node, seconds)

    def harm_node(self, kind: str, node: Replica, seconds: float) -> None:
        chance = self.random
        if kind in {"crash", "power", "crash_lead", "bounce"}:
            self.down(node, seconds if kind != "bounce" else 0.005, kind != "power")
        elif kind == "wipe":  # never the last intact store that is in sync, never with a change on its way
            rest = [
                other
                for other in self.nodes
                if self.value.in_sync.get(other.name) == other.store_id and other is not node
            ]
            if not self.changes_under_way and rest:
                self.down(node, seconds, True)
                node.wipe()
        elif kind == "all_down":
            for other in self.nodes:
                self.down(other, seconds * chance.uniform(0.5, 1), False)
        elif kind in {"pause", "pause_lead"}:
            self.pause(node, seconds)
        elif kind == "trim":
            node.trim(chance.random() < 0.5)
        else:
            node.slow = chance.choice([20, 100])
            self.at(seconds, setattr, node, "slow", 1.0)

    def pause(self, node: Replica, seconds: float) -> None:
        if node.is_up and not node.is_paused:
            node.is_paused = True
            self.at(seconds, self.wake, node, node.life)

    def partition(self, kind: str, node: Replica, seconds: float) -> None:
        chance = self.random
        side = {node.name} if kind != "split" else {each.name for each in self.nodes if chance.random() < 0.5}
        for a in self.by_name:
            for b in self.by_name:
                is_cut = kind != "oneway" or (a in side) == (self.sequence % 2 == 0)
                if (a in side) != (b in side) and is_cut:
                    self.blocked[a, b] = self.now + seconds
        if chance.random() < 0.5:
            for name in sorted(side):
                self.register_blocked[name] = self.now + seconds

    def harm_world(self, kind: str, node: Replica, seconds: float) -> None:
        chance = self.random
        if kind == "reg_down":
            self.register_away = self.now + seconds
        elif kind == "reg_cut":
            self.register_blocked[node.name] = self.now + seconds
        elif kind == "reg_slow":
            self.register_slow = 20
            self.at(seconds, setattr, self, "register_slow", 1)
        elif kind == "loss":
            self.loss, self.doubles, self.register_loss = chance.choice([0.02, 0.2]), 0.1, chance.choice([0.1, 0.4])
            self.at(seconds, self.calm, ("loss", "doubles", "register_loss"))
        elif kind == "late":
            self.late = chance.choice([0.02, 0.2])
            self.at(seconds, self.calm, ("late",))
        else:
            node.set_rate(1 + chance.choice([-DRIFT, DRIFT, chance.uniform(-DRIFT, DRIFT)]))

    def calm(self, names: tuple[str, ...]) -> None:
        for name in names:
            setattr(self, name, 0.0)

    def strike(self, node: Replica, kind: str) -> None:
        chance = self.random
        seconds = chance.choice([0.005, 0.1, 0.5, 1.5] if len(self.strikes) > 2 else [0.1, 1.5, 2.5])
        self.statistics["strikes"] += 1
        if kind in {"down", "power"}:
            self.down(node, seconds, kind == "down")
        elif kind == "pause":
            self.pause(node, seconds)
        elif kind == "isolate":
            for other in self.by_name:
                self.blocked[node.name, other] = self.blocked[other, node.name] = self.now + seconds
            if chance.random() < 0.5:
                self.register_blocked[node.name] = self.now + seconds
        elif kind == "reg":
            self.register_blocked[node.name] = self.now + seconds
        else:
            self.operate("forced", node)

    def down(self, node: Replica, seconds: float, has_host: bool) -> None:
        if not node.is_up:
            return
        node.crash()
        node.has_host = has_host
        for other in self.nodes:
            self.connections[node.name, other.name] += 1
            if has_host and not self.is_blocked(node.name, other.name):
                self.at(self.delay, self.fire, other, other.life, other.on_reset, (node.name,))
        self.at(seconds, self.up_again, node)

    def up_again(self, node: Replica) -> None:
        if not node.is_up:
            node.start()

    # Operators.

    def operate(self, kind: str, node: Replica) -> None:
        leader = self.by_name[self.value.leader]
        if kind == "transfer":
            self.fire(leader, None, leader.transfer, ())
        elif kind == "add":
            self.add(node)
        elif kind == "remove":
            self.remove(node, leader)
        else:
            self.force(leader)

    def add(self, node: Replica) -> None:
        value = self.value.copy(OPERATOR, "")
        if value.min_in_sync != self.min_first and len(value.in_sync) >= self.min_first:
            value.min_in_sync = self.min_first
        elif node.name not in value.members:
            value.members[node.name] = ADDRESSES
        else:
            return
        self.call_register(None, Change(self.revision, value), None)

    def remove(self, node: Replica, leader: Replica) -> None:
        if node.name not in self.value.members or node is leader or len(self.value.members) <= 2:
            return
        if "operator_removes_isr" not in self.plants and node.name in self.value.in_sync:
            self.fire(leader, None, leader.remove, (node.name,))
            return
        value = self.value.copy(OPERATOR, "")
        value.in_sync.pop(node.name, None)
        del value.members[node.name]
        if len(value.in_sync) >= value.min_in_sync:
            self.call_register(None, Change(self.revision, value), None)

    def force(self, leader: Replica) -> None:
        intact = [each for each in self.nodes if self.value.in_sync.get(each.name) == each.store_id]
        if intact and (self.random.random() < 0.5 or not leader.is_up):
            survivor = self.random.choice(intact)
            value = self.value.copy(FORCED, "")
            value.epoch += 1
            value.leader = survivor.name
            value.in_sync = {survivor.name: survivor.store_id}
            value.min_in_sync = 1
            self.call_register(None, Change(self.revision, value), None)

    # A whole run.

    def heal(self) -> None:
        self.blocked, self.register_blocked, self.register_away, self.register_slow = {}, {}, 0.0, 1
        self.calm(("loss", "doubles", "late", "register_loss"))
        for node in self.nodes:
            node.slow, node.has_host = 1.0, True
            if not node.is_up:
                node.start()
            elif node.is_paused:
                self.wake(node, node.life)

    def run(self) -> None:
        """Violation where a promise is broken."""
        chance = self.random
        kinds = [kind for kind in FAULTS if chance.random() < chance.choice([0.3, 0.6, 1])] or ["crash"]
        self.at(1.2, self.fault, kinds, SECONDS)
        self.hunting_ends = SECONDS
        self.run_to(SECONDS)
        self.heal()
        first = [client.next for client in self.clients]
        while self.now < SECONDS + HEAL_SECONDS:
            self.run_to(self.now + 0.1)
            are_served = all(client.confirmed > was for client, was in zip(self.clients, first, strict=True))
            if are_served and set(self.value.in_sync) == set(self.value.members):
                break
        else:
            behind = [client.confirmed - was for client, was in zip(self.clients, first, strict=True)]
            raise Violation(f"6: not well {HEAL_SECONDS} s after healing: {self.value} {behind}")
        self.statistics["heal_ms"] = int(1000 * (self.now - SECONDS))
        self.is_publishing = False
        self.run_to(self.now + 2.5)
        self.checks.final()
        self.statistics["confirmed"] = len(self.checks.confirmed)
