"""`forebay cluster`: the cluster that a running broker leads."""

from __future__ import annotations

import os
from typing import Annotated, Any, Final

import typer

from forebay.cli.access import AdminAccess, YesOption, asks_broker, confirm, refuse
from forebay.cli.as_json import JsonOption, show_json
from forebay.cli.manage.from_rows import add_commands
from forebay.cli.show import show_table

app = typer.Typer(help="The cluster: members, leadership, draining.", no_args_is_help=True)

COLUMNS: Final = ("node", "role", "in_sync", "frames_behind", "behind_ms", "drained", "peer")


@app.command("status")
@asks_broker
def show_status(access: AdminAccess) -> None:
    """Show the leader, and each member's lag.

    Exits with 1 while fewer than min_in_sync members are in sync: then the broker confirms nothing.

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


add_commands(app, "cluster.transfer", "cluster.remove", "cluster.drain", "cluster.undrain")


@app.command("force")
def force(
    config: Annotated[str, typer.Option(metavar="FILE", help="The node's configuration, as for `forebay serve`.")],
    data: Annotated[str | None, typer.Option(metavar="DIR", help="The node's data folder.")] = None,
    may_lose: Annotated[
        bool, typer.Option("--may-lose", help="Do it even if the node may lack confirmed messages.")
    ] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make one stopped node the leader of a cluster that cannot elect one.

    Use it if too few nodes are left, or etcd has lost its record. Other nodes catch up, or copy this node's files when
    they return. No confirmed message is lost if the node is in sync; otherwise the command is refused unless you give
    --may-lose.

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
