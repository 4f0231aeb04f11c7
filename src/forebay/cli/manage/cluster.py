"""`forebay cluster`: the cluster that a running broker leads."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from forebay.cli.access import AdminAccess, YesOption, asks_broker, confirm
from forebay.cli.as_json import show_json
from forebay.cli.show import show_table

app = typer.Typer(help="The cluster: its members, who leads, and who leaves.", no_args_is_help=True)

COLUMNS: Final = ("node", "role", "in_sync", "frames_behind", "behind_ms", "peer")

Node = Annotated[str, typer.Argument(metavar="NODE", help="Name of a member.")]


@app.command("status")
@asks_broker
def show_status(access: AdminAccess) -> None:
    """Show who leads, and how far each member is behind.

    Exits with 1 while fewer members are in sync than must be: then nothing is confirmed.

    Example: forebay cluster status
    """
    found: dict[str, Any] = access.run("cluster.status")
    if access.as_json:
        show_json(found)
    elif not found["clustered"]:
        print("this broker stands alone")
    else:
        print(f"cluster    {found['name']}, epoch {found['epoch']}, led by {found['leader']}")
        print(f"in sync    {len(found['in_sync'])} of {len(found['members'])}, at least {found['min_in_sync']} must be")
        print()
        show_table(COLUMNS, found["members"])
    if found["clustered"] and len(found["in_sync"]) < found["min_in_sync"]:
        raise typer.Exit(1)


@app.command("transfer")
@asks_broker
def transfer(access: AdminAccess, node: Node) -> None:
    """Have another member lead, which must be in sync.

    Clients are cut off, and go on with it when they reconnect.

    Example: forebay cluster transfer b
    """
    access.change(f"{node} leads from now on", "cluster.transfer", node=node)


@app.command("remove")
@asks_broker
def remove(access: AdminAccess, node: Node, yes: YesOption = False) -> None:
    """Take a member out of the cluster.

    Refused where fewer would be in sync than must be. A node that runs comes back as a new member while there is room.

    Example: forebay cluster remove c --yes
    """
    confirm(f"Take {node} out of the cluster?", yes)
    access.change(f"{node} is no member any more", "cluster.remove", node=node)
