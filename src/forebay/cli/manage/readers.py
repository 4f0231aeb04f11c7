"""`forebay consumer`, `group`, `lease`, `connection` and `channel`: who reads, how far, and over which connection."""

from __future__ import annotations

from typing import Annotated

import typer

from forebay.cli.access import AdminAccess, YesOption, asks, asks_broker, confirm, queue_names

consumers = typer.Typer(help="Consumers.", no_args_is_help=True)
groups = typer.Typer(help="Consumer groups and their positions.", no_args_is_help=True)
leases = typer.Typer(help="Messages that consumers hold.", no_args_is_help=True)
channels = typer.Typer(help="Channels of AMQP connections.", no_args_is_help=True)
connections = typer.Typer(help="Connections of clients.", no_args_is_help=True)

OfQueue = Annotated[str | None, typer.Option(metavar="NAME", help="Only this queue.", autocompletion=queue_names)]


@consumers.command("list")
@asks
def list_consumers(access: AdminAccess, queue: OfQueue = None) -> None:
    """List consumers.

    Example: forebay consumer list --queue orders
    """
    columns = (
        "queue",
        "group",
        "consumer",
        "connection",
        "channel",
        "held",
        "priority",
        "acknowledges",
        "exclusive",
        "filter",
    )
    access.list(columns, "consumer.list", queue=queue)


@groups.command("list")
@asks
def list_groups(access: AdminAccess, queue: OfQueue = None) -> None:
    """List groups with their positions.

    Example: forebay group list --queue prices
    """
    columns = ("queue", "group", "filter", "kind", "ready", "leased", "consumers", "cursor", "committed")
    access.list((*columns, "seconds_left"), "group.list", queue=queue)


@groups.command("commit")
@asks
def commit_group(
    access: AdminAccess,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.", autocompletion=queue_names)],
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Name of a stream group.")],
    offset: Annotated[int, typer.Argument(metavar="OFFSET", help="The offset at which it resumes.")],
) -> None:
    """Set the offset at which a stream group resumes.

    Example: forebay group commit prices audit 1000
    """
    access.change(
        f"group {group} of {queue} resumes at {offset}", "group.commit", queue=queue, group=group, offset=offset
    )


@groups.command("release")
@asks
def release_group(
    access: AdminAccess,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.", autocompletion=queue_names)],
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Name of a group of kind reader.")],
) -> None:
    """End a reader's hold; messages that only it keeps are deleted.

    Example: forebay group release flights spark-1
    """
    access.change(f"group {group} no longer holds messages of {queue}", "group.release", queue=queue, group=group)


@groups.command("delete")
@asks
def delete_group(
    access: AdminAccess,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.", autocompletion=queue_names)],
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="Name of the group, or NAME@FILTER if it has a filter.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Delete it even if it has consumers, which are cancelled.")
    ] = False,
    yes: YesOption = False,
) -> None:
    """Delete a work or stream group; messages that only it keeps are deleted.

    Example: forebay group delete orders audit --yes
    """
    confirm(f"Delete group {group} of {queue}, with what only it still wants?", yes)
    access.change(f"group {group} of {queue} deleted", "group.delete", queue=queue, group=group, if_unused=not force)


@leases.command("list")
@asks
def list_leases(access: AdminAccess, queue: OfQueue = None) -> None:
    """List the messages that consumers hold, in ranges.

    Example: forebay lease list --queue orders
    """
    columns = ("queue", "group", "consumer", "connection", "first", "count", "left", "deliveries", "until_ms")
    access.list(columns, "lease.list", queue=queue)


@groups.command("seek")
@asks
def seek_group(
    access: AdminAccess,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.", autocompletion=queue_names)],
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")],
    to: Annotated[
        str, typer.Argument(metavar="PLACE", help="first, last, next, an offset, timestamp=MS, or an age such as 90m.")
    ],
) -> None:
    """Move a group to another position in the log.

    Example: forebay group seek prices audit first
    """
    access.change(f"group {group} of {queue} continues at {to}", "group.seek", queue=queue, group=group, to=to)


@leases.command("release")
@asks
def release_lease(
    access: AdminAccess,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.", autocompletion=queue_names)],
    offset: Annotated[int, typer.Argument(metavar="OFFSET", help="The message's offset.")],
    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the group; by default the nameless one.")
    ] = None,
) -> None:
    """Return a message from its consumer to the queue, which delivers it again.

    Example: forebay lease release orders 17
    """
    access.change(f"message {offset} returned to {queue}", "lease.release", queue=queue, offset=offset, group=group)


@connections.command("list")
@asks_broker
def list_connections(
    access: AdminAccess,
    of_vhost: Annotated[str | None, typer.Option("--vhost", metavar="NAME", help="Only those in this vhost.")] = None,
) -> None:
    """List the connections of all protocols.

    Example: forebay connection list
    """
    access.list(("id", "peer", "protocol", "vhost", "user", "client_id"), "connection.list", vhost=of_vhost)


@channels.command("list")
@asks_broker
def list_channels(
    access: AdminAccess,
    connection: Annotated[int | None, typer.Option(metavar="ID", help="Only those of this connection.")] = None,
) -> None:
    """List the channels of AMQP connections, with their unsettled messages.

    Example: forebay channel list --connection 7
    """
    columns = ("connection", "channel", "vhost", "user", "consumers", "unacked", "prefetch", "confirms", "unconfirmed")
    access.list(columns, "channel.list", connection=connection)


@connections.command("close")
@asks_broker
def close_connection(
    access: AdminAccess,
    id: Annotated[int, typer.Argument(metavar="ID", help="The connection's number in the list.")],
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="The reason for the client.")
    ] = "closed by an administrator",
    yes: YesOption = False,
) -> None:
    """Close a connection, and tell its client the reason.

    Example: forebay connection close 7 --reason 'maintenance' --yes
    """
    confirm(f"End connection {id}?", yes)
    access.change(f"connection {id} closed", "connection.close", id=id, reason=reason)
