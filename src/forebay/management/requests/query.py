"""Requests and answers of `queue.query`."""

from __future__ import annotations

from typing import Annotated, Final, NotRequired, TypedDict

from msgspec import Meta, field

from forebay.management.requests.fields import (
    INTEGER_MAX,
    LIMIT_DEFAULT,
    LIMIT_MAX,
    OFFSET_MAX,
    BodyOctetsMax,
    InVhost,
    Open,
    OperationRequest,
    QueueName,
    Scan,
    metavar,
)

QUERY_SCAN: Final = 2000
EXPRESSIONS: Final = metavar("EXPRESSIONS")


class QueueQueryRequest(OperationRequest, kw_only=True):
    """Arguments of `queue.query`."""

    vhost: InVhost = "/"
    queue: QueueName
    where: Annotated[
        str,
        Meta(description="only messages that match this filter; see docs/reference/query.md", extra=metavar("FILTER")),
    ] = ""
    select: Annotated[
        str, Meta(description="columns of the rows, such as '/symbol, SUM(/qty) AS total'", extra=EXPRESSIONS)
    ] = ""
    group_by: Annotated[
        str, Meta(description="expressions: messages with the same values make one row", extra=EXPRESSIONS)
    ] = ""
    order_by: Annotated[
        str, Meta(description="columns or expressions, each with ASC or DESC behind it", extra=EXPRESSIONS)
    ] = ""
    top_n: Annotated[int, Meta(description="rows of the whole answer", ge=1, le=1 << 40)] | None = None
    skip: Annotated[int, Meta(description="how many of them to leave out", ge=0, le=100_000)] = 0
    first: Annotated[int, Meta(description="the first offset to look at", ge=0, le=OFFSET_MAX)] = field(
        name="from", default=0
    )
    end: Annotated[int, Meta(description="only messages below this offset", ge=0, le=OFFSET_MAX)] | None = None
    limit: Annotated[int, Meta(description="rows of one page, up to 1000", ge=1, le=LIMIT_MAX)] = LIMIT_DEFAULT
    group: Annotated[str, Meta(description="the consumer group whose states count", extra=metavar("GROUP"))] | None = (
        None
    )
    body_octets_max: BodyOctetsMax = 1024
    running: (
        Annotated[int, Meta(description="go on with this query: `running` of the answer before", ge=1, le=INTEGER_MAX)]
        | None
    ) = None
    scan: Scan = QUERY_SCAN


class QueryAnswer(TypedDict):
    """The rows of a query, or how far it is.

    `running` is the number of a query that is not done: ask again with it. `next` has the arguments to change for the
    next page. `end` is the first offset that the query did not look at, `scanned` how many messages it did.
    """

    scanned: int
    matched: int
    end: int
    rows: NotRequired[list[Open]]
    next: NotRequired[Open]
    running: NotRequired[int]
