"""The topology of a vhost: its exchanges, queues, bindings and groups.

Every change is a command (`directory/command.py`), and `Topology.execute` makes them all: what a restart keeps is
written down before the answer to the client leaves, and recovery applies it again in the same order. Each change drops
the remembered routes for which it matters (`bindings.routes`). `Catalog` says what clients may ask for.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.broker.catalog.commands.topology_command import TopologyCommand
from forebay.broker.catalog.policies import Policies
from forebay.broker.limits.topology_memory import TopologyMemory, queue_octets
from forebay.broker.properties import MessageProperties
from forebay.broker.shared.queue_numbers import QueueNumbers
from forebay.broker.turn import Turn
from forebay.core.errors import NOT_FOUND, PRECONDITION, REFUSED, RequestError, note_half_change
from forebay.core.options import Options
from forebay.core.stored.entry_kinds import CATALOG
from forebay.directory.permissions import allows
from forebay.directory.vhost_list import VhostEntry
from forebay.log.store import Store
from forebay.message.address import TOPIC_EXCHANGE, named_queue
from forebay.message.events import Events
from forebay.queue.counts import Counts
from forebay.queue.declaration.placement import Placement
from forebay.queue.declaration.spec import QueueSpec, locked
from forebay.queue.declaration.view_arguments import PUBLISH_TARGET, SOURCE, text_argument
from forebay.queue.properties import Looks, PropertyReader
from forebay.queue.queue import SHARE, Queue
from forebay.queue.source.source import LogSource
from forebay.queue.trace import QueueTrace, Trace
from forebay.routing.bindings import Bindings
from forebay.routing.exchange import Exchange, TopicExchange, text
from forebay.routing.flow import ExchangeCounts
from forebay.routing.kinds import make_exchange

FOREVER_MS: Final = 10**12  # a member of a shared subscription holds a message as long as its connection lasts
RESERVED: Final = b"amq."
DEFAULT_EXCHANGE: Final = b""
BUILT_IN: Final = (
    (DEFAULT_EXCHANGE, b"direct"),
    (b"amq.direct", b"direct"),
    (b"amq.fanout", b"fanout"),
    (TOPIC_EXCHANGE, b"topic"),
    (b"amq.headers", b"headers"),
    (b"amq.match", b"headers"),
)


class Topology:
    """Exchanges, queues, bindings and groups of one vhost, as commands change them.

    number   the catalog's entries in the log carry it
    sources  the vhost's logs by number, those of the broker's own included
    delivery_limit      of classic queues for which nobody sets one; -1 is no limit
    memory              what all that is declared takes
    placement           the nodes that queues are on
    queue_type_relaxed  a redeclaration may ask for another type of queue
    past_counts, past_flow  of queues and exchanges that are gone, of which there were `past_queues`
    """

    def __init__(
        self,
        entry: VhostEntry,
        store: Store,
        turn: Turn,
        queue_numbers: QueueNumbers,
        events: Events,
        filter_budget: Looks,
        options: Options,
    ) -> None:
        self.name = entry.name
        self.number: i64 = entry.number
        self.store = store
        self.queue_numbers = queue_numbers
        self.turn = turn
        self.events = events
        self.settings = entry.settings
        self.policies = Policies()
        self.visibility_ms: i64 = options.visibility_timeout_ms
        self.properties: PropertyReader = MessageProperties(filter_budget)
        self.delivery_limit: i64 = options.delivery_limit
        self.queue_type_relaxed = options.queue_type_equivalence_relaxed
        self.placement = placement_in(options)
        self.past_counts = Counts()
        self.past_queues: i64 = 0
        self.past_flow = ExchangeCounts()
        self.bindings = Bindings(entry.name)
        self.memory = TopologyMemory(
            self.bindings, options.client_topology_octets_max, options.vhost_topology_octets_max
        )
        self.sources: dict[int, LogSource] = {}
        self.queues: dict[bytes, Queue] = {}
        self.queues_by_id: dict[int, Queue] = {}
        self.queues_by_address: i64 = 0  # of them: made by the first who used their address
        self.owned: dict[int, list[Queue]] = {}  # exclusive queues by session
        self.fallback: Queue | None = None  # takes `$queue/` publishes that no other queue takes
        self.traces: list[Trace] = []
        for exchange, kind in BUILT_IN:
            self.bindings.add_exchange(make_exchange(kind, exchange, True, False, False, {}))
        topics = self.bindings.exchange(TOPIC_EXCHANGE)
        assert isinstance(topics, TopicExchange)
        self.topics = topics

    def execute(self, command: TopologyCommand[Topology]) -> None:
        """Make a change, and those that follow from it; RequestError, with nothing changed, where it cannot be."""
        try:
            command.check(self)
            payload = command.encoded()
            if command.is_durable(self):
                self.store.note(CATALOG, int(self.number), 0, payload, command.urgent)
            command.tell(self)
            for following in self.apply(command):
                self.execute(following)
        except Exception as error:
            note_half_change(error)
            raise

    def apply(self, command: TopologyCommand[Topology]) -> list[TopologyCommand[Topology]]:
        """Do what a command says, and nothing of what follows from it."""
        return command.apply(self)

    @property
    def next_queue(self) -> i64:
        """Number of the next queue."""
        return self.queue_numbers.next

    def check_exchange(self, name: bytes) -> Exchange:
        """The exchange of that name; RequestError(NOT_FOUND)."""
        return self.bindings.exchange(name)

    def abandon(self) -> None:
        """The vhost is no more: forget its logs, and let what is still published in it go nowhere."""
        for queue in self.queues.values():
            self.bindings.remove_destination(queue.id)
            self.past_counts.add(queue.counts)
            self.past_queues += 1
        for exchange in self.bindings.exchanges.values():
            self.past_flow.add(exchange.flow)
        for number in self.sources:
            self.store.drop_log(number)
        self.sources = {}
        self.queues = {}
        self.queues_by_id = {}
        self.owned = {}  # their sessions end later than this
        self.bindings.routes.clear()

    def is_topic_exchange(self, name: bytes) -> bool:
        """True if there is a topic exchange of that name: rights may depend on routing keys then."""
        exchange = self.bindings.exchanges.get(name)
        return exchange is not None and exchange.kind == b"topic"

    def queue(self, name: bytes) -> Queue:
        """The queue of that name, also as `$queue/<name>`; RequestError(NOT_FOUND)."""
        name = named_queue(name)
        queue = self.queues.get(name)
        if queue is None:
            raise RequestError(NOT_FOUND, f"no queue '{text(name)}' in vhost '{text(self.name)}'")
        return queue

    def check_owner(self, queue: Queue, session_id: i64) -> None:
        """RequestError(LOCKED) where the queue is exclusive to another session."""
        if queue.owner and queue.owner != session_id:
            raise locked(self.place_of(queue.name))

    def place_of(self, queue: bytes) -> str:
        """A queue as errors name it."""
        return f"queue '{text(queue)}' in vhost '{text(self.name)}'"

    def open_source(self, number: i64, name: bytes, durable: bool) -> LogSource:
        """Return the source of that number, made with its log where no queue stands over it yet."""
        source = self.sources.get(number)
        if source is None:
            source = LogSource(self.store.create_log(number, text(name), durable))
            self.sources[number] = source
        return source

    def make_queue(self, id: i64, name: bytes, kind: i64, spec: QueueSpec, source: LogSource) -> Queue:
        """Make a queue over a source, which keeps from now on what the queue needs."""
        if kind == SHARE:
            spec.visibility_ms = FOREVER_MS
        queue = Queue(id, name, kind, spec, source, self.properties)
        self.policies.govern_queue(queue, self.delivery_limit)
        queue.follow_retention()
        self.queues[name] = queue
        self.queues_by_id[id] = queue
        self.bindings.routes.drop_key(DEFAULT_EXCHANGE, name)
        self.memory.add(0, queue_octets(name, spec.arguments))
        self.queue_numbers.pass_by(id)
        self.turn.watch(queue)
        if self.traces:
            self.trace_queue(queue)
        return queue

    def set_fallback(self, queue: Queue | None) -> None:
        """Have a queue take the `$queue/` publishes that no other queue takes; with None they make queues."""
        if queue is not None:
            self.refuse_view(queue, "cannot take what no queue takes")
        if queue is not self.fallback:
            self.fallback = queue
            self.bindings.routes.clear()

    def trace_queue(self, queue: Queue) -> None:
        """Have the traces of this vhost that mean the queue write down what happens in it; the latest of them does."""
        found: QueueTrace | None = None
        for trace in self.traces:
            if allows(trace.pattern, text(queue.name)):
                found = QueueTrace(trace, queue.name, queue.log, self.properties)
        queue.set_trace(found)

    def govern(self, queue: Queue) -> list[tuple[int, int]]:
        """Put in force what applies to the queue now; the `earlier_ttls` by which what waits expires as before."""
        limits = queue.limits
        before_us = limits.message_ttl_us
        expires_us = limits.expires_us
        self.policies.govern_queue(queue, self.delivery_limit)
        queue.follow_retention()
        if limits.expires_us != expires_us:
            queue.unused_since_us = 0  # it has the whole of the new time, however long nobody has used it
        self.turn.watch(queue)
        if limits.message_ttl_us == before_us:
            return limits.earlier_ttls
        log = queue.log
        return limits.ttls_after(before_us, queue.start(), log.end + log.writer.count)

    def drop_queue(self, queue: Queue) -> list[bytes]:
        """Forget a queue with its bindings; the exchanges that go as they lost their last one."""
        del self.queues[queue.name]
        del self.queues_by_id[queue.id]
        self.memory.add(queue.owner, -queue_octets(queue.name, queue.spec.arguments))
        own = self.owned.get(int(queue.owner))
        if own is not None:
            own.remove(queue)
            if not own:
                del self.owned[int(queue.owner)]
        if queue.by_address:
            self.queues_by_address -= 1
        self.past_counts.add(queue.counts)
        self.past_queues += 1
        self.bindings.routes.drop_key(DEFAULT_EXCHANGE, queue.name)
        for view in self.views_of(queue):
            self.bindings.routes.drop_key(DEFAULT_EXCHANGE, view.name)
        if queue is self.fallback:
            self.set_fallback(None)
        self.turn.cancelled += queue.consumers() + queue.browsing()
        for watch in queue.watches:
            self.turn.next_turn.wake(watch)
        self.leave_source(queue)
        return self.bindings.remove_destination(queue.id)

    def views_of(self, queue: Queue) -> list[Queue]:
        """Return the views of a queue that is none itself."""
        if queue.is_view or not queue.source.is_shared:
            return []
        return [other for other in queue.source.readers if isinstance(other, Queue) and other is not queue]

    def publish_target(self, view: Queue) -> Queue:
        """Return the queue to which a publish to a view's own name goes; RequestError if it goes nowhere."""
        arguments = view.spec.arguments
        source = text_argument(arguments, SOURCE)
        name = text_argument(arguments, PUBLISH_TARGET)
        place = self.place_of(view.name)
        if not name:
            way = f"publish there, or declare it with {PUBLISH_TARGET}"
            raise RequestError(REFUSED, f"{place} is a view of stream '{source}': {way}")
        target = self.queues.get(name.encode())
        if target is None or target.source is not view.source:
            raise RequestError(NOT_FOUND, f"{place} is a view of stream '{source}', which was deleted")
        return target

    def refuse_view(self, queue: Queue, request: str) -> None:
        """Refuse with RequestError(PRECONDITION) what can be done with a queue only that is no view."""
        if queue.is_view:
            source = text_argument(queue.spec.arguments, SOURCE)
            place = self.place_of(queue.name)
            raise RequestError(PRECONDITION, f"{request}: {place} is a view of stream '{source}': name the stream")

    def leave_source(self, queue: Queue) -> None:
        """Let a queue's source keep nothing for it any more. The log goes with the last queue over it."""
        source = queue.source
        if queue.retained is not None:
            source.remove_reader(queue.retained)
        source.remove_reader(queue)
        if not source.readers:
            del self.sources[source.number]
            self.store.drop_log(source.number)


def placement_in(options: Options) -> Placement:
    """Return the nodes that queues are on, as the options name them."""
    cluster = options.cluster
    return Placement(cluster.members, True) if cluster.name else Placement()


def built_in_exchange(name: bytes) -> Exchange | None:
    """Return the exchange of that name as each vhost has it from its start, None if vhosts begin without one."""
    for exchange, kind in BUILT_IN:
        if exchange == name:
            return make_exchange(kind, name, True, False, False, {})
    return None
