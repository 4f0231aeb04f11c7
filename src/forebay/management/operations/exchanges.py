"""Operations on exchanges and bindings."""

from __future__ import annotations

from functools import partial

from forebay.broker.vhost import Vhost
from forebay.management.arguments import octets
from forebay.management.control import Control, operation, page
from forebay.management.needs import BIND, DECLARE_EXCHANGE, DELETE_EXCHANGE, ENTER, is_to_exchange
from forebay.management.requests.exchanges import (
    BindingAddRequest,
    BindingDeleteRequest,
    BindingFields,
    BindingListRequest,
    ExchangeDeclareRequest,
    ExchangeDeleteRequest,
    ExchangeFields,
    ExchangeListRequest,
)
from forebay.management.requests.fields import EmptyAnswer, ListPage
from forebay.message.shown import plain
from forebay.routing.exchange import Binding, Exchange, text


@operation("exchange.list", need=ENTER)
def list_exchanges(control: Control, given: ExchangeListRequest) -> ListPage[ExchangeFields]:
    """List the exchanges of a vhost by name."""
    exchanges = control.vhost(given).catalog.bindings.exchanges
    return page(given, [partial(exchange_fields, exchanges[name]) for name in sorted(exchanges)])


@operation("exchange.declare", changes=True, need=DECLARE_EXCHANGE)
def declare_exchange(control: Control, given: ExchangeDeclareRequest) -> ExchangeFields:
    """Declare an exchange, or check that it exists with the same properties."""
    vhost = control.vhost(given)
    name = octets(given.exchange)
    vhost.catalog.declare_exchange(
        name,
        octets(given.type),
        given.durable,
        given.auto_delete,
        given.internal,
        given.arguments or {},
    )
    return exchange_fields(vhost.catalog.bindings.exchanges[name])


@operation("exchange.delete", changes=True, need=DELETE_EXCHANGE)
def delete_exchange(control: Control, given: ExchangeDeleteRequest) -> EmptyAnswer:
    """Delete an exchange with its bindings."""
    vhost = control.vhost(given)
    name = octets(given.exchange)
    vhost.catalog.check_exchange(name)
    vhost.catalog.delete_exchange(name, given.if_unused)
    return {}


@operation("binding.list", need=ENTER)
def list_bindings(control: Control, given: BindingListRequest) -> ListPage[BindingFields]:
    """List the bindings of a vhost."""
    vhost = control.vhost(given)
    if given.exchange is not None:
        bindings = vhost.catalog.bindings.list_exchange(octets(given.exchange))
    else:
        bindings = vhost.catalog.bindings.list_all()
    if given.queue is not None:
        id = int(vhost.catalog.queue(octets(given.queue)).id)
        bindings = [binding for binding in bindings if binding.destination == id]
    return page(given, [partial(binding_fields, vhost, binding) for binding in bindings])


@operation("binding.add", changes=True, need=BIND)
def add_binding(control: Control, given: BindingAddRequest) -> EmptyAnswer:
    """Bind a queue or an exchange to an exchange."""
    vhost = control.vhost(given)
    source, destination, key, arguments = binding_named(given)
    if is_to_exchange(given.destination_type):
        vhost.catalog.bind_exchange(destination, source, key, arguments)
    else:
        vhost.catalog.bind(destination, source, key, arguments)
    return {}


@operation("binding.delete", changes=True, need=BIND)
def delete_binding(control: Control, given: BindingDeleteRequest) -> EmptyAnswer:
    """Delete a binding; it is no error if there is none."""
    vhost = control.vhost(given)
    source, destination, key, arguments = binding_named(given)
    vhost.catalog.check_exchange(source)
    if is_to_exchange(given.destination_type):
        vhost.catalog.unbind_exchange(destination, source, key, arguments)
    else:
        vhost.catalog.unbind(vhost.catalog.queue(destination).name, source, key, arguments)
    return {}


def binding_named(given: BindingAddRequest | BindingDeleteRequest) -> tuple[bytes, bytes, bytes, dict[str, object]]:
    return octets(given.exchange), octets(given.destination), octets(given.routing_key), given.arguments or {}


def exchange_fields(exchange: Exchange) -> ExchangeFields:
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


def binding_fields(vhost: Vhost, binding: Binding) -> BindingFields:
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
