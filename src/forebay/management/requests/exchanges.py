"""The requests of operations on exchanges and bindings, and their answers."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from msgspec import Meta, field

from forebay.management.requests.fields import (
    LIMIT_DEFAULT,
    ArgumentTable,
    ExchangeName,
    InVhost,
    Limit,
    OperationRequest,
    Skip,
    VhostPageRequest,
    metavar,
)


class ExchangeListRequest(VhostPageRequest):
    """Arguments of `exchange.list`."""


class ExchangeDeclareRequest(OperationRequest, kw_only=True):
    """Arguments of `exchange.declare`."""

    vhost: InVhost = "/"
    exchange: ExchangeName
    type: Annotated[str, Meta(description="one of direct, fanout, topic, headers and x-consistent-hash")] = "direct"
    durable: Annotated[bool, Meta(description="kept over a restart")] = True
    auto_delete: Annotated[bool, Meta(description="it is deleted with its last binding")] = False
    internal: Annotated[bool, Meta(description="clients cannot publish to it")] = False
    arguments: ArgumentTable = None


class ExchangeDeleteRequest(OperationRequest, kw_only=True):
    """Arguments of `exchange.delete`."""

    vhost: InVhost = "/"
    exchange: ExchangeName
    if_unused: Annotated[bool, Meta(description="only if nothing is bound to it")] = False


class BindingListRequest(OperationRequest, kw_only=True):
    """Arguments of `binding.list`."""

    vhost: InVhost = "/"
    exchange: Annotated[str, Meta(description="only those from this exchange", extra=metavar("NAME"))] | None = None
    queue: Annotated[str, Meta(description="only those to this queue", extra=metavar("NAME"))] | None = None
    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT


class BindingAddRequest(OperationRequest, kw_only=True):
    """Arguments of `binding.add`."""

    vhost: InVhost = "/"
    exchange: Annotated[str, Meta(description="name of the exchange that messages come from")]
    destination: Annotated[str, Meta(description="name of the queue or exchange that they go to")]
    routing_key: Annotated[str, Meta(description="routing key of the binding", extra=metavar("KEY"))] = ""
    destination_type: Annotated[str, Meta(description="queue or exchange")] = "queue"
    arguments: ArgumentTable = None


class BindingDeleteRequest(OperationRequest, kw_only=True):
    """Arguments of `binding.delete`."""

    vhost: InVhost = "/"
    exchange: Annotated[str, Meta(description="name of the exchange that messages come from")]
    destination: Annotated[str, Meta(description="name of the queue or exchange that they go to")]
    routing_key: Annotated[str, Meta(description="routing key of the binding", extra=metavar("KEY"))] = ""
    destination_type: Annotated[str, Meta(description="queue or exchange")] = "queue"
    arguments: ArgumentTable = None


# ---- answers


class ExchangeFields(TypedDict):
    """An exchange."""

    exchange: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    alternate: str | None
    arguments: Any
    bindings: int


class BindingFields(TypedDict):
    """A binding."""

    exchange: str
    destination: str
    destination_type: str
    routing_key: str
    arguments: Any
