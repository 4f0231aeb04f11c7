"""`forebay cluster`: the cluster that a running broker leads."""

from __future__ import annotations

import os
from typing import Annotated, Any, Final

import typer

from forebay.cli.access import AdminAccess, YesOption, asks_broker, confirm, refuse
from forebay.cli.as_json import JsonOption, show_json
from forebay.cli.show import show_table

app = typer.Typer(help="The cluster: its members, who leads, and who leaves.", no_args_is_help=True)

COLUMNS: Final = ("node", "role", "in_sync", "frames_behind", "behind_ms", "drained", "peer")

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


@app.command("drain")
@asks_broker
def drain(access: AdminAccess, node: Node) -> None:
    """Have a member lead no more, and its clients go to other nodes, so that it can be stopped.

    Leadership goes first, then clients are told where to go. Refused where fewer would be in sync without it than must
    be. It keeps the data as before, and is drained until it is started again, or undrained.

    Example: forebay cluster drain b
    """
    access.change(f"{node} is drained", "cluster.drain", node=node)


@app.command("undrain")
@asks_broker
def undrain(access: AdminAccess, node: Node) -> None:
    """Have a member that was drained take clients again.

    Example: forebay cluster undrain b
    """
    access.change(f"{node} takes clients again", "cluster.undrain", node=node)


@app.command("force")
def force(
    config: Annotated[str, typer.Option(metavar="FILE", help="The node's configuration, as for `forebay serve`.")],
    data: Annotated[str | None, typer.Option(metavar="DIR", help="Folder of the node's files.")] = None,
    may_lose: Annotated[
        bool, typer.Option("--may-lose", help="Also where the node may lack messages that were confirmed.")
    ] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Have one node lead alone, which does not run just now.

    For a cluster that cannot help itself: too few nodes are left, or etcd has lost its record. Other nodes are left
    behind, and catch up or copy this one's files when they come. Nothing that was confirmed is lost where the node is
    in sync; where it is not, that is refused unless you say --may-lose.

    Example: forebay cluster force --config b.yaml --data /var/lib/forebay --yes
    """
    from forebay.core.errors import RequestError
    from forebay.server.cluster.register.forcing import force as force_node
    from forebay.server.config.sources import OptionSource

    given = {} if data is None else {"data": data}
    options = OptionSource(given, os.environ, config).load().options
    if not options.cluster.name:
        refuse(f"{config} has no section 'cluster'")
    confirm(f"Have the node of {config} lead alone, and leave all others behind?", yes)
    try:
        done = force_node(options, may_lose)
    except RequestError as error:
        refuse(error.text)
    if as_json:
        show_json({"node": done.node, "epoch": done.epoch, "left_behind": done.left_behind})
        return
    left = f"; left behind: {', '.join(done.left_behind)}" if done.left_behind else ""
    print(f"{done.node} leads alone in epoch {done.epoch} as soon as it runs{left}")
