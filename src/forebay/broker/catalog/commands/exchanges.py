"""Commands about exchanges and bindings."""

from __future__ import annotations

import msgspec

from forebay.broker.catalog.commands.topology_command import TopologyCommand
from forebay.broker.catalog.topology import Topology
from forebay.core.errors import REFUSED, RequestError
from forebay.message.events import binding_fields
from forebay.routing.bindings import Bindings
from forebay.routing.exchange import Binding, Exchange, check_arguments
from forebay.routing.kinds import check_binding, check_kind, make_exchange


class DeclareExchange(TopologyCommand[Topology], frozen=True, tag="exchange"):
    """Make an exchange."""

    name: bytes
    kind: bytes
    arguments: dict[str, object] = {}
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False

    def check(self, where: Topology) -> None:
        refuse_default(self.name)
        self.made(where.name)

    def made(self, vhost: bytes) -> Exchange:
        """The exchange; RequestError where its kind or arguments are wrong."""
        check_kind(self.kind)
        check_arguments(vhost, self.name, self.arguments)
        return make_exchange(self.kind, self.name, self.durable, self.auto_delete, self.internal, self.arguments)

    def is_durable(self, where: Topology) -> bool:
        return self.durable

    def tell(self, where: Topology) -> None:
        fields = {"exchange": self.name, "type": self.kind, "durable": self.durable}
        where.events.note("exchange.created", where.name, fields)

    def apply(self, where: Topology) -> list[TopologyCommand[Topology]]:
        exchange = self.made(where.name)
        where.bindings.add_exchange(exchange)
        where.policies.govern_exchange(exchange)
        return []


class RemoveExchange(TopologyCommand[Topology], frozen=True, tag="exchange-delete"):
    """Take an exchange away, and all bindings from it and to it."""

    name: bytes

    def check(self, where: Topology) -> None:
        refuse_default(self.name)

    def is_durable(self, where: Topology) -> bool:
        return where.bindings.exchanges[self.name].durable

    def tell(self, where: Topology) -> None:
        where.events.note("exchange.deleted", where.name, {"exchange": self.name})

    def apply(self, where: Topology) -> list[TopologyCommand[Topology]]:
        where.past_flow.add(where.bindings.exchanges[self.name].flow)
        return removals(where.bindings.remove_exchange(self.name))


class BindingEnds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A binding from an exchange to a queue, or to another exchange.

    to  name of the queue, or of the exchange
    """

    exchange: bytes
    to: bytes
    key: bytes = b""
    arguments: dict[str, object] = {}
    to_exchange: bool = False

    def destination(self, where: Topology) -> int:
        """The number that `to` has among the bindings; 0 where there is none such."""
        if self.to_exchange:
            exchange = where.bindings.exchanges.get(self.to)
            return 0 if exchange is None else exchange.number
        queue = where.queues.get(self.to)
        return 0 if queue is None else int(queue.id)

    def is_there(self, where: Topology) -> bool:
        """True if there is the binding."""
        source = where.bindings.exchanges.get(self.exchange)
        return source is not None and source.has(self.destination(where), self.key, self.arguments)

    def is_durable(self, where: Topology) -> bool:
        """True if a restart keeps both its ends."""
        exchanges = where.bindings.exchanges
        end = exchanges[self.to].durable if self.to_exchange else where.queues[self.to].log.durable
        return end and exchanges[self.exchange].durable

    def fields(self) -> dict[str, object]:
        """The fields of the event about it."""
        return binding_fields(self.exchange, self.to, "exchange" if self.to_exchange else "queue", self.key)

    def check_names(self) -> None:
        """RequestError where an end is the default exchange."""
        refuse_default(self.exchange)
        if self.to_exchange:
            refuse_default(self.to)


class Bind(TopologyCommand[Topology], frozen=True, tag="bind"):
    """Make a binding."""

    binding: BindingEnds

    def check(self, where: Topology) -> None:
        ends = self.binding
        ends.check_names()
        source = where.check_exchange(ends.exchange)
        check_binding(where.name, source, ends.arguments)
        if ends.to_exchange:
            where.check_exchange(ends.to)
        else:
            where.refuse_view(where.queue(ends.to), "cannot bind")
        source.check_bind(ends.key, ends.arguments)

    def is_durable(self, where: Topology) -> bool:
        return self.binding.is_durable(where)

    def tell(self, where: Topology) -> None:
        where.events.note("binding.created", where.name, self.binding.fields())

    def apply(self, where: Topology) -> list[TopologyCommand[Topology]]:
        ends = self.binding
        where.bindings.bind(ends.exchange, ends.destination(where), ends.key, ends.arguments, ends.to)
        return []


class Unbind(TopologyCommand[Topology], frozen=True, tag="unbind"):
    """Take a binding away."""

    binding: BindingEnds

    def check(self, where: Topology) -> None:
        self.binding.check_names()

    def is_durable(self, where: Topology) -> bool:
        return self.binding.is_durable(where)

    def tell(self, where: Topology) -> None:
        where.events.note("binding.deleted", where.name, self.binding.fields())

    def apply(self, where: Topology) -> list[TopologyCommand[Topology]]:
        ends = self.binding
        return removals(where.bindings.unbind(ends.exchange, ends.destination(where), ends.key, ends.arguments))


def exchange_as_declared(exchange: Exchange) -> DeclareExchange:
    """The command that makes a durable exchange as it is."""
    return DeclareExchange(
        exchange.name,
        exchange.kind,
        exchange.arguments,
        auto_delete=exchange.auto_delete,
        internal=exchange.internal,
    )


def binding_as_made(bindings: Bindings, binding: Binding) -> Bind:
    """The command that makes a binding as it is."""
    to_exchange = binding.destination < 0
    to = bindings.by_number[binding.destination].name if to_exchange else binding.label
    return Bind(BindingEnds(binding.exchange, to, binding.routing_key, binding.arguments, to_exchange))


def removals(exchanges: list[bytes]) -> list[TopologyCommand[Topology]]:
    """The commands by which exchanges go that lost their last binding."""
    return [RemoveExchange(name) for name in exchanges]


def refuse_default(exchange: bytes) -> None:
    """RequestError where this names the default exchange: it is as it is."""
    if not exchange:
        raise RequestError(REFUSED, "operation not permitted on the default exchange")
