"""The rows of a query: single messages, the first of an order, or groups with their aggregates.

Memory is bounded: of an order only the rows that the page can need are kept, and what groups and distinct values take
is counted. A query that needs more is refused, and does not get a wrong answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, final

from forebay.core.errors import INVALID, TOO_MANY, RequestError
from forebay.filter.subject import STEPS_A_LOOK
from forebay.filter.values import OPAQUE, first
from forebay.query.aggregates import VALUE_OCTETS, Aggregate, aggregate_named, group_key, text_octets
from forebay.query.plan import SKIP_MAX, QueryPlan
from forebay.query.selection import shown_value
from forebay.query.subject import QuerySubject

MEMORY_OCTETS_MAX: Final = 16 << 20  # that one query keeps
PAGE_OCTETS_MAX: Final = 512 << 10  # of the rows of one page
ROW_OCTETS: Final = 200  # what a row or a group takes beside its texts

# How values of different kinds are ordered.
NULL_RANK: Final = 0
NUMBER_RANK: Final = 1
TEXT_RANK: Final = 2
CONDITION_RANK: Final = 3

Row = dict[str, object]


class RowCollector(ABC):
    """The answer of a query, as far as it has come together.

    is_full  the page needs no more messages
    octets   of memory that it keeps
    """

    def __init__(self, plan: QueryPlan) -> None:
        self.plan = plan
        self.is_full = False
        self.octets = 0

    @abstractmethod
    def take(self, subject: QuerySubject, offset: int) -> None:
        """Add a message for which the condition holds. Raises RequestError(TOO_MANY) if that takes too much memory."""

    @abstractmethod
    def page(self) -> list[Row]:
        """Return the rows of the page."""

    @abstractmethod
    def following(self) -> dict[str, object] | None:
        """Return the arguments to change for the next page, once `page` was called; None if there is none."""

    def grow(self, octets: int) -> None:
        """Count memory that the query keeps from now on."""
        self.octets += octets
        if self.octets > MEMORY_OCTETS_MAX:
            raise RequestError(
                TOO_MANY, f"query: needs more than {MEMORY_OCTETS_MAX >> 20} MiB; narrow it with where, top_n or limit"
            )


@final
class MessageRows(RowCollector):
    """Messages in the order of their offsets: the page ends with its last row, and the next goes on behind it."""

    def __init__(self, plan: QueryPlan) -> None:
        super().__init__(plan)
        self.rows: list[Row] = []
        self.left = plan.skip
        self.next = -1

    def take(self, subject: QuerySubject, offset: int) -> None:
        if self.left:
            self.left -= 1
            return
        row = row_of(self.plan, subject)
        octets = row_octets(row)
        if self.rows and self.octets + octets > PAGE_OCTETS_MAX:
            self.next = offset
            self.is_full = True
            return
        self.octets += octets
        self.rows.append(row)
        if len(self.rows) == self.plan.page_rows():
            self.next = offset + 1
            self.is_full = True

    def page(self) -> list[Row]:
        return self.rows

    def following(self) -> dict[str, object] | None:
        top = self.plan.top_after(len(self.rows))
        if self.next < 0 or top == 0:
            return None
        found: dict[str, object] = {"from": self.next, "skip": 0}
        if top > 0:
            found["top_n"] = top
        return found


@final
class SortedRow:
    """One row of an order.

    keys    rank and value of each key
    serial  of the row: of equal ones the first comes first
    """

    def __init__(self, keys: list[tuple[int, object]], descends: list[bool], serial: int, row: Row) -> None:
        self.keys = keys
        self.descends = descends
        self.serial = serial
        self.row = row
        self.octets = 0

    def __lt__(self, other: SortedRow) -> bool:
        for place, key in enumerate(self.keys):
            compared = compare_keys(key, other.keys[place])
            if compared:
                return (compared > 0) == self.descends[place]
        return self.serial < other.serial


class PagedRows(RowCollector):
    """Rows whose pages are told apart by how many rows come before them."""

    def __init__(self, plan: QueryPlan) -> None:
        super().__init__(plan)
        self.descends = [key.descends for key in plan.order]
        self.goes_on = False
        self.shown = 0

    def cut(self, rows: list[SortedRow]) -> list[Row]:
        """Return the page of all rows in their order."""
        plan = self.plan
        made: list[Row] = []
        octets = 0
        for each in rows[plan.skip : plan.skip + plan.page_rows()]:
            octets += row_octets(each.row)
            if made and octets > PAGE_OCTETS_MAX:
                break
            made.append(each.row)
        self.shown = len(made)
        self.goes_on = len(rows) > plan.skip + len(made) and plan.top_after(len(made)) != 0
        return made

    def following(self) -> dict[str, object] | None:
        if not self.goes_on:
            return None
        skip = self.plan.skip + self.shown
        if skip > SKIP_MAX:
            raise RequestError(INVALID, f"skip: an ordered or grouped answer has pages up to row {SKIP_MAX}")
        found: dict[str, object] = {"skip": skip}
        top = self.plan.top_after(self.shown)
        if top > 0:
            found["top_n"] = top
        return found


@final
class OrderedRows(PagedRows):
    """Messages in an order, of which only those are kept that the page can show."""

    def __init__(self, plan: QueryPlan) -> None:
        super().__init__(plan)
        self.rows: list[SortedRow] = []
        self.serial = 0
        self.capacity = plan.skip + plan.page_rows() + 1
        self.last: SortedRow | None = None  # of `capacity` rows: what does not come before it is not needed

    def take(self, subject: QuerySubject, offset: int) -> None:
        keys: list[tuple[int, object]] = []
        for key in self.plan.order:
            if key.column >= 0:
                value = self.plan.columns[key.column].value(subject)
            else:
                assert key.node is not None
                subject.steps = STEPS_A_LOOK
                value = key.node.evaluate(subject)
            keys.append(sort_key(value))
        self.serial += 1
        entry = SortedRow(keys, self.descends, self.serial, {})
        last = self.last
        if last is not None and not entry < last:
            return
        entry.row = row_of(self.plan, subject)
        entry.octets = row_octets(entry.row)
        self.octets += entry.octets
        self.rows.append(entry)
        if len(self.rows) >= 2 * self.capacity or self.octets > MEMORY_OCTETS_MAX:
            self.shrink()
            self.grow(0)

    def shrink(self) -> None:
        """Put the rows in order, and drop those that the page cannot show."""
        self.rows.sort()
        for each in self.rows[self.capacity :]:
            self.octets -= each.octets
        del self.rows[self.capacity :]
        if len(self.rows) == self.capacity:
            self.last = self.rows[self.capacity - 1]

    def page(self) -> list[Row]:
        self.shrink()
        return self.cut(self.rows)


@final
class RowGroup:
    """The messages that have the same values of all grouping expressions.

    values  of the columns that are no aggregates
    """

    def __init__(self, values: list[object], aggregates: list[Aggregate | None], serial: int) -> None:
        self.values = values
        self.aggregates = aggregates
        self.serial = serial


@final
class GroupedRows(PagedRows):
    """Groups of messages, each a row."""

    def __init__(self, plan: QueryPlan) -> None:
        super().__init__(plan)
        self.groups: dict[object, RowGroup] = {}
        if not plan.grouping:
            self.groups[()] = self.make_group([])

    def make_group(self, values: list[object]) -> RowGroup:
        aggregates: list[Aggregate | None] = []
        for column in self.plan.columns:
            aggregates.append(aggregate_named(column.aggregate) if column.aggregate else None)
        return RowGroup(values, aggregates, len(self.groups))

    def take(self, subject: QuerySubject, offset: int) -> None:
        plan = self.plan
        group: RowGroup | None = None
        if plan.grouping:
            values: list[object] = []
            key: list[object] = []
            for node in plan.grouping:
                subject.steps = STEPS_A_LOOK
                value = node.evaluate(subject)
                values.append(value)
                key.append(group_key(value))
            found: object = tuple(key)
            group = self.groups.get(found)
            if group is None:
                group = self.make_group(values)
                self.groups[found] = group
                self.grow(ROW_OCTETS + VALUE_OCTETS * len(plan.columns) + text_octets(values))
        else:
            group = self.groups[()]
        kept = 0
        for place, column in enumerate(plan.columns):
            aggregate = group.aggregates[place]
            if aggregate is not None:
                kept += aggregate.take(column.value(subject))
        if kept:
            self.grow(kept)

    def page(self) -> list[Row]:
        plan = self.plan
        known = [node.written() for node in plan.grouping]
        rows: list[SortedRow] = []
        for group in self.groups.values():
            values: list[object] = []
            row: Row = {}
            for place, column in enumerate(plan.columns):
                aggregate = group.aggregates[place]
                value = group.values[known.index(column.written)] if aggregate is None else aggregate.result()
                values.append(value)
                row[column.name] = shown_value(value)
            keys = [sort_key(values[key.column]) for key in plan.order]
            rows.append(SortedRow(keys, self.descends, group.serial, row))
        rows.sort()
        return self.cut(rows)


def rows_for(plan: QueryPlan) -> RowCollector:
    """Return the rows of a query, none yet."""
    if plan.is_grouped:
        return GroupedRows(plan)
    return OrderedRows(plan) if plan.order else MessageRows(plan)


def row_of(plan: QueryPlan, subject: QuerySubject) -> Row:
    """Return the row of a message."""
    if not plan.columns:
        return subject.shown(plan.body_octets_max)
    row: Row = {}
    for column in plan.columns:
        row[column.name] = column.shown(subject)
    return row


def row_octets(value: object) -> int:
    """Return about how much memory a row takes, or the JSON text of it."""
    if isinstance(value, str):
        return 24 + len(value)
    if isinstance(value, dict):
        return 24 + sum([24 + len(str(key)) + row_octets(each) for key, each in value.items()])
    if isinstance(value, list):
        return 24 + sum([row_octets(each) for each in value])
    return 24


def sort_key(value: object) -> tuple[int, object]:
    """Return the rank of a value's kind, and the value; of a list those of its first element."""
    single = first(value)
    if isinstance(single, bool):
        return (CONDITION_RANK, int(single))
    if isinstance(single, str):
        return (TEXT_RANK, single)
    if single is None or single is OPAQUE or single != single:  # noqa: PLR0124  NaN differs from itself
        return (NULL_RANK, 0)
    return (NUMBER_RANK, single)


def compare_keys(left: tuple[int, object], right: tuple[int, object]) -> int:
    """Return -1, 0 or 1 as the left key comes before, with or behind the right one."""
    if left[0] != right[0]:
        return -1 if left[0] < right[0] else 1
    one, other = left[1], right[1]
    if isinstance(one, str) and isinstance(other, str):
        return -1 if one < other else 1 if one > other else 0
    assert isinstance(one, int | float) and isinstance(other, int | float)
    return -1 if one < other else 1 if one > other else 0
