"""`forebay exchange` and `forebay binding`."""

from __future__ import annotations

from typing import Annotated

import typer

from forebay.cli.access import AdminAccess, YesOption, asks, confirm, exchange_names, json_object

app = typer.Typer(help="Exchanges.", no_args_is_help=True)
bindings = typer.Typer(help="Bindings from exchanges to queues and exchanges.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the exchange.", autocompletion=exchange_names)]
Source = Annotated[
    str,
    typer.Argument(
        metavar="EXCHANGE", help="Name of the exchange that messages come from.", autocompletion=exchange_names
    ),
]
Destination = Annotated[str, typer.Argument(metavar="DESTINATION", help="Name of the queue that they go to.")]
Key = Annotated[str, typer.Option(metavar="KEY", help="Routing key of the binding.")]
ToExchange = Annotated[bool, typer.Option("--to-exchange", help="The destination is an exchange.")]
Arguments = Annotated[str | None, typer.Option(metavar="JSON", help="Arguments as AMQP clients give them.")]


@app.command("list")
@asks
def list_exchanges(access: AdminAccess) -> None:
    """List the exchanges.

    Example: forebay exchange list
    """
    columns = ("exchange", "type", "bindings", "durable", "auto_delete", "internal", "alternate")
    access.list(columns, "exchange.list")


@app.command("declare")
@asks
def declare_exchange(
    access: AdminAccess,
    name: Name,
    type: Annotated[
        str, typer.Option(metavar="TYPE", help="direct, fanout, topic, headers or x-consistent-hash.")
    ] = "direct",
    transient: Annotated[bool, typer.Option("--transient", help="It ends with the broker's process.")] = False,
    auto_delete: Annotated[bool, typer.Option("--auto-delete", help="It is deleted with its last binding.")] = False,
    internal: Annotated[bool, typer.Option("--internal", help="Clients cannot publish to it.")] = False,
    arguments: Arguments = None,
) -> None:
    """Declare an exchange, or check that it exists with the same properties.

    Example: forebay exchange declare shop --type topic
    """
    access.change(
        f"exchange {name} declared",
        "exchange.declare",
        exchange=name,
        type=type,
        durable=not transient,
        auto_delete=auto_delete,
        internal=internal,
        arguments=json_object("--arguments", arguments),
    )


@app.command("delete")
@asks
def delete_exchange(
    access: AdminAccess,
    name: Name,
    if_unused: Annotated[bool, typer.Option("--if-unused", help="Only if nothing is bound to it.")] = False,
    yes: YesOption = False,
) -> None:
    """Delete an exchange with its bindings.

    Example: forebay exchange delete shop --if-unused
    """
    confirm(f"Delete exchange {name} with its bindings?", yes or if_unused)
    access.change(f"exchange {name} deleted", "exchange.delete", exchange=name, if_unused=if_unused)


@bindings.command("list")
@asks
def list_bindings(
    access: AdminAccess,
    exchange: Annotated[str | None, typer.Option(metavar="NAME", help="Only those from this exchange.")] = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Only those to this queue.")] = None,
) -> None:
    """List bindings.

    Example: forebay binding list --exchange shop
    """
    columns = ("exchange", "destination", "destination_type", "routing_key", "arguments")
    access.list(columns, "binding.list", exchange=exchange, queue=queue)


@bindings.command("add")
@asks
def add_binding(
    access: AdminAccess,
    exchange: Source,
    destination: Destination,
    key: Key = "",
    to_exchange: ToExchange = False,
    arguments: Arguments = None,
) -> None:
    """Bind a queue or an exchange to an exchange.

    Example: forebay binding add shop orders --key 'order.*'
    """
    said = f"{destination} is bound to exchange {exchange}"
    change_binding(access, said, "binding.add", exchange, destination, key, to_exchange, arguments)


@bindings.command("delete")
@asks
def delete_binding(
    access: AdminAccess,
    exchange: Source,
    destination: Destination,
    key: Key = "",
    to_exchange: ToExchange = False,
    arguments: Arguments = None,
) -> None:
    """Delete a binding; key and arguments must be the same as when it was made.

    Example: forebay binding delete shop orders --key 'order.*'
    """
    said = f"{destination} is not bound so to exchange {exchange}"
    change_binding(access, said, "binding.delete", exchange, destination, key, to_exchange, arguments)


def change_binding(
    access: AdminAccess,
    said: str,
    operation: str,
    exchange: str,
    destination: str,
    key: str,
    to_exchange: bool,
    arguments: str | None,
) -> None:
    access.change(
        said,
        operation,
        exchange=exchange,
        destination=destination,
        destination_type="exchange" if to_exchange else "queue",
        routing_key=key,
        arguments=json_object("--arguments", arguments),
    )
