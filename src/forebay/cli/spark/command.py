"""`forebay spark`: what is done with queues by Apache Spark; docs/index.md lists the pages."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from forebay.cli.access import SERVER, USER, AdminAccess, asks, pairs, part_list
from forebay.cli.as_json import show_json
from forebay.cli.show import cell, show_table
from forebay.cli.spark.jobs import SparkJob, works
from forebay.cli.units import octets_said
from forebay.core.errors import OptionError

if TYPE_CHECKING:
    from forebay.spark.jobs.views import Source

app = typer.Typer(help="Queues as tables: jobs in Apache Spark.", no_args_is_help=True)

REFRESH_S: Final = 1.0
READER: Final = "reader"  # kind of a group that is a retention pin of the block protocol

Columns = Annotated[
    str,
    typer.Option(metavar="FIELDS", help="Fields of the JSON bodies as columns: 'carrier string, delay int'."),
]
Checkpoint = Annotated[str, typer.Option(metavar="DIR", help="Folder where the job keeps its position: /jobs/delays.")]
Limits = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="An option of the source: maxOffsetsPerTrigger=100000."),
]
QueueOption = Annotated[
    list[str],
    typer.Option("--queue", metavar="[TABLE=]QUEUE", help="A queue, and its name in the SQL: flights, f=my.flights."),
]
ColumnsOf = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="[TABLE=]FIELDS",
        help="Fields of the JSON bodies as columns, of one table or of all: 'flights=carrier string, delay int'.",
    ),
]


# ---- SQL


@app.command("query")
@works
def query_queues(
    job: SparkJob,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="'SELECT carrier, count(*) FROM flights GROUP BY 1'.")],
    queue: QueueOption,
    columns: ColumnsOf = None,
    option: Limits = None,
) -> None:
    """Run a SQL query over the present messages of queues.

    Example: forebay spark query 'SELECT max(offset) FROM f' --queue f
    """
    from forebay.spark.jobs.views import query

    job.show_rows(query(job.spark, sql, sources_of(queue, columns, [], [], pairs("--option", option)), job.options))


@app.command("view")
@works
def run_view(
    job: SparkJob,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="'SELECT carrier, count(*) FROM flights GROUP BY 1'.")],
    queue: QueueOption,
    into: Annotated[
        str, typer.Option(metavar="QUEUE", help="The queue for the result, declared if it does not exist: delays.")
    ],
    checkpoint: Checkpoint,
    columns: ColumnsOf = None,
    event_time: Annotated[
        list[str] | None,
        typer.Option(metavar="[TABLE=]COLUMN", help="The column with the time; by default the broker's: at."),
    ] = None,
    watermark: Annotated[
        list[str] | None, typer.Option(metavar="[TABLE=]TIME", help="How late a row may come: '10 seconds'.")
    ] = None,
    mode: Annotated[str, typer.Option(metavar="WORD", help="append, update or complete.")] = "append",
    key: Annotated[
        str, typer.Option(metavar="COLUMN", help="The column that identifies a row of the result: carrier.")
    ] = "",
    exchange: Annotated[
        str, typer.Option(metavar="NAME", help="Publish to this exchange, with the routing key QUEUE.KEY: amq.topic.")
    ] = "",
    trigger: Annotated[str, typer.Option(metavar="TIME", help="Time between two micro-batches.")] = "500 milliseconds",
    once: Annotated[bool, typer.Option("--once", help="End when the view has all present messages.")] = False,
    option: Limits = None,
) -> None:
    """Keep the result of SQL over queues up to date in another queue, until Ctrl-C or SIGTERM.

    Example: forebay spark view 'SELECT * FROM f WHERE delay > 30' --queue f --columns 'delay int' --into late
    --checkpoint /jobs/late
    """
    from forebay.spark.jobs.views import publish_view

    sources = sources_of(queue, columns, event_time, watermark, pairs("--option", option))
    job.watch(
        lambda: publish_view(
            job.spark,
            sql,
            into,
            sources,
            job.options,
            checkpoint=checkpoint,
            mode=mode,
            key=key,
            exchange=exchange,
            trigger=trigger,
            once=once,
        )
    )


def sources_of(
    queues: list[str],
    columns: list[str] | None,
    event_times: list[str] | None,
    watermarks: list[str] | None,
    options: dict[str, str],
) -> dict[str, Source]:
    """Return the tables that the options describe, by name."""
    from forebay.spark.jobs.views import Source

    named = dict(named_value(each) if "=" in each else (each, each) for each in queues)
    columns_of = by_table("--columns", columns, named)
    times = by_table("--event-time", event_times, named)
    late = by_table("--watermark", watermarks, named)
    return {
        name: Source(queue, columns_of.get(name, ""), times.get(name, "timestamp"), late.get(name, ""), options)
        for name, queue in named.items()
    }


def by_table(option: str, values: list[str] | None, tables: dict[str, str]) -> dict[str, str]:
    """Return an option's value for each table. A value without a table's name is for all."""
    found: dict[str, str] = {}
    for each in values or ():
        name, value = named_value(each) if "=" in each else ("", each)
        if name and name not in tables:
            raise OptionError(f"{option}: {each!r}: no table {name!r}; there are {', '.join(tables)}")
        found.update(dict.fromkeys([name] if name else tables, value))
    return found


def named_value(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


# ---- tables


@app.command("tier")
@works
def tier_queues(
    job: SparkJob,
    queue: Annotated[list[str], typer.Argument(metavar="QUEUE...", help="Queues to copy into one table: flights.")],
    into: Annotated[str, typer.Option(metavar="DIR", help="The table's folder: /lake/flights.")],
    format: Annotated[str | None, typer.Option(metavar="WORD", help="parquet, delta or iceberg.")] = None,
    once: Annotated[bool, typer.Option("--once", help="End after the present messages.")] = False,
    partition_by: Annotated[
        str, typer.Option(metavar="COLUMNS", help="day, hour or text columns, separated by commas: day,routing_key.")
    ] = "day",
    columns: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="Columns of the source, separated by commas: offset,timestamp,value."),
    ] = None,
    compact: Annotated[bool, typer.Option(help="Merge small files.")] = True,
    truncate: Annotated[
        bool, typer.Option("--truncate", help="Delete from streams the messages that the table has.")
    ] = False,
    compression: Annotated[str, typer.Option(metavar="WORD", help="none, snappy, zstd, lz4 or gzip.")] = "none",
    trigger: Annotated[str, typer.Option(metavar="TIME", help="Time between two micro-batches.")] = "200 milliseconds",
    checkpoint: Annotated[
        str | None, typer.Option(metavar="DIR", help="Spark's checkpoint; by default beside the table.")
    ] = None,
    option: Limits = None,
) -> None:
    """Copy queues into a table, each message once.

    Example: forebay spark tier flights --into /lake/flights --format delta
    """
    from forebay.spark.jobs.tier import Tiered, tier

    def start() -> object:
        return tier(
            job.spark,
            queue,
            {**job.options, **pairs("--option", option)},
            into,
            format=format,
            once=once,
            partition_by=part_list(partition_by) or None,
            columns=part_list(columns),
            compact=compact,
            truncate=truncate,
            trigger=trigger,
            compression=compression,
            checkpoint=checkpoint,
        )

    if not once:
        job.watch(start)  # type: ignore[arg-type]
        return
    done = job.shown(start)
    assert isinstance(done, Tiered)
    files = f"{done.files:,} new file{'' if done.files == 1 else 's'}"
    job.show(asdict(done), f"{done.rows:,} rows are in {into}, in {files} of {octets_said(done.octets)}")


@app.command("compact")
@works
def compact_table(
    job: SparkJob,
    table: Annotated[str, typer.Argument(metavar="DIR", help="The table's folder: /lake/flights.")],
    compression: Annotated[str, typer.Option(metavar="WORD", help="none, snappy, zstd, lz4 or gzip.")] = "none",
) -> None:
    """Merge the small files of a table, and delete unused files.

    Example: forebay spark compact /lake/flights
    """
    from forebay.spark.jobs.tier import compact

    done = compact(job.spark, table, compression=compression)
    job.show(asdict(done), f"{done.replaced} files became {done.written}")


# ---- dead letters, replay, audit


@app.command("letters")
@works
def show_letters(
    job: SparkJob,
    queue: Annotated[list[str], typer.Argument(metavar="QUEUE...", help="Dead-letter queues: dead.")],
    by: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="Columns to group by, separated by commas: cause,origin.")
    ] = None,
    rows: Annotated[bool, typer.Option("--rows", help="List single letters instead of the report.")] = False,
    where: Annotated[
        str, typer.Option(metavar="SQL", help="Only letters that match this condition: \"origin = 'a'\".")
    ] = "",
    columns: Columns = "",
    limit: Annotated[int, typer.Option(metavar="N", help="The largest number of lines.")] = 100,
) -> None:
    """Report which messages died, where, why and when.

    Example: forebay spark letters dead --by cause,origin,exception
    """
    from forebay.spark.jobs.letters import GROUPS, chosen_letters, letters, report

    found = chosen_letters(letters(job.spark, queue, job.options, columns=columns), where)
    if rows:
        job.show_rows(found.drop("value", "properties").orderBy("queue", "offset").limit(limit))
    else:
        job.show_rows(report(found, part_list(by) or GROUPS).limit(limit))


@app.command("redrive")
@works
def redrive_letters(
    job: SparkJob,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The dead-letter queue: dead.")],
    where: Annotated[
        str,
        typer.Option(
            metavar="SQL", help="Only letters that match this condition: \"cause = 'rejected' AND delay < 30\"."
        ),
    ] = "",
    columns: Columns = "",
    to: Annotated[
        str, typer.Option(metavar="QUEUE", help="The queue they go to; by default the one where each first died.")
    ] = "",
    limit: Annotated[int, typer.Option(metavar="N", help="The largest number; 0 is all.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
) -> None:
    """Send back the dead letters that match a condition, each once.

    Example: forebay spark redrive dead --where 'deaths < 3'
    """
    from forebay.spark.jobs.letters import redrive

    done = redrive(job.spark, queue, job.options, where=where, columns=columns, limit=limit, to=to, dry_run=dry_run)
    if dry_run:
        job.show(asdict(done), f"{done.chosen} messages would be sent back")
        return
    left = [
        f"{count} {what}" for count, what in ((done.held, "are held by consumers"), (done.gone, "are gone")) if count
    ]
    if done.refused:
        left.append(f"{done.refused} cannot go: {done.refusal}")
    job.show(asdict(done), "; ".join([f"{done.done} of {done.chosen} messages were sent back", *left]))


@app.command("replay")
@works
def replay_range(
    job: SparkJob,
    source: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue to replay: flights.")],
    into: Annotated[str, typer.Option(metavar="QUEUE", help="The queue to publish to: flights-test.")],
    checkpoint: Checkpoint,
    table: Annotated[
        str, typer.Option(metavar="DIR", help="The table that the queue was tiered to: /lake/flights.")
    ] = "",
    starting: Annotated[
        str,
        typer.Option(
            "--from", metavar="PLACE", help="Start of the range: earliest, an offset or a time: 2026-11-01T12:00:00Z."
        ),
    ] = "earliest",
    ending: Annotated[
        str, typer.Option("--to", metavar="PLACE", help="End of the range, excluded: latest, an offset or a time.")
    ] = "latest",
    rate: Annotated[float, typer.Option(metavar="N", help="The most messages a second; 0 sets no limit.")] = 0,
    where: Annotated[
        str, typer.Option(metavar="FILTER", help="Only messages that match this filter: /delay > 30.")
    ] = "",
) -> None:
    """Publish a past range of a queue again.

    Example: forebay spark replay flights --into test --checkpoint /jobs/r1
    """
    from forebay.spark.jobs.replay import replay

    done = replay(
        job.spark,
        source,
        into,
        job.options,
        checkpoint=checkpoint,
        table=table,
        starting=starting,
        ending=ending,
        rate=rate,
        where=where,
    )
    job.show(
        asdict(done), f"{done.rows:,} messages of offsets {done.first} to below {done.end} were published to {into}"
    )


@app.command("audit")
@works
def audit_queues(
    job: SparkJob,
    queue: Annotated[list[str], typer.Argument(metavar="QUEUE...", help="Queues: orders.")],
    key: Annotated[
        str, typer.Option(metavar="SQL", help="SQL expression that is unique for each message: message_id.")
    ] = "message_id",
    producer: Annotated[str, typer.Option(metavar="SQL", help="SQL expression for the publisher: app_id.")] = "",
    sequence: Annotated[
        str,
        typer.Option(
            metavar="SQL", help="SQL expression for its number with that publisher: bigint(properties['header.seq'])."
        ),
    ] = "",
    sent: Annotated[
        str | None, typer.Option(metavar="SQL", help="SQL expression for the sending time: timestamp_millis(sent_ms).")
    ] = None,
    columns: Columns = "",
) -> None:
    """Report missing, repeated, misordered and late messages; exits with 1 if there are any.

    Example: forebay spark audit orders
    """
    from forebay.spark.jobs.audit import SENT, audit

    found = audit(
        job.spark,
        queue,
        job.options,
        key=key,
        producer=producer,
        sequence=sequence,
        sent=SENT if sent is None else sent,
        columns=columns,
    )
    if job.as_json:
        show_json(found.to_dict())
    else:
        print(found.text())
    if found.faults:
        raise typer.Exit(1)


# ---- what runs


@app.command("progress")
@asks
def show_progress(
    access: AdminAccess,
    once: Annotated[bool, typer.Option("--once", help="Print the positions once, and end.")] = False,
) -> None:
    """Show the positions of readers that hold queues.

    Example: forebay spark progress
    """
    if access.as_json:
        show_json(readers(access))
        return
    if once:
        show_table(READER_COLUMNS, readers(access))
        return
    console = Console()
    with Live(console=console, auto_refresh=False) as live:
        try:
            while True:
                live.update(reader_table(readers(access)), refresh=True)
                time.sleep(REFRESH_S)
        except KeyboardInterrupt:
            return


READER_COLUMNS: Final = ("queue", "group", "cursor", "lag", "octets", "seconds_left")


def readers(access: AdminAccess) -> list[dict[str, object]]:
    """Return the retention pins of the block protocol's readers, each with the number of records left to read."""
    groups = access.client.items("group.list", vhost=access.vhost)
    return [
        {name: group.get("ready" if name == "lag" else name) for name in READER_COLUMNS}
        for group in groups
        if group["kind"] == READER
    ]


def reader_table(items: list[dict[str, object]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in READER_COLUMNS:
        table.add_column(name.replace("_", " "), no_wrap=True)
    for item in items:
        table.add_row(*(cell(item[name]) for name in READER_COLUMNS))
    return table


@app.command("init")
def make_project(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A new or empty folder: delays.")],
    queue: Annotated[str, typer.Option(metavar="QUEUE", help="The queue to read: flights.")],
    into: Annotated[str, typer.Option(metavar="QUEUE", help="The queue for the results.")] = "results",
    server: Annotated[
        str, typer.Option(metavar="HOST:PORT", envvar="FOREBAY_SERVER", help="Any listener of the broker.")
    ] = SERVER,
    user: Annotated[
        str, typer.Option(metavar="NAME", envvar="FOREBAY_USER", help="A user who may read and write them.")
    ] = USER,
    vhost: Annotated[str, typer.Option(metavar="NAME", envvar="FOREBAY_VHOST", help="Name of the vhost.")] = "/",
) -> None:
    """Create a project of Spark's Declarative Pipelines over a queue.

    Example: forebay spark init delays --queue flights
    """
    from forebay.spark.template import init

    for path in init(folder, server, queue, into, user, vhost):
        print(path)
