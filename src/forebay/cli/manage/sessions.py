"""`forebay session`, `subscription` and `retained`: what the broker keeps for clients of MQTT."""

from __future__ import annotations

from typing import Annotated

import typer

from forebay.cli.access import (
    AdminAccess,
    BodyOctetsOption,
    FirstOption,
    LimitOption,
    YesOption,
    asks,
    confirm,
    session_names,
)

app = typer.Typer(help="MQTT sessions.", no_args_is_help=True)
subscriptions = typer.Typer(help="Subscriptions of MQTT sessions.", no_args_is_help=True)
retained = typer.Typer(help="Retained messages.", no_args_is_help=True)

Client = Annotated[str, typer.Argument(metavar="CLIENT", help="The client identifier.", autocompletion=session_names)]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic of the message.")]


@app.command("list")
@asks
def list_sessions(
    access: AdminAccess,
    connected: Annotated[
        bool | None, typer.Option("--connected/--offline", help="Only connected, or only offline sessions.")
    ] = None,
) -> None:
    """List the sessions with their waiting messages.

    Example: forebay session list --offline
    """
    columns = ("client_id", "connected", "durable", "subscriptions", "waiting", "inflight", "dropped", "expiry_s")
    access.list(columns, "session.list", connected=connected)


@app.command("show")
@asks
def show_session(access: AdminAccess, client: Client) -> None:
    """Show a session: subscriptions, messages in flight, and its will.

    Example: forebay session show kitchen-7
    """
    access.show("session.show", client_id=client)


@app.command("messages")
@asks
def list_session_messages(
    access: AdminAccess,
    client: Client,
    limit: LimitOption = 20,
    first: FirstOption = 0,
    body_octets: BodyOctetsOption = 200,
) -> None:
    """Show the messages that wait for a durable session, without taking them.

    Example: forebay session messages kitchen-7 --limit 5
    """
    access.show_messages("session.messages", limit, first, client_id=client, body_octets_max=body_octets)


@app.command("close")
@asks
def close_session(access: AdminAccess, client: Client, yes: YesOption = False) -> None:
    """Close a session's connection; a durable session remains, and its client may reconnect.

    Example: forebay session close kitchen-7 --yes
    """
    confirm(f"End the connection of {client}?", yes)
    access.change(f"connection of {client} closed", "session.close", client_id=client)


@app.command("delete")
@asks
def delete_session(access: AdminAccess, client: Client, yes: YesOption = False) -> None:
    """Delete a session with its subscriptions and waiting messages.

    Example: forebay session delete kitchen-7 --yes
    """
    confirm(f"Forget the session of {client} with all that waits for it?", yes)
    access.change(f"session {client} deleted with {{waiting}} messages", "session.delete", client_id=client)


@subscriptions.command("list")
@asks
def list_subscriptions(
    access: AdminAccess,
    client: Annotated[str | None, typer.Option(metavar="CLIENT", help="Only those of this session.")] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Only subscriptions that match this topic.")
    ] = None,
) -> None:
    """List subscriptions.

    Example: forebay subscription list --topic kitchen/temperature
    """
    columns = ("client_id", "connected", "filter", "qos", "no_local", "retain_as_published", "identifier")
    access.list(columns, "subscription.list", client_id=client, topic=topic)


@retained.command("list")
@asks
def list_retained(
    access: AdminAccess, filter: Annotated[str, typer.Argument(metavar="FILTER", help="A topic filter.")] = "#"
) -> None:
    """List retained messages.

    Example: forebay retained list 'kitchen/#'
    """
    columns = ("topic", "octets", "qos", "protocol", "stored_ms", "expires_ms", "durable")
    access.list(columns, "retained.list", filter=filter)


@retained.command("show")
@asks
def show_retained(access: AdminAccess, topic: Topic, body_octets: BodyOctetsOption = 1000) -> None:
    """Show one retained message with its properties and body.

    Example: forebay retained show kitchen/temperature
    """
    access.show("retained.show", topic=topic, body_octets_max=body_octets)


@retained.command("delete")
@asks
def delete_retained(access: AdminAccess, topic: Topic, yes: YesOption = False) -> None:
    """Delete a topic's retained message; subscribers are not told.

    Example: forebay retained delete kitchen/temperature --yes
    """
    confirm(f"Forget the retained message of {topic}?", yes)
    access.change(f"retained message of {topic} deleted", "retained.delete", topic=topic)
