"""Dead letters: what dies in a queue goes on to the queue's dead-letter exchange.

A record dies because somebody rejected it, because it expired, because the queue had one too many, or because it
failed too often. Its group lists it in `dead_letters`; here it is published again. An annotation says where and why it
died (message/deaths.py), by which its consumers see RabbitMQ's `x-death` and:

    dlq-id                    `<queue number>-<group number>-<offset>`: the same however often the move is tried
    dlq-queue, dlq-offset     the queue, and its offset there
    dlq-group                 the group that it died in, unless it is the nameless one
    dlq-reason                why; what a consumer over MQTT gave as the reason
    dlq-deliveries            how often it had been delivered
    dlq-time-ms               when it moved, in milliseconds since 1970

What is published and what is settled by it are on disk together or not at all. Where a queue has no dead-letter
exchange but `x-dlq`, what dies moves to the queue `$dlq/<queue>`: what a consumer over MQTT rejects as it is. Where it
has neither, what dies is gone.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.publish.mover import Mover
from forebay.broker.publish.publishing import Publishing, RefusedMessage
from forebay.broker.publish.route import Route
from forebay.core.errors import INVALID, PRECONDITION, REFUSED, DamagedBlock, RequestError, note_half_change
from forebay.core.message import REJECTED, UNROUTABLE
from forebay.message.address import DEAD_LETTER_PREFIX, QUEUE_PREFIX
from forebay.message.annotations import MODIFIED, with_annotation
from forebay.message.deaths import REJECTED as DEATH_REJECTED
from forebay.message.deaths import Death, DeathMarks, Deaths, deaths_of, with_deaths
from forebay.message.formats.conversion import for_exchange
from forebay.message.formats.table import format_of
from forebay.message.record import StoredRecord, record_at
from forebay.message.rendered import rendered
from forebay.queue.counts import Counts, stated_reason
from forebay.queue.declaration.limits import REJECT_PUBLISH, Limits
from forebay.queue.group import Group
from forebay.queue.leases.lease import Lease
from forebay.queue.queue import EPHEMERAL, Queue
from forebay.queue.work.attempts import FAILURE
from forebay.queue.work.dead_letters import DeadLetterRun
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text
from forebay.wire.amqp091.properties import cut_key

REASON_OCTETS_MAX: Final = 255

MOVED_AT_ONCE: Final = 2_000  # records of one group that a turn looks at
OCTETS_AT_ONCE: Final = 8 << 20  # of the bodies that a turn moves
CHAIN_MAX: Final = 16  # refusals that follow from one another: queues that overflow into each other end here
RETRY_US: Final = 1_000_000  # after which what has to stay is tried again
RETRIED_EACH_S: Final = 10_000  # records of one group; where more stay, they are tried less often


@final
class DeadLetters:
    """The dead letters of one vhost.

    moved, dropped  records so far; nobody has the latter any more
    moved_for       of the moved, how many had died of which cause
    """

    def __init__(self, mover: Mover) -> None:
        self.mover = mover
        self.publishing = mover.publishing
        self.moved: i64 = 0
        self.dropped: i64 = 0
        self.moved_for = Counts()
        self.retry_at: dict[tuple[int, int], int] = {}  # queue and group -> when to try again what stayed
        # Tried in vain so far, where a turn's share was not all.
        self.staying: dict[tuple[int, int], list[DeadLetterRun]] = {}
        self.awaited: dict[int, set[int]] = {}  # queue that was full -> queues whose dead letters wait for room in it
        self.by_content = False  # the last route depended on more than the address

    # ---- what groups list as dead letters

    def move(self, queue: Queue, group: WorkGroup, now_us: i64) -> bool:
        """Move on the dead letters of a group; True if there is more than one turn's share."""
        place = (int(queue.id), int(group.id))
        if queue.limits.dead_letter_exchange is None:
            group.dead_letters.runs = self.staying.pop(place, []) + group.dead_letters.runs
            self.drop(group)
            return False
        retry_at = self.retry_at.get(place, 0)
        if now_us < retry_at:
            return False
        listed = group.dead_letters.runs
        batch = DeadLetterBatch(self, queue, group, self.staying.pop(place, []))
        at = 0
        left: DeadLetterRun | None = None
        while at < len(listed) and left is None:
            left = batch.move(listed[at])
            at += 1
        if left is not None:
            self.staying[place] = batch.staying
            group.dead_letters.runs = [left, *listed[at:]]
            return True
        # Everything was tried, and what stays is in the order in which it died.
        group.dead_letters.runs = batch.staying
        if batch.staying:
            # The longer they are, the longer it takes to try them all.
            self.retry_at[place] = now_us + RETRY_US * (1 + group.dead_letters.count // RETRIED_EACH_S)
        else:
            self.retry_at.pop(place, None)
        return False

    def drop(self, group: WorkGroup) -> None:
        listed = group.dead_letters.runs
        group.dead_letters.runs = []
        for run in listed:
            self.dropped += run.count
            group.settle_dead_letters(run.first, run.count)

    def retry(self, now_us: i64) -> None:
        """About once a second: have the turn look at queues with dead letters that stayed."""
        for place in [*self.retry_at, *self.staying]:
            queue = self.publishing.catalog.queues_by_id.get(place[0])
            if queue is None or place[1] not in queue.groups:
                self.retry_at.pop(place, None)
                self.staying.pop(place, None)
            elif self.retry_at.get(place, now_us) <= now_us:
                self.publishing.turn.mark(queue)
        for number in list(self.awaited):
            if number not in self.publishing.catalog.queues_by_id:
                del self.awaited[number]

    def made_room(self, queue: Queue) -> None:
        """Move dead letters that wait for room in a queue in which something was settled."""
        if int(queue.id) not in self.awaited or queue.is_full():
            return
        sources = self.awaited.pop(int(queue.id))
        for place in self.retry_at:
            if place[0] in sources:
                self.retry_at[place] = 0
        for number in sources:
            source = self.publishing.catalog.queues_by_id.get(number)
            if source is not None:
                self.publishing.turn.mark(source)

    # ---- one message

    def forward(self, queue: Queue, letter: StoredRecord, reason: bytes, marks: DeathMarks) -> str:
        """Publish a message that died in a queue to its dead-letter exchange.

        Return why it has to stay where it is and be tried again; an empty text where it is moved, or nobody is to have
        it: there is no such exchange or queue, or it came round in a circle.
        """
        limits = queue.limits
        exchange = limits.dead_letter_exchange
        assert exchange is not None
        format = format_of(letter.format)
        keys = [letter.routing_key, *format.further_keys(letter.properties)]
        death = Death(
            queue.name,
            reason,
            self.publishing.turn.now_us // 1_000_000,
            letter.exchange,
            keys,
            format.expiration_digits(letter.properties),
        )
        deaths = deaths_of(letter.annotations)
        deaths.add(death)
        deaths.marks = marks
        annotations = with_deaths(letter.annotations, deaths)
        key = limits.dead_letter_key
        properties = format.without_expiration(letter.properties)
        if key is not None:
            properties = format.without_further_keys(properties)
        if not exchange and key is None:
            keys = [each for each in keys if is_there(self.publishing, each)]
            if not keys:
                return self.unrouted(limits)
        route = self.route(
            queue, exchange, keys if key is None else [cut_key(key)], letter.format, properties, annotations
        )
        if route is None:
            return self.unrouted(limits)
        if reason != DEATH_REJECTED and comes_round(route, deaths):
            straight = Route(route.exchange, route.routing_key, straight_on(route, deaths), route.audience)
            straight.copies = route.copies
            straight.flow = route.flow
            route = straight
            if not route.queues and route.audience is None and not route.copies:
                self.dropped += 1
                return ""
        record = StoredRecord(letter.format, route.exchange, route.routing_key, properties, letter.body, annotations)
        outcome = self.mover.send(route, record, keeps(limits), True, queue)
        if outcome.status == UNROUTABLE:
            return self.unrouted(limits)
        if outcome.status != REJECTED:
            self.note_moved(reason)
            return ""
        if not outcome.queues:
            return outcome.reason  # the disk is full, which is no reason to lose what is on it
        if keeps(limits):
            for other in outcome.queues:
                self.awaited.setdefault(int(other.id), set()).add(int(queue.id))
            return outcome.reason
        self.dropped += 1
        return ""

    def note_moved(self, reason: bytes) -> None:
        self.moved += 1
        self.moved_for.die(reason.decode(), 1)

    def unrouted(self, limits: Limits) -> str:
        """Drop a dead letter that leads nowhere, unless its queue keeps it. Return why it stays, as `forward`."""
        if keeps(limits):
            return "it leads to no queue"
        self.dropped += 1
        return ""

    def forward_refused(self) -> None:
        """Send what full queues did not take to their dead-letter exchanges: `reject-publish-dlx`."""
        for _ in range(CHAIN_MAX):
            refused = self.publishing.take_refused()
            if not refused:
                return
            for each in refused:
                self.forward_one(each)
        self.publishing.take_refused()

    def forward_one(self, refused: RefusedMessage) -> None:
        if refused.queue.limits.dead_letter_exchange is None:
            return
        marks = DeathMarks(b"", refused.queue.name, -1, b"", b"maxlen", 0, self.publishing.turn.now_us // 1000)
        self.forward(refused.queue, for_exchange(refused.record), b"maxlen", marks)

    # ---- where to

    def route(
        self, source: Queue, exchange: bytes, keys: list[bytes], format: i64, properties: bytes, annotations: bytes
    ) -> Route | None:
        """The route of these keys; None where there is no such exchange or address.

        Not as a client's publish: an internal exchange is as good as any other, and `$dlq/<queue>` and
        `$queue/<queue>` are made for nobody whom one could ask. Who declared the key had the right to make them.
        """
        router = self.publishing.router
        address = (exchange, tuple(keys))
        route = router.remembered(address)
        self.by_content = False
        if route is not None:
            return route
        if not exchange:
            try:
                for key in keys:
                    if key.startswith(DEAD_LETTER_PREFIX):
                        make_dead_letter_queue(self.publishing, key, source)
                route = router.direct_route(keys)
            except RequestError:
                return None  # an address that nothing can have
        else:
            where = self.publishing.catalog.bindings.exchanges.get(exchange)
            if where is None:
                return None
            way = router.follow(where, keys, None, False)
            is_open = way.is_open
            if is_open:
                content = format_of(format).decode(rendered(format, properties, annotations))
                way = router.follow(where, keys, content, False)
            route = router.route_of(way, exchange, keys)
            route.flow = where.flow
            route.places = router.places(way, keys)
            if is_open:
                self.by_content = True
                return route
        router.remember(address, route, None)
        return route

    # ---- over MQTT

    def reject(self, lease: Lease, offset: i64, reason: bytes, headers: list[tuple[str, object]] | None = None) -> None:
        """Move a record that the lease holds to where the dead letters of its queue go; both are on disk together.

        reason   empty for the usual one
        headers  that the dead letter has beside its own, in place of those of the same names
        raises  RequestError, and the record stays held: INVALID for the reason, REFUSED where there is no room for it,
                or what `dead_letter_queue` raises
        """
        try:
            queue = self.publishing.catalog.queues_by_id.get(lease.consumer.queue)
            group = None if queue is None else queue.groups.get(lease.consumer.group)
            if queue is None or group is None:
                return
            if len(reason) > REASON_OCTETS_MAX:
                raise RequestError(INVALID, f"reason: {len(reason)} octets, at most {REASON_OCTETS_MAX}")
            block = queue.log.block(offset)
            assert block is not None and block.base <= offset, "a record that is held is in the log"
            index = offset - block.base
            marks = marks_for(self.publishing, queue, group, offset, lease.deliveries, reason or DEATH_REJECTED)
            record = record_at(block, index)
            if headers:
                dropped = [name.encode() for name, _ in headers]
                record.properties = format_of(record.format).edit(record.properties, dropped, headers)
            if queue.limits.dlq:
                target = dead_letter_queue(self.publishing, DEAD_LETTER_PREFIX + queue.name)
                deaths = deaths_of(record.annotations)
                deaths.marks = marks
                record.annotations = with_deaths(record.annotations, deaths)
                self.mover.hand_over(Route(record.exchange, record.routing_key, [target], None), record)
                self.note_moved(DEATH_REJECTED)
            elif queue.limits.dead_letter_exchange is not None:
                obstacle = self.forward(queue, for_exchange(record), DEATH_REJECTED, marks)
                if obstacle:
                    raise RequestError(REFUSED, f"dead-letter exchange: {obstacle}")
            self.publishing.turn.mark(queue)
            if isinstance(group, WorkGroup):
                group.discard(lease, offset, 1)
            else:
                group.ack(lease, offset, 1)
        except Exception as error:
            note_half_change(error)
            raise


@final
class DeadLetterBatch:
    """The dead letters of a group that one turn moves.

    staying  what has to be tried again
    failed   addresses at which nothing can be had just now, and why
    body_octets  of the record at hand
    """

    def __init__(self, letters: DeadLetters, queue: Queue, group: WorkGroup, staying: list[DeadLetterRun]) -> None:
        self.letters = letters
        self.queue = queue
        self.group = group
        self.left: i64 = MOVED_AT_ONCE
        self.octets: i64 = OCTETS_AT_ONCE
        self.body_octets: i64 = 0
        self.staying = staying
        self.failed: dict[tuple[bytes, ...], str] = {}

    def move(self, run: DeadLetterRun) -> DeadLetterRun | None:
        """Move a run of records; what is left of it where the turn's share is used up."""
        group = self.group
        first = run.first  # what was moved and is not settled yet begins here
        offset = run.first
        end = run.first + run.count
        while offset < end and self.left > 0 and self.octets > 0:
            self.left -= 1
            self.body_octets = 0
            after = offset + 1
            try:
                obstacle = self.send(run, offset)
            except DamagedBlock as error:  # all of the block stays: it is not read again for each of its records
                obstacle = error.text
                after = min(end, i64(error.end))
            if obstacle:
                if first < offset:
                    group.settle_dead_letters(first, offset - first)
                first = after
                self.keep(run, offset, after - offset)
            offset = after
        if first < offset:
            group.settle_dead_letters(first, offset - first)
        if offset < end:
            return DeadLetterRun(offset, end - offset, run.cause, run.deliveries, run.failures)
        return None

    def send(self, run: DeadLetterRun, offset: i64) -> str:
        """Move one record. Return why it has to stay, as `DeadLetters.forward`."""
        block = self.queue.log.block(offset)
        if block is None or block.base > offset:
            return ""  # its settlement was lost in a crash; what compaction left out because of it is gone
        index = offset - block.base
        self.body_octets = block.body_span(index, 1)
        record = record_at(block, index)
        modified = self.group.attempts.modified.of(offset)
        if modified:
            record.annotations = with_annotation(record.annotations, MODIFIED, modified)
        letter = for_exchange(record)
        address = (letter.routing_key, *format_of(letter.format).further_keys(letter.properties))
        known = self.failed.get(address)
        if known is not None:
            return known  # those of one address keep their order, too
        self.octets -= len(letter.body)
        reason = stated_reason(run.cause, self.queue.limits.amps_reasons).encode()
        marks = marks_for(self.letters.publishing, self.queue, self.group, offset, run.deliveries, reason)
        obstacle = self.letters.forward(self.queue, letter, reason, marks)
        if obstacle and not self.letters.by_content:
            self.failed[address] = obstacle
        return obstacle

    def keep(self, run: DeadLetterRun, offset: i64, count: i64) -> None:
        """Keep dead letters that found no place, in one run with those before them where they are alike.

        Their attempts are noted: a restart has them ready again, and who gets them is told that somebody had them.
        """
        attempts = run.deliveries + run.failures * FAILURE
        if attempts and self.group.attempts.of(offset) != attempts:
            self.group.attempts.note(offset, count, attempts)
        staying = self.staying
        if staying:
            last = staying[len(staying) - 1]
            follows = last.first + last.count == offset and last.cause == run.cause
            if follows and last.deliveries == run.deliveries and last.failures == run.failures:
                last.count += count
                last.octets += self.body_octets
                return
        staying.append(DeadLetterRun(offset, count, run.cause, run.deliveries, run.failures, self.body_octets))


def is_there(publishing: Publishing, key: bytes) -> bool:
    """True if a message's own key leads somewhere without a queue being made: its publisher needed no right to that."""
    if key.startswith(QUEUE_PREFIX):
        try:
            return publishing.router.addresses.makes(key, True) == b""
        except RequestError:  # an address that nothing can have
            return False
    return not key.startswith(DEAD_LETTER_PREFIX) or key in publishing.catalog.queues


def keeps(limits: Limits) -> bool:
    """True if what the dead-letter exchange does not take stays.

    A queue that gives way to new messages cannot keep old ones: at-least-once asks for `reject-publish`, as RabbitMQ's.
    """
    return limits.at_least_once and limits.overflow == REJECT_PUBLISH


def comes_round(route: Route, deaths: Deaths) -> bool:
    for queue in route.queues:  # noqa: SIM110  any() takes a generator, which the compiled dialect does without
        if deaths.is_cycle(queue.name):
            return True
    return False


def straight_on(route: Route, deaths: Deaths) -> list[Queue]:
    """The queues in which the message did not die already without anybody having rejected it since."""
    return [queue for queue in route.queues if not deaths.is_cycle(queue.name)]


def marks_for(
    publishing: Publishing, queue: Queue, group: Group, offset: i64, deliveries: i64, reason: bytes
) -> DeathMarks:
    """The marks of a record that leaves a group as a dead letter."""
    id = f"{queue.id}-{group.id}-{offset}".encode()
    return DeathMarks(id, queue.name, offset, group.name, reason, deliveries, publishing.turn.now_us // 1000)


# ---- the queues `$dlq/<queue>`


def dead_letter_queue(publishing: Publishing, name: bytes) -> Queue:
    """The queue `$dlq/<queue>`, made where there is none: as durable as the queue whose dead letters it takes.

    raises  RequestError: NOT_FOUND if neither is there; PRECONDITION if it would forget what the queue keeps
    """
    source = publishing.catalog.queues.get(name[len(DEAD_LETTER_PREFIX) :])
    queue = publishing.catalog.queues.get(name)
    if queue is None:
        return make_dead_letter_queue(publishing, name, publishing.catalog.queue(name[len(DEAD_LETTER_PREFIX) :]))
    if source is not None and source.log.durable and not queue.log.durable:
        raise RequestError(
            PRECONDITION,
            f"queue '{text(name)}' is not durable, but queue '{text(source.name)}' is: delete the former first",
        )
    return queue


def make_dead_letter_queue(publishing: Publishing, name: bytes, source: Queue) -> Queue:
    """The queue of that name, made where there is none: as durable as the one whose dead letters are for it."""
    queue = publishing.catalog.queues.get(name)
    if queue is not None:
        return queue
    if source.kind == EPHEMERAL:
        return publishing.catalog.ephemeral_queue(name)
    return publishing.catalog.declare_queue(name, source.log.durable, False, False, {}, 0)
