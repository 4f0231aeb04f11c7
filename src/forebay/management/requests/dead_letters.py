"""The requests of operations on dead letters, and their answers."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta, field

from forebay.management.requests.fields import (
    LIMIT_DEFAULT,
    SCANNED_AT_ONCE,
    BodyOctetsMax,
    FirstOffset,
    InVhost,
    Limit,
    Offset,
    Offsets,
    OperationRequest,
    QueueName,
    Scan,
    Table,
    VhostPageRequest,
    Where,
    Whole,
)


class DeadLetterListRequest(VhostPageRequest):
    """Arguments of `dlq.list`."""


class DeadLetterShowRequest(OperationRequest, kw_only=True):
    """Arguments of `dlq.show`."""

    vhost: InVhost = "/"
    queue: QueueName
    first: FirstOffset = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT
    where: Where = ""
    body_octets_max: BodyOctetsMax = 1024
    scan: Scan = SCANNED_AT_ONCE


class DeadLetterRedriveRequest(OperationRequest, kw_only=True):
    """Arguments of `dlq.redrive`."""

    vhost: InVhost = "/"
    queue: QueueName
    where: Where = ""
    to: Annotated[str, Meta(description="the queue that they go to; that in which each died first if not given")] = ""
    offsets: Offsets = None
    id: (
        Annotated[Whole, Meta(description="the queue's number: refused where its name is another queue's by now")]
        | None
    ) = None
    first: FirstOffset = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT
    scan: Scan = SCANNED_AT_ONCE


class DeadLetterPurgeRequest(OperationRequest, kw_only=True):
    """Arguments of `dlq.purge`."""

    vhost: InVhost = "/"
    queue: QueueName
    where: Where = ""
    first: FirstOffset = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT
    scan: Scan = SCANNED_AT_ONCE


class DeadLetterEditRequest(OperationRequest, kw_only=True):
    """Arguments of `dlq.edit`."""

    vhost: InVhost = "/"
    queue: QueueName
    offset: Offset
    body: Annotated[str, Meta(description="another body")] | None = None
    body_base64: Annotated[str, Meta(description="the new body, if it is not text")] | None = None
    headers: Annotated[Table, Meta(description="headers to set; null removes one")] | None = None
    routing_key: Annotated[str, Meta(description="another routing key")] | None = None


# ---- answers


class DeadLetterQueueFields(TypedDict):
    """A dead-letter queue at a glance; causes and origins tell of the oldest `counted` messages."""

    queue: str
    messages: int
    held: int
    counted: int
    complete: bool
    causes: dict[str, int]
    origins: dict[str, int]
    oldest_ms: int | None
    newest_ms: int | None
