"""Requests of readers of blocks beside records: which queues there are, how far they go, and that records stay.

Waiting for more costs the broker nothing while there is nothing: the queue knows who waits (queue/watch.py), and the
answer is tried again only when that one is woken.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.catalog.owned_names import owned_name
from forebay.broker.contract import VhostContract
from forebay.core.errors import INVALID, PRECONDITION, RequestError
from forebay.core.options import Options
from forebay.core.units import US_PER_MS
from forebay.directory.permissions import READ, Rights
from forebay.filter.pattern import Pattern
from forebay.filter.program import BadPattern
from forebay.log.store import Job
from forebay.queue.leases.lease import Lease
from forebay.queue.leases.page import LEASED
from forebay.queue.queue import KIND_NAMES, Queue
from forebay.queue.watch import Watch
from forebay.queue.work.attempts import FAILURE
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text
from forebay.wire.blocks.frames import DELIVERIES, ENDS, HOLD, QUEUES, RELEASE, Request

TTL_MS_MIN: Final = 1000
NAMES_A_PAGE: Final = 1000  # that one answer looks at
DELIVERIES_OFFSETS: Final = 50_000  # that one answer tells of
PATTERN_WORK_MAX: Final = 200_000  # points of a pattern that one answer looks at


@final
class ReaderRequests:
    """The requests of one connection that are not for records.

    changed  a hold was made since `take_changed` that is to be on the disk before the answer leaves
    watch    what it waits for; `watched` are the queues that know
    job      housekeeping that may not know of the hold that `held` asks for
    pattern  the last one that names of queues were held against, and its source
    """

    def __init__(self, session_id: i64, options: Options) -> None:
        self.session_id: i64 = session_id
        self.ttl_ms_max = options.hold_ttl_max_ms
        self.changed = False
        self.watch: Watch | None = None
        self.watched: list[Queue] = []
        self.job: Job | None = None
        self.held: Request | None = None
        self.pattern: Pattern | None = None
        self.pattern_source = ""

    def answer(self, vhost: VhostContract, rights: Rights, request: Request) -> dict[str, object] | None:
        """The reply to QUEUES, ENDS, HOLD, RELEASE or DELIVERIES; None while it has to wait: ask again later."""
        if request.op == QUEUES:
            return self.list_queues(vhost, rights, request)
        if request.op == ENDS:
            return self.ends(vhost, rights, request)
        queue = self.queue(vhost, rights, request.queue)
        if request.op == HOLD:
            return self.hold(vhost, rights, queue, request)
        if request.op == DELIVERIES:
            return deliveries(queue, request.first, min(i64(request.end), queue.log.readable_end()))
        assert request.op == RELEASE, request.op
        vhost.block_reads.release(queue, pin_name(rights, request))
        return {}

    def queue(self, vhost: VhostContract, rights: Rights, name: str) -> Queue:
        """The queue of that name; RequestError where there is none, or not for this user or connection."""
        octets = name.encode()
        rights.check_queue(READ, octets)
        return readable(vhost.queue(octets, self.session_id))

    # ---- which queues there are

    def list_queues(self, vhost: VhostContract, rights: Rights, request: Request) -> dict[str, object]:
        pattern = self.name_pattern(request.pattern) if request.pattern else None
        found: list[object] = []
        first = request.from_name.encode()
        looked: i64 = 0
        work: i64 = 0
        for name in sorted(vhost.block_reads.queue_names()):
            if name < first:
                continue
            if looked == NAMES_A_PAGE or work > PATTERN_WORK_MAX:
                return {"queues": found, "next": text(name)}
            looked += 1
            queue = vhost.find_queue(name)
            assert queue is not None
            if (
                queue.intake is not None
                or (queue.owner and queue.owner != self.session_id)
                or not rights.covers(READ, name)
            ):
                continue
            if pattern is not None:
                matches = pattern.find(text(name))
                work += pattern.work
                if matches is None:
                    raise RequestError(INVALID, f"{QUEUES}: pattern takes too long with the name '{text(name)}'")
                if not matches:
                    continue
            found.append(description(queue))
        return {"queues": found, "next": None}

    def name_pattern(self, source: str) -> Pattern:
        """The pattern that matches whole names."""
        known = self.pattern
        if known is not None and source == self.pattern_source:
            return known
        flag = "(?i)" if source.startswith("(?i)") else ""
        try:
            Pattern(source)  # says where the mistake is in what was given
            pattern = Pattern(f"{flag}^(?:{source[len(flag) :]})$")
        except BadPattern as error:
            raise RequestError(INVALID, f"{QUEUES}: pattern: {error}") from None
        self.pattern = pattern
        self.pattern_source = source
        return pattern

    # ---- how far they go

    def ends(self, vhost: VhostContract, rights: Rights, request: Request) -> dict[str, object] | None:
        watch = self.watch
        if watch is not None and not watch.woken:
            return None
        is_over = request.wait_ms == 0 or (watch is not None and watch.until_us <= vhost.now_us())
        found: dict[str, object] = {}
        queues: list[Queue] = []
        try:
            for name, after in request.after.items():
                queue = self.queue(vhost, rights, name)
                queues.append(queue)
                found[name] = bounds(queue)
                is_over = is_over or queue.log.readable_end() > after
        except RequestError:
            self.stop_waiting(vhost)
            raise
        if is_over:
            self.stop_waiting(vhost)
            return {"queues": found}
        if watch is not None:
            watch.woken = False
            return None
        self.wait(vhost, request, queues)
        return None

    def wait(self, vhost: VhostContract, request: Request, queues: list[Queue]) -> None:
        watch = Watch(self.session_id, vhost.now_us() + i64(request.wait_ms) * US_PER_MS)
        for queue, after in zip(queues, request.after.values(), strict=True):
            known = watch.after.get(int(queue.id))
            if known is None:
                queue.watches.append(watch)
                self.watched.append(queue)
            watch.after[int(queue.id)] = after if known is None else min(known, after)
        vhost.block_reads.watch(watch)
        self.watch = watch

    def stop_waiting(self, vhost: VhostContract) -> None:
        """Wait for nothing any more, if it did."""
        watch = self.watch
        if watch is None:
            return
        for queue in self.watched:
            queue.watches.remove(watch)
        vhost.block_reads.unwatch(watch)
        self.watched = []
        self.watch = None

    # ---- that records stay

    def take_changed(self) -> bool:
        """Return whether a hold was made since the last call that is to be on the disk before the answer leaves."""
        changed, self.changed = self.changed, False
        return changed

    def hold(self, vhost: VhostContract, rights: Rights, queue: Queue, request: Request) -> dict[str, object] | None:
        if request.ttl_ms < TTL_MS_MIN or request.ttl_ms > self.ttl_ms_max:
            raise RequestError(
                INVALID,
                f"{HOLD}: ttl_ms is {request.ttl_ms}, not a number from {TTL_MS_MIN} to {self.ttl_ms_max}, which is "
                "the option hold_ttl_max_ms",
            )
        name = pin_name(rights, request)
        if self.held is not request:
            is_known = queue.pins.keeps(name, request.offset)
            granted = vhost.block_reads.hold(queue, name, request.offset, i64(request.ttl_ms) * US_PER_MS)
            request.offset = int(granted)
            self.held = request
            self.job = None
            if not is_known:
                # Records of a file being rewritten that were settled before still go.
                self.job = vhost.block_reads.rewriting(int(queue.source.number))
                self.changed = queue.log.durable
        if self.job is not None and vhost.block_reads.is_rewriting(self.job):
            return None
        return {"offset": request.offset, "start": int(queue.kept())}


def pin_name(rights: Rights, request: Request) -> bytes:
    """Return the name of a reader's retention pin, which no other user moves or ends."""
    return owned_name(rights.user, "group", request.group).encode()


def readable(queue: Queue) -> Queue:
    """Return a queue whose blocks may be read; RequestError for a view that has only some of their records."""
    if queue.intake is not None:
        name = text(queue.name)
        raise RequestError(PRECONDITION, f"queue '{name}' is a view with a filter: read its stream, with that filter")
    return queue


def description(queue: Queue) -> dict[str, object]:
    """The fields of a queue that a reader must know."""
    found: dict[str, object] = {"queue": text(queue.name), "kind": KIND_NAMES[int(queue.kind)]}
    found.update(bounds(queue))
    return found


def bounds(queue: Queue) -> dict[str, object]:
    """The records of a queue that there are to read."""
    log = queue.log
    end = log.readable_end()
    return {
        "id": int(log.queue),
        "start": int(min(queue.kept(), end)),
        "end": int(end),
        "octets": int(log.octets),
    }


def deliveries(queue: Queue, first: i64, end: i64) -> dict[str, object]:
    """The times that the work group without a name has delivered records of [first, end) that are not settled."""
    first = max(first, queue.start())
    stop = max(first, min(end, first + DELIVERIES_OFFSETS))
    group = queue.find_group(b"")
    counts: dict[int, int] = {}
    if isinstance(group, WorkGroup):
        attempts = group.attempts.by_offset
        if attempts:
            for offset in range(first, stop):
                tries = attempts.get(int(offset))
                if tries is not None:
                    counts[int(offset)] = tries & (FAILURE - 1)
        for lease in group.leases.in_order:
            count_lease(lease, first, stop, counts)
        for _, _, other in group.leases.others:
            count_lease(other, first, stop, counts)
    found: list[object] = [[offset, counts[offset]] for offset in sorted(counts)]
    return {"deliveries": found, "next": int(stop)}


def count_lease(lease: Lease, first: i64, end: i64, counts: dict[int, int]) -> None:
    """Add the records of [first, end) that a lease holds now."""
    page = lease.page
    if lease.left == 0 or page is None:
        return
    for offset in range(max(first, lease.first), min(end, lease.first + lease.count)):
        if page.states[offset - page.base] == LEASED and (lease.holes is None or int(offset) not in lease.holes):
            counts[int(offset)] = int(lease.deliveries)
