"""`forebay user`, `forebay permission` and `forebay topic-permission`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from forebay.cli.access import (
    AdminAccess,
    YesOption,
    asked_password,
    asks,
    asks_broker,
    confirm,
    part_list,
    user_names,
)
from forebay.core.errors import OptionError

app = typer.Typer(help="Users.", no_args_is_help=True)
permissions = typer.Typer(help="Permissions of users in vhosts.", no_args_is_help=True)
topics = typer.Typer(help="Restrictions of users on routing keys of topic exchanges.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.", autocompletion=user_names)]
Configure = Annotated[str, typer.Argument(metavar="CONFIGURE", help="Pattern of names that it may declare and delete.")]
Write = Annotated[str, typer.Argument(metavar="WRITE", help="Pattern of names that it may publish to.")]
Read = Annotated[str, typer.Argument(metavar="READ", help="Pattern of names that it may consume from.")]
Exchange = Annotated[str, typer.Argument(metavar="EXCHANGE", help="A topic exchange.")]
Hash = Annotated[
    str | None,
    typer.Option("--hash", metavar="TEXT", help="Instead: an Argon2id hash of the password."),
]
NewPassword = Annotated[
    str | None,
    typer.Option(
        "--new-password",
        metavar="TEXT",
        envvar="FOREBAY_NEW_PASSWORD",
        help="The new password; by default it is asked for, or read from standard input. --password is yours.",
    ),
]
NoPassword = Annotated[
    bool, typer.Option("--no-password", help="Instead: no password; the user logs in by a certificate, or not at all.")
]
OfUser = Annotated[str | None, typer.Option("--of", metavar="NAME", help="Only of this user.")]
OfVhost = Annotated[str | None, typer.Option("--vhost", metavar="NAME", help="Only in this vhost.")]


@app.command("list")
@asks_broker
def list_users(access: AdminAccess) -> None:
    """List the users.

    Example: forebay user list
    """
    access.list(("name", "tags", "configured"), "user.list")


@app.command("add")
@asks_broker
def add_user(
    access: AdminAccess,
    name: Name,
    tags: Annotated[
        str | None, typer.Option(metavar="A,B", help="Tags: administrator, management, monitoring, policymaker.")
    ] = None,
    given: NewPassword = None,
    hash: Hash = None,
    no_password: NoPassword = False,
) -> None:
    """Create a user, and ask for its password; it has no permissions yet.

    --password is the password of the user who runs the command; --new-password is the new user's. Without a terminal,
    the first line of standard input is the new password.

    Example: forebay user add ann --tags monitoring
    """
    password = new_password(name, given, hash, no_password)
    access.change(f"user {name} created", "user.add", user=name, password=password, tags=part_list(tags))


@app.command("password")
@asks_broker
def change_password(
    access: AdminAccess, name: Name, given: NewPassword = None, hash: Hash = None, no_password: NoPassword = False
) -> None:
    """Set a user's password: it is asked for, given with --new-password, or piped in.

    Example: forebay user password ann
    """
    password = new_password(name, given, hash, no_password)
    access.change(f"password of {name} changed", "user.password", user=name, password=password)


@app.command("tags")
@asks_broker
def set_tags(
    access: AdminAccess,
    name: Name,
    tags: Annotated[str, typer.Argument(metavar="A,B", help="All its new tags.")] = "",
) -> None:
    """Replace a user's tags.

    Example: forebay user tags ann policymaker,management
    """
    access.change(f"tags of {name} changed", "user.tags", user=name, tags=part_list(tags))


@app.command("limits")
@asks_broker
def set_limits(
    access: AdminAccess,
    name: Name,
    connections_max: Annotated[
        int | None, typer.Option(metavar="N", help="Connections at one time; -1 sets no limit.")
    ] = None,
    channels_max: Annotated[
        int | None, typer.Option(metavar="N", help="Channels at one time; -1 sets no limit.")
    ] = None,
) -> None:
    """Limit a user's connections and channels; options that are not given do not change.

    Example: forebay user limits ann --connections-max 10
    """
    limits = {"connections_max": connections_max, "channels_max": channels_max}
    given = {limit: value for limit, value in limits.items() if value is not None}
    access.change(f"limits of {name} changed", "user.limits", user=name, limits=given)


@app.command("delete")
@asks_broker
def delete_user(access: AdminAccess, name: Name, yes: YesOption = False) -> None:
    """Delete a user with its permissions.

    Example: forebay user delete ann --yes
    """
    confirm(f"Delete user {name} with its permissions?", yes)
    access.change(f"user {name} deleted", "user.delete", user=name)


@permissions.command("list")
@asks_broker
def list_permissions(access: AdminAccess, of: OfUser = None, of_vhost: OfVhost = None) -> None:
    """List permissions; users of the configuration without any may do everything.

    Example: forebay permission list --of ann
    """
    access.list(("user", "vhost", "configure", "write", "read"), "permission.list", user=of, vhost=of_vhost)


@permissions.command("set")
@asks
def set_permission(access: AdminAccess, name: Name, configure: Configure, write: Write, read: Read) -> None:
    """Let a user enter a vhost, with permissions by regular expressions over names.

    Example: forebay permission set ann '^shop[.]' '.*' '.*' --vhost shop
    """
    access.change(
        f"permissions of {name} changed",
        "permission.set",
        user=name,
        configure=configure,
        write=write,
        read=read,
    )


@permissions.command("clear")
@asks
def clear_permission(access: AdminAccess, name: Name) -> None:
    """Delete a user's permissions in a vhost, which it then cannot enter.

    Example: forebay permission clear ann --vhost shop
    """
    access.change(f"permissions of {name} deleted", "permission.clear", user=name)


@topics.command("list")
@asks_broker
def list_topic_permissions(access: AdminAccess, of: OfUser = None, of_vhost: OfVhost = None) -> None:
    """List restrictions on topic exchanges.

    Example: forebay topic-permission list --of ann
    """
    access.list(("user", "vhost", "exchange", "write", "read"), "topic_permission.list", user=of, vhost=of_vhost)


@topics.command("set")
@asks
def set_topic_permission(access: AdminAccess, name: Name, exchange: Exchange, write: Write, read: Read) -> None:
    """Restrict a user to the routing keys of a topic exchange that match these patterns.

    Example: forebay topic-permission set ann amq.topic '^kitchen[.]' '.*'
    """
    access.change(
        f"topic permissions of {name} changed",
        "topic_permission.set",
        user=name,
        exchange=exchange,
        write=write,
        read=read,
    )


@topics.command("clear")
@asks
def clear_topic_permission(
    access: AdminAccess,
    name: Name,
    exchange: Annotated[
        str | None, typer.Argument(metavar="EXCHANGE", help="Name of a topic exchange; without it, all.")
    ] = None,
) -> None:
    """Lift a user's restriction on a topic exchange, or on all.

    Example: forebay topic-permission clear ann amq.topic
    """
    access.change(f"restrictions of {name} deleted", "topic_permission.clear", user=name, exchange=exchange)


def new_password(name: str, given: str | None, hash: str | None, no_password: bool) -> str:
    """The hash that the broker is to keep of a new password: it takes a time in which a broker does much else."""
    if (given is not None) + (hash is not None) + no_password > 1:
        raise OptionError("--new-password, --hash and --no-password: one of them")
    if no_password:
        return ""
    if hash is not None:
        return hash
    if given == "":
        raise OptionError("--new-password: '' is none; --no-password makes a user that logs in by a certificate")
    password = asked_password(f"New password of {name}", True, "--new-password") if given is None else given
    from forebay.broker.auth.passwords import SALT_OCTETS, hash_password

    return hash_password(password, os.urandom(SALT_OCTETS))
