"""`forebay policy` and `forebay operator-policy`."""

from __future__ import annotations

from typing import Annotated

import typer

from forebay.cli.access import AdminAccess, asks, json_object

app = typer.Typer(help="Policies: settings for queues and exchanges with certain names.", no_args_is_help=True)
operators = typer.Typer(help="Operator policies, which set limits.", no_args_is_help=True)

COLUMNS = ("policy", "pattern", "apply_to", "priority", "definition")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the policy.")]
Pattern = Annotated[str, typer.Argument(metavar="PATTERN", help="Regular expression that matches anywhere in a name.")]
Definition = Annotated[str, typer.Argument(metavar="JSON", help="What it sets, such as '{\"message-ttl\": 60000}'.")]
ApplyTo = Annotated[
    str,
    typer.Option(metavar="KIND", help="all, queues, classic_queues, quorum_queues, streams or exchanges."),
]
Priority = Annotated[
    int, typer.Option(metavar="N", help="Of the policies that match, the one with the highest priority applies.")
]


@app.command("list")
@asks
def list_policies(access: AdminAccess) -> None:
    """List the policies.

    Example: forebay policy list
    """
    access.list(COLUMNS, "policy.list")


@app.command("set")
@asks
def set_policy(
    access: AdminAccess,
    name: Name,
    pattern: Pattern,
    definition: Definition,
    apply_to: ApplyTo = "all",
    priority: Priority = 0,
) -> None:
    """Set or replace a policy; it applies at once.

    Example: forebay policy set short '^tmp[.]' '{"message-ttl": 60000}' --apply-to queues
    """
    change(access, "policy.set", name, pattern, definition, apply_to, priority)


@app.command("clear")
@asks
def clear_policy(access: AdminAccess, name: Name) -> None:
    """Delete a policy.

    Example: forebay policy clear short
    """
    access.change(f"policy {name} deleted", "policy.clear", policy=name)


@operators.command("list")
@asks
def list_operator_policies(access: AdminAccess) -> None:
    """List the operator policies.

    Example: forebay operator-policy list
    """
    access.list(COLUMNS, "operator_policy.list")


@operators.command("set")
@asks
def set_operator_policy(
    access: AdminAccess,
    name: Name,
    pattern: Pattern,
    definition: Definition,
    apply_to: ApplyTo = "all",
    priority: Priority = 0,
) -> None:
    """Set or replace an operator policy; it applies at once.

    Example: forebay operator-policy set most '.*' '{"max-length": 1000000}'
    """
    change(access, "operator_policy.set", name, pattern, definition, apply_to, priority)


@operators.command("clear")
@asks
def clear_operator_policy(access: AdminAccess, name: Name) -> None:
    """Delete an operator policy.

    Example: forebay operator-policy clear most
    """
    access.change(f"policy {name} deleted", "operator_policy.clear", policy=name)


def change(
    access: AdminAccess, operation: str, name: str, pattern: str, definition: str, apply_to: str, priority: int
) -> None:
    access.change(
        f"policy {name} set",
        operation,
        policy=name,
        pattern=pattern,
        definition=json_object("JSON", definition),
        apply_to=apply_to,
        priority=priority,
    )
