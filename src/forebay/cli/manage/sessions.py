"""`forebay session` and `retained`: what the broker keeps for clients of MQTT."""

from __future__ import annotations

from typing import Annotated

import typer

from forebay.cli.access import AdminAccess, BodyOctetsOption, FirstOption, LimitOption, asks, session_names, user_names
from forebay.cli.manage.from_rows import add_commands

app = typer.Typer(help="MQTT sessions.", no_args_is_help=True)
retained = typer.Typer(help="Retained messages.", no_args_is_help=True)

Client = Annotated[str, typer.Argument(metavar="CLIENT", help="The client identifier.", autocompletion=session_names)]
Owner = Annotated[
    str | None, typer.Option("--of", metavar="USER", help="The user whose session it is.", autocompletion=user_names)
]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic of the message.")]

add_commands(app, "session.list", "session.show")


@app.command("messages")
@asks
def list_session_messages(
    access: AdminAccess,
    client: Client,
    limit: LimitOption = 20,
    first: FirstOption = 0,
    body_octets: BodyOctetsOption = 200,
    of: Owner = None,
) -> None:
    """Show the messages that wait for a durable session, without taking them.

    Example: forebay session messages kitchen-7 --limit 5
    """
    access.show_messages("session.messages", limit, first, client_id=client, user=of, body_octets_max=body_octets)


add_commands(app, "session.close", "session.delete")
add_commands(retained, "retained.list")


@retained.command("show")
@asks
def show_retained(access: AdminAccess, topic: Topic, body_octets: BodyOctetsOption = 1000) -> None:
    """Show one retained message with its properties and body.

    Example: forebay retained show kitchen/temperature
    """
    access.show("retained.show", topic=topic, body_octets_max=body_octets)


add_commands(retained, "retained.delete")
