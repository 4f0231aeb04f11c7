"""`forebay config`: checks a configuration, and shows the options in force."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from forebay.cli.access import AdminAccess, asks_broker
from forebay.cli.as_json import JsonOption, show_json
from forebay.cli.manage.from_rows import add_commands
from forebay.cli.show import cell, show_table

app = typer.Typer(help="The configuration of a file or of a running broker.", no_args_is_help=True)


@app.command("check")
def check_config(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE", envvar="FOREBAY_CONFIG", help="The file; without it, the environment alone is checked."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a configuration file and the environment: errors with line and nearest key, and risky settings.

    Exits with 2 if a broker could not start with it.

    Example: forebay config check /etc/forebay/forebay.yaml
    """
    from forebay.server.config.sources import ERROR, check

    found = check(file, os.environ)
    errors = [each for each in found if each.level == ERROR]
    if as_json:
        show_json([asdict(each) for each in found])
    for each in found if not as_json else ():
        print(f"{each.level}: {cell(each.text)}", file=sys.stderr if each in errors else sys.stdout)
    if not found and not as_json:
        print(f"{file or 'the environment'} is good")
    if errors:
        raise typer.Exit(2)


@app.command("show")
@asks_broker
def show_config(
    access: AdminAccess,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only options whose name contains this.")] = None,
    changed: Annotated[bool, typer.Option("--changed", help="Only options that differ from their default.")] = False,
) -> None:
    """Show the options of a running broker, and where each value came from; secrets are hidden.

    Example: forebay config show --changed
    """
    chosen = [
        each
        for each in access.client.items("config.show")
        if (name is None or name in str(each["name"])) and not (changed and each["origin"] == "default")
    ]
    if access.as_json:
        show_json(chosen)
    else:
        show_table(("name", "value", "origin", "reloadable"), chosen)


add_commands(app, "config.reload")
