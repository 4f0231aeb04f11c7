"""Makes the changes of queues, exchanges and bindings that sessions ask for, once the user's rights are checked."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.catalog.catalog import Catalog
from forebay.broker.catalog.declare_rights import check_bind_exchange, check_declare_exchange, check_declare_queue
from forebay.broker.catalog.topology_requests import (
    BindingChange,
    ExchangeDeclaration,
    ExchangeDeletion,
    QueueDeclaration,
    QueueDeletion,
    QueuePurge,
    Requester,
    TopologyOutcome,
    TopologyRequest,
)
from forebay.broker.upkeep import Upkeep
from forebay.directory.permissions import CONFIGURE, READ

SERVER_NAMED: Final = b"amq.gen"  # how names begin that the broker makes


@final
class TopologyChanges:
    """The changes of one vhost. Each raises RequestError and changes nothing if it is refused."""

    def __init__(self, catalog: Catalog, upkeep: Upkeep) -> None:
        self.catalog = catalog
        self.upkeep = upkeep

    def change(self, requester: Requester, request: TopologyRequest) -> TopologyOutcome:
        """Make one change, and return its outcome."""
        if isinstance(request, QueueDeclaration):
            return self.declare_queue(requester, request)
        if isinstance(request, QueueDeletion):
            return self.delete_queue(requester, request)
        if isinstance(request, QueuePurge):
            return self.purge_queue(requester, request)
        if isinstance(request, BindingChange):
            if request.to_queue:
                return self.change_queue_binding(requester, request)
            return self.change_exchange_binding(requester, request)
        if isinstance(request, ExchangeDeclaration):
            return self.declare_exchange(requester, request)
        assert isinstance(request, ExchangeDeletion)
        return self.delete_exchange(requester, request)

    def declare_queue(self, requester: Requester, request: QueueDeclaration) -> TopologyOutcome:
        name, arguments = request.name, request.arguments
        is_new = name not in self.catalog.queues
        check_declare_queue(self.catalog, requester.rights, name or SERVER_NAMED, arguments)
        durable, exclusive, auto_delete = request.durable, request.exclusive, request.auto_delete
        queue = self.catalog.declare_queue(
            name, durable, exclusive, auto_delete, arguments, requester.session_id, requester.user
        )
        return TopologyOutcome(is_new, queue)

    def delete_queue(self, requester: Requester, request: QueueDeletion) -> TopologyOutcome:
        name = request.name
        queue = self.catalog.queues.get(name)
        if not request.is_own:
            requester.rights.check_queue(CONFIGURE, name)
            self.check_owner(name, requester.session_id)
        count = self.upkeep.delete_queue(name, request.if_unused, request.if_empty)
        return TopologyOutcome(queue is not None, queue, count)

    def purge_queue(self, requester: Requester, request: QueuePurge) -> TopologyOutcome:
        requester.rights.check_queue(READ, request.name)
        self.catalog.check_owner(self.catalog.queue(request.name), requester.session_id)
        return TopologyOutcome(False, None, self.upkeep.purge(request.name))

    def change_queue_binding(self, requester: Requester, request: BindingChange) -> TopologyOutcome:
        name, exchange, key = request.destination, request.source, request.key
        requester.rights.check_bind(name, exchange, key, self.catalog.is_topic_exchange(exchange))
        if request.adds:
            if exchange:  # else it is refused whether or not there is the queue
                self.catalog.check_exchange(exchange)
                self.catalog.check_owner(self.catalog.queue(name), requester.session_id)
            self.catalog.bind(name, exchange, key, request.arguments)
        else:
            self.check_owner(name, requester.session_id)
            self.catalog.unbind(name, exchange, key, request.arguments)
        return TopologyOutcome(False)

    def change_exchange_binding(self, requester: Requester, request: BindingChange) -> TopologyOutcome:
        destination, source, key = request.destination, request.source, request.key
        check_bind_exchange(self.catalog, requester.rights, destination, source, key)
        if request.adds:
            self.catalog.bind_exchange(destination, source, key, request.arguments)
        else:
            self.catalog.unbind_exchange(destination, source, key, request.arguments)
        return TopologyOutcome(False)

    def declare_exchange(self, requester: Requester, request: ExchangeDeclaration) -> TopologyOutcome:
        name, arguments = request.name, request.arguments
        is_new = name not in self.catalog.bindings.exchanges
        check_declare_exchange(self.catalog, requester.rights, name, arguments)
        durable, auto_delete, internal = request.durable, request.auto_delete, request.internal
        self.catalog.declare_exchange(name, request.kind, durable, auto_delete, internal, arguments)
        return TopologyOutcome(is_new)

    def delete_exchange(self, requester: Requester, request: ExchangeDeletion) -> TopologyOutcome:
        is_there = request.name in self.catalog.bindings.exchanges
        requester.rights.check_exchange(CONFIGURE, request.name)
        self.catalog.delete_exchange(request.name, request.if_unused)
        return TopologyOutcome(is_there)

    def check_owner(self, name: bytes, session_id: i64) -> None:
        """Refuse with RequestError(LOCKED) if there is a queue of that name and it is exclusive to another session."""
        queue = self.catalog.queues.get(name)
        if queue is not None:
            self.catalog.check_owner(queue, session_id)
