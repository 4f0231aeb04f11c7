"""What happens is held against the promises of `violation.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay.replica.register import RegisterValue
from tests.simulation.replica.logs import SimFrame
from tests.simulation.replica.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.replica.cluster import Cluster
    from tests.simulation.replica.replica import Record, Replica


class Checks:
    """What is known from outside.

    committed  all frames that any leader committed, in order
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.committed: list[SimFrame] = []
        self.leaders: dict[int, tuple[str, int]] = {}
        self.confirmed: dict[Record, float] = {}
        self.delivered: dict[Record, float] = {}
        self.settled: dict[Record, float] = {}
        self.commits: list[float] = []
        self.deliveries: list[float] = []
        self.last_delivering = 0

    def on_change(self, old: RegisterValue, new: RegisterValue) -> None:
        is_new = new.epoch == old.epoch + 1
        if not is_new and (new.epoch != old.epoch or new.leader != old.leader):
            raise Violation(f"3: the register goes from {old} to {new}")

    def on_begin(self, node: Replica) -> None:
        epoch = node.begun
        if self.leaders.setdefault(epoch, (node.name, node.life)) != (node.name, node.life):
            raise Violation(f"3: epoch {epoch} has leaders {self.leaders[epoch]} and {node.name}, {node.life}")
        frames = node.log.frames
        # A stale one, woken late, may lack some.
        if frames[: len(self.committed)] != self.committed and epoch >= self.committed[-1][0]:
            raise Violation(f"1: leader {node.name} of epoch {epoch} lacks a committed frame")

    def on_commit(self, node: Replica, first: int, last: int) -> list[SimFrame]:
        """The frames that this leader has committed now."""
        frames, known = node.log.frames, min(last, len(self.committed))
        if frames[first:known] != self.committed[first:known]:
            raise Violation(f"1: leader {node.name} of epoch {node.begun} commits against what was committed")
        self.committed.extend(frames[len(self.committed) : last])
        self.in_sync_have_all(first)
        for _, said in frames[first:last]:
            if said[0] == "P":
                self.commits.append(self.cluster.now)
            elif said[0] == "S":
                publisher, number = said[1:]
                assert isinstance(publisher, int) and isinstance(number, int)
                self.settled.setdefault((publisher, number), self.cluster.now)
        return frames[first:last]

    def in_sync_have_all(self, first: int) -> None:
        """Not for planted bugs: nobody outside would see it."""
        cluster = self.cluster
        if cluster.is_planted:
            return
        for node in cluster.nodes:
            if cluster.value.in_sync.get(node.name) != node.store_id:
                continue
            if node.on_disk[first : len(self.committed)] != self.committed[first:]:
                raise Violation(f"8: {node.name} is in sync and lacks a committed frame")

    def on_replace(self, node: Replica) -> None:
        """A store is replaced by a copy."""
        if self.cluster.value.in_sync.get(node.name) == node.store_id:
            raise Violation(f"8: {node.name} is in sync, and its store is replaced")

    def on_follower_commit(self, node: Replica, first: int, last: int) -> None:
        if node.log.frames[first:last] != self.committed[first:last]:
            raise Violation(f"2: follower {node.name} differs below its commit index")

    def on_confirm(self, record: Record) -> None:
        self.confirmed.setdefault(record, self.cluster.now)

    def on_deliver(self, node: Replica, record: Record) -> None:
        if node.begun < self.last_delivering:
            raise Violation(f"5: epoch {node.begun} delivers after epoch {self.last_delivering} did")
        self.last_delivering = node.begun
        for other in self.cluster.nodes:
            if other is node or other.is_paused or not other.is_leading():
                continue
            if other.member.can_deliver(other.now()):
                raise Violation(f"5: {node.name} ({node.begun}) and {other.name} ({other.begun}) both deliver")
        if record in self.settled:
            raise Violation(f"7: settled {record} is delivered again")
        self.delivered[record] = self.cluster.now
        self.deliveries.append(self.cluster.now)

    def final(self) -> None:
        """Once all is quiet."""
        cluster, committed = self.cluster, self.committed
        leaders = [node for node in cluster.nodes if node.is_leading() and node.begun == cluster.value.epoch]
        if (
            len(leaders) != 1
            or leaders[0].commit != len(committed)
            or leaders[0].log.frames[: len(committed)] != committed
        ):
            raise Violation("1: the last leader does not hold exactly what was committed")
        for name in cluster.value.members:
            node = cluster.by_name[name]
            # An operator may have added a member just now: it catches up.
            lacks = name in cluster.value.in_sync and len(node.log.frames) < len(committed)
            if lacks or node.log.frames[: node.commit] != committed[: node.commit]:
                raise Violation(f"2: {name} differs at the end")
        published = [said[1:] for _, said in committed if said[0] == "P"]
        there, settled = set(published), {said[1:] for _, said in committed if said[0] == "S"}
        if len(there) != len(published):
            raise Violation("1: a record is in the log twice")
        for publisher in range(len(cluster.clients)):
            numbers = [each[1] for each in published if each[0] == publisher]
            if numbers != list(range(1, len(numbers) + 1)):
                raise Violation("1: out of the order of its publisher")
        for records, number in ((self.confirmed, 1), (self.delivered, 4)):
            if not there >= set(records):
                raise Violation(f"{number}: vanished: {sorted(set(records) - there)[:3]}")
        if not settled >= set(self.settled):
            raise Violation("7: a settlement has vanished")
