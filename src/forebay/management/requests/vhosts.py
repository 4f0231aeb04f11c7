"""The requests of operations on vhosts, and their answers."""

from __future__ import annotations

from typing import Annotated, TypedDict

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


# ---- answers


class VhostSettingsFields(TypedDict):
    """The settings of a vhost."""

    description: str
    tags: list[str]
    default_queue_type: str
    connections_max: int
    queues_max: int
    octets_max: int
    protected: bool


class VhostFields(VhostSettingsFields):
    """A vhost with its settings, and its numbers of objects and messages."""

    vhost: str
    connections: int
    exchanges: int
    queues: int
    ready: int
    delayed: int
