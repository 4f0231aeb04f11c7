"""`forebay vhost`: vhosts of a running broker."""

from __future__ import annotations

from typing import Annotated

import typer

from forebay.cli.access import AdminAccess, YesOption, asks_broker, confirm, part_list, vhost_names

app = typer.Typer(help="Vhosts, each with its own queues, exchanges, sessions and permissions.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the vhost.", autocompletion=vhost_names)]
Description = Annotated[str | None, typer.Option(metavar="TEXT", help="For people to read.")]
Tags = Annotated[str | None, typer.Option(metavar="A,B", help="For people to read.")]
QueueType = Annotated[
    str | None, typer.Option(metavar="TYPE", help="Type of queues declared without one: classic, quorum or stream.")
]
ConnectionsMax = Annotated[int | None, typer.Option(metavar="N", help="Connections at one time; -1 sets no limit.")]
QueuesMax = Annotated[int | None, typer.Option(metavar="N", help="Queues at one time; -1 sets no limit.")]


@app.command("list")
@asks_broker
def list_vhosts(access: AdminAccess) -> None:
    """List the vhosts with their numbers of objects and messages.

    Example: forebay vhost list
    """
    access.list(("vhost", "connections", "exchanges", "queues", "ready", "delayed", "description"), "vhost.list")


@app.command("add")
@asks_broker
def add_vhost(
    access: AdminAccess,
    name: Name,
    description: Description = None,
    tags: Tags = None,
    default_queue_type: QueueType = None,
    connections_max: ConnectionsMax = None,
    queues_max: QueuesMax = None,
) -> None:
    """Create a vhost.

    Example: forebay vhost add shop --default-queue-type quorum
    """
    settings = (description, tags, default_queue_type, connections_max, queues_max)
    change(access, f"vhost {name} created", "vhost.add", name, *settings)


@app.command("set")
@asks_broker
def set_vhost(
    access: AdminAccess,
    name: Name,
    description: Description = None,
    tags: Tags = None,
    default_queue_type: QueueType = None,
    connections_max: ConnectionsMax = None,
    queues_max: QueuesMax = None,
) -> None:
    """Change the given settings, and keep the others.

    Example: forebay vhost set shop --queues-max 1000
    """
    settings = (description, tags, default_queue_type, connections_max, queues_max)
    change(access, f"vhost {name} is changed", "vhost.set", name, *settings)


@app.command("delete")
@asks_broker
def delete_vhost(access: AdminAccess, name: Name, yes: YesOption = False) -> None:
    """Delete a vhost with everything in it, and close its connections.

    Example: forebay vhost delete shop --yes
    """
    confirm(f"Delete vhost {name} with all its queues and messages?", yes)
    access.change(f"vhost {name} deleted", "vhost.delete", vhost=name)


def change(
    access: AdminAccess,
    said: str,
    operation: str,
    name: str,
    description: str | None,
    tags: str | None,
    default_queue_type: str | None,
    connections_max: int | None,
    queues_max: int | None,
) -> None:
    access.change(
        said,
        operation,
        vhost=name,
        description=description,
        tags=part_list(tags),
        default_queue_type=default_queue_type,
        connections_max=connections_max,
        queues_max=queues_max,
    )
