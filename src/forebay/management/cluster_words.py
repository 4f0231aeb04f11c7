"""The state of a cluster in a few words, made of what `Cluster.status` tells."""

from __future__ import annotations

from typing import cast

from forebay.management.control import Cluster
from forebay.management.requests.broker import ClusterSummary


def summary_of(cluster: Cluster | None) -> ClusterSummary | None:
    """Return a short summary of the cluster, or None if the broker is not part of one."""
    if cluster is None:
        return None
    status = cluster.status()
    members = listed(status, "members")
    out = {str(each["node"]): str(each["why"]) for each in members if not each["in_sync"]}
    in_sync = len(members) - len(out)
    waits = waits_of(status)
    line = f"{status['name']}, epoch {status['epoch']}, led by {status['leader']}, {in_sync} of {len(members)} in sync"
    line += "".join([f", {node} {why or 'is not'}" for node, why in out.items()])
    summary = {
        "name": status["name"],
        "leader": status["leader"],
        "epoch": status["epoch"],
        "members": len(members),
        "in_sync": in_sync,
        "min_in_sync": status["min_in_sync"],
        "too_few_in_sync": status["too_few_in_sync"],
        "out_of_sync": out,
        "waits": waits,
        "line": f"{line}; {waits}" if waits else line,
    }
    return cast("ClusterSummary", summary)


def waits_of(status: dict[str, object]) -> str:
    """Return the reason why publisher confirms wait, from a cluster status. Returns "" if they do not wait."""
    if status["too_few_in_sync"]:
        answering = status["answering"]
        assert isinstance(answering, list)
        return f"nothing is confirmed: {len(answering)} in sync answer, min_in_sync is {status['min_in_sync']}"
    if not status["waits"]:
        return ""
    slowest, most = "", 0
    for each in listed(status, "members"):
        behind = each["frames_behind"]
        if each["in_sync"] and isinstance(behind, int) and behind > most:
            slowest, most = str(each["node"]), behind
    return f"waits for node {slowest}, {most:,} frames behind" if slowest else "waits for the leader's own disk"


def listed(status: dict[str, object], key: str) -> list[dict[str, object]]:
    """Return the list under a key of a cluster status."""
    found = status[key]
    assert isinstance(found, list)
    return found
