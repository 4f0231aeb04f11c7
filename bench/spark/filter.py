#!/usr/bin/env python3
"""Rows a second that filters look at: as Columns, as the SQL function, and in the broker, beside Spark reading JSON.

Starts a broker, publishes messages with bodies of JSON to a stream, and counts in alternation those that a filter
chooses (half of them, or one of a hundred). `read` is the same columns without a filter. Prints medians; rates are of
the rows looked at.

usage: bench/spark/filter.py [--rows 300000] [--octets 200] [--rounds 5] [--cores 2] [--folder DIR]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from harness import Harness, Way, heading, noop, parser, table
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention

from forebay.spark import matching, needs, register_matches
from forebay.spark.schema import TYPES

QUEUE = "bench"
READ = "read"


@dataclass(frozen=True, slots=True)
class Case:
    """A filter, and what Spark has for it where that is near."""

    filter: str
    spark: Column | None = None


def json_number(path: str) -> Column:
    return F.get_json_object(F.col("value").cast("string"), path).cast("long")


def cases() -> list[Case]:
    return [
        Case("/order/qty >= 50", json_number("$.order.qty") >= 50),
        Case("/order/qty = 7 AND /symbol = 'S7'", json_number("$.order.qty") == 7),
        Case("content_type = 'text/plain' OR header.region = 'eu'"),
        Case("routing_key LIKE '^bench$'"),
        Case("routing_key = 'bench' AND offset % 2 = 0"),
        Case("routing_key = 'bench' AND octets > 10", F.octet_length("value") > 10),
    ]


def body(octets: int) -> Callable[[int], bytes]:
    def made(row: int) -> bytes:
        start = f'{{"order": {{"qty": {row % 100}, "id": {row}}}, "symbol": "S{row % 10}", "pad": "'
        return (start + "x" * max(0, octets - len(start) - 2) + '"}').encode()

    return made


def frame(bench: Harness, filter: str) -> DataFrame:
    return bench.load(QUEUE, ", ".join(f"{name} {TYPES[name].simpleString()}" for name in needs(filter)))


def counted(chosen: DataFrame) -> None:
    noop(chosen.select(F.lit(1)))


def ways(bench: Harness, case: Case) -> list[Way]:
    """What is compared for one filter."""
    filter = case.filter
    by_sql = F.call_function("forebay_matches", F.lit(filter), F.struct("*"))
    made = {
        READ: lambda: noop(frame(bench, filter)),
        "Column": lambda: counted(frame(bench, filter).where(matching(filter))),
        "SQL function": lambda: counted(frame(bench, filter).where(by_sql)),
        "broker": lambda: noop(bench.load(QUEUE, "offset bigint", filter=filter)),
    }
    if case.spark is not None:
        made["Spark's own"] = partial(own, bench, filter, case.spark)
    return [Way(name, work) for name, work in made.items()]


def own(bench: Harness, filter: str, condition: Column) -> None:
    counted(frame(bench, filter).where(condition))


def main() -> None:
    with Harness(parser(__doc__, rows=300_000, octets=200).parse_args()) as bench:
        bench.publish(QUEUE, bench.rows, body(bench.octets))
        register_matches(bench.spark)
        print(heading("filter", "by", anchor=READ))
        for case in cases():
            print(table(bench.alternate(ways(bench, case)), READ, f"`{case.filter}`"), flush=True)


if __name__ == "__main__":
    main()
