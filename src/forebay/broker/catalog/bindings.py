"""Exchanges and bindings as commands of the catalog: what is noted of them in the log, and applied again from it."""

from __future__ import annotations

from forebay.broker.catalog.checked import octets, table, whole
from forebay.queue.queue import Queue
from forebay.routing.bindings import Bindings
from forebay.routing.exchange import Exchange
from forebay.routing.kinds import make_exchange


def exchange_command(exchange: Exchange) -> dict[str, object]:
    """The catalog's words for an exchange."""
    return {
        "op": "exchange",
        "name": exchange.name,
        "kind": exchange.kind,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": exchange.arguments,
    }


def apply_exchange(bindings: Bindings, fields: dict[str, object]) -> None:
    """Make the exchange that a command tells of, unless it is there."""
    name = octets(fields["name"])
    if name not in bindings.exchanges:
        bindings.add_exchange(
            make_exchange(
                octets(fields["kind"]),
                name,
                True,
                fields["auto_delete"] is True,
                fields["internal"] is True,
                table(fields["arguments"]),
            )
        )


def binding_command(
    op: str, bindings: Bindings, exchange: bytes, destination: int, routing_key: bytes, arguments: dict[str, object]
) -> dict[str, object]:
    """The catalog's words for a binding that comes or goes; `op` is "bind" or "unbind".

    A queue is told by its number, an exchange by its name: its number is not kept.
    """
    fields: dict[str, object] = {"op": op, "exchange": exchange, "key": routing_key, "arguments": arguments}
    if destination < 0:
        fields["to"] = bindings.by_number[destination].name
    else:
        fields["queue"] = destination
    return fields


def apply_binding(bindings: Bindings, queues: dict[int, Queue], fields: dict[str, object]) -> None:
    """Make or remove the binding that a command tells of, if both its ends are there."""
    exchange = octets(fields["exchange"])
    if exchange not in bindings.exchanges:
        return
    if "to" in fields:
        label = octets(fields["to"])
        if label not in bindings.exchanges:
            return
        destination = bindings.exchanges[label].number
    else:
        destination = whole(fields["queue"])
        if destination not in queues:
            return
        label = queues[destination].name
    key = octets(fields["key"])
    if fields["op"] == "bind":
        bindings.bind(exchange, destination, key, table(fields["arguments"]), label)
    else:
        bindings.unbind(exchange, destination, key, table(fields["arguments"]))
