"""The metrics of a node of a cluster, read of what `ClusterState.status` tells: the same of one that leads and others.

A node that does not lead has no broker, so these and a few of its process are all that it has.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import forebay
from forebay.admin.metrics import family
from forebay.admin.metrics.exposition import UNLABELLED, Text, labelled, wants_open_metrics
from forebay.admin.metrics.family import Metric, Number, Row, counter, gauge, histogram
from forebay.core.units import MS_PER_S, US_PER_S
from forebay.server.system.heap import resident_octets

if TYPE_CHECKING:
    from forebay.server.cluster.administration import ClusterState

NODE_LABEL: Final = ("node",)
Fields = dict[str, object]


def number(key: str) -> Callable[[Fields], Number]:
    """A reader of a number of the status, or of how many a list of it has."""

    def read(status: Fields) -> Number:
        value = status[key]
        if isinstance(value, list):
            return len(value)
        assert isinstance(value, int | float)
        return value

    return read


def leaders(key: str) -> Callable[[Fields], Number | None]:
    """The same of a number that only the node knows which leads."""
    read = number(key)
    return lambda status: read(status) if status["node"] == status["leader"] else None


def etcd_up(status: Fields) -> Number:
    etcd = status["etcd"]
    assert isinstance(etcd, dict)
    return int(etcd["reached"])


def own(key: str) -> Callable[[Fields], Number | None]:
    """A reader of a number that the node tells of itself, once it has."""

    def read(status: Fields) -> Number | None:
        members = status["members"]
        assert isinstance(members, list)
        return next((each[key] for each in members if each["node"] == status["node"]), None)

    return read


def role_of(status: Fields) -> dict[tuple[str, ...], Number]:
    members = status["members"]
    assert isinstance(members, list)
    return {(str(each["role"]),): 1 for each in members if each["node"] == status["node"]}


def of_others(read: Callable[[Fields], object], scale: int = 1) -> Callable[[Fields], dict[tuple[str, ...], Number]]:
    """A number of each other member, where it is known."""

    def spread(status: Fields) -> dict[tuple[str, ...], Number]:
        members = status["members"]
        assert isinstance(members, list)
        found: dict[tuple[str, ...], Number] = {}
        for each in members:
            value = None if each["node"] == status["node"] else read(each)
            if isinstance(value, int):
                found[(str(each["node"]),)] = int(value) if scale == 1 else value / scale
        return found

    return spread


def of_link(key: str) -> Callable[[Fields], object]:
    """A reader of what a member's link tells."""

    def read(member: Fields) -> object:
        link = member["link"]
        return link[key] if isinstance(link, dict) else None

    return read


CLUSTER_ROWS: Final[tuple[Row[Fields], ...]] = (
    Row(gauge("forebay_cluster_epoch", family.CLUSTER, "The epoch of the cluster."), number("epoch")),
    Row(
        counter("forebay_cluster_take_overs", family.CLUSTER, "Changes of leader since the cluster was created."),
        number("take_overs"),
    ),
    Row(gauge("forebay_cluster_members", family.CLUSTER, "Members of the cluster."), number("members")),
    Row(gauge("forebay_cluster_in_sync", family.CLUSTER, "Members in sync, by etcd's record."), number("in_sync")),
    Row(
        gauge("forebay_cluster_answering", family.CLUSTER, "Members in sync that answer; at the leader."),
        leaders("answering"),
    ),
    Row(
        gauge("forebay_cluster_min_in_sync", family.CLUSTER, "Members that must answer, or nothing is confirmed."),
        number("min_in_sync"),
    ),
    Row(gauge("forebay_cluster_frame", family.CLUSTER, "The last frame of the node's log."), number("frame")),
    Row(
        gauge("forebay_cluster_committed_frame", family.CLUSTER, "The last frame that the node knows is committed."),
        number("committed"),
    ),
    Row(
        counter(
            "forebay_cluster_read_octets", family.CLUSTER, "Octets of blocks sent to readers while another node led."
        ),
        own("read_octets"),
    ),
    Row(
        counter("forebay_cluster_links_refused", family.CLUSTER, "Connections of nodes that were refused."),
        number("links_refused"),
    ),
    Row(gauge("forebay_cluster_etcd_up", family.CLUSTER, "1 while etcd answers."), etcd_up),
)

CLUSTER_SPREADS: Final[tuple[tuple[Metric, Callable[[Fields], dict[tuple[str, ...], Number]]], ...]] = (
    (
        gauge("forebay_cluster_role", family.CLUSTER, "1 for the node's role: leader, follower or learner.", ("role",)),
        role_of,
    ),
    (
        gauge("forebay_cluster_follower_in_sync", family.CLUSTER, "1 while another member is in sync.", NODE_LABEL),
        of_others(lambda member: member["in_sync"]),
    ),
    (
        gauge(
            "forebay_cluster_follower_lag_frames",
            family.CLUSTER,
            "Frames that a member lacks; at the leader.",
            NODE_LABEL,
        ),
        of_others(lambda member: member["frames_behind"]),
    ),
    (
        gauge(
            "forebay_cluster_follower_lag_seconds",
            family.CLUSTER,
            "Time since a member first lacked a frame.",
            NODE_LABEL,
        ),
        of_others(lambda member: member["behind_ms"], MS_PER_S),
    ),
    (
        gauge("forebay_cluster_link_up", family.CLUSTER, "1 while there is a link to another member.", NODE_LABEL),
        of_others(of_link("up")),
    ),
    (
        counter(
            "forebay_cluster_link_received_bytes", family.CLUSTER, "Octets received from another member.", NODE_LABEL
        ),
        of_others(of_link("octets_in")),
    ),
    (
        counter("forebay_cluster_link_sent_bytes", family.CLUSTER, "Octets sent to another member.", NODE_LABEL),
        of_others(of_link("octets_out")),
    ),
    (
        counter(
            "forebay_cluster_link_resets", family.CLUSTER, "Times that the link to another member ended.", NODE_LABEL
        ),
        of_others(of_link("resets")),
    ),
)
COMMIT_LATENCY: Final = histogram(
    "forebay_cluster_commit_latency_seconds",
    family.LATENCY,
    "From a commit at the leader until all members in sync have it; at the leader.",
)
ETCD_TIMES: Final = histogram("forebay_cluster_etcd_duration_seconds", family.LATENCY, "Duration of etcd's answers.")
PROCESS: Final[tuple[tuple[Metric, Callable[[ClusterState], Number]], ...]] = (
    (
        gauge("rabbitmq_process_resident_memory_bytes", family.NODE_COARSE, "Memory of the process."),
        lambda state: resident_octets(),
    ),
    (
        gauge("rabbitmq_disk_space_available_bytes", family.NODE_COARSE, "Free space on the data folder's disk."),
        lambda state: state.member.process.disk.free_octets(),
    ),
    (
        gauge(
            "rabbitmq_disk_space_available_limit_bytes",
            family.NODE,
            "Free space below which the broker stops reading publishers.",
        ),
        lambda state: state.member.process.options.disk_free_min_octets,
    ),
    (
        gauge("rabbitmq_process_open_fds", family.NODE_COARSE, "Open file descriptors."),
        lambda state: len(os.listdir("/proc/self/fd")),
    ),
    (
        gauge("rabbitmq_process_max_fds", family.NODE, "Limit of open file descriptors."),
        lambda state: resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    ),
    (
        gauge("forebay_wal_files", family.LOG, "Files of the write-ahead log."),
        lambda state: len(state.member.group.store.wals),
    ),
    (
        gauge("forebay_wal_bytes", family.LOG, "Octets used in these."),
        lambda state: sum(wal.tail for wal in state.member.group.store.wals),
    ),
)
IDENTITY: Final = gauge(
    "rabbitmq_identity_info",
    family.NODE,
    "Name of the broker.",
    ("rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id"),
)
BUILD: Final = gauge("forebay_build_info", family.NODE, "Which software this is.", ("version",))


def follower_metrics(state: ClusterState, accept: str) -> tuple[str, bytes]:
    """The metrics of a node that does not lead: their content type, and the document."""
    out = Text(wants_open_metrics(accept))
    own = f"forebay@{state.node}"
    out.add(IDENTITY, [(labelled(IDENTITY.labels, (own, state.name, state.name)), 1)])
    out.add(BUILD, [(labelled(BUILD.labels, (forebay.__version__,)), 1)])
    for metric, read_own in PROCESS:
        out.add(metric, [(UNLABELLED, read_own(state))])
    metric = family.INTERNAL_ERRORS
    out.add(
        metric,
        [(labelled(metric.labels, (place,)), each) for place, each in state.member.process.faults.counts.items()],
    )
    status = state.status()
    for row in CLUSTER_ROWS:
        value = row.read(status)
        if value is not None:
            out.add(row.metric, [(UNLABELLED, value)])
    for metric, read in CLUSTER_SPREADS:
        out.add(metric, [(labelled(metric.labels, labels), each) for labels, each in read(status).items()])
    out.add_histogram(ETCD_TIMES, state.etcd_times(), US_PER_S)
    return out.content_type, out.document()
