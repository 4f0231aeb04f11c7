"""`forebay user`: users, their passwords, tags and limits."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from forebay.cli.access import AdminAccess, asked_password, asks_broker, part_list, user_names
from forebay.cli.manage.from_rows import add_commands
from forebay.core.errors import OptionError

app = typer.Typer(help="Users.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.", autocompletion=user_names)]
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

add_commands(app, "user.list")


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
    access.change("user {user} created", "user.add", user=name, password=password, tags=part_list(tags))


@app.command("password")
@asks_broker
def change_password(
    access: AdminAccess, name: Name, given: NewPassword = None, hash: Hash = None, no_password: NoPassword = False
) -> None:
    """Set a user's password: it is asked for, given with --new-password, or piped in.

    Example: forebay user password ann
    """
    password = new_password(name, given, hash, no_password)
    access.change("password of {user} changed", "user.password", user=name, password=password)


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
    access.change("tags of {user} changed", "user.tags", user=name, tags=part_list(tags))


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
    access.change("limits of {user} changed", "user.limits", user=name, limits=given)


add_commands(app, "user.delete")


def new_password(name: str, given: str | None, hash: str | None, no_password: bool) -> str:
    """Return the hash of a new password. Computed here, as it would keep the broker busy for long.

    Returns "" for no password. Raises OptionError if it is empty, or given by more than one option.
    """
    if (given is not None) + (hash is not None) + no_password > 1:
        raise OptionError("--new-password, --hash and --no-password: one of them")
    if no_password:
        return ""
    if hash is not None:
        return hash
    if given == "":
        raise OptionError("--new-password: '' is none; --no-password makes a user that logs in by a certificate")
    password = asked_password(f"New password of {name}", True, "--new-password") if given is None else given
    from forebay.directory.logins.passwords import SALT_OCTETS, hash_password

    return hash_password(password, os.urandom(SALT_OCTETS))
