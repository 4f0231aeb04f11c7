"""The requests of operations on the broker itself, its connections, and its cluster."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from forebay.management.requests.fields import (
    LIMIT_DEFAULT,
    Limit,
    NodeName,
    OperationRequest,
    PageRequest,
    Skip,
    Whole,
    metavar,
)


class BrokerStatusRequest(OperationRequest):
    """Arguments of `broker.status`."""


class QueueStatsRequest(OperationRequest, kw_only=True):
    """Arguments of `queue.stats`."""

    vhost: Annotated[str, Meta(description="only those of this vhost; else of all")] | None = None
    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT


class ConfigShowRequest(PageRequest):
    """Arguments of `config.show`."""


class ConfigReloadRequest(OperationRequest):
    """Arguments of `config.reload`."""


class WebhookListRequest(PageRequest):
    """Arguments of `webhook.list`."""


class ConnectionListRequest(OperationRequest, kw_only=True):
    """Arguments of `connection.list`."""

    vhost: Annotated[str, Meta(description="only those in this vhost", extra=metavar("NAME"))] | None = None
    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT


class ChannelListRequest(OperationRequest, kw_only=True):
    """Arguments of `channel.list`."""

    connection: Annotated[Whole, Meta(description="only those of this connection", extra=metavar("ID"))] | None = None
    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT


class ConnectionCloseRequest(OperationRequest, kw_only=True):
    """Arguments of `connection.close`."""

    id: Annotated[Whole, Meta(description="the connection's number in the list", extra=metavar("ID"))]
    reason: Annotated[str, Meta(description="the reason for the client", extra=metavar("TEXT"))] = (
        "closed by an administrator"
    )


class ClusterStatusRequest(OperationRequest):
    """Arguments of `cluster.status`."""


class ClusterTransferRequest(OperationRequest, kw_only=True):
    """Arguments of `cluster.transfer`."""

    node: NodeName


class ClusterRemoveRequest(OperationRequest, kw_only=True):
    """Arguments of `cluster.remove`."""

    node: NodeName


class ClusterDrainRequest(OperationRequest, kw_only=True):
    """Arguments of `cluster.drain`."""

    node: NodeName


class ClusterUndrainRequest(OperationRequest, kw_only=True):
    """Arguments of `cluster.undrain`."""

    node: NodeName
