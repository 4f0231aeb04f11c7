"""The requests of operations on vhosts."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from forebay.management.requests.fields import OperationRequest, PageRequest, VhostName, Whole, metavar


class VhostListRequest(PageRequest):
    """Arguments of `vhost.list`."""


class VhostAddRequest(OperationRequest, kw_only=True):
    """Arguments of `vhost.add`."""

    vhost: VhostName
    description: Annotated[str, Meta(description="for people to read", extra=metavar("TEXT"))] | None = None
    tags: Annotated[list[str], Meta(description="for people to read")] | None = None
    default_queue_type: (
        Annotated[
            str,
            Meta(description="type of queues declared without one: classic, quorum or stream", extra=metavar("TYPE")),
        ]
        | None
    ) = None
    connections_max: Annotated[Whole, Meta(description="connections at one time; -1 sets no limit")] | None = None
    queues_max: Annotated[Whole, Meta(description="queues at one time; -1 sets no limit")] | None = None
    octets_max: (
        Annotated[
            Whole, Meta(description="octets in its queues above which publishers are slowed down; -1 sets no limit")
        ]
        | None
    ) = None
    protected: Annotated[bool, Meta(description="it cannot be deleted")] | None = None


class VhostSetRequest(OperationRequest, kw_only=True):
    """Arguments of `vhost.set`."""

    vhost: VhostName
    description: Annotated[str, Meta(description="for people to read", extra=metavar("TEXT"))] | None = None
    tags: Annotated[list[str], Meta(description="for people to read")] | None = None
    default_queue_type: (
        Annotated[
            str,
            Meta(description="type of queues declared without one: classic, quorum or stream", extra=metavar("TYPE")),
        ]
        | None
    ) = None
    connections_max: Annotated[Whole, Meta(description="connections at one time; -1 sets no limit")] | None = None
    queues_max: Annotated[Whole, Meta(description="queues at one time; -1 sets no limit")] | None = None
    octets_max: (
        Annotated[
            Whole, Meta(description="octets in its queues above which publishers are slowed down; -1 sets no limit")
        ]
        | None
    ) = None
    protected: Annotated[bool, Meta(description="it cannot be deleted")] | None = None


class VhostDeleteRequest(OperationRequest, kw_only=True):
    """Arguments of `vhost.delete`."""

    vhost: VhostName
