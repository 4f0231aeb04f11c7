"""The requests of operations on MQTT sessions, subscriptions and retained messages, and their answers."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta, field

from forebay.management.requests.fields import (
    LIMIT_DEFAULT,
    BodyOctetsMax,
    ClientId,
    FirstOffset,
    InVhost,
    Limit,
    Open,
    OperationRequest,
    Owner,
    Skip,
    Topic,
    metavar,
)
from forebay.management.requests.queues import BodyFields


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


# ---- answers


class SessionGlance(TypedDict, total=False):
    """A session at a glance, as an explanation has it."""

    client_id: str
    user: str | None
    connected: bool
    connection: int | None
    durable: bool
    expiry_s: int | None
    ended_ms: int | None
    subscriptions: int
    waiting: int
    dropped: int
    inflight: int
    received: int
    paused: bool


class SessionFields(TypedDict):
    """A session at a glance; `expiry_s` is None where it never ends by itself."""

    client_id: str
    user: str | None
    connected: bool
    connection: int | None
    durable: bool
    expiry_s: int | None
    ended_ms: int | None
    subscriptions: int
    waiting: int
    dropped: int
    inflight: int
    received: int
    paused: bool


class SubscriptionFields(TypedDict):
    """A subscription."""

    client_id: str
    connected: bool
    filter: str
    qos: int
    no_local: bool
    retain_as_published: bool
    identifier: int | None
    arguments: Any


class InflightFields(TypedDict):
    """A packet in flight with the answer that it awaits; nothing of its message once the client has that."""

    packet_id: int
    awaits: str
    offset: NotRequired[int]
    topic: NotRequired[str]
    stored_ms: NotRequired[int]


class WillFields(TypedDict):
    """A session's will."""

    topic: str
    qos: int
    retain: bool
    delay_s: int
    octets: int
    due_ms: int | None


class SessionDetails(SessionFields):
    """A session with its subscriptions, what is in flight, and its will."""

    subscriptions_list: list[SubscriptionFields]
    inflight_list: list[InflightFields]
    received_list: list[int]
    will: WillFields | None


class DeletedSession(TypedDict):
    """The number of messages that waited for a deleted session, and of packets that were in flight."""

    waiting: int
    inflight: int


class RetainedFields(TypedDict, total=False):
    """A retained message; nothing of one that has just gone."""

    topic: str
    octets: int
    qos: int
    protocol: str
    stored_ms: int
    expires_ms: int | None
    durable: bool


class RetainedDetails(RetainedFields, BodyFields):
    """A retained message with its properties and body."""

    content_type: str | None
    headers: Open
