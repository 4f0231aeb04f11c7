"""The cluster as one of its nodes knows it: what administrators see and do, metrics, and events."""

from __future__ import annotations

import logging
import time
from typing import Final

from forebay.core.errors import PRECONDITION, RequestError
from forebay.core.units import MS_PER_S
from forebay.management.control import Cluster
from forebay.replica.outcome import FOLLOWER, LEADER, LEARNER
from forebay.replica.register import RegisterValue
from forebay.server.cluster.cluster_node import ClusterNode
from forebay.server.cluster.draining import Draining
from forebay.server.cluster.node_stats import NodeStats, own_stats, tell_stats
from forebay.server.cluster.reads.serving import FollowerReads
from forebay.server.cluster.watch import TOOK_OVER, ClusterWatch, took_over_fields
from forebay.server.telemetry.histograms import Histogram

LOOK_US: Final = 200_000
STATS_US: Final = 1_000_000
logger = logging.getLogger("forebay")

Fields = dict[str, object]


class ClusterState(Cluster):
    """The view of one node, whether it leads or not.

    watch        since when members stand as they do
    stats        of every node, as they said last; its own too
    recovery_ms  of the take-over, if this node leads; it began at `began_us`
    """

    def __init__(self, member: ClusterNode, draining: Draining, reads: FollowerReads) -> None:
        self.member = member
        self.draining = draining
        self.reads = reads
        self.name = member.settings.options.name
        self.node = member.settings.node
        self.watch = ClusterWatch()
        self.stats: dict[str, NodeStats] = {}
        self.recovery_ms = 0
        self.began_us = 0
        self.look_us = 0
        self.stats_us = 0

    # ---- for administrators

    def status(self) -> Fields:
        member = self.member
        found = member.group.status(member.now_us())
        record = member.record()
        known = {str(each["node"]): each for each in listed(found)}
        names = [] if record is None else sorted(record.members)
        answering = member.answering()
        return {
            "name": self.name,
            "node": self.node,
            **found,
            "mode": member.settings.options.mode,
            "members_max": member.settings.options.members,
            "answering": answering,
            "too_few_in_sync": len(answering) < self.min_in_sync(),
            "links_refused": member.links.refused_count,
            "take_overs": 0 if record is None else max(0, int(record.epoch) - 1),
            "etcd": {
                "reached": not member.register.told,
                "why": member.register.told,
                "took_us": member.register.took_us,
                "endpoints": list(member.settings.options.etcd.endpoints),
            },
            "members": [self.member_fields(name, known.get(name), record) for name in names or sorted(known)],
        }

    def member_fields(self, name: str, known: Fields | None, record: RegisterValue | None) -> Fields:
        """Return the fields of a member. `known` is the group's status of it, which a follower has of itself alone."""
        if known is None:
            assert record is not None
            is_in_sync = name in record.in_sync
            role = LEADER if name == record.leader else FOLLOWER if is_in_sync else LEARNER
            known = {"node": name, "role": role, "frames_behind": None, "behind_ms": None, "why": ""}
            known |= {"in_sync": is_in_sync, "peer": record.members[name].peer}
        stats = self.stats.get(name)
        is_own = name == self.node
        return {
            **known,
            "drained": self.draining.says(name),
            "running": is_own or self.is_running(name, known),
            "store": self.store_of(name, record),
            "epoch": 0 if record is None else int(record.epoch),
            "since_ms": self.watch.since_ms.get(name),
            "clients": {} if record is None or name not in record.members else dict(record.members[name].clients),
            "link": None if is_own else self.link_fields(name),
            "version": stats.version if stats is not None else None,
            "started_ms": stats.started_ms if stats is not None else None,
            "disk_octets": stats.disk_octets if stats is not None else None,
            "disk_free_octets": stats.disk_free_octets if stats is not None else None,
            "memory_octets": stats.memory_octets if stats is not None else None,
            "read_octets": stats.read_octets if stats is not None else None,
            "internal_errors": stats.internal_errors if stats is not None else None,
        }

    def is_running(self, name: str, known: Fields) -> bool:
        """Return whether a node has a link to this one and answers, as far as this one would know."""
        silent = known.get("silent_ms", 0)
        link = self.member.links.links.get(name)
        is_heard = not isinstance(silent, int) or silent <= self.member.silent_ms_max()
        return link is not None and link.is_up() and is_heard

    def store_of(self, name: str, record: RegisterValue | None) -> str:
        """Return the id of a member's store, or "" if this node does not know it."""
        if name == self.node:
            return self.member.group.identity.store
        if record is not None and name in record.in_sync:
            return record.in_sync[name]
        there = self.member.nodes.get(name)
        return "" if there is None else there.store_id

    def link_fields(self, name: str) -> Fields:
        """Return the state of the link to another member, with its traffic."""
        link = self.member.links.links.get(name)
        if link is None:
            return {"up": False, "octets_in": 0, "octets_out": 0, "resets": 0, "for_ms": 0, "why": "there is none yet"}
        octets_in, octets_out = link.traffic()
        for_ms = (self.member.now_us() - link.since_us) // MS_PER_S if link.is_up() else 0
        return {
            "up": link.is_up(),
            "octets_in": octets_in,
            "octets_out": octets_out,
            "resets": link.resets,
            "for_ms": for_ms,
            "why": link.why,
        }

    def transfer(self, node: str) -> None:
        if self.draining.says(node):
            raise RequestError(PRECONDITION, f"{node!r} is drained: forebay cluster undrain {node} first")
        self.member.note_streams()
        self.member.group.replica.transfer(node, self.member.now_us())
        self.member.step()

    def remove(self, node: str) -> None:
        self.member.group.replica.remove(node, self.member.now_us())
        self.member.step()

    def drain(self, node: str) -> None:
        self.draining.begin(node)

    def undrain(self, node: str) -> None:
        self.draining.end(node)

    # ---- for metrics

    def etcd_times(self) -> Histogram:
        """Return the histogram of the times that etcd took for its answers."""
        return self.member.register.times

    # ---- what is looked at as time goes by

    def look(self, now_us: int) -> None:
        """Update the view of the members, and send this node's stats to the leader, when each is due."""
        if now_us >= self.stats_us:
            self.stats_us = now_us + STATS_US
            self.tell_stats()
        record = self.member.record()
        if now_us < self.look_us or record is None:
            return
        self.look_us = now_us + LOOK_US
        self.watch.look(
            self.member.group.replica.status(now_us),
            sorted(record.members),
            self.member.silent_ms_max(),
            int(time.time() * MS_PER_S),
            self.note,
        )

    def tell_stats(self) -> None:
        """Collect this node's stats, and send them to the leader."""
        member = self.member
        errors = member.process.faults.counts.total()
        own = self.stats[self.node] = own_stats(
            member.process.disk, self.draining.is_drained, self.reads.octets, errors
        )
        if member.group.role != LEADER and member.group.leader:
            tell_stats(member.links, member.group.leader, own)

    def tell_take_over(self) -> None:
        """Report to event subscribers that this node has taken over."""
        record = self.member.record()
        why = "" if record is None else record.why
        found = self.member.group.replica.status(self.member.now_us())
        self.note(TOOK_OVER, dict(took_over_fields(found, why, self.recovery_ms)))

    def note(self, type: str, fields: Fields) -> None:
        """Report an event to the event subscribers, whom only a leader has."""
        app = self.member.process.app
        if app is not None and not self.member.process.ended:
            app.vhosts.events.note(type, b"", fields)
            app.look()

    # ---- what it is made of

    def min_in_sync(self) -> int:
        record = self.member.record()
        return 0 if record is None else record.min_in_sync


def listed(found: Fields) -> list[Fields]:
    """Return the members in a group's status."""
    members = found["members"]
    assert isinstance(members, list)
    return members
