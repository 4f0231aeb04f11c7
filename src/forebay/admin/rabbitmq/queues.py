"""/api/queues: queues with their statistics, in RabbitMQ's words."""

from __future__ import annotations

from typing import Annotated, Final

from starlette.requests import Request
from starlette.responses import Response

from forebay.admin.http.paging import Wanted, answer_list, answer_one
from forebay.admin.http.paths import QueueName, UserName, VhostName, in_path
from forebay.admin.login import Broker
from forebay.admin.openapi.shapes import ONE_QUEUE, QUEUES
from forebay.admin.rabbitmq.clients.connections import peer_fields
from forebay.admin.rabbitmq.clients.consumers import consumer_fields, single_active
from forebay.admin.rabbitmq.node.members import Nodes
from forebay.admin.rabbitmq.properties import value_shown
from forebay.admin.rights import Manager, check_vhost, seen_vhosts
from forebay.admin.samples.rates import QUEUE, RateSamples, queue_numbers
from forebay.admin.samples.samples import Windows
from forebay.admin.samples.windows import Asked, Sampled
from forebay.admin.web.fields import Provided, Query
from forebay.admin.web.router import RouteGroup
from forebay.broker.catalog.policies import Policy
from forebay.broker.vhost import Vhost
from forebay.core.units import US_PER_MS
from forebay.management.operations.queues import pin_fields, view_fields
from forebay.queue.declaration.spec import QueueSpec
from forebay.queue.queue import KIND_NAMES, QUORUM, STREAM, Queue
from forebay.queue.sizes import QueueSizes
from forebay.queue.totals import GroupTotals, oldest_us
from forebay.routing.exchange import text
from forebay.server.broker_view import BrokerView

STATS: Final = QUEUE.counters  # the numbers of a queue up to here are its `message_stats`

Placed = tuple[Vhost, Queue]
router = RouteGroup(prefix="/api", tags=["queues"])


# ---- what does not change from one request to the next


class DeclaredQueues:
    """The declarations of one vhost's queues, and their policies: found once, until either changes."""

    def __init__(self) -> None:
        self.policies: list[Policy] = []
        self.known: dict[int, tuple[QueueSpec, dict[str, object]]] = {}

    def fields(self, vhost: Vhost, queue: Queue, node: str) -> dict[str, object]:
        """A queue's, which is led by this node for as long as the process lasts."""
        policies = [*vhost.catalog.policies.by_user.values(), *vhost.catalog.policies.by_operator.values()]
        if policies != self.policies or len(self.known) > 2 * len(vhost.catalog.queues):
            self.policies = policies
            self.known = {}
        known = self.known.get(int(queue.id))
        if known is not None and known[0] is queue.spec:
            return known[1]
        fields = declared_fields(vhost, queue, node)
        self.known[int(queue.id)] = (queue.spec, fields)
        return fields


class Declared:
    """The declared queues of all vhosts."""

    def __init__(self) -> None:
        self.by_vhost: dict[int, DeclaredQueues] = {}

    def of(self, vhost: Vhost) -> DeclaredQueues:
        """The declared queues of one vhost; a number is never another vhost's."""
        return self.by_vhost.setdefault(int(vhost.number), DeclaredQueues())


async def declared_for(request: Request) -> Declared:
    """The declarations that the broker remembers of its queues."""
    declared = request.app.state.declared
    assert isinstance(declared, Declared)
    return declared


Remembered = Annotated[Declared, Provided(declared_for)]


def declared_fields(vhost: Vhost, queue: Queue, node: str) -> dict[str, object]:
    """A queue's name and kind, and what holds for it."""
    user, operator = vhost.catalog.policies.of_queue(queue, False), vhost.catalog.policies.of_queue(queue, True)
    spec = queue.spec
    return {
        "name": text(queue.name),
        **in_path(queue.name),
        "vhost": text(vhost.name),
        "type": spec.type,
        "durable": queue.log.durable or spec.durable,
        "auto_delete": spec.auto_delete,
        "exclusive": spec.exclusive,
        "arguments": value_shown(spec.arguments),
        "node": node,
        "state": "running",
        "policy": None if user is None else user.name,
        "operator_policy": None if operator is None else operator.name,
        "effective_policy_definition": effective(user, operator),
    }


def effective(user: Policy | None, operator: Policy | None) -> dict[str, object]:
    """The sum of both policies: of two numbers the lower holds, of anything else the operator's."""
    merged: dict[str, object] = {} if user is None else dict(user.definition)
    for key, value in ({} if operator is None else operator.definition).items():
        other = merged.get(key)
        is_lower = isinstance(other, int) and isinstance(value, int) and other < value
        merged[key] = other if is_lower else value
    return merged


# ---- what does


class Details:
    """The view of queues that a request wants: its samples, with or without statistics.

    stats   False: only what they were declared with
    totals  their lengths all the same
    """

    def __init__(
        self,
        app: BrokerView,
        rates: RateSamples,
        declared: Declared,
        asked: Windows,
        stats: bool = True,
        totals: bool = False,
    ) -> None:
        self.app = app
        self.rates = rates
        self.declared = declared
        self.asked = asked
        self.stats = stats
        self.totals = totals
        self.nodes = Nodes(app)

    def make(self, placed: Placed) -> dict[str, object]:
        """One queue."""
        vhost, queue = placed
        declared = self.declared.of(vhost).fields(vhost, queue, self.nodes.own)
        if self.stats:
            return self.with_stats(queue, declared)
        if not self.totals:
            return declared
        numbers = queue_numbers(queue)
        return {**declared, **dict(zip(QUEUE.names[STATS:], numbers[STATS:], strict=True))}

    def with_stats(self, queue: Queue, declared: dict[str, object]) -> dict[str, object]:
        numbers = queue_numbers(queue)
        series = self.rates.queue_series(queue)
        consumers = int(queue.consumer_count())
        fields: dict[str, object] = {
            **declared,
            **self.rates.stats(series, QUEUE, numbers, self.asked.lengths, STATS, len(numbers)),
            "consumers": consumers,
            **size_fields(queue, numbers),
            "exclusive_consumer_tag": None,
            "single_active_consumer_tag": None,
        }
        capacity = 0.0
        if consumers:
            capacity = self.note_consumers(queue, numbers, fields)
        if queue.kind != STREAM:
            totals = GroupTotals(queue)
            fields["messages_dlx"] = int(totals.dead_letters)
            fields["message_bytes_dlx"] = int(totals.dead_letter_octets)
            fields["consumer_capacity"] = fields["consumer_utilisation"] = capacity
        self.note_members(queue, bool(declared["durable"]), fields)
        if queue.kind == STREAM:
            fields["readers"] = {self.nodes.own: consumers}
        if queue.kind == QUORUM:
            fields["delivery_limit"] = int(queue.limits.delivery_limit)
        if numbers[0] or numbers[1] or numbers[6] or numbers[7]:
            fields["message_stats"] = self.rates.stats(series, QUEUE, numbers, self.asked.messages, 0, STATS)
        if queue.owner:
            self.note_owner(queue, fields)
        fields["forebay"] = own_fields(queue)
        return fields

    def note_members(self, queue: Queue, durable: bool, fields: dict[str, object]) -> None:
        """Enter the nodes that a queue is on: in a cluster every durable one, of whatever type, is on every member."""
        nodes = self.nodes
        if nodes.clustered and durable:
            fields["leader"], fields["members"], fields["online"] = nodes.own, nodes.all, nodes.running
        elif nodes.clustered or queue.kind in (QUORUM, STREAM):
            fields["leader"] = nodes.own
            fields["members"] = fields["online"] = [nodes.own]

    def note_consumers(self, queue: Queue, numbers: list[int], fields: dict[str, object]) -> float:
        """Enter who alone consumes; the part of the consumers that could take a message now, 1 where none waits."""
        able = 0
        total = 0
        for group in queue.groups.values():
            active = single_active(group)
            if active is not None:
                fields["single_active_consumer_tag"] = text(active.tag)
            for consumer in group.consumers:
                total += 1
                able += consumer.can_take()
                if consumer.exclusive:
                    fields["exclusive_consumer_tag"] = text(consumer.tag)
        return 1.0 if numbers[STATS + 1] == 0 else able / total

    def note_owner(self, queue: Queue, fields: dict[str, object]) -> None:
        owner = int(queue.owner)
        if self.app.clients.name(owner):
            fields["owner_pid_details"] = peer_fields(self.app, owner)


def size_fields(queue: Queue, numbers: list[int]) -> dict[str, object]:
    """Return what a queue's messages take, and how much of them is in memory and on the disk."""
    sizes = QueueSizes(queue)
    messages, ready, held = numbers[STATS:]
    durable = queue.log.durable
    return {
        "messages_ram": sizes.count_in_memory(messages),
        "messages_ready_ram": sizes.count_in_memory(ready),
        "messages_unacknowledged_ram": sizes.count_in_memory(held),
        "messages_persistent": messages if durable else 0,
        "message_bytes": sizes.octets,
        "message_bytes_ready": sizes.ready,
        "message_bytes_unacknowledged": sizes.unacked,
        "message_bytes_ram": sizes.in_memory,
        "message_bytes_persistent": sizes.octets if durable else 0,
    }


def own_fields(queue: Queue) -> dict[str, object]:
    """The fields that RabbitMQ's queues do not have."""
    counts = queue.counts
    return {
        "kind": KIND_NAMES[int(queue.kind)],
        "groups": len(queue.groups),
        "start": int(queue.start()),
        "end": int(queue.log.end),
        "oldest_ms": max(-1, int(oldest_us(queue)) // US_PER_MS),
        "crowded": queue.crowded,
        "refused": int(counts.refused),
        "expired": int(counts.expired),
        "dropped": int(counts.dropped),
        "rejected": int(counts.rejected),
        "limited": int(counts.limited),
        "purged": int(counts.purged),
        "replaced": int(counts.replaced),
    }


# ---- routes

WithoutStats = Annotated[bool, Query(description="Only what queues were declared with.")]
WithTotals = Annotated[bool, Query(description="With `disable_stats`: the numbers of messages all the same.")]


async def details_of(
    app: Broker,
    rates: Sampled,
    declared: Remembered,
    asked: Asked,
    disable_stats: WithoutStats = False,
    enable_queue_totals: WithTotals = False,
) -> Details:
    """The view of queues that a request wants."""
    return Details(app, rates, declared, asked, not disable_stats, enable_queue_totals)


Shown = Annotated[Details, Provided(details_of)]


def queues_in(vhosts: list[Vhost]) -> list[Placed]:
    """All queues of these vhosts, by vhost and name."""
    return [(vhost, vhost.catalog.queues[name]) for vhost in vhosts for name in sorted(vhost.catalog.queues)]


def name_of(placed: Placed) -> str:
    return text(placed[1].name)


@router.get("/queues", responses=QUEUES)
async def list_queues(app: Broker, caller: Manager, details: Shown, wanted: Wanted) -> Response:
    """The queues of all vhosts that the caller may see."""
    return await answer_list(queues_in(seen_vhosts(app, caller)), name_of, details.make, wanted)


@router.get("/queues/detailed", responses=QUEUES)
async def list_queues_detailed(app: Broker, caller: Manager, details: Shown, wanted: Wanted) -> Response:
    """The same as /api/queues, which leaves nothing out here."""
    return await list_queues(app, caller, details, wanted)


@router.get("/users/{user:name}/queues", responses=QUEUES)
async def list_queues_of_user(app: Broker, caller: Manager, user: UserName, details: Shown, wanted: Wanted) -> Response:
    """The queues that a user has declared, of the vhosts that the caller may see; of a user that is not, none."""
    own = [placed for placed in queues_in(seen_vhosts(app, caller)) if placed[1].declared_by == user]
    return await answer_list(own, name_of, details.make, wanted)


@router.get("/queues/{vhost:name}", responses=QUEUES)
async def list_queues_of_vhost(
    app: Broker, caller: Manager, vhost: VhostName, details: Shown, wanted: Wanted
) -> Response:
    """The queues of a vhost."""
    return await answer_list(queues_in([check_vhost(app, caller, vhost)]), name_of, details.make, wanted)


@router.get("/queues/{vhost:name}/{queue:octets}", responses=ONE_QUEUE)
async def show_queue(
    app: Broker, caller: Manager, vhost: VhostName, queue: QueueName, details: Shown, wanted: Wanted
) -> Response:
    """One queue, with its consumers."""
    where = check_vhost(app, caller, vhost)
    found = where.catalog.queue(queue)
    fields = details.make((where, found))
    if details.stats:
        fields["consumer_details"] = [consumer_fields(app, (where, found, each)) for each in found.consumers()]
        own = fields["forebay"]
        assert isinstance(own, dict)
        own["pinned_by"] = pin_fields(found)
        own.update(view_fields(where, found))
        fields["incoming"] = []
        fields["deliveries"] = []
    return answer_one(fields, wanted)
