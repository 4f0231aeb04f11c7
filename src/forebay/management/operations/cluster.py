"""Operations on the cluster that the broker leads: how its members stand, who leads, and who leaves."""

from __future__ import annotations

from typing import cast

from forebay.core.errors import PRECONDITION, RequestError
from forebay.management.control import Cluster, Control, operation
from forebay.management.requests.broker import (
    ClusterAnswer,
    ClusterDrainRequest,
    ClusterFields,
    ClusterRemoveRequest,
    ClusterStatusRequest,
    ClusterTransferRequest,
    ClusterUndrainRequest,
    MemberAnswer,
)

# These change the cluster's record or the nodes, not the log. An answer that waited for the disk would be lost with
# the leader that hands over: nothing that it writes is committed any more.


@operation("cluster.status")
def show_cluster(control: Control, given: ClusterStatusRequest) -> ClusterAnswer:
    """The cluster: its leader and epoch, and of each member whether it is in sync, and how far it is behind.

    Of a single broker, `clustered` is false, and there are no other fields.
    """
    cluster = control.cluster
    if cluster is None:
        return {"clustered": False}
    return {"clustered": True, **cast("ClusterFields", cluster.status())}


@operation("cluster.transfer", changes=True, logged=False)
def transfer(control: Control, given: ClusterTransferRequest) -> MemberAnswer:
    """Transfer leadership to another member, which must be in sync. Clients are disconnected, and reconnect to it."""
    node = given.node
    cluster_of(control).transfer(node)
    return {"node": node}


@operation("cluster.remove", changes=True, logged=False)
def remove(control: Control, given: ClusterRemoveRequest) -> MemberAnswer:
    """Remove a member from the cluster, unless too few would remain. It may return as a new member."""
    node = given.node
    cluster_of(control).remove(node)
    return {"node": node}


@operation("cluster.drain", changes=True, logged=False)
def drain(control: Control, given: ClusterDrainRequest) -> MemberAnswer:
    """Prepare a member for a stop: it hands over leadership and sends its clients to other nodes.

    Refused if fewer than `min_in_sync` members would remain in sync without it. It keeps its data, and stays drained
    until it restarts or is undrained.
    """
    node = given.node
    cluster_of(control).drain(node)
    return {"node": node}


@operation("cluster.undrain", changes=True, logged=False)
def undrain(control: Control, given: ClusterUndrainRequest) -> MemberAnswer:
    """Let a drained member accept clients again."""
    node = given.node
    cluster_of(control).undrain(node)
    return {"node": node}


def cluster_of(control: Control) -> Cluster:
    """Return the cluster. Raises RequestError if the broker is not part of one."""
    if control.cluster is None:
        raise RequestError(PRECONDITION, "this broker stands alone: its configuration has no section 'cluster'")
    return control.cluster
