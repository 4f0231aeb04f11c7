"""Rows of queries over messages that are dicts: columns, orders, groups, aggregates, pages and bounds."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from forebay.core.errors import RequestError
from forebay.query import rows as rows_module
from forebay.query.plan import read_plan
from forebay.query.rows import rows_for
from forebay.query.subject import QuerySubject

Body = object


class Made(QuerySubject):
    """A message whose body is a value, and whose state is said."""

    def __init__(self, body: Body, **facts: object) -> None:
        super().__init__()
        self.made = body
        self.facts = facts

    def property(self, name: str) -> object:
        return self.facts.get(name)

    def header(self, name: str) -> object:
        return None

    def parse_body(self) -> object:
        return self.made

    def shown(self, body_octets_max: int) -> dict[str, object]:
        return {"body": str(self.made)[:body_octets_max]}


def answered(bodies: list[Body], **asked: object) -> list[dict[str, object]]:
    return answered_page(bodies, **asked)[0]


def answered_page(bodies: list[Body], **asked: object) -> tuple[list[dict[str, object]], dict[str, object] | None]:
    plan = read_plan(dict(asked))
    rows = rows_for(plan)
    for offset, body in enumerate(bodies):
        subject = Made(body, offset=offset)
        if offset >= plan.first and not rows.is_full and (plan.where is None or plan.where.matches(subject)):
            rows.take(subject, offset)
    return rows.page(), rows.following()


def refusal(**asked: object) -> str:
    with pytest.raises(RequestError) as caught:
        read_plan(dict(asked))
    return caught.value.text


NUMBERS: list[Body] = [{"k": key, "v": value} for key, value in (("a", 3), ("b", 1), ("a", 5), ("c", None), ("b", 2.5))]


def test_columns_are_expressions_with_their_names() -> None:
    assert answered(
        [{"a": {"b": [1, 2]}, "q": 2, "p": 1.5}], select="/a, /a/b AS list, /q * /p AS total, '/x' AS x"
    ) == [{"/a": {"b": [1, 2]}, "list": [1, 2], "total": 3.0, "x": "/x"}]
    assert answered([{"a": 1}], select="/a AS '/out/a', /a > 0 AS is_more, /none") == [
        {"/out/a": 1, "is_more": True, "/none": None}
    ]
    assert answered([1, 22], body_octets_max=1) == [{"body": "1"}, {"body": "2"}]


def test_every_aggregate() -> None:
    (row,) = answered(
        NUMBERS,
        select="COUNT(*) AS n, COUNT(/v) AS c, SUM(/v) AS s, AVG(/v) AS a, MIN(/v) AS l, MAX(/v) AS h,"
        " COUNT_DISTINCT(/k) AS d, STDDEV_POP(/v) AS p, STDDEV_SAMP(/v) AS q, STDDEV(/v) AS r",
    )
    values = [3, 1, 5, 2.5]
    assert (row["n"], row["c"], row["s"], row["l"], row["h"], row["d"]) == (5, 4, 11.5, 1, 5, 3)
    assert row["a"] == pytest.approx(statistics.mean(values))
    assert row["p"] == pytest.approx(statistics.pstdev(values))
    assert row["q"] == row["r"] == pytest.approx(statistics.stdev(values))


def test_aggregates_of_nothing_are_null_and_counts_are_0() -> None:
    select = "COUNT(*), COUNT(/v), SUM(/v), AVG(/v), MIN(/v), STDDEV_POP(/v), STDDEV_SAMP(/v)"
    assert list(answered([], select=select)[0].values()) == [0, 0, None, None, None, None, None]
    assert list(answered([{"v": 4}], select=select)[0].values()) == [1, 1, 4, 4.0, 4, 0.0, None]
    assert answered([], select="/k, COUNT(*)", group_by="/k") == []


def test_sums_of_integers_are_exact_and_texts_of_numbers_count() -> None:
    bodies: list[Body] = [{"v": (1 << 53) + 1}, {"v": "1"}, {"v": "no number"}, {"v": [2, 100]}, {"v": True}]
    assert answered(bodies, select="SUM(/v) AS s, MIN(/v) AS l, MAX(/v) AS h") == [
        {"s": (1 << 53) + 4, "l": "1", "h": "no number"}
    ]


def test_groups_by_several_expressions_tell_kinds_of_values_apart() -> None:
    bodies: list[Body] = [{"k": 1}, {"k": True}, {"k": 1.0}, {"k": "1"}, {}, {"k": None}, {"k": [1]}, {"k": {"x": 1}}]
    found = answered(bodies, select="/k AS k, COUNT(*) AS n", group_by="/k")
    assert [(row["k"], row["n"]) for row in found] == [(1, 2), (True, 1), ("1", 1), (None, 3), ([1], 1)]
    by_two = answered(NUMBERS, select="/k, /v > 2 AS more, COUNT(*) AS n", group_by="/k, /v > 2", order_by="/k, more")
    assert [tuple(row.values()) for row in by_two] == [
        ("a", True, 2),
        ("b", False, 1),
        ("b", True, 1),
        ("c", None, 1),
    ]


def test_orders_go_by_kind_and_equal_rows_stay_as_they_came() -> None:
    bodies: list[Body] = [{"v": value, "n": n} for n, value in enumerate(("b", 2, None, "a", 1, True, 1))]
    assert [row["n"] for row in answered(bodies, select="/n AS n", order_by="/v")] == [2, 4, 6, 1, 3, 0, 5]
    assert [row["n"] for row in answered(bodies, select="/n AS n", order_by="/v DESC")] == [5, 0, 3, 1, 4, 6, 2]
    assert [row["n"] for row in answered(bodies, select="/n AS n", order_by="n DESC", top_n=2)] == [6, 5]
    assert [row["n"] for row in answered(bodies, select="/n AS n", order_by="/v ASC, n DESC")] == [2, 6, 4, 1, 3, 0, 5]
    found = answered(NUMBERS, select="/k, SUM(/v) AS s", group_by="/k", order_by="SUM(/v) DESC")
    assert [row["/k"] for row in found] == ["a", "b", "c"]


@pytest.mark.parametrize("order", ["", "/n", "/n DESC"])
@pytest.mark.parametrize("top", [None, 5, 7, 100])
@pytest.mark.parametrize("skip", [0, 3, 50])
def test_pages_together_are_the_whole_answer(order: str, top: int | None, skip: int) -> None:
    bodies: list[Body] = [{"n": n * 7 % 23} for n in range(23)]
    wanted = [body["n"] for body in bodies if isinstance(body, dict)]
    if order:
        wanted.sort(reverse=order.endswith("DESC"))
    wanted = wanted[skip:] if top is None else wanted[skip : skip + top]
    asked: dict[str, Any] = {"select": "/n AS n", "order_by": order, "top_n": top, "skip": skip, "limit": 2}
    found: list[object] = []
    following: dict[str, object] | None = {}
    while following is not None:
        asked |= following
        page, following = answered_page(bodies, **asked)
        assert len(page) <= 2
        found += [row["n"] for row in page]
    assert found == wanted


def test_an_order_keeps_no_more_rows_than_its_page_shows() -> None:
    plan = read_plan({"order_by": "/n", "limit": 3})
    rows = rows_for(plan)
    assert isinstance(rows, rows_module.OrderedRows)
    for n in range(1000):
        rows.take(Made({"n": n * 389 % 1000}), n)
        assert len(rows.rows) < 2 * rows.capacity
    assert [row["body"] for row in rows.page()] == ["{'n': 0}", "{'n': 1}", "{'n': 2}"]


def test_pages_end_before_they_are_too_long() -> None:
    long = "x" * (rows_module.PAGE_OCTETS_MAX // 2)
    bodies: list[Body] = [{"t": long, "n": n} for n in range(3)]
    for order in ("", "/n"):
        page, following = answered_page(bodies, select="/t", order_by=order)
        assert len(page) == 1 and following is not None
        page, _ = answered_page(bodies, select="/t", order_by=order, **following)
        assert len(page) == 1


@pytest.mark.parametrize(
    "asked",
    [
        {"select": "/k, COUNT(*)", "group_by": "/k"},
        {"select": "COUNT_DISTINCT(/k)"},
        {"order_by": "/n", "limit": 1000, "skip": 5000, "select": "/k, /n"},
    ],
)
def test_a_query_that_needs_too_much_memory_is_refused(asked: dict[str, object]) -> None:
    rows = rows_for(read_plan(asked))

    def take_all() -> None:
        for n in range(100_000):
            rows.take(Made({"k": str(n) * 2000, "n": n}), n)

    with pytest.raises(RequestError, match="needs more than 16 MiB; narrow it"):
        take_all()


def test_what_is_wrong_is_named_with_its_argument_and_place() -> None:
    assert refusal(whre="/a > 1") == "whre: a query has no such argument; did you mean where?"
    assert refusal(where="/a >").startswith("filter, position 5, the end:")
    assert refusal(select="/a AS b, /c AS b") == "select: two columns have the name 'b'; tell them apart with AS"
    assert refusal(select="SUM(/a").startswith("select, position 7, the end: ')' is due")
    assert refusal(select="/a 'b'").startswith("select, position 4")
    assert refusal(select="/a AS 5").startswith("select, position 7, '5': the name of a column is due here")
    assert refusal(select="nothing").startswith("select, position 1, 'nothing': nothing that is known")
    assert refusal(select="/a, COUNT(*)") == "select: '/a' is neither in group_by nor an aggregate function"
    assert refusal(group_by="/a") == "select: is missing; say what group_by shows of each group"
    assert refusal(select="COUNT(*)", order_by="/a") == "order_by: '/a' is no column of select"
    assert refusal(order_by="SUM(/a)") == "order_by: 'SUM(/a)' is no column of select"
    assert refusal(select=", ".join(["1"] * 65)).startswith("select: two columns")
    assert refusal(group_by=", ".join(["1"] * 65)).startswith("group_by: has more than 64 items")
    assert refusal(top_n=0) == "top_n: 0 is not within 1 .. 1099511627776"
    assert refusal(skip=-1).startswith("skip: -1 is not within 0 ..")
    assert refusal(limit=True) == "limit: True is not within 1 .. 1000"
    assert refusal(select=5) == "select: '5' is no text"
    assert refusal(select="SUM(SUM(/a))").startswith("select, position 5, 'SUM': no function")
