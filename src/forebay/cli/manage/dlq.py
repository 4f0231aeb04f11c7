"""`forebay dlq`: shows, sends back, edits and discards dead letters."""

from __future__ import annotations

import base64
from pathlib import Path
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
    pairs,
    queue_names,
    report,
    value_of,
)
from forebay.cli.as_json import show_json
from forebay.cli.show import cell, show_table
from forebay.cli.units import messages
from forebay.core.errors import OptionError

app = typer.Typer(help="Dead letters: rejected, expired or failed messages, and their queues.", no_args_is_help=True)

Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The dead-letter queue.", autocompletion=queue_names)]


@app.command("list")
@asks
def list_letter_queues(access: AdminAccess) -> None:
    """List the dead-letter queues, with their messages by cause and origin.

    Example: forebay dlq list
    """
    items = list(access.client.items("dlq.list", vhost=access.vhost))
    if access.as_json:
        show_json(items)
        return
    for item in items:
        for name in ("causes", "origins"):
            counts = item[name]
            assert isinstance(counts, dict)
            more = "" if item["complete"] else "+"
            item[name] = ", ".join(f"{cell(key)} {count:,}{more}" for key, count in counts.items())
    show_table(("queue", "messages", "held", "causes", "origins", "oldest_ms", "newest_ms"), items)
    for item in items:
        if not item["complete"]:
            print(f"+ causes and origins of {cell(item['queue'])} are those of its oldest {item['counted']:,} messages")


@app.command("show")
@asks
def show_letters(
    access: AdminAccess,
    queue: Queue,
    where: WhereOption = None,
    limit: LimitOption = 20,
    first: FirstOption = 0,
    body_octets: BodyOctetsOption = 200,
) -> None:
    """Show dead letters, with reason, place and time of their death.

    Example: forebay dlq show dead --where "death_queue = 'orders'" --limit 5
    """
    access.show_messages("dlq.show", limit, first, queue=queue, where=where, body_octets_max=body_octets)


@app.command("redrive")
@asks
def redrive_letters(
    access: AdminAccess,
    queue: Queue,
    where: WhereOption = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="QUEUE", help="The queue they go to; by default the one where each first died."),
    ] = None,
) -> None:
    """Send dead letters back, except those that a consumer holds.

    Example: forebay dlq redrive dead --where '/total < 100'
    """
    done, held = go_through(access, "dlq.redrive", "sent back", queue=queue, where=where, to=to)
    report(access, f"{messages(done)} sent back", done, held)


@app.command("purge")
@asks
def purge_letters(access: AdminAccess, queue: Queue, where: WhereOption = None, yes: YesOption = False) -> None:
    """Discard dead letters, except those that a consumer holds.

    Example: forebay dlq purge dead --where 'age_ms > 7 * 24 * 3600 * 1000' --yes
    """
    which = "all messages" if where is None else f"the messages where {where}"
    confirm(f"Discard {which} in {queue}?", yes)
    done, held = go_through(access, "dlq.purge", "discarded", queue=queue, where=where)
    report(access, f"{messages(done)} discarded", done, held)


@app.command("edit")
@asks
def edit_letter(
    access: AdminAccess,
    queue: Queue,
    offset: Annotated[int, typer.Argument(metavar="OFFSET", help="The message's offset.")],
    body: Annotated[str | None, typer.Option(metavar="TEXT", help="The new body.")] = None,
    body_file: Annotated[str | None, typer.Option(metavar="FILE", help="A file with the new body.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A header to set, repeatable; the value is JSON if it can be."),
    ] = None,
    remove_header: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A header to remove, repeatable.")
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="The new routing key.")] = None,
) -> None:
    """Change a dead letter, and move it to the end of its queue.

    Example: forebay dlq edit dead 17 --body '{"total": 20}' --header repaired=true
    """
    headers: dict[str, object] = dict.fromkeys(remove_header or [])
    headers |= {name: value_of(value) for name, value in pairs("--header", header).items()}
    encoded = None
    if body_file is not None:
        if body is not None:
            raise OptionError("--body and --body-file: one of the two")
        try:
            encoded = base64.b64encode(Path(body_file).read_bytes()).decode()
        except OSError as error:
            raise OptionError(f"--body-file: {body_file}: cannot be read: {error}") from None
    access.change(
        "message {offset} changed",
        "dlq.edit",
        queue=queue,
        offset=offset,
        body=body,
        body_base64=encoded,
        headers=headers or None,
        routing_key=key,
    )
