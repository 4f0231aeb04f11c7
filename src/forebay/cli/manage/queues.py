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
    queue_names,
    report,
)
from forebay.cli.as_json import show_json
from forebay.cli.manage.from_rows import add_commands
from forebay.cli.manage.query import query_queue
from forebay.cli.units import messages

app = typer.Typer(help="Queues and streams.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the queue.", autocompletion=queue_names)]

add_commands(app, "queue.list", "queue.show", "queue.explain")
add_commands(app, "queue.declare", "queue.delete", "queue.purge", "queue.pause", "queue.resume", "queue.truncate")
app.command("query")(asks(query_queue))


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


@app.command("settle")
@asks
def settle_messages(
    access: AdminAccess,
    name: Name,
    action: Annotated[
        str,
        typer.Option(metavar="ACTION", help="acknowledge, cancel (return what consumers hold to the queue) or expire."),
    ] = "acknowledge",
    where: WhereOption = None,
    group: Annotated[str, typer.Option(metavar="GROUP", help="The group; by default the queue's own.")] = "",
    yes: YesOption = False,
) -> None:
    """Acknowledge, cancel or expire messages; those that a consumer holds only if the queue is sublet.

    Example: forebay queue settle orders --action expire --where 'header.desk = "ny"' --yes
    """
    which = "all messages" if where is None else f"the messages where {where}"
    confirm(f"{action.capitalize()} {which} of {name}?", yes)
    chosen = {"queue": name, "action": action, "group": group, "where": where}
    done, held = go_through(access, "queue.settle", "settled", **chosen)
    report(access, f"{messages(done, 'is', 'are')} settled", done, held)


@app.command("redeliver")
@asks
def redeliver_messages(
    access: AdminAccess,
    name: Name,
    group: Annotated[
        str, typer.Option(metavar="GROUP", help="The group that gets them; by default the queue's own.")
    ] = "",
    since: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="The first: first, an offset, timestamp=MS (since 1970), an age such as 90m.",
        ),
    ] = "first",
    until: Annotated[
        str, typer.Option("--to", metavar="PLACE", help="The first that is not among them, as --from.")
    ] = "next",
    where: WhereOption = None,
    yes: YesOption = False,
) -> None:
    """Deliver messages once more that a group has settled, and that its queue retains.

    Example: forebay queue redeliver orders --from 2h --to 1h --where '/total > 1000' --yes
    """
    which = "the settled messages" if where is None else f"the settled messages where {where}"
    confirm(f"Deliver {which} of {name} once more?", yes)
    chosen = {"queue": name, "group": group, "since": since, "until": until, "where": where}
    done, waiting = go_through(access, "queue.redeliver", "delivered once more", **chosen)
    if access.as_json:
        show_json({"done": done, "held": waiting})
    else:
        print(
            f"{messages(done, 'is', 'are')} delivered once more"
            + (f"; {waiting:,} more are not settled, and are delivered anyway" if waiting else "")
        )
