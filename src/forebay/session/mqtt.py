"""One MQTT connection, versions 3.1.1 and 5.0: what the client sends, and when it gets its answers.

Receiving is here; `mqtt_deliver` sends, `mqtt_subscriptions` subscribes, `mqtt_commands` settles by topic. A PUBACK or
PUBREC is written into `acks` when its PUBLISH is routed, in order, and leaves when the turn is on disk. QoS 2 is
exactly once within a connection: an identifier is remembered from PUBLISH to PUBREL. Sessions end with their
connection.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64, u8

from forebay.broker.auth import Auth
from forebay.broker.vhost import Route, Vhost
from forebay.core.errors import TAKEN_OVER, TIMED_OUT, TOO_LARGE, UNSUPPORTED_VERSION, PeerError, RequestError
from forebay.core.message import ACCEPTED, MQTT, REJECTED, UNROUTABLE
from forebay.core.options import Options
from forebay.queue.leases import Consumer, Delivery
from forebay.session.effects import Session
from forebay.session.mqtt_commands import command_at, run_command
from forebay.session.mqtt_deliver import Outbox
from forebay.session.mqtt_subscriptions import Subscriptions, group_of_client
from forebay.wire import mqtt_codes as codes
from forebay.wire import mqtt_properties as props
from forebay.wire.mqtt import (
    Ack,
    Connack,
    Connect,
    Publish,
    Subscribe,
    decode_connect,
    decode_packet,
    decode_publish,
    frame,
    frame_octets,
    write_ack,
    write_bare,
    write_connack,
    write_suback,
)
from forebay.wire.mqtt_codes import (
    CONNECT,
    DISCONNECT,
    PINGREQ,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBSCRIBE,
    UNSUBSCRIBE,
    V5,
    V311,
    check_topic_name,
    unexpected,
)

MEMO_ENTRIES: Final = 4096
MEMO_TOPIC_OCTETS_MAX: Final = 512
PACKET_OCTETS_MAX: Final = 268_435_455 + 5
REASON_OCTETS_MAX: Final = 4096
MICROSECONDS: Final = 1000
ANONYMOUS: Final = "guest"  # who a client without user name is, with the password of the same name
V5_CONNECT: Final = b"\x00\x04MQTT\x05"


@final
class Confirms:
    """PUBACK and PUBREC packets that leave when frame `lsn` of the log is on disk."""

    def __init__(self, lsn: i64, octets: bytes, count: i64) -> None:
        self.lsn: i64 = lsn
        self.octets = octets
        self.count: i64 = count


@final
class MqttSession(Session):
    """The session of one MQTT connection."""

    def __init__(self, session_id: int, vhost: Vhost, auth: Auth, options: Options, loopback: bool) -> None:
        super().__init__(session_id, vhost)
        self.auth = auth
        self.loopback = loopback
        self.client_id = ""
        self.user = ""
        self.version: i64 = 0  # 0 until a CONNECT came
        self.connected = False
        self.problem_information = True
        # limits
        self.octets_max: i64 = options.mqtt_packet_octets_max
        self.body_octets_max: i64 = options.message_octets_max
        self.levels_max: i64 = options.mqtt_topic_levels_max
        self.receive_max: i64 = options.mqtt_inflight_max
        self.unread_octets_max: i64 = options.send_buffer_octets_max
        self.unread_octets: i64 = 0  # answers written since the connection takes no more
        self.handshake_us: i64 = options.handshake_timeout_ms * MICROSECONDS
        self.keep_alive_us: i64 = 0
        self.deadline_us: i64 = 0
        self.heard = True
        # publishes
        self.packet = Publish()
        self.memo: dict[bytes, Route] = {}  # checked topic -> route, of vhost epoch `epoch`
        self.epoch: i64 = -1
        self.acks = BytesWriter()  # of this turn
        self.ack_count: i64 = 0  # PUBACKs among them
        self.due: deque[Confirms] = deque()
        self.unconfirmed: i64 = 0  # PUBACKs not yet in `out`
        self.awaiting_rel: set[int] = set()
        self.ignored: i64 = 0  # refused publishes of clients that cannot be told
        self.received: i64 = 0
        # deliveries
        self.outbox = Outbox(session_id, vhost, self.out, options.mqtt_backlog_octets_max)
        self.subscriptions = Subscriptions(session_id, vhost, self.outbox, options.mqtt_topic_levels_max)
        # will
        self.will: Connect | None = None

    # ---- octets in

    def receive(self, data: bytes) -> int:
        at: i64 = 0
        size: i64 = len(data)
        self.heard = True
        try:
            if not self.connected and size and data[0] != CONNECT << 4:
                raise unexpected(f"first packet of type {data[0] >> 4}: must be CONNECT")
            while at + 2 <= size:
                found = frame(data, at, size, self.octets_max)
                if found == 0:
                    break
                end = found >> 3
                start = at + (found & 7)
                first = i64(data[at])
                if first >> 4 == PUBLISH and self.connected:
                    self.on_publish(data, first & 15, start, end)
                elif first == PUBACK << 4 and end - start == 2 and (data[start] or data[start + 1]):
                    self.outbox.acknowledged(i64(data[start]) << 8 | i64(data[start + 1]), 0)
                else:
                    self.on_packet(data, first, start, end)
                at = end
                if self.closing:
                    at = size
        except PeerError as error:
            self.fail(error)
            at = size
        outbox = self.outbox
        if outbox.acked is not None:
            outbox.settle()
        if outbox.backlog and not self.closing:
            outbox.drain()
        return int(at)

    def wanted(self, rest: bytes) -> int:
        return int(frame_octets(rest))

    def on_packet(self, data: bytes, first: i64, at: i64, end: i64) -> None:
        """Any packet but PUBLISH and the plain PUBACK."""
        kind = first >> 4
        if not self.connected:
            if kind != CONNECT:
                raise unexpected(f"first packet of type {kind}: must be CONNECT")
            self.on_connect(data, first & 15, at, end)
            return
        packet = decode_packet(data, first, at, end, self.version)
        if isinstance(packet, Subscribe):
            self.on_subscribe(packet)
        elif isinstance(packet, Ack):
            if kind == PUBACK:
                self.outbox.acknowledged(packet.packet_id, packet.code)
            elif kind == PUBREL:
                self.on_pubrel(packet)
            elif kind == PINGREQ:
                self.out.write(b"\xd0\x00")
            elif kind == DISCONNECT:
                self.on_disconnect(packet)
            else:
                self.on_strange(packet)
        else:
            raise unexpected(
                f"packet type {kind}: " + ("a second CONNECT" if kind == CONNECT else "only servers send it")
            )

    def on_strange(self, packet: Ack) -> None:
        """What belongs to no exchange that this session has begun."""
        kind = packet.kind
        if kind not in (PUBREC, PUBCOMP):
            raise unexpected(f"packet type {kind}: not expected from this client")
        # Nothing is delivered at QoS 2.
        self.outbox.unknown_acks += 1
        if kind == PUBREC and packet.code < codes.FAILURE:
            write_ack(self.out, PUBREL, packet.packet_id, codes.ID_NOT_FOUND if self.version == V5 else 0, b"")

    # ---- CONNECT and DISCONNECT

    def on_connect(self, data: bytes, flags: i64, at: i64, end: i64) -> None:
        try:
            if data[at : at + 7] == V5_CONNECT:
                self.version = V5
            packet = decode_connect(data, flags, at, end)
        except PeerError as error:
            if error.reason == UNSUPPORTED_VERSION:
                self.out.write(b"\x20\x02\x00\x01")  # [MQTT-3.1.2-2] of 3.1.1; a client of any version knows it
            raise
        self.version = packet.version
        if packet.version == V5:
            self.take_limits(packet)
        else:
            self.outbox.window = self.receive_max
        if packet.has_will:
            check_topic_name(packet.will_topic, "CONNECT: will topic", self.levels_max)
            if packet.will_retain and packet.version == V5:
                raise PeerError(codes.RETAIN, "CONNECT: will retain: retained messages are not supported")
        if not packet.client_id and not packet.clean and packet.version == V311:
            self.refuse(codes.V311_BAD_CLIENT_ID, "CONNECT: client identifier: empty without clean session")
            return
        if self.login(packet):
            self.accept(packet)

    def take_limits(self, packet: Connect) -> None:
        """The client's limits, from its CONNECT properties."""
        block = packet.properties
        window = props.number_of(block, props.RECEIVE_MAXIMUM, 65_535)
        self.outbox.window = min(self.receive_max, window)
        self.outbox.packet_octets_max = min(
            props.number_of(block, props.MAXIMUM_PACKET_SIZE, PACKET_OCTETS_MAX), PACKET_OCTETS_MAX
        )
        self.outbox.version = V5
        self.problem_information = props.number_of(block, props.REQUEST_PROBLEM_INFORMATION, 1) == 1
        for property in props.decode_properties(block):
            if property.id == props.AUTH_METHOD:
                raise PeerError(codes.AUTH_METHOD, "CONNECT: authentication method: none is supported")
            if property.id == props.AUTH_DATA:
                raise unexpected("CONNECT: authentication data without method")

    def login(self, packet: Connect) -> bool:
        user = ANONYMOUS
        password = ANONYMOUS
        if packet.user is not None or packet.password is not None:
            user = "" if packet.user is None else packet.user.decode("utf-8")
            password = "" if packet.password is None else packet.password.decode("utf-8", "surrogateescape")
        try:
            self.user = self.auth.check(user, password, self.loopback)
        except RequestError as error:
            detail = getattr(error, "detail", error.text)
            self.refuse(codes.BAD_USER if self.version == V5 else codes.V311_NOT_AUTHORIZED, str(detail))
            return False
        return True

    def refuse(self, code: i64, reason: str) -> None:
        """CONNACK with an error; its reason is for the operator."""
        write_connack(self.out, Connack(False, code, b""), self.version)
        self.reason = reason
        self.closing = True

    def accept(self, packet: Connect) -> None:
        """CONNACK with what this broker can do."""
        assigned = not packet.client_id
        client_id = b"auto-%d" % self.id if assigned else packet.client_id
        self.client_id = client_id.decode("utf-8")
        if self.version == V311:
            self.subscriptions.default_group = group_of_client(self.client_id)
        self.keep_alive_us = packet.keep_alive_s * 1_500_000  # one and a half [MQTT-3.1.2-22]
        self.deadline_us = 0
        if packet.has_will:
            self.will = packet
        self.connected = True
        block = b""
        if self.version == V5:
            made = [
                props.Property(props.SESSION_EXPIRY, 0, b"", b""),
                props.Property(props.RECEIVE_MAXIMUM, self.receive_max, b"", b""),
                props.Property(props.RETAIN_AVAILABLE, 0, b"", b""),
                props.Property(props.MAXIMUM_PACKET_SIZE, self.octets_max, b"", b""),
                props.Property(props.TOPIC_ALIAS_MAXIMUM, 0, b"", b""),
                props.Property(props.WILDCARD_AVAILABLE, 1, b"", b""),
                props.Property(props.SUBSCRIPTION_ID_AVAILABLE, 0, b"", b""),
                props.Property(props.SHARED_AVAILABLE, 0, b"", b""),
            ]
            if assigned:
                made.append(props.Property(props.ASSIGNED_CLIENT_ID, 0, client_id, b""))
            block = props.encode_properties(made)
        write_connack(self.out, Connack(False, codes.SUCCESS, block), self.version)

    def on_disconnect(self, packet: Ack) -> None:
        if packet.properties and props.number_of(packet.properties, props.SESSION_EXPIRY, 0):
            # The session ends with the connection, so the CONNACK said 0, and it may not be raised [MQTT-3.14.2-2].
            raise unexpected("DISCONNECT: session expiry interval: was 0")
        if packet.code != codes.DISCONNECT_WITH_WILL:
            self.will = None
        self.closing = True

    def fail(self, error: PeerError) -> None:
        """The peer broke the protocol: say so as far as its version can, and end the connection."""
        self.reason = error.text
        self.closing = True
        code: i64 = codes.PEER_CODES.get(error.reason, codes.PROTOCOL_ERROR)
        if self.version == V5:
            if self.connected:
                write_bare(self.out, DISCONNECT, code, self.reason_block(error.text))
            elif error.reason not in (UNSUPPORTED_VERSION, TIMED_OUT):
                write_connack(self.out, Connack(False, code, self.reason_block(error.text)), V5)

    def reason_block(self, text: str) -> bytes:
        """A property block with this reason string; empty where the client does not want it [MQTT-3.1.2-29]."""
        octets = text.encode("utf-8", "replace")[:REASON_OCTETS_MAX]
        if not self.problem_information or len(octets) + 16 > self.outbox.packet_octets_max:
            return b""
        octets = octets.decode("utf-8", "ignore").replace("\0", " ").encode()
        block = BytesWriter()
        props.append_text_property(block, props.REASON_STRING, octets)
        return block.getvalue()

    # ---- PUBLISH

    def on_publish(self, data: bytes, flags: i64, at: i64, end: i64) -> None:
        packet = self.packet
        decode_publish(packet, data, flags, at, end, self.version)
        self.received += 1
        if flags & 1 and self.version == V5:
            # CONNACK said so [MQTT-3.2.2-14]. A 3.1.1 client cannot be told: its message is published unretained.
            raise PeerError(codes.RETAIN, "PUBLISH: retain: retained messages are not supported")
        if end - packet.properties_end > self.body_octets_max:
            raise PeerError(
                TOO_LARGE,
                f"PUBLISH: payload of {end - packet.properties_end} octets, the limit is {self.body_octets_max}",
            )
        properties = b""
        if packet.properties_at < packet.properties_end:
            properties = self.publish_properties(packet)
        qos = packet.qos
        if qos and not self.may_publish(packet):
            return
        vhost = self.vhost
        epoch: i64 = vhost.epoch
        if epoch != self.epoch:
            self.memo.clear()
            self.epoch = epoch
        topic = data[packet.topic_at : packet.topic_end]
        route = self.memo.get(topic)
        if route is None:
            route = self.find_route(packet, topic, properties)
            if route is None:
                return
        outcome = vhost.publish(route, u8(MQTT | qos << 4), properties, data[packet.properties_end : end])
        if qos == 1 and outcome == ACCEPTED:
            write_i32_be(self.acks, i32(0x40020000 | packet.packet_id))
            self.ack_count += 1
            self.unconfirmed += 1
        elif qos or outcome == REJECTED:
            self.answer(packet, outcome)

    def publish_properties(self, packet: Publish) -> bytes:
        """The property block as it is kept with the message: checked, without what concerns this connection only."""
        seen = props.check_properties(packet.data, packet.properties_at, packet.properties_end, PUBLISH)
        if seen & (1 << props.TOPIC_ALIAS):
            raise PeerError(codes.ALIAS, "PUBLISH: topic alias: the maximum is 0")
        if seen & (1 << props.SUBSCRIPTION_ID):
            raise unexpected("PUBLISH: subscription identifier from a client")  # [MQTT-3.3.4-6]
        return packet.properties()

    def may_publish(self, packet: Publish) -> bool:
        """Whether a PUBLISH of QoS 1 or 2 is new; PeerError if there are more than the receive maximum."""
        if packet.qos == 2 and packet.packet_id in self.awaiting_rel:
            write_ack(self.acks, PUBREC, packet.packet_id, 0, b"")
            return False
        if self.unconfirmed + len(self.awaiting_rel) >= self.receive_max and self.version == V5:
            raise PeerError(
                codes.RECEIVE_MAXIMUM, f"PUBLISH: more than {self.receive_max} unacknowledged, the receive maximum"
            )
        return True

    def find_route(self, packet: Publish, topic: bytes, properties: bytes) -> Route | None:
        """Where a topic leads; None where the publish is dealt with already."""
        check_topic_name(topic, "PUBLISH: topic", self.levels_max)
        try:
            at = command_at(topic)
            if at:
                run_command(self.vhost, topic, at, properties)
                if packet.qos:
                    self.answer(packet, ACCEPTED)
                return None
            route = self.vhost.route_topic(topic)
        except RequestError as error:
            self.answer_error(packet, error)
            return None
        # Looking may have made an ephemeral queue; what was known before is of another epoch then.
        epoch: i64 = self.vhost.epoch
        if epoch != self.epoch or len(self.memo) >= MEMO_ENTRIES:
            self.memo.clear()
            self.epoch = epoch
        if len(topic) <= MEMO_TOPIC_OCTETS_MAX:
            self.memo[topic] = route
        return route

    def answer_error(self, packet: Publish, error: RequestError) -> None:
        """A command or address that means nothing. A 3.1.1 client cannot be told: it gets its PUBACK."""
        self.ignored += 1
        if packet.qos == 0:
            return
        code: i64 = codes.SUCCESS
        block = b""
        if self.version == V5:
            code = codes.PAYLOAD_INVALID if error.reason == "invalid" else codes.IMPLEMENTATION_ERROR
            block = self.reason_block(error.text)
        self.write_answer(packet, code, block)

    def answer(self, packet: Publish, outcome: i64) -> None:
        """Answer a PUBLISH whose answer is not the plain PUBACK."""
        if outcome == REJECTED and (packet.qos == 0 or self.version == V311):
            self.ignored += 1
            if packet.qos:
                # 3.1.1 has no way to refuse; without PUBACK the client sends it again when it comes back.
                self.reason = f"a publish was refused: {self.vhost.refusal}"
                self.closing = True
            return
        code: i64 = codes.SUCCESS
        block = b""
        if outcome == UNROUTABLE and self.version == V5:
            code = codes.NO_MATCHING_SUBSCRIBERS
        elif outcome == REJECTED:
            code = codes.QUOTA_EXCEEDED
            block = self.reason_block(self.vhost.refusal)
        self.write_answer(packet, code, block)

    def write_answer(self, packet: Publish, code: i64, block: bytes) -> None:
        """Append PUBACK or PUBREC to what leaves when the turn is on disk."""
        if packet.qos == 2:
            if code < codes.FAILURE:
                self.awaiting_rel.add(int(packet.packet_id))
            write_ack(self.acks, PUBREC, packet.packet_id, code, block)
            return
        write_ack(self.acks, PUBACK, packet.packet_id, code, block)
        self.ack_count += 1
        self.unconfirmed += 1

    def on_pubrel(self, packet: Ack) -> None:
        code: i64 = codes.SUCCESS
        if packet.packet_id in self.awaiting_rel:
            self.awaiting_rel.discard(packet.packet_id)
        elif self.version == V5:
            code = codes.ID_NOT_FOUND
        write_ack(self.out, PUBCOMP, packet.packet_id, code, b"")

    # ---- SUBSCRIBE

    def on_subscribe(self, packet: Subscribe) -> None:
        subscriptions = self.subscriptions
        if packet.kind == SUBSCRIBE:
            answer = subscriptions.subscribe(packet)
            if subscriptions.reason and self.version == V5:
                answer.properties = self.reason_block(subscriptions.reason)
        else:
            assert packet.kind == UNSUBSCRIBE
            answer = subscriptions.unsubscribe(packet)
        write_suback(self.out, answer, self.version)

    def deliver(self, delivery: Delivery) -> None:
        if not self.closing:
            self.outbox.deliver(delivery)

    def cancelled(self, consumer: Consumer) -> None:
        if self.subscriptions.cancelled(consumer) and not self.closing:
            # MQTT cannot end one subscription from this side; a client that reconnects learns what is there.
            self.fail(PeerError(codes.ADMINISTRATIVE, "the queue of a subscription was deleted"))

    # ---- confirms

    def end_turn(self, lsn: int, durable: int) -> None:
        if len(self.acks):
            confirms = Confirms(lsn, self.acks.getvalue(), self.ack_count)
            self.acks.truncate(0)
            self.ack_count = 0
            if durable >= lsn and not self.due:
                self.release(confirms)
            else:
                self.due.append(confirms)
        self.limit_answers()

    def limit_answers(self) -> None:
        """Deliveries wait while the connection takes no more; a client that asks on and never reads has to go."""
        if not self.outbox.is_paused():
            self.unread_octets = 0
            return
        self.unread_octets += len(self.out)
        if self.unread_octets > self.unread_octets_max and not self.closing:
            self.fail(PeerError(codes.UNREAD, f"more than {self.unread_octets_max} octets of answers were not read"))

    def on_durable(self, durable: int) -> None:
        due = self.due
        while due and due[0].lsn <= durable:
            self.release(due.popleft())
        self.limit_answers()

    def release(self, confirms: Confirms) -> None:
        if not self.closing:
            self.out.write(confirms.octets)
        self.unconfirmed -= confirms.count

    def waiting(self) -> bool:
        return len(self.due) > 0

    # ---- time, and the end

    def tick(self, now_us: int) -> None:
        now: i64 = now_us
        self.outbox.sweep()
        if not self.connected:
            if self.deadline_us == 0:
                self.deadline_us = now + self.handshake_us
            elif now > self.deadline_us and not self.closing:
                self.fail(PeerError(TIMED_OUT, "no CONNECT in time"))
            return
        if self.keep_alive_us == 0 or self.closing:
            return
        if self.heard or self.unread:
            self.heard = False
            self.deadline_us = now + self.keep_alive_us
        elif now > self.deadline_us:
            self.fail(PeerError(TIMED_OUT, "nothing heard for one and a half times the keep alive interval"))

    def taken_over(self) -> None:
        """Another connection has come with this client's identifier."""
        if not self.closing:
            self.fail(PeerError(TAKEN_OVER, "another connection has taken over the client identifier"))

    def shut_down(self) -> None:
        """The broker stops: no wills, for nobody could be told."""
        self.will = None
        if not self.closing:
            self.closing = True
            if self.connected and self.version == V5:
                write_bare(self.out, DISCONNECT, codes.SHUTTING_DOWN, b"")

    def closed(self) -> None:
        self.vhost.session_closed(self.id)
        will = self.will
        self.will = None
        if will is not None:
            self.publish_will(will)

    def publish_will(self, will: Connect) -> None:
        """The connection ended without DISCONNECT [MQTT-3.1.2-8]; nobody hears of a will that is refused."""
        if command_at(will.will_topic):
            return
        try:
            route = self.vhost.route_topic(will.will_topic)
        except RequestError:
            return
        block = props.without(will.will_properties, 1 << props.WILL_DELAY)
        self.vhost.publish(route, u8(MQTT | will.will_qos << 4), block, will.will_body)

    def describe(self) -> dict[str, object]:
        outbox = self.outbox
        return {
            "protocol": "MQTT 5.0" if self.version == V5 else "MQTT 3.1.1",
            "user": self.user,
            "client_id": self.client_id,
            "subscriptions": len(self.subscriptions.topics) + len(self.subscriptions.queues),
            "received": int(self.received),
            "sent": int(outbox.sent),
            "inflight": int(outbox.inflight),
            "backlog_octets": int(outbox.backlog_octets),
            "dropped": int(outbox.dropped),
            "too_large": int(outbox.too_large),
            "ignored": int(self.ignored),
        }
