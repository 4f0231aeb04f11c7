"""One MQTT connection, versions 3.1.1 and 5.0: which packet is whose. What stays without it is a `ClientSession`."""

from __future__ import annotations

from collections import deque
from typing import final

from librt.strings import BytesWriter
from mypy_extensions import i64

from forebay.broker.contract import VhostContract
from forebay.broker.mqtt.client_session import ClientSession
from forebay.core.errors import (
    TAKEN_OVER,
    TIMED_OUT,
    Later,
    PeerError,
)
from forebay.core.options import Options
from forebay.directory.logins.authorizer import Undecided
from forebay.directory.logins.login import Auth
from forebay.directory.permissions import Rights
from forebay.queue.leases.lease import Consumer, Delivery
from forebay.session.login import MqttLogin
from forebay.session.mqtt.entry.auth import AuthExchange
from forebay.session.mqtt.entry.connect import (
    GRACE_US,
    changed_expiry,
)
from forebay.session.mqtt.entry.redirect import server_reference
from forebay.session.mqtt.incoming.long import LongInbox, is_long
from forebay.session.mqtt.incoming.publish import Confirms, Inbox
from forebay.session.mqtt.incoming.subscribe import PACKET_POINTS, SubscribeInbox
from forebay.session.mqtt.outgoing.deliver import Outbox
from forebay.session.mqtt.outgoing.encode import PacketEncoder
from forebay.session.mqtt.outgoing.window import Window
from forebay.session.mqtt.subscriptions import Subscriptions
from forebay.session.session import Session
from forebay.wire.mqtt import codes
from forebay.wire.mqtt.codes import (
    AUTH,
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
    unexpected,
)
from forebay.wire.mqtt.encoding import write_bare, write_connack, write_suback
from forebay.wire.mqtt.packets import (
    Ack,
    Connack,
    decode_packet,
    frame,
    frame_octets,
)


@final
class MqttSession(Session):
    """The session of one MQTT connection.

    held             what leaves when this turn is on disk
    client           what outlives the connection
    others_received  packets of other types than PUBLISH
    """

    def __init__(
        self,
        session_id: int,
        login: MqttLogin,
        vhost: VhostContract,
        rights: Rights,
        client: ClientSession,
        connack: Connack,
        auth: Auth,
        options: Options,
    ) -> None:
        super().__init__(session_id, login, vhost, rights)
        terms = login.terms
        self.auth = auth
        self.options = options
        self.version: i64 = login.version
        self.client = client
        self.terms = terms
        self.exchange = AuthExchange(auth, login.context.loopback, session_id, login.auth_method, login.principal.user)
        self.exchange.packet_octets_max = terms.packet_octets_max
        self.octets_max: i64 = options.mqtt_packet_octets_max
        self.unread_octets_max: i64 = options.send_buffer_octets_max
        self.unread_octets: i64 = 0  # answers written since the connection takes no more
        self.keep_alive_us: i64 = terms.keep_alive_us
        self.deadline_us: i64 = 0
        self.heard = True
        self.others_received: i64 = 0
        self.held = BytesWriter()
        self.due: deque[Confirms] | None = None
        encoder = PacketEncoder()
        encoder.version = self.version
        encoder.packet_octets_max = terms.packet_octets_max
        encoder.alias_max = terms.alias_max
        spill = options.mqtt_max_mqueue_len if options.mqtt_mqueue_overflow == "spill" else 0
        self.outbox = Outbox(
            self.id, vhost, client, encoder, Window(terms.window), self.out, self.parts, self.held, spill
        )
        self.inbox = Inbox(
            vhost, rights, client, encoder, self.out, self.held, options, self.meter, terms.problem_information
        )
        self.long = LongInbox(self.inbox)
        self.subscriptions = Subscriptions(self.id, vhost, rights, self.outbox, options, self.inbox.work)
        self.subscribes = SubscribeInbox(self.subscriptions, self.meter, options.mqtt_user_properties_max)
        self.wrote()
        write_connack(self.out, connack, self.version)
        if client.durable:
            self.hold()
        self.has_delivered = bool(client.subscriptions)
        self.subscriptions.begin()
        self.outbox.resume(rights)

    # ---- octets in

    def receive(self, data: bytes) -> int:
        at: i64 = 0
        first: i64 = 0
        size: i64 = len(data)
        self.heard = True
        self.meter.begin()
        if self.is_proving():
            return 0
        is_over = self.closing
        if is_over or self.client.connection != self.id:
            return int(size)  # perhaps another connection has the session: nothing that comes here counts any more
        try:
            if self.long.packet is not None:
                first = PUBLISH << 4
                at = self.go_on(data, 0)
                if self.is_proving():
                    return int(at)
            while at + 2 <= size:
                found = frame(data, at, size, self.octets_max)
                if found == 0:
                    break
                end = found >> 3
                start = at + (found & 7)
                first = i64(data[at])
                if first >> 4 == PUBLISH:
                    self.inbox.publish(data, first & 15, start, end)
                else:
                    self.others_received += 1
                    if end - start == 2 and PUBACK << 4 <= first < SUBSCRIBE << 4:
                        self.on_plain_ack(data, first, start, end)
                    else:
                        self.on_packet(data, first, start, end)
                        if self.is_proving():
                            return int(end)
                at = end
                if self.closing:
                    at = size
            if at < size:
                head = self.long.begin(data, at, self.version)
                at = self.go_on(data, at + head) if head else at
        except (Undecided, Later) as error:
            self.put_off(self.auth, error)
            if first >> 4 == PUBLISH:
                self.inbox.untake()
            else:
                self.others_received -= 1
        except PeerError as error:
            self.fail(error)
            at = size
        outbox = self.outbox
        if outbox.acked.lease is not None:
            outbox.settle()
        if not self.closing and outbox.has_waiting():
            outbox.drain()
        return int(at)

    def go_on(self, data: bytes, at: i64) -> i64:
        """Take what is there of a long PUBLISH; where in `data` it ends."""
        at = self.long.take(data, at)
        if self.long.joining is not None:
            self.join_body(self.long.joining)
        return at

    def wanted(self, rest: bytes) -> int:
        return 0 if is_long(rest, frame_octets(rest)) else int(frame_octets(rest))

    def on_plain_ack(self, data: bytes, first: i64, at: i64, end: i64) -> None:
        """PUBACK, PUBREC, PUBREL or PUBCOMP of two octets, which say success."""
        id = i64(data[at]) << 8 | i64(data[at + 1])
        if id == 0:
            self.on_packet(data, first, at, end)
        elif first == PUBACK << 4:
            self.outbox.acknowledged(id, 0)
        elif first == PUBREL << 4 | 2:
            self.inbox.release(id)
        elif first == PUBREC << 4:
            self.outbox.received(id, 0)
        elif first == PUBCOMP << 4:
            self.outbox.completed(id)
        else:
            self.on_packet(data, first, at, end)

    def on_packet(self, data: bytes, first: i64, at: i64, end: i64) -> None:
        """Any packet but PUBLISH and the plain acknowledgements."""
        kind = first >> 4
        if kind in (SUBSCRIBE, UNSUBSCRIBE):
            self.on_subscribe(data, first, at, end)
            return
        self.meter.start(PACKET_POINTS)
        packet = decode_packet(data, first, at, end, self.version, self.inbox.user_properties_max)
        if isinstance(packet, Ack):
            self.on_ack(packet)
        else:
            raise unexpected(
                f"packet type {kind}: " + ("a second CONNECT" if kind == CONNECT else "only servers send it")
            )

    def on_ack(self, packet: Ack) -> None:
        kind = packet.kind
        if kind == PUBACK:
            self.outbox.acknowledged(packet.packet_id, packet.code)
        elif kind == PUBREC:
            self.outbox.received(packet.packet_id, packet.code)
        elif kind == PUBREL:
            self.inbox.release(packet.packet_id)
        elif kind == PUBCOMP:
            self.outbox.completed(packet.packet_id)
        elif kind == PINGREQ:
            self.wrote()
            self.out.write(b"\xd0\x00")
        elif kind == DISCONNECT:
            self.on_disconnect(packet)
        elif kind == AUTH:
            self.on_auth(packet)
        else:
            raise unexpected(f"packet type {kind}: only servers send it")

    def proven(self) -> None:
        """Read on: the packet that needed the answer comes again."""
        self.proof = None

    def blocked(self, reason: str) -> None:
        """The protocol has no word for it."""

    def is_publisher(self) -> bool:
        return self.inbox.received > 0

    def published(self) -> int:
        return int(self.inbox.received)

    def is_reader(self) -> bool:
        return self.outbox.window.inflight > 0 or super().is_reader()

    # ---- AUTH and DISCONNECT

    def on_auth(self, packet: Ack) -> None:
        answer = self.exchange.on_auth(packet)
        self.wrote()
        write_bare(self.out, answer.kind, answer.code, answer.block)
        if answer.code >= codes.FAILURE:
            self.reason = answer.detail
            self.closing = True

    def on_disconnect(self, packet: Ack) -> None:
        client = self.client
        codes.check_client_end(packet.code)
        self.closing = True
        if packet.properties:
            expiry_s = changed_expiry(client, self.terms, self.options, packet.properties)
            if expiry_s < 0:
                raise unexpected("DISCONNECT: session expiry interval: was 0")
            client.expiry_s = expiry_s
        if packet.code != codes.DISCONNECT_WITH_WILL:
            client.will = None

    def fail(self, error: PeerError) -> None:
        """The peer broke the protocol: say so as far as its version can, and end the connection."""
        self.reason = error.text
        self.closing = True
        if self.version == V5:
            self.wrote()
            code = codes.PEER_CODES.get(error.reason, codes.PROTOCOL_ERROR)
            write_bare(self.out, DISCONNECT, code, self.inbox.reason_block(error.text))

    # ---- SUBSCRIBE, and deliveries

    def on_subscribe(self, data: bytes, first: i64, at: i64, end: i64) -> None:
        self.has_delivered = True
        answer = self.subscribes.take(data, first, at, end, self.version)
        if self.subscriptions.reason and self.version == V5:
            answer.properties = self.inbox.reason_block(self.subscriptions.reason)
        self.wrote()
        write_suback(self.out, answer, self.version)
        if self.client.durable:
            self.hold()

    def deliver(self, delivery: Delivery) -> None:
        if self.closing:
            self.outbox.keep(delivery)
        else:
            self.outbox.deliver(delivery)

    def cancelled(self, consumer: Consumer) -> None:
        if self.subscriptions.cancelled(consumer) and not self.closing:
            # MQTT cannot end one subscription from this side; a client that reconnects learns what is there.
            code = codes.UNSPECIFIED if consumer.lost else codes.ADMINISTRATIVE
            self.fail(PeerError(code, consumer.lost or "the queue of a subscription was deleted"))

    # ---- what waits for the disk

    def end_turn(self, lsn: int, durable: int) -> None:
        if len(self.held):
            confirms = self.inbox.take_confirms(lsn)
            if durable >= lsn and not self.due:
                self.release(confirms)
            else:
                if self.due is None:
                    self.due = deque()
                self.due.append(confirms)
        self.limit_answers()
        if self.outbox.feeder.given and not self.closing:
            self.outbox.end_turn()

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
        if due is None:
            return
        while due and due[0].lsn <= durable:
            self.release(due.popleft())
        if not due:
            self.due = None
        self.limit_answers()

    def release(self, confirms: Confirms) -> None:
        if not self.closing:
            self.out.write(confirms.octets)
            self.outbox.encoder.others_sent += confirms.count
        self.inbox.unconfirmed -= confirms.count
        if not self.due and not len(self.held):
            self.outbox.holds_qos2 = False

    def waiting(self) -> bool:
        return self.due is not None

    # ---- time, and the end

    def tick(self, now_us: int) -> None:
        now: i64 = now_us
        if not self.closing:
            self.outbox.sweep()
        if self.keep_alive_us == 0 or self.closing:
            return
        if self.heard or self.unread:
            self.heard = False
            self.deadline_us = now + self.keep_alive_us
        elif now > self.deadline_us:
            self.fail(PeerError(TIMED_OUT, "nothing heard for one and a half times the keep alive interval"))

    def wrote(self) -> None:
        """Count one packet more that is no PUBLISH."""
        self.outbox.encoder.others_sent += 1

    def taken_over(self) -> None:
        """End the connection: another one has come with this client's identifier."""
        if not self.closing:
            self.fail(PeerError(TAKEN_OVER, "another connection has taken over the client identifier"))

    def dismiss(self, text: str, is_ours: bool = False) -> None:
        if not self.closing:
            self.fail(PeerError(codes.UNSPECIFIED if is_ours else codes.ADMINISTRATIVE, text))

    def shut_down(self) -> None:
        """The broker stops: no wills, for nobody could be told."""
        if self.client.connection == self.id:
            self.client.will = None
        self.take_leave(codes.SHUTTING_DOWN, b"")

    def send_elsewhere(self, server: str) -> None:
        self.take_leave(codes.USE_ANOTHER_SERVER, server_reference(server, self.outbox.encoder.packet_octets_max))

    def take_leave(self, code: i64, properties: bytes) -> None:
        if not self.closing and self.version == V5:
            self.wrote()
            write_bare(self.out, DISCONNECT, code, properties)
        self.closing = True

    def closed(self) -> None:
        self.outbox.close()
        self.vhost.session_closed(self.id)
        self.vhost.mqtt_clients.detach(self.client, self.id)

    def describe(self) -> dict[str, object]:
        fields = client_fields(self.inbox, self.outbox, self.client)
        return {"user": self.principal.user, "keep_alive_s": int(self.keep_alive_us // GRACE_US), **fields}


def client_fields(inbox: Inbox, outbox: Outbox, client: ClientSession) -> dict[str, object]:
    """Return the counts of both directions, and those of the client's session."""
    return {
        "protocol": "MQTT 5.0" if inbox.version == V5 else "MQTT 3.1.1",
        "received": int(inbox.received),
        "ignored": int(inbox.ignored),
        "sent": int(outbox.encoder.sent),
        "too_large": int(outbox.encoder.too_large),
        "expired": int(outbox.encoder.expired),
        "inflight": int(outbox.window.inflight),
        "inflight_max": int(outbox.window.size),
        "client_id": client.client_id.decode(),
        "durable": client.durable,
        "subscriptions": len(client.subscriptions),
        "waiting": int(client.mqueue.count),
        "dropped": int(client.mqueue.dropped),
    }
