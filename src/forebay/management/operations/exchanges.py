"""Operations on exchanges and bindings."""

from __future__ import annotations

from functools import partial

from forebay.broker.vhost import Vhost
from forebay.management.arguments import Arguments
from forebay.management.control import Control, operation, page
from forebay.management.needs import BIND, DECLARE_EXCHANGE, DELETE_EXCHANGE, ENTER, is_to_exchange
from forebay.message.shown import plain
from forebay.routing.exchange import Binding, Exchange, text


@operation("exchange.list", need=ENTER)
def list_exchanges(control: Control, given: Arguments) -> dict[str, object]:
    """List the exchanges of a vhost by name."""
    exchanges = control.vhost(given).catalog.bindings.exchanges
    return page(given, [partial(exchange_fields, exchanges[name]) for name in sorted(exchanges)])


@operation("exchange.declare", changes=True, need=DECLARE_EXCHANGE)
def declare_exchange(control: Control, given: Arguments) -> dict[str, object]:
    """Declare an exchange, or check that it exists with the same properties."""
    vhost = control.vhost(given)
    name = given.octets("exchange")
    vhost.catalog.declare_exchange(
        name,
        given.octets("type"),
        given.flag("durable"),
        given.flag("auto_delete"),
        given.flag("internal"),
        given.table("arguments"),
    )
    return exchange_fields(vhost.catalog.bindings.exchanges[name])


@operation("exchange.delete", changes=True, need=DELETE_EXCHANGE)
def delete_exchange(control: Control, given: Arguments) -> dict[str, object]:
    """Delete an exchange with its bindings."""
    vhost = control.vhost(given)
    name = given.octets("exchange")
    vhost.catalog.check_exchange(name)
    vhost.catalog.delete_exchange(name, given.flag("if_unused"))
    return {}


@operation("binding.list", need=ENTER)
def list_bindings(control: Control, given: Arguments) -> dict[str, object]:
    """List the bindings of a vhost."""
    vhost = control.vhost(given)
    if "exchange" in given:
        bindings = vhost.catalog.bindings.list_exchange(given.octets("exchange"))
    else:
        bindings = vhost.catalog.bindings.list_all()
    if "queue" in given:
        id = int(vhost.catalog.queue(given.octets("queue")).id)
        bindings = [binding for binding in bindings if binding.destination == id]
    return page(given, [partial(binding_fields, vhost, binding) for binding in bindings])


@operation("binding.add", changes=True, need=BIND)
def add_binding(control: Control, given: Arguments) -> dict[str, object]:
    """Bind a queue or an exchange to an exchange."""
    vhost = control.vhost(given)
    source, destination, key, arguments = binding_named(given)
    if is_to_exchange(given):
        vhost.catalog.bind_exchange(destination, source, key, arguments)
    else:
        vhost.catalog.bind(destination, source, key, arguments)
    return {}


@operation("binding.delete", changes=True, need=BIND)
def delete_binding(control: Control, given: Arguments) -> dict[str, object]:
    """Delete a binding; it is no error if there is none."""
    vhost = control.vhost(given)
    source, destination, key, arguments = binding_named(given)
    vhost.catalog.check_exchange(source)
    if is_to_exchange(given):
        vhost.catalog.unbind_exchange(destination, source, key, arguments)
    else:
        vhost.catalog.unbind(vhost.catalog.queue(destination).name, source, key, arguments)
    return {}


def binding_named(given: Arguments) -> tuple[bytes, bytes, bytes, dict[str, object]]:
    return given.octets("exchange"), given.octets("destination"), given.octets("routing_key"), given.table("arguments")


def exchange_fields(exchange: Exchange) -> dict[str, object]:
    return {
        "exchange": text(exchange.name),
        "type": text(exchange.kind),
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "alternate": None if exchange.alternate is None else text(exchange.alternate),
        "arguments": plain(exchange.arguments),
        "bindings": int(exchange.binding_count),
    }


def binding_fields(vhost: Vhost, binding: Binding) -> dict[str, object]:
    to_exchange = binding.destination < 0
    if to_exchange:
        name = vhost.catalog.bindings.by_number[binding.destination].name
    else:
        name = vhost.catalog.queues_by_id[binding.destination].name
    return {
        "exchange": text(binding.exchange),
        "destination": text(name),
        "destination_type": "exchange" if to_exchange else "queue",
        "routing_key": text(binding.routing_key),
        "arguments": plain(binding.arguments),
    }
