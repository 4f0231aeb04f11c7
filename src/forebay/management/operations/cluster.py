"""Operations on the cluster that the broker leads: how its members stand, who leads, and who leaves."""

from __future__ import annotations

from forebay.core.errors import PRECONDITION, RequestError
from forebay.management.arguments import TEXT, Arguments, Parameter
from forebay.management.control import Cluster, Control, operation

# What these change is in the cluster's record, or in the nodes' hands. An answer that waited for the disk would go with
# the leader that hands over: nothing that it writes is committed any more.
NODE = Parameter("node", TEXT, "the member's name")


@operation("cluster.status")
def show_cluster(control: Control, given: Arguments) -> dict[str, object]:
    """The cluster: its leader and epoch, and of each member whether it is in sync, and how far it is behind.

    A broker that stands alone says so: `clustered` is false, and there is nothing else.
    """
    cluster = control.cluster
    if cluster is None:
        return {"clustered": False}
    return {"clustered": True, **cluster.status()}


@operation("cluster.transfer", NODE, changes=True, logged=False)
def transfer(control: Control, given: Arguments) -> dict[str, object]:
    """Have another member lead, which must be in sync. Clients are cut off, and go on with it when they reconnect."""
    node = given.text("node")
    cluster_of(control).transfer(node)
    return {"node": node}


@operation("cluster.remove", NODE, changes=True, logged=False)
def remove(control: Control, given: Arguments) -> dict[str, object]:
    """Take a member out of the cluster, unless too few would be left. It may come back as a new one."""
    node = given.text("node")
    cluster_of(control).remove(node)
    return {"node": node}


@operation("cluster.drain", NODE, changes=True, logged=False)
def drain(control: Control, given: Arguments) -> dict[str, object]:
    """Have a member lead no more, and its clients go to other nodes, so that it can be stopped.

    Leadership goes first. Refused where fewer would be in sync without it than must be. It keeps the data as before,
    and is drained until it is started again, or undrained.
    """
    node = given.text("node")
    cluster_of(control).drain(node)
    return {"node": node}


@operation("cluster.undrain", NODE, changes=True, logged=False)
def undrain(control: Control, given: Arguments) -> dict[str, object]:
    """Have a member that was drained take clients again."""
    node = given.text("node")
    cluster_of(control).undrain(node)
    return {"node": node}


def cluster_of(control: Control) -> Cluster:
    """The cluster; RequestError where the broker stands alone."""
    if control.cluster is None:
        raise RequestError(PRECONDITION, "this broker stands alone: its configuration has no section 'cluster'")
    return control.cluster
