"""Makes the commands of the table of rows from the parameters of their operations."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Final

import typer

from forebay.cli.access import (
    KEYWORD,
    AdminAccess,
    YesOption,
    asks,
    confirm,
    exchange_names,
    filled,
    json_object,
    part_list,
    queue_names,
    session_names,
    user_names,
    vhost_names,
)
from forebay.cli.manage.rows import ROWS, CommandRow
from forebay.management.parameters import FLAG, PAGE, TABLE, TEXT, TEXTS, VHOST, WHOLE, Parameter, parameters_of

TYPES: Final[dict[str, Any]] = {TEXT: str, WHOLE: int, FLAG: bool, TABLE: str, TEXTS: str}
METAVARS: Final = {WHOLE: "N", TABLE: "JSON", TEXTS: "A,B"}
# Options named differently from their parameters.
SPELLINGS: Final = {
    "client_id": "--client",
    "connected": "--connected/--offline",
    "events_max": "--events",
    "protected": "--protected/--unprotected",
    "routing_key": "--key",
    "user": "--of",
}
# Switches by parameter and its default: option, help, and the value that the switch sets.
SWITCHES: Final[dict[tuple[str, object], tuple[str, str, object]]] = {
    ("destination_type", "queue"): ("--to-exchange", "the destination is an exchange", "exchange"),
    ("durable", True): ("--transient", "it ends with the broker's process", False),
    ("if_unused", True): ("--force", "delete it even if it has consumers, which are cancelled", False),
}
# Completion functions by parameter.
COMPLETIONS: Final = {
    "client_id": session_names,
    "exchange": exchange_names,
    "queue": queue_names,
    "user": user_names,
    "vhost": vhost_names,
}


def group_of(word: str, help: str) -> typer.Typer:
    """Return a group whose commands all come from the table of rows."""
    app = typer.Typer(help=help, no_args_is_help=True)
    add_commands(app, *(each for each in ROWS if each.startswith(f"{word.replace('-', '_')}.")))
    return app


def add_commands(app: typer.Typer, *operations: str) -> None:
    """Add the commands of these operations' rows to a group."""
    for each in operations:
        app.command(each.partition(".")[2])(command_of(each, ROWS[each]))


def command_of(operation: str, row: CommandRow) -> Callable[..., None]:
    """Make a command of a row. Its signature and docstring tell typer its options and help."""
    parameters = parameters_of(operation)
    group, _, verb = operation.replace("_", "-").partition(".")
    taken = [each for each in parameters if each != VHOST and each not in PAGE]
    arguments = [each for each in taken if each.required or each.name == row.positional]
    options = [each for each in taken if each not in arguments]

    def run(access: AdminAccess, yes: bool = False, **typed: Any) -> None:
        given = {each.name: value_of(each, typed[f"{each.name}_"]) for each in taken}
        if row.question:
            confirm(filled(row.question, given), yes or bool(given.get(row.sure)))
        if row.said:
            access.change(row.said, operation, **given)
        elif row.columns:
            access.list(row.columns.split(), operation, **given)
        else:
            access.show(operation, **given)

    run.__doc__ = f"{inspect.cleandoc(row.help)}\n\nExample: forebay {group} {verb} {row.example}".rstrip()
    signature = [inspect.Parameter("access", KEYWORD)]
    for each in arguments:
        is_itself = each.name == group and not each.metavar
        signature.append(typer_parameter(each, typer.Argument, metavar="NAME" if is_itself else metavar_of(each)))
    signature += [option_of(each) for each in options]
    if row.question:
        signature.append(inspect.Parameter("yes", KEYWORD, default=False, annotation=YesOption))
    run.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    return asks(run, VHOST in parameters)


def option_of(parameter: Parameter) -> inspect.Parameter:
    """Return the command's option for an operation's parameter, or its switch."""
    switch = switch_of(parameter)
    if switch is not None:
        option, help, _ = switch
        return typer_parameter(replace(parameter, type=FLAG, doc=help, default=False), typer.Option, option)
    metavar = None if parameter.type == FLAG else metavar_of(parameter)
    return typer_parameter(parameter, typer.Option, spelling(parameter), metavar=metavar)


def typer_parameter(
    parameter: Parameter, kind: Callable[..., Any], *names: str, metavar: str | None = None
) -> inspect.Parameter:
    """Return a parameter for a command's signature. A trailing `_` keeps its name apart from the common options."""
    help = f"{parameter.sentence()}."
    about = kind(*names, metavar=metavar, help=help, autocompletion=COMPLETIONS.get(parameter.name))
    default = inspect.Parameter.empty if parameter.required else parameter.default
    type = TYPES[parameter.type] | None if default is None else TYPES[parameter.type]
    return inspect.Parameter(f"{parameter.name}_", KEYWORD, default=default, annotation=Annotated[type, about])


def metavar_of(parameter: Parameter) -> str:
    return parameter.metavar or METAVARS.get(parameter.type, parameter.name.upper())


def spelling(parameter: Parameter) -> str:
    return SPELLINGS.get(parameter.name, f"--{parameter.name.replace('_', '-')}")


def switch_of(parameter: Parameter) -> tuple[str, str, object] | None:
    return SWITCHES.get((parameter.name, parameter.default))


def value_of(parameter: Parameter, typed: Any) -> object:
    """Return the operation's argument for a typed value."""
    switch = switch_of(parameter)
    if switch is not None:
        return switch[2] if typed else parameter.default
    if parameter.type == TABLE:
        return json_object("JSON" if parameter.required else spelling(parameter), typed)
    return part_list(typed) if parameter.type == TEXTS else typed
