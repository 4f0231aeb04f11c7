"""`forebay transaction`: queries of Spark that publish in transactions."""

from __future__ import annotations

import typer

from forebay.cli.access import AdminAccess, asks

app = typer.Typer(help="Queries that publish in transactions.", no_args_is_help=True)


@app.command("list")
@asks
def list_transactions(access: AdminAccess) -> None:
    """List the queries with the last batch of each, and what is staged of the next.

    Example: forebay transaction list
    """
    access.list(("query", "batch", "state", "rows", "unroutable", "staged"), "transaction.list")
