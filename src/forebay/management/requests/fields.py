"""The fields that requests of operations share: their types, bounds and descriptions.

Nothing of a broker is loaded with requests, so that a command does not wait for it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Generic, NotRequired, TypedDict, TypeVar

from msgspec import Meta, Struct, field

INTEGER_MAX: Final = (1 << 63) - 1
OFFSET_MAX: Final = 1 << 62
RANGES_MAX: Final = 10_000
LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1000
SCANNED_AT_ONCE: Final = 10_000  # messages that one request looks at
METAVAR: Final = "metavar"


def metavar(word: str) -> dict[str, str]:
    """Return what tells the command line the word for a field's value."""
    return {METAVAR: word}


class OperationRequest(Struct, forbid_unknown_fields=True):
    """The checked arguments of one operation."""


Whole = Annotated[int, Meta(ge=-INTEGER_MAX, le=INTEGER_MAX)]
Table = dict[str, Any]
Ranges = Annotated[list[int | list[int]], Meta(max_length=RANGES_MAX)]  # `is_range` checks each

InVhost = Annotated[str, Meta(description="the vhost")]
Skip = Annotated[int, Meta(description="how many to skip: `next` of the page before", ge=0, le=INTEGER_MAX)]
Limit = Annotated[int, Meta(description="how many to return, up to 1000", ge=1, le=LIMIT_MAX)]
QueueName = Annotated[str, Meta(description="name of the queue")]
Offset = Annotated[int, Meta(description="the message's offset", ge=0, le=OFFSET_MAX, extra=metavar("OFFSET"))]
Where = Annotated[
    str,
    Meta(description="only messages that match this filter; see docs/reference/filters.md", extra=metavar("FILTER")),
]
Offsets = Annotated[Ranges, Meta(description="only those of these offsets")] | None
BodyOctetsMax = Annotated[int, Meta(description="octets of each body to show", ge=0, le=128 << 10)]
FirstOffset = Annotated[
    int, Meta(description="the first offset to look at: `next` of the answer before", ge=0, le=OFFSET_MAX)
]
Scan = Annotated[int, Meta(description="how many messages one request looks at, at most", ge=1, le=SCANNED_AT_ONCE)]
OfQueue = Annotated[str, Meta(description="only this queue", extra=metavar("NAME"))] | None
GroupName = Annotated[
    str, Meta(description="name of the group, or NAME@FILTER if it has a filter", extra=metavar("GROUP"))
]
TraceName = Annotated[str, Meta(description="name of the trace")]
DelayedName = Annotated[str, Meta(description="the key from its publisher, or its number")]
ExchangeName = Annotated[str, Meta(description="name of the exchange")]
ArgumentTable = Annotated[Table, Meta(description="arguments as AMQP clients give them")] | None
ClientId = Annotated[str, Meta(description="the client identifier", extra=metavar("CLIENT"))]
Owner = (
    Annotated[str, Meta(description="the user whose session it is, where several have one under that identifier")]
    | None
)
Topic = Annotated[str, Meta(description="the topic of the message")]
PolicyName = Annotated[str, Meta(description="name of the policy", extra=metavar("NAME"))]
Component = Annotated[str, Meta(description="for which program it is")]
ParameterName = Annotated[str, Meta(description="its name")]
Value = Annotated[Any, Meta(description="any value of JSON")]
UserName = Annotated[str, Meta(description="name of the user", extra=metavar("NAME"))]
PasswordHash = Annotated[str, Meta(description="or its Argon2id hash; without, none is right")]
WritePattern = Annotated[str, Meta(description="regular expression for the names that it may publish to, and bind")]
ReadPattern = Annotated[str, Meta(description="regular expression for the names that it may consume from, and bind to")]
OfUser = Annotated[str, Meta(description="only of this user", extra=metavar("NAME"))] | None
OfVhost = Annotated[str, Meta(description="only in this vhost", extra=metavar("NAME"))] | None
VhostName = Annotated[str, Meta(description="name of the vhost")]
NodeName = Annotated[str, Meta(description="name of the member")]


class PageRequest(OperationRequest, kw_only=True):
    """Arguments of an operation that lists: the page."""

    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT


class VhostPageRequest(OperationRequest, kw_only=True):
    """Arguments of an operation that lists what a vhost has: the vhost and the page."""

    vhost: InVhost = "/"
    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT


# ---- answers

Open = dict[str, Any]  # an object whose fields depend on what it is about
Item = TypeVar("Item")


class ListPage(TypedDict, Generic[Item]):
    """The part of a list that was asked for, the list's length, and where it goes on if it does."""

    items: list[Item]
    total: int
    next: NotRequired[int]


class EmptyAnswer(TypedDict):
    """The answer to a change of which there is nothing to say."""
