"""`forebay delayed` and `transaction`: what is not published yet."""

from __future__ import annotations

from typing import Annotated

import typer

from forebay.cli.access import AdminAccess, YesOption, asks, confirm

delayed = typer.Typer(help="Delayed messages.", no_args_is_help=True)
transactions = typer.Typer(help="Spark queries that publish in transactions.", no_args_is_help=True)


@delayed.command("list")
@asks
def list_delayed(access: AdminAccess) -> None:
    """List the delayed messages, the next one first.

    Example: forebay delayed list
    """
    access.list(("number", "key", "due_ms", "exchange", "topic", "octets"), "delayed.list")


@delayed.command("cancel")
@asks
def cancel_delayed(
    access: AdminAccess,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The key from its publisher, or its number.")],
    yes: YesOption = False,
) -> None:
    """Cancel a delayed message.

    Example: forebay delayed cancel reminder-7 --yes
    """
    confirm(f"Forget the message {name}?", yes)
    access.change(f"message {name} cancelled", "delayed.cancel", name=name)


@delayed.command("publish")
@asks
def publish_delayed(
    access: AdminAccess,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The key from its publisher, or its number.")],
) -> None:
    """Publish a delayed message at once.

    Example: forebay delayed publish reminder-7
    """
    access.change(f"message {name} published", "delayed.publish", name=name)


@transactions.command("list")
@asks
def list_transactions(access: AdminAccess) -> None:
    """List the queries, with each one's last batch and the staged rows of the next.

    Example: forebay transaction list
    """
    access.list(("query", "batch", "state", "rows", "unroutable", "staged"), "transaction.list")
