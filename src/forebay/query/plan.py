"""A query, checked: which messages it reads, and what it makes of them.

`select`, `group_by`, `order_by`, `top_n` and `skip` are those of AMPS; `where` is a filter.
"""

from __future__ import annotations

from typing import Final, final

from forebay.core.errors import INVALID, RequestError
from forebay.core.reading.nearest import hint
from forebay.filter.nodes import FilterNode
from forebay.filter.parser import Filter
from forebay.query.selection import Column, OrderKey, parse_group_by, parse_order_by, parse_select, parse_where

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1000
SKIP_MAX: Final = 100_000
TOP_MAX: Final = 1 << 40
OFFSET_MAX: Final = 1 << 62
BODY_OCTETS_DEFAULT: Final = 1024
BODY_OCTETS_MAX: Final = 128 << 10
NAMES: Final = (
    "where",
    "select",
    "group_by",
    "order_by",
    "top_n",
    "skip",
    "from",
    "end",
    "limit",
    "group",
    "body_octets_max",
)


@final
class QueryPlan:
    """The checked arguments of one query.

    where     only messages for which this holds; None: all
    columns   of the rows; none: each row is the whole message
    grouping  expressions whose values make a group
    is_grouped  each row is a group of messages
    order     of the rows; none: groups by their first message, messages by offset
    top_n     rows of the whole answer; -1: all
    skip      rows of it that are left out
    first, end  only messages of the offsets [first, end); end -1: up to what is there when the query begins
    limit     rows of one page
    group     consumer group whose states count; None: the only one, or the nameless one
    """

    def __init__(self) -> None:
        self.where: Filter | None = None
        self.columns: list[Column] = []
        self.grouping: list[FilterNode] = []
        self.is_grouped = False
        self.order: list[OrderKey] = []
        self.top_n = -1
        self.skip = 0
        self.first = 0
        self.end = -1
        self.limit = LIMIT_DEFAULT
        self.group: bytes | None = None
        self.body_octets_max = BODY_OCTETS_DEFAULT

    def page_rows(self) -> int:
        """Return how many rows the page has at most."""
        return self.limit if self.top_n < 0 else min(self.limit, self.top_n)

    def top_after(self, rows: int) -> int:
        """Return `top_n` of the page after one with so many rows."""
        return -1 if self.top_n < 0 else self.top_n - rows


def read_plan(values: dict[str, object]) -> QueryPlan:
    """Check the arguments of a query; what is None was not given. Raises RequestError(INVALID), with the argument."""
    for name in values:
        if name not in NAMES:
            raise RequestError(INVALID, f"{name[:100]}: a query has no such argument; {hint(name, NAMES)}")
    plan = QueryPlan()
    where = text_of(values, "where")
    plan.where = parse_where(where) if where else None
    select = text_of(values, "select")
    plan.columns = parse_select(select) if select else []
    group_by = text_of(values, "group_by")
    plan.grouping = parse_group_by(group_by) if group_by else []
    plan.is_grouped = bool(plan.grouping) or any_aggregate(plan.columns)
    if plan.is_grouped:
        check_grouped(plan)
    order_by = text_of(values, "order_by")
    plan.order = parse_order_by(order_by, plan.columns, plan.is_grouped) if order_by else []
    plan.top_n = number_of(values, "top_n", -1, 1, TOP_MAX)
    plan.skip = number_of(values, "skip", 0, 0, SKIP_MAX)
    plan.first = number_of(values, "from", 0, 0, OFFSET_MAX)
    plan.end = number_of(values, "end", -1, 0, OFFSET_MAX)
    plan.limit = number_of(values, "limit", LIMIT_DEFAULT, 1, LIMIT_MAX)
    plan.body_octets_max = number_of(values, "body_octets_max", BODY_OCTETS_DEFAULT, 0, BODY_OCTETS_MAX)
    if values.get("group") is not None:
        plan.group = text_of(values, "group").encode()
    return plan


def any_aggregate(columns: list[Column]) -> bool:
    """Return whether one of the columns is an aggregate function."""
    return len([column for column in columns if column.aggregate]) > 0


def check_grouped(plan: QueryPlan) -> None:
    """Refuse columns that have no one value for a group, and a grouping that selects nothing."""
    if not plan.columns:
        raise RequestError(INVALID, "select: is missing; say what group_by shows of each group")
    known = [node.written() for node in plan.grouping]
    for column in plan.columns:
        if not column.aggregate and column.written not in known:
            raise RequestError(INVALID, f"select: {column.written!r} is neither in group_by nor an aggregate function")


def text_of(values: dict[str, object], name: str) -> str:
    """Return a text; empty if it was not given."""
    value = values.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RequestError(INVALID, f"{name}: {str(value)[:100]!r} is no text")
    return value


def number_of(values: dict[str, object], name: str, default: int, least: int, most: int) -> int:
    """Return a whole number within bounds; `default` if it was not given."""
    value = values.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise RequestError(INVALID, f"{name}: {str(value)[:100]} is not within {least} .. {most}")
    return value
