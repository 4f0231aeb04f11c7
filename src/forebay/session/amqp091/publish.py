"""Messages coming in on a channel of AMQP 0.9.1, and the confirms that their publisher is owed.

A publish that comes whole in one read (method, header, one body frame) is handed over without being taken apart any
further than its lengths; everything else goes the long way, part by part.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be
from mypy_extensions import i64, u8

from forebay.broker.contract import VhostContract
from forebay.broker.joining import Joining
from forebay.broker.publish.commands import (
    ABOUT_QUEUES,
    CANCEL_DELAYED,
    COMMIT_OFFSET,
    EXTEND_LEASE,
    MESSAGE,
    QUERY_QUEUE,
    REPLY,
    command_at,
)
from forebay.broker.publish.headers import PublishHeaders, read_publish_headers
from forebay.broker.publish.outcome import NO_WAY, TAKEN, PublishOutcome
from forebay.broker.publish.replies import REPLY_QUEUE
from forebay.broker.publish.route import Route
from forebay.core.errors import CONNECTION, NOT_IMPLEMENTED, PRECONDITION, REFUSED, Later, PeerError, RequestError
from forebay.core.message import AMQP091, REJECTED, UNROUTABLE
from forebay.core.options import Options
from forebay.core.pieces import Part
from forebay.directory.logins.authorizer import Undecided
from forebay.directory.permissions import READ, Rights
from forebay.message.formats.table import EXCHANGE_FORMAT
from forebay.message.requests import MARKS, REQUESTS
from forebay.routing.cut_work import WorkInHand
from forebay.routing.exchange import text
from forebay.session.amqp091.extend import Extension, extend_offset, read_extension
from forebay.session.amqp091.query import ask_query
from forebay.session.amqp091.tx import Transaction
from forebay.session.login import Amqp091Login
from forebay.session.meter import Meter
from forebay.session.shared.held_publishes import HeldPublish
from forebay.session.shared.target import PublishTarget
from forebay.session.subscribe_rate import subscribe_bucket
from forebay.session.traffic import Traffic
from forebay.wire.amqp091.codec import BODY, FRAME_END, FRAME_OVERHEAD, HEADER, LONG_OCTETS, Reader, put_content
from forebay.wire.amqp091.methods import BASIC_ACK, BASIC_NACK, NO_ROUTE, UNEXPECTED_FRAME, put_return, put_settle
from forebay.wire.amqp091.properties import (
    REPLY_TO,
    flags_of,
    short_field,
    whole_number,
    with_short_field,
)

TARGETS_MAX: Final = 10_000
TARGETS_SWEPT: Final = 64  # at least so many routes were dropped before targets are looked through
# Of the meter: what it costs to find where a publish leads; octets of properties that are checked, or read, a point.
ROUTE_POINTS: Final = 10
CHECK_SHIFT: Final = 6
READ_SHIFT: Final = 2

# The frame that the channel expects next.
METHOD_NEXT: Final = 0
HEADER_NEXT: Final = 1
BODY_NEXT: Final = 2


@final
class ConnectionState:
    """The state that the channels of one connection share."""

    def __init__(
        self,
        session_id: i64,
        login: Amqp091Login,
        vhost: VhostContract,
        rights: Rights,
        out: BytesWriter,
        parts: list[Part],
        options: Options,
        meter: Meter,
    ) -> None:
        self.parts = parts
        self.meter = meter
        self.work = WorkInHand(vhost.budgets.publishes)
        self.long: Publisher | None = None  # whose message is being put together
        self.joining: Joining | None = None  # which does that
        self.session_id: i64 = session_id
        self.vhost = vhost
        self.out = out
        self.user = login.principal.user.encode("utf-8", "surrogateescape")
        self.publishes = False
        self.rights = rights
        self.frame_octets_max: i64 = login.frame_octets_max
        self.message_octets_max: i64 = options.message_octets_max
        self.table_depth_max: i64 = options.table_depth_max
        self.targets: dict[bytes, PublishTarget] = {}
        self.dropped: i64 = 0  # `RouteCache.dropped` of when they were last looked through
        self.tags: i64 = 0  # consumer tags that we have made
        self.published: list[Publisher] = []  # with publishes of this turn to confirm
        self.waiting: list[Publisher] = []  # with confirms that wait for the disk
        self.extensions: list[Extension] = []  # asked for by delivery tags, which the channels know
        self.subscribes = subscribe_bucket(options)
        self.committed = False  # a transaction or a purge in this turn: nothing leaves before it is on the disk
        self.transaction_octets_max: i64 = options.transaction_octets_max
        self.delivery_headers = options.amqp_delivery_headers
        self.past = Traffic()  # of channels that are closed

    def find_target(self, raw: bytes) -> PublishTarget:
        """The target of a publish whose arguments are these octets. Later, Undecided."""
        target = self.targets.get(raw)
        if target is not None and target.is_valid():
            return target
        self.publishes = True
        self.meter.take(ROUTE_POINTS)
        args = Reader(raw, 0, len(raw), 1)
        args.short()
        exchange = args.short_string()
        key = args.short_string()
        bits = args.octet()
        if bits & 2:
            raise PeerError(NOT_IMPLEMENTED, "immediate=true")
        command, subject = command_at(exchange, key)
        if command in ABOUT_QUEUES:
            self.rights.check_queue(READ, subject)
            self.vhost.check_owner(subject, self.session_id)
        else:
            self.rights.check_publish(exchange, key, self.vhost.is_topic_exchange(exchange))
        if command == MESSAGE:
            route = self.vhost.routes.route(exchange, key, self.work)
        else:
            route = self.vhost.routes.command_route(key, subject)
        target = PublishTarget(raw, route, self.rights.grants.version, bits & 1 != 0, command, subject)
        if route.is_valid:
            self.work.finish()
            self.keep_target(target)
        return target

    def keep_target(self, target: PublishTarget) -> None:
        """Remember a target, and from time to time forget those that are valid no more."""
        dropped = self.vhost.routes.routes.dropped
        if dropped - self.dropped > TARGETS_SWEPT + i64(len(self.targets)):
            self.dropped = dropped
            self.targets = {raw: each for raw, each in self.targets.items() if each.is_valid()}
        if len(self.targets) >= TARGETS_MAX:
            self.targets.clear()
        self.targets[target.raw] = target

    def finish_work(self) -> None:
        """Count the work that finding the way of a message took, and forget it."""
        self.meter.take(self.work.take_spent())
        self.work.finish()

    def join(self) -> Joining:
        """The job that has to run before `finish_long`."""
        assert self.long is not None
        self.joining = Joining(self.long.take_parts())
        return self.joining

    def finish_long(self) -> None:
        """The message whose body was put together is whole; of a channel that was closed meanwhile nothing is.

        Raise Later, with nothing done, where that takes another turn.
        """
        publisher, joining = self.long, self.joining
        if publisher is not None and joining is not None and publisher.expect == BODY_NEXT and joining.is_whole:
            try:
                publisher.find_way(publisher.pending)
            except Undecided:  # the message has been taken apart by now, and cannot come again
                self.long = self.joining = None
                raise RequestError(REFUSED, "the topology changed while a long message came") from None
        self.long = None
        self.joining = None
        if publisher is None or joining is None or publisher.expect != BODY_NEXT:
            return
        if not joining.is_whole:
            raise RequestError(REFUSED, "no memory for a long message", CONNECTION)
        publisher.assemble(joining.body)


@final
class Publisher:
    """The publishing side of one channel.

    expect       METHOD_NEXT, or the part of a message that must come next
    properties   those of the last message: checked, and often the next one's
    format       of the record that a message with these properties makes
    headers      what they ask for, if they ask for anything
    transaction  not None: the channel is transactional, and publishes wait for the commit
    plain        neither of the last two
    route        that of the message in hand, where it depends on the message
    reply_name   of the channel's consumer of answers; empty where it has none
    taken, confirmed_count  messages that came in, and of these confirmed
    returned, dropped       mandatory messages given back, as they had no route, and others that went nowhere
    """

    def __init__(self, link: ConnectionState, number: i64) -> None:
        self.link = link
        self.vhost = link.vhost
        self.out = link.out
        self.number: i64 = number
        self.expect: i64 = METHOD_NEXT
        self.target: PublishTarget | None = None
        self.properties = b""
        self.format: u8 = AMQP091
        self.headers: PublishHeaders | None = None
        self.transaction: Transaction | None = None
        self.plain = True
        self.route: Route | None = None
        self.reply_name = b""
        self.pending = b""
        self.octets: i64 = 0  # of the body that comes in parts, `missing` of which are still to come
        self.missing: i64 = 0
        self.parts: list[bytes] = []
        self.confirming = False
        self.published: i64 = 0  # tag of the last publish
        self.accepted: i64 = 0  # tag of the last publish that was not refused
        self.due: i64 = 0  # tags up to here are in `confirms` or confirmed
        self.confirmed: i64 = 0
        self.in_turn = False
        self.taken: i64 = 0
        self.returned: i64 = 0
        self.dropped: i64 = 0
        self.accepted_count: i64 = 0  # publishes with tags that were not refused
        self.confirmed_count: i64 = 0
        # (lsn, tag, accepted_count): due when the lsn is on disk
        self.confirms: deque[tuple[int, int, int]] = deque()

    def publish(self, data: bytes, start: i64, end: i64) -> i64:
        """basic.publish, whose arguments are data[start:end]; the position after what was used.

        Where the header and a single body frame follow in `data`, as they mostly do, they are used as well.
        """
        meter = self.link.meter
        if meter.messages <= 0:
            if not self.is_in_batch(data[start:end]):
                raise Later
            meter.messages = 1
        meter.messages -= 1
        raw = data[start:end]
        target = self.target
        is_known = True
        if target is None or raw != target.raw or not target.is_valid():
            # Here, in `check` and in `find_way`, where nothing is done yet, it can wait for the next turn.
            self.link.meter.start(0)
            target = self.link.find_target(raw)
            self.target = target
            is_known = False
        at = end + 1
        size = i64(len(data))
        if at + 21 < size and data[at] == HEADER:
            limit = self.link.frame_octets_max - FRAME_OVERHEAD
            octets = i64(read_i32_be(data, at + 3))
            length = read_i64_be(data, at + 11)
            if 14 <= octets <= limit and 0 < length <= limit and length <= self.link.message_octets_max:
                header_end = at + 7 + octets
                body_end = header_end + 8 + length
                if (
                    body_end < size
                    and data[header_end] == FRAME_END
                    and data[body_end] == FRAME_END
                    and data[header_end + 1] == BODY
                    and i64(read_i32_be(data, header_end + 4)) == length
                    and i64(data[at + 1]) << 8 | i64(data[at + 2]) == self.number
                    and i64(data[header_end + 2]) << 8 | i64(data[header_end + 3]) == self.number
                    and i64(read_i32_be(data, at + 7)) == 60 << 16
                ):
                    properties = data[at + 19 : header_end]
                    if properties != self.properties:
                        self.check(properties)
                    if not target.plain or not self.plain:
                        self.find_content_way(target, properties)
                        is_known = False
                    self.finish(target, properties, data[header_end + 8 : body_end])
                    if not is_known:
                        self.link.finish_work()
                    return body_end + 1
        self.expect = HEADER_NEXT
        return at

    def check(self, properties: bytes) -> None:
        """Errors unless another client can do something with the properties, and the broker what they ask for."""
        depth_max = self.link.table_depth_max
        self.link.meter.start(len(properties) >> CHECK_SHIFT)
        self.properties = b""  # nothing holds of them if one of these checks fails
        found = EXCHANGE_FORMAT.check(properties, self.link.user, depth_max)
        headers = read_publish_headers(EXCHANGE_FORMAT, properties) if found & REQUESTS else None
        if flags_of(properties) & REPLY_TO and short_field(properties, REPLY_TO, depth_max) == REPLY_QUEUE:
            if not self.reply_name:
                raise RequestError(PRECONDITION, "fast reply consumer does not exist")
            headers = headers or PublishHeaders(properties)
            headers.properties = with_short_field(headers.properties, REPLY_TO, self.reply_name, depth_max)
            headers.delayed = with_short_field(headers.delayed, REPLY_TO, self.reply_name, depth_max)
        self.properties = properties
        self.format = u8(AMQP091 | found & MARKS)
        self.headers = headers
        self.plain = headers is None and self.transaction is None

    def set_reply_name(self, name: bytes) -> None:
        """Requests carry this name from here on; an empty one means that there is nobody to answer."""
        self.reply_name = name
        self.properties = b""  # the last ones may have been given the name that was

    def on_header(self, data: bytes, start: i64, end: i64) -> None:
        """A content header, data[start:end], that did not come with its method and body."""
        if self.expect != HEADER_NEXT:
            raise PeerError(UNEXPECTED_FRAME, "content header without a method that has content")
        args = Reader(data, start, end, 0)
        found = args.short()
        if found != 60:
            raise PeerError(UNEXPECTED_FRAME, f"content header of class {found} after a method of class 60")
        args.short()
        octets = args.longlong()
        properties = data[args.pos : end]
        if properties != self.properties:
            self.check(properties)
        if octets < 0 or octets > self.link.message_octets_max:
            announced: int = int(octets)
            if announced < 0:
                announced += 1 << 64  # the protocol's are without a sign
            raise RequestError(
                PRECONDITION,
                f"message size {announced} is larger than configured max size {self.link.message_octets_max}",
            )
        if octets == 0:
            self.find_way(properties)
        self.pending = properties
        self.octets = octets
        self.missing = octets
        self.expect = BODY_NEXT
        if octets == 0:
            self.assemble(b"")

    def on_body(self, body: bytes) -> None:
        """One frame of a body that did not come with its method and header."""
        if self.expect != BODY_NEXT:
            raise PeerError(UNEXPECTED_FRAME, "content body without a content header")
        if len(body) > self.missing:
            excess = len(body) - self.missing
            raise PeerError(UNEXPECTED_FRAME, f"content body is {excess} octets longer than announced")
        if len(body) == self.missing and self.octets < LONG_OCTETS:
            self.find_way(self.pending)
        self.missing -= len(body)
        if body:
            self.parts.append(body)
        if self.missing == 0:
            if self.octets < LONG_OCTETS:
                self.assemble(self.take_body())
            else:
                self.link.long = self

    def find_way(self, properties: bytes) -> None:
        """Find the way of a message of which all but the end of its body has come. Later, with nothing changed."""
        target = self.target
        assert target is not None
        if not target.is_valid():
            # The topology changed between the publish and its content.
            target = self.target = self.link.find_target(target.raw)
        if not target.plain or not self.plain:
            self.find_content_way(target, properties)

    def find_content_way(self, target: PublishTarget, properties: bytes) -> None:
        """Find the route of a message whose properties have a say in it. Later, with nothing changed."""
        self.route = None
        headers = self.headers
        if target.command != MESSAGE or self.transaction is not None:
            return
        route = target.route
        work = self.link.work
        if headers is not None:
            if headers.delay_us:
                return
            self.route = route = self.vhost.messages.route_with_headers(route, headers, self.format, work)
        elif route.headers_exchange is not None:
            self.link.meter.start(len(properties) >> READ_SHIFT)
            self.route = route = self.vhost.routes.resolve(route, self.format, properties, work)
        if route.is_counted:
            self.vhost.budgets.publishes.start_publish(route.points)
            if route.is_wide:
                self.link.meter.await_delivery(self.vhost.fanout.wide.ticket())

    def is_in_batch(self, raw: bytes) -> bool:
        """Return whether a publish follows one to the same target that is to be delivered to very many, in its turn."""
        batch = self.link.meter.awaited
        target = self.target
        return (
            batch is not None
            and batch is self.vhost.fanout.wide.open
            and target is not None
            and target.route.is_wide
            and target.raw == raw
        )

    def assemble(self, body: bytes) -> None:
        """All parts of a message are there."""
        self.expect = METHOD_NEXT
        target = self.target
        assert target is not None
        self.finish(target, self.pending, body)
        self.link.finish_work()

    def take_parts(self) -> list[bytes]:
        """The parts of the body, which nothing holds here from now on."""
        parts = self.parts
        self.parts = []
        return parts

    def take_body(self) -> bytes:
        """The parts as one."""
        parts = self.take_parts()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def finish(self, target: PublishTarget, properties: bytes, body: bytes) -> None:
        """Hand a message over, and remember what the publisher is owed for it."""
        self.taken += 1
        if target.plain and self.plain:
            outcome = self.vhost.messages.publish(target.route, self.format, properties, body)
        elif self.transaction is not None and target.is_message:
            self.check_copies(target, self.headers)
            self.transaction.publishes.publish(HeldPublish(target, self.headers, self.format, properties, body))
            return
        else:
            self.check_copies(target, self.headers)
            outcome = self.publish_slowly(target, self.headers, self.format, properties, body)
        if outcome is not TAKEN and not self.conclude(outcome, target, properties, body):
            return
        if self.confirming:
            self.published += 1
            self.accepted_count += 1
            self.accepted = self.published
            if not self.in_turn:
                self.in_turn = True
                self.link.published.append(self)

    def conclude(self, outcome: PublishOutcome, target: PublishTarget, properties: bytes, body: bytes) -> bool:
        """Refuse or send back a publish that was not simply taken. Return whether its confirm waits for the disk."""
        self.link.meter.note_pressing(outcome.pressing)
        if outcome.status == REJECTED:
            if self.confirming:
                self.published += 1
                put_settle(self.out, self.number, BASIC_NACK, self.published, False)
            return False
        if outcome.status == UNROUTABLE:
            self.unrouted(target, properties, body)
        return True

    def unrouted(self, target: PublishTarget, properties: bytes, body: bytes) -> None:
        """The message has no route: it goes back if it is mandatory."""
        if not target.mandatory:
            self.dropped += 1
            return
        self.returned += 1
        route = target.route
        put_return(self.out, self.number, NO_ROUTE, b"NO_ROUTE", route.exchange, route.routing_key)
        put_content(self.out, self.number, properties, body, self.link.frame_octets_max, self.link.parts)

    def check_copies(self, target: PublishTarget, headers: PublishHeaders | None) -> None:
        """RequestError unless the user may publish under the other routing keys as well."""
        if headers is not None and headers.keys:
            exchange = target.route.exchange
            is_topic = self.vhost.is_topic_exchange(exchange)
            for key in headers.keys:
                try:
                    self.link.rights.check_publish(exchange, key, is_topic)
                except Undecided:  # the message has been taken apart by now, and cannot come again
                    raise RequestError(REFUSED, f"publish to '{text(key)}' once before copies are sent there") from None

    def publish_slowly(
        self, target: PublishTarget, headers: PublishHeaders | None, format: u8, properties: bytes, body: bytes
    ) -> PublishOutcome:
        """A publish whose address or headers ask for more than a delivery; its outcome."""
        command = target.command
        if command == MESSAGE:
            found = self.route
            self.route = None
            if headers is not None:
                return self.vhost.messages.publish_with_headers(
                    target.route, headers, format, body, self.link.user, found
                )
            route = target.route
            if route.headers_exchange is not None:
                route = found or self.vhost.routes.resolve(route, format, properties)
            return self.vhost.messages.publish(route, format, properties, body)
        if command == REPLY:
            kept = properties if headers is None else headers.properties
            return TAKEN if self.vhost.direct_replies.append(target.subject, AMQP091, kept, body) else NO_WAY
        if command == CANCEL_DELAYED:
            return TAKEN if self.vhost.delayed.cancel(target.subject) else NO_WAY
        if command == QUERY_QUEUE:
            link = self.link
            shown = properties if headers is None else headers.properties
            ask_query(link.vhost, link.rights, link.session_id, target.subject, shown, body)
            return TAKEN
        table = EXCHANGE_FORMAT.headers(properties)
        if command == EXTEND_LEASE:
            return self.extend_lease(target.subject, table)
        assert command == COMMIT_OFFSET
        self.commit_offset(target.subject, table)
        return TAKEN

    def extend_lease(self, queue: bytes, headers: dict[str, object]) -> PublishOutcome:
        wanted = read_extension(queue, self.number, headers)
        if wanted.tag:
            self.link.extensions.append(wanted)
            return TAKEN
        return TAKEN if extend_offset(self.vhost, wanted, headers, self.link.session_id) else NO_WAY

    def commit(self) -> None:
        """Do what the transaction holds back of publishes; RequestError, and nothing is done, where one is refused."""
        assert self.transaction is not None
        publishes = self.transaction.publishes
        while publishes.found < len(publishes.held):  # those before have been found, where it had to wait
            held = publishes.held[publishes.found]
            if not held.target.is_valid():
                held.target = self.link.find_target(held.target.raw)
                self.link.finish_work()
            publishes.found += 1
        publishes.found = 0
        if not publishes.is_welcome(self.vhost):
            raise RequestError(PRECONDITION, "partial tx completion")
        for held in publishes.held:
            outcome = self.publish_slowly(held.target, held.headers, held.format, held.properties, held.body)
            self.link.meter.note_pressing(outcome.pressing)
            if outcome.status == UNROUTABLE:
                self.unrouted(held.target, held.properties, held.body)
            elif outcome.status == REJECTED:
                raise RequestError(PRECONDITION, "partial tx completion")

    def commit_offset(self, queue: bytes, headers: dict[str, object]) -> None:
        """`$queue/<queue>/$commit`: the group `x-group-id` resumes at `x-offset`."""
        group = headers.get("x-group-id")
        offset = headers.get("x-offset")
        if isinstance(offset, str):
            offset = whole_number(offset.encode())
        if not isinstance(group, str) or isinstance(offset, bool) or not isinstance(offset, int) or offset >> 63:
            raise RequestError(PRECONDITION, "a commit needs the headers x-group-id, a text, and x-offset, a number")
        self.vhost.settlement.commit_offset(queue, group.encode(), offset)

    def end_turn(self, lsn: int, durable: int) -> None:
        """The publishes of the turn are confirmed when `lsn` is on disk."""
        self.in_turn = False
        if self.accepted <= self.due:
            return
        if durable >= lsn and not self.confirms:
            self.confirm(self.accepted, self.accepted_count)
            return
        if not self.confirms:
            self.link.waiting.append(self)
        self.confirms.append((lsn, int(self.accepted), int(self.accepted_count)))
        self.due = self.accepted

    def on_durable(self, durable: int) -> None:
        """Confirm what is on disk now."""
        confirms = self.confirms
        tag: i64 = 0
        count: i64 = 0
        while confirms and confirms[0][0] <= durable:
            _, tag, count = confirms.popleft()
        if tag:
            self.confirm(tag, count)

    def confirm(self, tag: i64, count: i64) -> None:
        """Confirm up to a tag; so many of all that were published are confirmed by then."""
        put_settle(self.out, self.number, BASIC_ACK, tag, tag > self.confirmed + 1)
        self.confirmed = tag
        self.confirmed_count = count
        self.due = max(self.due, tag)

    def release(self) -> None:
        """The channel ends: nothing more is confirmed on it."""
        past = self.link.past
        past.received += self.taken
        past.expecting += self.published
        past.confirmed += self.confirmed_count
        past.returned += self.returned
        past.dropped += self.dropped
        self.confirms.clear()
        self.accepted = self.due
        self.parts = []
        self.expect = METHOD_NEXT
