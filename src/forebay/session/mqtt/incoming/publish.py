"""Publishes of an MQTT client: checked, routed, and answered when they are on disk.

PUBACK, PUBREC and, of a durable session, PUBCOMP are written to `held` when their packet is dealt with, in order, and
leave when the turn is on disk. QoS 2 is exactly once: an identifier is remembered from PUBLISH to PUBREL, and in a
durable session that is on disk before each answer leaves.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64, u8

from forebay.broker.contract import VhostContract
from forebay.broker.mqtt.client_session import FORGOTTEN, RECEIVED, ClientSession
from forebay.broker.mqtt.sessions import is_topic
from forebay.broker.publish.commands import QUERY, topic_command_at
from forebay.broker.publish.deduplication import Identity, address_of, identity_of
from forebay.broker.publish.outcome import NO_ROOM, TAKEN, PublishOutcome
from forebay.broker.publish.route import Route
from forebay.core.errors import INVALID, REFUSED, TOO_LARGE, TOO_MANY, PeerError, RequestError, note_half_change
from forebay.core.message import ACCEPTED, MQTT, QOS_SHIFT, REJECTED, RETAIN, UNROUTABLE
from forebay.core.options import Options
from forebay.directory.permissions import WRITE, Rights
from forebay.message.address import QUEUE_PREFIX, TOPIC_EXCHANGE
from forebay.message.events import PUBLISH_DENIED
from forebay.message.formats.table import TOPIC_FORMAT
from forebay.message.requests import DEDUPLICATION_KEY, PRODUCER, RESERVED, SEQUENCE, check_name
from forebay.routing.cut_work import WorkInHand
from forebay.routing.topic_trie import swap_key
from forebay.session.meter import Meter
from forebay.session.mqtt.incoming.commands import ask_query, commanded_queue, run_command
from forebay.session.mqtt.incoming.delayed import (
    cancel_delayed,
    cancels_delayed,
    delay_publish,
    delayed_at,
    parse_delayed,
)
from forebay.session.mqtt.outgoing.encode import PacketEncoder
from forebay.session.mqtt.rights import check_command
from forebay.session.session import note_denied
from forebay.wire.mqtt import codes
from forebay.wire.mqtt import properties as props
from forebay.wire.mqtt.codes import PUBACK, PUBCOMP, PUBLISH, PUBREC, V5, V311, check_topic_name, unexpected
from forebay.wire.mqtt.encoding import write_ack
from forebay.wire.mqtt.packets import Publish, decode_publish

MEMO_ENTRIES: Final = 4096
MEMO_SWEPT: Final = 64  # at least so many routes were dropped before the memo is looked through
ALIAS_BLOCK_OCTETS: Final = 3  # a property block that holds the alias and nothing else
# Properties that are not kept with the message: bits of TOPIC_ALIAS and SUBSCRIPTION_ID.
CONNECTION_PROPERTIES: Final = 0x8_0000_0800
DOLLAR: Final = 0x24
FANOUT_PART: Final = 16  # of what may wait for all clients: so much of it is delivered to them in one turn
ROUTE_POINTS: Final = 10  # of the meter: what it costs to find where a topic leads
ONCE_MARK: Final = b"x-"  # in the names of user properties by which a publish says which message it is
SYS_PREFIX: Final = b"$SYS/"


@final
class Confirms:
    """Packets that leave when frame `lsn` of the log is on disk; `count` of them are PUBACKs."""

    def __init__(self, lsn: i64, octets: bytes, count: i64) -> None:
        self.lsn: i64 = lsn
        self.octets = octets
        self.count: i64 = count


@final
class Inbox:
    """The receiving half of one MQTT connection.

    received  PUBLISH packets, with `body_octets` of payload
    ignored   refused publishes of clients that cannot be told
    """

    def __init__(
        self,
        vhost: VhostContract,
        rights: Rights,
        client: ClientSession,
        encoder: PacketEncoder,
        out: BytesWriter,
        held: BytesWriter,
        options: Options,
        meter: Meter,
        problem_information: bool,
    ) -> None:
        self.vhost = vhost
        self.rights = rights
        self.encoder = encoder
        self.out = out
        self.held = held
        self.client = client
        self.version: i64 = encoder.version
        self.problem_information = problem_information
        self.body_octets_max: i64 = options.message_octets_max
        self.levels_max: i64 = options.mqtt_topic_levels_max
        self.receive_max: i64 = options.mqtt_receive_max
        self.awaiting_max: i64 = options.mqtt_max_awaiting_rel
        self.expiry_max_s: i64 = options.mqtt_message_expiry_max_s
        self.max_qos: i64 = options.mqtt_max_qos
        self.user_properties_max: i64 = options.mqtt_user_properties_max
        self.fanout_max: i64 = options.send_buffers_octets_max // FANOUT_PART
        self.meter = meter
        self.work = WorkInHand(vhost.budgets.publishes)
        self.alias_max: i64 = options.mqtt_topic_alias_max
        self.aliases: dict[int, bytes] | None = None
        self.packet = Publish()
        self.wide_topic = b""
        self.memo: dict[bytes, Route] = {}  # topic that these grants permit -> route
        self.grants = self.rights.grants.version
        self.dropped: i64 = 0  # `RouteCache.dropped` of when the memo was last looked through
        self.ack_count: i64 = 0  # PUBACKs in `held`
        self.unconfirmed: i64 = 0  # PUBACKs not yet sent
        self.unreleased: i64 = 0  # QoS 2 publishes of this connection whose PUBREL has not come
        self.identity: Identity | None = None  # of the publish in hand, if it is to be taken only once
        self.ignored: i64 = 0
        self.received: i64 = 0
        self.body_octets: i64 = 0
        self.taken_octets: i64 = 0  # of the publish in hand

    # ---- PUBLISH

    def publish(self, data: bytes, flags: i64, at: i64, end: i64, long: bytes | None = None) -> None:
        """Take a PUBLISH in; PeerError where the client may not send it.

        long  its body, where that is not in `data`: which ends before it then, whatever `end` says
        """
        packet = self.packet
        decode_publish(packet, data, flags, at, end, self.version)
        self.received += 1
        self.taken_octets = end - packet.properties_end
        self.body_octets += self.taken_octets
        if self.meter.messages <= 0 and self.is_in_batch(data[packet.topic_at : packet.topic_end]):
            self.meter.messages = 1
        self.meter.start_message(self.vhost.fanout.octets > self.fanout_max)
        qos = packet.qos
        kept_qos = qos if qos <= self.max_qos else self.lowered(qos)
        if end - packet.properties_end > self.body_octets_max:
            raise too_large(end - packet.properties_end, self.body_octets_max)
        topic = data[packet.topic_at : packet.topic_end]
        properties = b""
        first, last = packet.properties_at, packet.properties_end
        if first < last:
            seen = props.check_properties(data, first, last, PUBLISH, self.user_properties_max)
            properties = packet.properties()
            if seen & CONNECTION_PROPERTIES:
                topic, properties = self.special_properties(topic, properties, seen)
        if qos and not self.may_publish(packet):
            return
        vhost = self.vhost
        route = self.memo.get(topic)
        if route is None or not route.is_valid or not self.grants.is_current:
            route = self.find_route(packet, topic, properties, data[packet.properties_end : end], long)
            if route is None:
                return
        format: i64 = MQTT | kept_qos << QOS_SHIFT
        if route.headers_exchange is not None:
            route = self.resolve(route, u8(format), properties)
        if route.is_counted:
            self.start_counted(route, topic)
        body = data[packet.properties_end : end] if long is None else long
        if properties and ONCE_MARK in properties and self.is_done(packet, topic, properties):
            return
        if flags & 1:
            format |= RETAIN
            if is_topic(route.routing_key) and not self.retain(packet, route, u8(format), properties, body):
                return
        if self.expiry_max_s:
            properties = props.with_expiry_at_most(properties, self.expiry_max_s)
        outcome = vhost.messages.publish(route, u8(format), properties, body)
        if self.identity is not None:
            self.remember(self.identity, outcome)
        if qos == 1 and outcome is TAKEN:
            write_i32_be(self.held, i32(0x40020000 | packet.packet_id))
            self.ack_count += 1
            self.unconfirmed += 1
        elif qos or outcome is not TAKEN:
            self.answer(packet, outcome)

    def resolve(self, route: Route, format: u8, properties: bytes) -> Route:
        """Return the route of a message whose destinations depend on its content. Raise Later as `find_route` does."""
        self.meter.start(0)
        found = self.vhost.routes.resolve(route, format, properties, self.work)
        self.finish_work()
        return found

    def retain(self, packet: Publish, route: Route, format: u8, properties: bytes, body: bytes) -> bool:
        """Retain a message. Return False, with the publish refused, if that cannot be."""
        outcome = self.vhost.messages.retain(route.routing_key, format, properties, body)
        if outcome is TAKEN:
            return True
        self.identity = None
        self.answer(packet, outcome)
        return False

    def lowered(self, qos: i64) -> i64:
        """The QoS of a message that comes with more than the maximum; PeerError where the client was told that.

        A client of 3.1.1 cannot know, and would send the same again after each refusal: its packet has the answers
        that it asks for, and its message goes on with what subscribers are granted.
        """
        if self.version == V5:
            raise PeerError(codes.QOS, f"PUBLISH: QoS {qos}: the maximum is {self.max_qos}")
        return self.max_qos

    def untake(self) -> None:
        """The publish in hand was not taken, and comes again."""
        self.received -= 1
        self.body_octets -= self.taken_octets

    def is_done(self, packet: Publish, topic: bytes, properties: bytes) -> bool:
        """True if a publish that may say which message it is needs nothing more: then it is answered."""
        try:
            if RESERVED in properties:
                check_user_properties(properties)
            identity = identity_of(
                user_text(properties, PRODUCER),
                user_text(properties, SEQUENCE),
                user_text(properties, DEDUPLICATION_KEY),
            )
        except RequestError as error:
            self.answer_error(packet, error)
            return True
        if identity is None:
            return False
        identity.user = self.rights.user.encode()
        outcome = TAKEN
        seen = self.vhost.deduplication
        if not seen.is_known(topic_address(topic), identity, self.vhost.now_us()):
            if self.vhost.take_room(seen.octets(identity)):
                self.identity = identity
                return False
            outcome = NO_ROOM
        self.answer(packet, outcome)
        return True

    def remember(self, identity: Identity, outcome: PublishOutcome) -> None:
        """Remember a message that `is_done` found to be new, and that has been published."""
        try:
            self.identity = None
            if outcome.status == ACCEPTED:
                self.vhost.deduplication.remember(identity)
        except Exception as error:
            note_half_change(error)
            raise

    def special_properties(self, topic: bytes, properties: bytes, seen: i64) -> tuple[bytes, bytes]:
        """Topic and kept properties where the block has what concerns this connection only."""
        if seen & (1 << props.SUBSCRIPTION_ID):
            raise unexpected("PUBLISH: subscription identifier from a client")  # [MQTT-3.3.4-6]
        alias = props.number_of(properties, props.TOPIC_ALIAS, 0)
        if alias == 0 or alias > self.alias_max:
            raise PeerError(codes.ALIAS, f"PUBLISH: topic alias {alias}: must be 1 to {self.alias_max}")
        aliases = self.aliases
        if aliases is None:
            aliases = self.aliases = {}
        if topic:
            check_topic_name(topic, "PUBLISH: topic", self.levels_max)
            aliases[int(alias)] = topic
        else:
            known = aliases.get(int(alias))
            if known is None:
                raise unexpected(f"PUBLISH: topic alias {alias}: no topic has been given for it")
            topic = known
        if len(properties) == ALIAS_BLOCK_OCTETS:
            return topic, b""
        return topic, props.without(properties, 1 << props.TOPIC_ALIAS)

    def may_publish(self, packet: Publish) -> bool:
        """True if a PUBLISH of QoS 1 or 2 is new; PeerError if there are more than the client may have open."""
        client = self.client
        if packet.qos == 2:
            if packet.packet_id in client.received:
                self.encoder.others_sent += 1
                write_ack(self.held, PUBREC, packet.packet_id, 0, b"")
                return False
            if self.awaiting_max and i64(len(client.received)) >= self.awaiting_max:
                raise PeerError(codes.RECEIVE_MAXIMUM, f"PUBLISH: more than {self.awaiting_max} wait for their PUBREL")
        if self.version == V5 and self.unconfirmed + self.unreleased >= self.receive_max:
            raise PeerError(
                codes.RECEIVE_MAXIMUM, f"PUBLISH: more than {self.receive_max} unacknowledged, the receive maximum"
            )
        return True

    def find_route(
        self, packet: Publish, topic: bytes, properties: bytes, body: bytes, long: bytes | None
    ) -> Route | None:
        """The route of a topic; None where the publish is dealt with already."""
        self.meter.start(ROUTE_POINTS)
        check_topic_name(topic, "PUBLISH: topic", self.levels_max)
        try:
            if topic[0] == DOLLAR and self.is_command(packet, topic, properties, long or body):
                return None
            self.rights.check_publish_topic(topic)
            route = self.vhost.routes.route_topic(topic, self.client, self.work)
        except RequestError as error:
            self.finish_work()
            if error.reason == REFUSED:
                note_denied(self.vhost, PUBLISH_DENIED, self.rights.user, error.text)
            if error.reason == TOO_MANY:
                self.answer(packet, PublishOutcome(REJECTED, error.text))
            else:
                self.answer_error(packet, error)
            return None
        self.finish_work()
        if route.is_valid:
            self.keep_route(topic, route)
        return route

    def keep_route(self, topic: bytes, route: Route) -> None:
        """Remember the route of a topic, and from time to time forget those that are valid no more."""
        grants = self.rights.grants.version
        dropped = self.vhost.routes.routes.dropped
        if grants is not self.grants or len(self.memo) >= MEMO_ENTRIES:
            self.memo.clear()
            self.grants = grants
        elif dropped - self.dropped > MEMO_SWEPT + i64(len(self.memo)):
            self.dropped = dropped
            self.memo = {topic: each for topic, each in self.memo.items() if each.is_valid}
        self.memo[topic] = route

    def start_counted(self, route: Route, topic: bytes) -> None:
        """Begin with a publish that leads to much. Raise Later if this turn has enough of them."""
        self.vhost.budgets.publishes.start_publish(route.points)
        if route.is_wide:
            self.wide_topic = topic
            self.meter.await_delivery(self.vhost.fanout.wide.ticket())

    def is_in_batch(self, topic: bytes) -> bool:
        """Return whether a publish follows one to the same topic that is to be delivered to very many, in its turn."""
        batch = self.meter.awaited
        return batch is not None and batch is self.vhost.fanout.wide.open and topic == self.wide_topic

    def finish_work(self) -> None:
        """Count the work that finding a route took, and forget it."""
        self.meter.take(self.work.take_spent())
        self.work.finish()

    def is_command(self, packet: Publish, topic: bytes, properties: bytes, body: bytes) -> bool:
        """True if the publish means something else than a message to subscribers; then it is done and answered."""
        if topic.startswith(SYS_PREFIX):
            raise RequestError(REFUSED, "topic: only the broker publishes to $SYS/")
        outcome = TAKEN
        at = topic_command_at(topic)
        if at:
            queue = commanded_queue(topic, at, properties)
            check_command(self.rights, self.vhost, queue)
            if topic[at:] == QUERY:
                ask_query(self.vhost, self.rights, queue, properties, body, self.client.connection)
            else:
                run_command(self.vhost, queue, topic[at:], properties, self.client.connection)
        elif not delayed_at(topic):
            return False
        elif cancels_delayed(topic):
            self.rights.check_exchange(WRITE, TOPIC_EXCHANGE)
            cancel_delayed(self.vhost.delayed, properties)
        else:
            due_us, target = parse_delayed(topic, self.vhost.now_us())
            self.rights.check_publish_topic(target)
            if target.startswith(QUEUE_PREFIX):
                self.vhost.routes.queues_at(
                    target, self.work
                )  # made now, where there is none: later nobody could be told why not
            format: i64 = MQTT | min(packet.qos, self.max_qos) << QOS_SHIFT | (RETAIN if packet.retain else 0)
            outcome = delay_publish(self.vhost, u8(format), due_us, target, properties, body)
        self.answer(packet, outcome)
        return True

    # ---- answers

    def take_confirms(self, lsn: i64) -> Confirms:
        """Return what is in `held`: it leaves when frame `lsn` is on disk."""
        confirms = Confirms(lsn, self.held.getvalue(), self.ack_count)
        self.held.truncate(0)
        self.ack_count = 0
        return confirms

    def answer_error(self, packet: Publish, error: RequestError) -> None:
        """A command or address that means nothing. A 3.1.1 client cannot be told: it gets its PUBACK."""
        self.ignored += 1
        if packet.qos == 0:
            return
        code: i64 = codes.SUCCESS
        block = b""
        if self.version == V5:
            code = codes.IMPLEMENTATION_ERROR
            if error.reason == INVALID:
                code = codes.PAYLOAD_INVALID
            elif error.reason == REFUSED:
                code = codes.NOT_AUTHORIZED
            block = self.reason_block(error.text)
        self.write_answer(packet, code, block)

    def answer(self, packet: Publish, outcome: PublishOutcome) -> None:
        """Answer a PUBLISH whose answer is not the plain PUBACK. One of QoS 0 has no answer."""
        self.meter.note_pressing(outcome.pressing)
        status = outcome.status
        if status == REJECTED and (packet.qos == 0 or self.version == V311):
            self.ignored += 1
            if packet.qos:
                # 3.1.1 has no way to refuse; without PUBACK the client sends it again when it comes back.
                raise PeerError(codes.REJECTED_PUBLISH, f"a publish was refused: {outcome.reason}")
        if packet.qos == 0:
            return
        code: i64 = codes.SUCCESS
        block = b""
        if status == UNROUTABLE and self.version == V5:
            code = codes.NO_MATCHING_SUBSCRIBERS
        elif status == REJECTED:
            code = codes.QUOTA_EXCEEDED
            block = self.reason_block(outcome.reason)
        self.write_answer(packet, code, block)

    def write_answer(self, packet: Publish, code: i64, block: bytes) -> None:
        """Append PUBACK or PUBREC to what leaves when the turn is on disk."""
        try:
            if packet.qos == 2:
                self.encoder.others_sent += 1
                if code < codes.FAILURE:
                    self.client.received.add(int(packet.packet_id))
                    self.unreleased += 1
                    self.vhost.sessions.operate(self.client, RECEIVED, packet.packet_id, 0, True)
                write_ack(self.held, PUBREC, packet.packet_id, code, block)
                return
            write_ack(self.held, PUBACK, packet.packet_id, code, block)
            self.ack_count += 1
            self.unconfirmed += 1
        except Exception as error:
            note_half_change(error)
            raise

    def release(self, id: i64) -> None:
        """PUBREL: the identifier may mean a new message from here on."""
        try:
            client = self.client
            self.encoder.others_sent += 1
            if int(id) not in client.received:
                # It may be the repetition of one whose note is not on the disk yet.
                out = self.held if client.durable else self.out
                write_ack(out, PUBCOMP, id, codes.ID_NOT_FOUND if self.version == V5 else 0, b"")
                return
            client.received.discard(int(id))
            self.unreleased = max(self.unreleased - 1, i64(0))
            if client.durable:
                # Were it forgotten only in memory, a crash would have the next message of this identifier dropped.
                self.vhost.sessions.operate(client, FORGOTTEN, id, 0, True)
                write_ack(self.held, PUBCOMP, id, 0, b"")
            else:
                write_ack(self.out, PUBCOMP, id, 0, b"")
        except Exception as error:
            note_half_change(error)
            raise

    def reason_block(self, text: str) -> bytes:
        """A property block with this reason string; empty where the client does not want it [MQTT-3.1.2-29]."""
        return props.reason_block(text, self.encoder.packet_octets_max) if self.problem_information else b""


def user_text(properties: bytes, name: bytes) -> str | None:
    """A user property as text; None where there is none of that name."""
    value = TOPIC_FORMAT.header(properties, name)
    return None if value is None else value.decode("utf-8", "surrogateescape")


def check_user_properties(properties: bytes) -> None:
    """RequestError where a user property has a name that is reserved."""
    for name in TOPIC_FORMAT.headers(properties):
        check_name(name, "user property")


def topic_address(topic: bytes) -> bytes:
    """A topic as AMQP publishers call it: who is to be taken only once may come by either."""
    return address_of(TOPIC_EXCHANGE, swap_key(topic))


def too_large(octets: i64, most: i64) -> PeerError:
    """The error for a payload that is too long."""
    return PeerError(TOO_LARGE, f"PUBLISH: payload of {octets} octets, the limit is {most}")
