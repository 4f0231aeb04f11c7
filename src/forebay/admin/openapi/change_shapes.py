"""The bodies of changes, whose fields go by the names of RabbitMQ's API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from forebay.admin.web.bodies import Body

Table = dict[str, Any]
Texts = str | list[str]


class VhostBody(Body):
    """Settings of a vhost; those that are not given stay."""

    description: str | None = None
    tags: Annotated[Texts | None, Meta(description="A list, or text with commas between.")] = None
    default_queue_type: Annotated[str | None, Meta(description="classic, quorum or stream.")] = None
    protected_from_deletion: bool | None = None
    tracing: Annotated[bool | None, Meta(description="Taken and left at that.")] = None


class ReplicaBody(Body):
    """A node that a queue is to be on, or not."""

    node: Annotated[str, Meta(description="As /api/nodes has it.")]


class GrowBody(Body):
    """The quorum queues that are to be on a node."""

    strategy: Annotated[str, Meta(description="all or even.")] = "all"
    queue_pattern: Annotated[str, Meta(description="Taken and left at that.")] = ".*"
    vhost_pattern: Annotated[str, Meta(description="Taken and left at that.")] = ".*"


class UserBody(Body):
    """A user; with neither password nor hash nobody can log in as it by a password."""

    password: str | None = None
    password_hash: Annotated[str | None, Meta(description="As /api/users shows it.")] = None
    hashing_algorithm: Annotated[
        str | None, Meta(description="Of the hash; RabbitMQ's salted SHA-256 if not given.")
    ] = None
    tags: Annotated[Texts | None, Meta(description="A list, or text with commas between; must be given.")] = None


class UserNames(Body):
    """Users by name."""

    users: list[str]


class PermissionBody(Body):
    """A user's permissions in a vhost: for what has a name in which these regular expressions are found."""

    configure: str
    write: str
    read: str


class TopicPermissionBody(Body):
    """With which routing keys of a topic exchange a user may do so."""

    exchange: str
    write: str
    read: str


class PolicyBody(Body):
    """A policy; docs/reference/policies.md lists what it may define."""

    pattern: str
    definition: Table
    priority: int = 0
    apply_to: str = field(name="apply-to", default="all")


class ValueBody(Body):
    """The value of a parameter or a limit."""

    value: Any


class LimitBody(Body):
    """The value of a limit; below 0 it sets none."""

    value: int


class NameBody(Body):
    """A name."""

    name: str


class QueueBody(Body):
    """The declaration of a queue."""

    durable: bool = False
    auto_delete: bool = False
    arguments: Table = {}
    node: Annotated[str | None, Meta(description="Taken and left at that: there is one node.")] = None


class ExchangeBody(Body):
    """The declaration of an exchange."""

    type: str = "direct"
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: Table = {}


class BindingBody(Body):
    """The key and the arguments of a binding."""

    routing_key: str = ""
    arguments: Table = {}


class PublishBody(Body):
    """One message."""

    properties: Annotated[Table, Meta(description="Of AMQP 0.9.1: content_type, headers, delivery_mode, expiration…")]
    routing_key: str
    payload: str
    payload_encoding: Literal["string", "base64"]


class GetBody(Body):
    """The number of messages to get, and what becomes of them."""

    count: Annotated[int, Meta(description="Below 0: all that there are.")]
    ackmode: Literal["ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false"]
    encoding: Annotated[str, Meta(description="auto: text where the payload is UTF-8, else base64; or base64.")]
    truncate: Annotated[Annotated[int, Meta(ge=0)] | None, Meta(description="Octets of each payload at most.")] = None


class ActionBody(Body):
    """sync and cancel_sync, of mirrored queues, have nothing to do; rebalance the same."""

    action: Literal["sync", "cancel_sync"]


class Routed(Struct):
    """The outcome of a publish: a queue or a subscriber took the message, or nobody did."""

    routed: bool
