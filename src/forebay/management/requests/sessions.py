"""The requests of operations on MQTT sessions, subscriptions and retained messages."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from forebay.management.requests.fields import (
    LIMIT_DEFAULT,
    BodyOctetsMax,
    ClientId,
    FirstOffset,
    InVhost,
    Limit,
    OperationRequest,
    Owner,
    Skip,
    Topic,
    metavar,
)


class SessionListRequest(OperationRequest, kw_only=True):
    """Arguments of `session.list`."""

    vhost: InVhost = "/"
    connected: Annotated[bool, Meta(description="only connected, or only offline sessions")] | None = None
    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT


class SessionShowRequest(OperationRequest, kw_only=True):
    """Arguments of `session.show`."""

    vhost: InVhost = "/"
    client_id: ClientId
    user: Owner = None


class SessionMessagesRequest(OperationRequest, kw_only=True):
    """Arguments of `session.messages`."""

    vhost: InVhost = "/"
    client_id: ClientId
    user: Owner = None
    first: FirstOffset = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT
    body_octets_max: BodyOctetsMax = 1024


class SessionCloseRequest(OperationRequest, kw_only=True):
    """Arguments of `session.close`."""

    vhost: InVhost = "/"
    client_id: ClientId
    user: Owner = None


class SessionDeleteRequest(OperationRequest, kw_only=True):
    """Arguments of `session.delete`."""

    vhost: InVhost = "/"
    client_id: ClientId
    user: Owner = None


class SubscriptionListRequest(OperationRequest, kw_only=True):
    """Arguments of `subscription.list`."""

    vhost: InVhost = "/"
    client_id: Annotated[str, Meta(description="only those of this session", extra=metavar("CLIENT"))] | None = None
    user: Owner = None
    topic: Annotated[str, Meta(description="only subscriptions that match this topic")] | None = None
    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT


class RetainedListRequest(OperationRequest, kw_only=True):
    """Arguments of `retained.list`."""

    vhost: InVhost = "/"
    filter: Annotated[str, Meta(description="a topic filter")] = "#"
    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT


class RetainedShowRequest(OperationRequest, kw_only=True):
    """Arguments of `retained.show`."""

    vhost: InVhost = "/"
    topic: Topic
    body_octets_max: BodyOctetsMax = 1024


class RetainedDeleteRequest(OperationRequest, kw_only=True):
    """Arguments of `retained.delete`."""

    vhost: InVhost = "/"
    topic: Topic
