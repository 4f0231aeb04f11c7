"""`forebay trace`: what happens to messages, written down in the broker's memory."""

from __future__ import annotations

from typing import Annotated

import typer

from forebay.cli.access import AdminAccess, asks, moment, show_table
from forebay.cli.as_json import show_json

app = typer.Typer(help="What happens to messages, written down until it is stopped.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the trace.")]


@app.command("list")
@asks
def list_traces(access: AdminAccess) -> None:
    """List the traces.

    Example: forebay trace list
    """
    access.list(("name", "pattern", "where", "events", "events_max", "seen"), "trace.list")


@app.command("start")
@asks
def start_trace(
    access: AdminAccess,
    name: Name = "trace",
    pattern: Annotated[str, typer.Option(metavar="REGEX", help="Of queues whose names have it.")] = ".*",
    where: Annotated[str | None, typer.Option(metavar="FILTER", help="Only messages for which this holds.")] = None,
    events: Annotated[int, typer.Option(metavar="N", help="How many events are kept, the latest.")] = 10_000,
) -> None:
    """Write down what happens to the messages of some queues: published, delivered, acked, returned, rejected, died.

    Example: forebay trace start slow --pattern '^orders' --where '/total > 100'
    """
    answer = f"trace {name} is there, and {{queues}} queues are traced"
    access.change(answer, "trace.start", name=name, pattern=pattern, where=where, events_max=events)


@app.command("show")
@asks
def show_trace(access: AdminAccess, name: Name = "trace") -> None:
    """Show the events of a trace, the oldest first.

    Example: forebay trace show slow
    """
    items = list(access.client.items("trace.show", vhost=access.vhost, name=name))
    if access.as_json:
        show_json(items)
        return
    rows = [{**each, "time": moment(each["time_ms"])} for each in items]
    show_table(("time", "type", "queue", "offset", "message_id", "group", "connection", "consumer", "detail"), rows)


@app.command("stop")
@asks
def stop_trace(access: AdminAccess, name: Name = "trace") -> None:
    """End a trace and forget its events.

    Example: forebay trace stop slow
    """
    access.change(f"trace {name} is gone", "trace.stop", name=name)
