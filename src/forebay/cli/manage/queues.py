"""`forebay queue`: queues of a running broker and the messages in them."""

from __future__ import annotations

from typing import Annotated

import typer

from forebay.cli.access import (
    AdminAccess,
    BodyOctetsOption,
    FirstOption,
    LimitOption,
    WhereOption,
    YesOption,
    asks,
    confirm,
    go_through,
    json_object,
    queue_names,
    report,
)
from forebay.cli.units import messages

app = typer.Typer(help="Queues and streams.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the queue.", autocompletion=queue_names)]
Arguments = Annotated[
    str | None, typer.Option(metavar="JSON", help="x-arguments as AMQP clients give them, as a JSON object.")
]


@app.command("list")
@asks
def list_queues(access: AdminAccess) -> None:
    """List the queues with their messages.

    Example: forebay queue list
    """
    access.list(("queue", "type", "ready", "unacked", "consumers", "groups", "octets", "durable"), "queue.list")


@app.command("show")
@asks
def show_queue(access: AdminAccess, name: Name) -> None:
    """Show one queue: statistics, arguments, and its groups.

    Example: forebay queue show orders
    """
    access.show("queue.show", queue=name)


@app.command("declare")
@asks
def declare_queue(
    access: AdminAccess,
    name: Name,
    type: Annotated[str | None, typer.Option(metavar="TYPE", help="classic, quorum or stream.")] = None,
    transient: Annotated[bool, typer.Option("--transient", help="It ends with the broker's process.")] = False,
    auto_delete: Annotated[bool, typer.Option("--auto-delete", help="It is deleted with its last consumer.")] = False,
    arguments: Arguments = None,
) -> None:
    """Declare a queue, or check that it exists with the same properties.

    Example: forebay queue declare orders --type quorum --arguments '{"x-max-length": 1000}'
    """
    access.change(
        f"queue {name} declared",
        "queue.declare",
        queue=name,
        type=type,
        durable=not transient,
        auto_delete=auto_delete,
        arguments=json_object("--arguments", arguments),
    )


@app.command("delete")
@asks
def delete_queue(
    access: AdminAccess,
    name: Name,
    if_unused: Annotated[bool, typer.Option("--if-unused", help="Only if it has no consumers.")] = False,
    if_empty: Annotated[bool, typer.Option("--if-empty", help="Only if it has no ready messages.")] = False,
    yes: YesOption = False,
) -> None:
    """Delete a queue with its messages.

    Example: forebay queue delete orders --if-empty
    """
    confirm(f"Delete queue {name} with its messages?", yes or if_empty)
    access.change(
        f"queue {name} deleted with {{messages}} messages",
        "queue.delete",
        queue=name,
        if_unused=if_unused,
        if_empty=if_empty,
    )


@app.command("purge")
@asks
def purge_queue(access: AdminAccess, name: Name, yes: YesOption = False) -> None:
    """Delete all ready messages of a queue.

    Example: forebay queue purge orders --yes
    """
    confirm(f"Take away all messages that are ready in queue {name}?", yes)
    access.change(f"{{messages}} messages deleted from queue {name}", "queue.purge", queue=name)


@app.command("truncate")
@asks
def truncate_queue(
    access: AdminAccess,
    name: Name,
    below: Annotated[int, typer.Argument(metavar="OFFSET", help="The first offset to keep.")],
    yes: YesOption = False,
) -> None:
    """Delete a stream's messages below an offset, except those that a reader holds.

    Example: forebay queue truncate prices 1000 --yes
    """
    confirm(f"Forget the messages of {name} below offset {below}?", yes)
    access.change(f"{name} starts at offset {{start}}", "queue.truncate", queue=name, below=below)


@app.command("messages")
@asks
def list_messages(
    access: AdminAccess,
    name: Name,
    where: WhereOption = None,
    limit: LimitOption = 20,
    first: FirstOption = 0,
    body_octets: BodyOctetsOption = 200,
) -> None:
    """Show unsettled messages without taking them, the oldest first.

    Example: forebay queue messages orders --where '/total > 100' --limit 5
    """
    access.show_messages("queue.messages", limit, first, queue=name, where=where, body_octets_max=body_octets)


@app.command("move")
@asks
def move_messages(
    access: AdminAccess,
    name: Name,
    to: Annotated[str | None, typer.Option(metavar="QUEUE", help="Name of the queue that they go to.")] = None,
    exchange: Annotated[str | None, typer.Option(metavar="NAME", help="Instead: the exchange that they go to.")] = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Their new routing key; by default each keeps its own.")
    ] = None,
    where: WhereOption = None,
    yes: YesOption = False,
) -> None:
    """Move messages to another queue or an exchange, except those that a consumer holds.

    Example: forebay queue move orders --to slow --where '/total > 1000' --yes
    """
    which = "all messages" if where is None else f"the messages where {where}"
    confirm(f"Move {which} of {name}?", yes)
    chosen = {"queue": name, "to": to, "exchange": exchange, "routing_key": key, "where": where}
    done, held = go_through(access, "queue.move", "moved", **chosen)
    report(access, f"{messages(done, 'was', 'were')} moved", done, held)


@app.command("discard")
@asks
def discard_messages(
    access: AdminAccess,
    name: Name,
    where: Annotated[str, typer.Option(metavar="FILTER", help="Only messages that match this filter.")],
    yes: YesOption = False,
) -> None:
    """Delete messages that match a filter, except those that a consumer holds.

    Example: forebay queue discard orders --where 'age_ms > 7 * 24 * 3600 * 1000' --yes
    """
    confirm(f"Take away the messages of {name} where {where}?", yes)
    done, held = go_through(access, "queue.discard", "taken away", queue=name, where=where)
    report(access, f"{messages(done, 'is', 'are')} gone", done, held)
