"""`forebay queue query`: the messages of a queue, filtered, grouped and ordered."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from forebay.cli.access import AdminAccess, BodyOctetsOption, WhereOption, queue_names
from forebay.cli.as_json import show_json
from forebay.cli.show import cell, figure, show_message, show_table

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the queue.", autocompletion=queue_names)]
SelectOption = Annotated[
    str | None, typer.Option(metavar="EXPRESSIONS", help="Columns, such as '/symbol, SUM(/qty) AS total'.")
]
GroupByOption = Annotated[
    str | None, typer.Option(metavar="EXPRESSIONS", help="Messages with the same values make one row.")
]
OrderByOption = Annotated[
    str | None, typer.Option(metavar="EXPRESSIONS", help="Columns or expressions, each with ASC or DESC behind it.")
]
TopOption = Annotated[int | None, typer.Option("--top", metavar="N", help="Only the first rows.")]
SkipOption = Annotated[int, typer.Option(metavar="N", help="Leave out so many rows.")]
GroupOption = Annotated[
    str | None, typer.Option("--group", metavar="GROUP", help="The consumer group whose states count.")
]


def query_queue(
    access: AdminAccess,
    name: Name,
    where: WhereOption = None,
    select: SelectOption = None,
    group_by: GroupByOption = None,
    order_by: OrderByOption = None,
    top: TopOption = None,
    skip: SkipOption = 0,
    group: GroupOption = None,
    body_octets: BodyOctetsOption = 200,
) -> None:
    """Query the unsettled messages of a queue. Nothing is delivered or changed.

    docs/reference/query.md has the expressions.

    Example: forebay queue query orders --select '/symbol, COUNT(*) AS n' --group-by /symbol --order-by 'n DESC'
    """
    asked: dict[str, object] = {"queue": name, "where": where, "select": select, "group_by": group_by}
    asked |= {"order_by": order_by, "top_n": top, "skip": skip, "group": group, "body_octets_max": body_octets}
    given = {key: value for key, value in asked.items() if value is not None}
    rows: list[dict[str, Any]] = []
    following: Any = {"limit": 1000}
    while following is not None:
        given |= following
        answer: dict[str, Any] = access.run("queue.query", **given)
        while "running" in answer:
            answer = access.run("queue.query", queue=name, running=answer["running"])
        rows += answer["rows"]
        following = answer.get("next")
    if access.as_json:
        show_json(rows)
    elif select is None:
        for row in rows:
            show_message(row)
            print(standing(row))
    elif rows:
        show_table(list(rows[0]), rows)
    else:
        print("there is no such message")


def standing(row: dict[str, object]) -> str:
    """Return the line that says where a message stands in its group."""
    state = f"    {cell(row['state'])}"
    if row["holder"] is not None:
        state += f" by consumer {cell(row['holder'])} of connection {cell(row['connection'])}"
    if row["until_ms"] is not None:
        state += f" until {figure('until_ms', row['until_ms'])}"
    return state
