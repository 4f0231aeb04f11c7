"""One MQTT connection, versions 3.1.1 and 5.0: which packet is whose. What stays without it is a `ClientSession`."""

from __future__ import annotations

from collections import deque
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from forebay.broker.mqtt.client_session import ClientSession
from forebay.broker.vhost import Vhost
from forebay.broker.vhosts import Vhosts
from forebay.core.errors import (
    TAKEN_OVER,
    TIMED_OUT,
    TOO_LARGE,
    UNSUPPORTED_VERSION,
    Later,
    PeerError,
    RequestError,
)
from forebay.core.option_names import VHOST
from forebay.core.options import Options
from forebay.directory.logins.authorizer import Principal, Undecided
from forebay.directory.logins.login import Auth
from forebay.queue.leases.lease import Consumer, Delivery
from forebay.session.mqtt.client_fields import client_fields
from forebay.session.mqtt.entry.auth import Answer, AuthExchange
from forebay.session.mqtt.entry.connect import (
    GRACE_US,
    Terms,
    begins_v5,
    changed_expiry,
    check_begun,
    credentials,
    is_v5,
    will_of,
)
from forebay.session.mqtt.entry.redirect import redirect_answer, server_reference
from forebay.session.mqtt.incoming.long import LongInbox, is_long
from forebay.session.mqtt.incoming.publish import Confirms, Inbox
from forebay.session.mqtt.incoming.subscribe import PACKET_POINTS, SubscribeInbox
from forebay.session.mqtt.outgoing.deliver import Outbox
from forebay.session.mqtt.outgoing.window import Window
from forebay.session.mqtt.rights import check_connect, check_identifier, owner_of, refusal_code
from forebay.session.mqtt.subscriptions import Subscriptions
from forebay.session.session import Session
from forebay.wire.mqtt import codes
from forebay.wire.mqtt.codes import (
    AUTH,
    CONNACK,
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
    unexpected,
)
from forebay.wire.mqtt.encoding import write_bare, write_connack, write_suback
from forebay.wire.mqtt.packets import (
    Ack,
    Connack,
    Connect,
    decode_connect,
    decode_packet,
    frame,
    frame_octets,
)

MICROSECONDS: Final = 1000


@final
class MqttSession(Session):
    """The session of one MQTT connection.

    held             what leaves when this turn is on disk
    client           what outlives the connection; None until the CONNECT is accepted
    others_received  packets of other types than PUBLISH
    """

    def __init__(
        self, session_id: int, vhosts: Vhosts, auth: Auth, options: Options, loopback: bool, identity: str = ""
    ) -> None:
        vhost = vhosts.default
        super().__init__(session_id, vhost)
        self.vhosts = vhosts
        self.auth = auth
        self.options = options
        self.loopback = loopback
        self.identity = identity
        self.user = ""
        self.vhost_name = vhost.name
        self.version: i64 = 0  # 0 until a CONNECT came
        self.client: ClientSession | None = None
        self.connected = False
        self.connect: Connect | None = None  # not answered yet: an exchange is under way
        self.exchange: AuthExchange | None = None
        self.auth_block = b""  # properties of an authentication for the CONNACK
        self.terms: Terms | None = None
        self.octets_max: i64 = min(options.login_octets_max, options.mqtt_packet_octets_max)  # until it is connected
        self.unread_octets_max: i64 = options.send_buffer_octets_max
        self.unread_octets: i64 = 0  # answers written since the connection takes no more
        self.handshake_us: i64 = options.handshake_timeout_ms * MICROSECONDS
        self.keep_alive_us: i64 = 0
        self.deadline_us: i64 = 0
        self.heard = True
        self.others_received: i64 = 0
        self.held = BytesWriter()
        self.due: deque[Confirms] | None = None
        spill = options.mqtt_max_mqueue_len if options.mqtt_mqueue_overflow == "spill" else 0
        self.outbox = Outbox(session_id, vhost, self.out, self.parts, self.held, spill)
        self.inbox = Inbox(vhost, self.outbox.encoder, self.out, self.held, options)
        self.inbox.meter = self.meter
        self.long = LongInbox(self.inbox)
        self.subscriptions = Subscriptions(session_id, vhost, self.outbox, options, self.inbox.work)
        self.subscribes = SubscribeInbox(self.subscriptions, self.meter, options.mqtt_user_properties_max)

    # ---- octets in

    def receive(self, data: bytes) -> int:
        at: i64 = 0
        first: i64 = 0
        size: i64 = len(data)
        self.heard = True
        self.meter.begin()
        client = self.client
        if self.is_proving():
            return 0
        is_over = self.closing
        if is_over or (client is not None and client.connection != self.id):
            return int(size)  # perhaps another connection has the session: nothing that comes here counts any more
        try:
            if self.long.packet is not None:
                first = PUBLISH << 4
                at = self.go_on(data, 0)
                if self.is_proving():
                    return int(at)
            if self.version == 0 and size:
                check_begun(data)
            while at + 2 <= size:
                found = frame(data, at, size, self.octets_max)
                if found == 0:
                    break
                end = found >> 3
                start = at + (found & 7)
                first = i64(data[at])
                if first >> 4 == PUBLISH and self.connected:
                    self.inbox.publish(data, first & 15, start, end)
                else:
                    self.others_received += 1
                    if end - start == 2 and self.connected and PUBACK << 4 <= first < SUBSCRIBE << 4:
                        self.on_plain_ack(data, first, start, end)
                    else:
                        self.on_packet(data, first, start, end)
                        if self.is_proving():
                            return int(end)
                at = end
                if self.closing:
                    at = size
            if at < size and self.connected:
                head = self.long.begin(data, at, self.version)
                at = self.go_on(data, at + head) if head else at
        except (Undecided, Later) as error:
            self.put_off(self.auth, error)
            if first >> 4 == PUBLISH:
                self.inbox.untake()
            else:
                self.others_received -= 1
        except PeerError as error:
            if self.version == 0 and error.reason == TOO_LARGE and begins_v5(data):
                self.version = V5  # it can be told
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
        return 0 if self.connected and is_long(rest, frame_octets(rest)) else int(frame_octets(rest))

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
        if not self.connected and self.connect is None:
            if kind != CONNECT:
                raise unexpected(f"first packet of type {kind}: must be CONNECT")
            self.on_connect(data, first & 15, at, end)
            return
        if not self.connected:
            assert self.exchange is not None
            self.on_answer(self.exchange.on_packet(data, first, at, end))
            return
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

    # ---- CONNECT, AUTH and DISCONNECT

    def on_connect(self, data: bytes, flags: i64, at: i64, end: i64) -> None:
        try:
            if is_v5(data, at):
                self.version = V5
            packet = decode_connect(data, flags, at, end, self.inbox.user_properties_max)
        except PeerError as error:
            if error.reason == UNSUPPORTED_VERSION:
                self.wrote()
                self.out.write(b"\x20\x02\x00\x01")  # [MQTT-3.1.2-2] of 3.1.1; a client of any version knows it
            raise
        self.version = packet.version
        self.inbox.version = packet.version
        self.auth.name_client(int(self.id), packet.client_id.decode())
        terms = self.terms = Terms(self.options)
        terms.take(packet, self.outbox.encoder)
        self.inbox.problem_information = terms.problem_information
        if not packet.client_id and not packet.clean and packet.version == V311:
            self.refuse(codes.V311_BAD_CLIENT_ID, b"", "CONNECT: client identifier: empty without clean session")
            return
        redirect = redirect_answer(self.options)
        if redirect is not None:
            code, block = redirect
            self.refuse(code if self.version == V5 else codes.V311_UNAVAILABLE, block, "redirected")
            return
        if self.version == V5:
            self.exchange = AuthExchange(self.auth, self.loopback, self.id)
            answer = self.exchange.on_connect(packet.properties)
            if answer is not None:
                self.connect = packet
                self.on_answer(answer)
                return
        if self.login(packet):
            self.accept(packet, b"")

    def login(self, packet: Connect) -> bool:
        """True if the client is who it says."""
        user, password = credentials(packet)
        place = user.rfind(":")
        if place >= 0 and not self.auth.knows(user):  # `vhost:user`, as RabbitMQ has it
            self.vhost_name = user[:place].encode("utf-8")
            user = user[place + 1 :]
        try:
            if packet.user is None and self.identity:
                self.logged_in(self.auth.admit(self.identity, self.loopback, True))
                return True
            self.proof = self.auth.begin(int(self.id), user, password)
            if self.proof is not None:
                self.connect = packet
                return False
            self.logged_in(self.auth.check(user, password, self.loopback))
        except RequestError as error:
            self.refuse_login(error)
            return False
        return True

    def proven(self) -> None:
        proof = self.proof
        packet = self.connect
        assert proof is not None
        self.proof = None
        if self.closing or self.connected:
            return  # what needed the answer comes again
        assert packet is not None
        try:
            if not self.user:
                self.logged_in(self.auth.conclude(proof, self.loopback))
        except RequestError as error:
            self.refuse_login(error)
            return
        self.accept(packet, self.auth_block)

    def blocked(self, reason: str) -> None:
        """The protocol has no word for it."""

    def is_publisher(self) -> bool:
        return self.inbox.received > 0

    def is_reader(self) -> bool:
        return self.outbox.window.inflight > 0 or super().is_reader()

    def logged_in(self, principal: Principal) -> None:
        self.principal = principal
        self.user = principal.user
        self.auth.note_login(int(self.id), principal.user)

    def refuse_login(self, error: RequestError) -> None:
        self.auth.note_refusal(int(self.id), error)
        code = codes.BAD_USER if self.version == V5 else codes.V311_NOT_AUTHORIZED
        self.refuse(code, self.inbox.reason_block(error.text), str(getattr(error, "detail", error.text)))

    def refuse(self, code: i64, block: bytes, reason: str) -> None:
        """CONNACK with an error; its reason is for the operator."""
        self.wrote()
        write_connack(self.out, Connack(False, code, block), self.version)
        self.reason = reason
        self.closing = True

    def accept(self, packet: Connect, auth_block: bytes) -> None:
        """Take the client's session up, and say in CONNACK what this broker can do."""
        terms = self.terms
        assert terms is not None
        self.auth_block = auth_block
        try:
            self.join(self.vhosts, self.vhost_name, self.principal)
            sessions = self.vhost.sessions
            assigned = b"" if packet.client_id else b"auto-%d-%d" % (int(sessions.now_us), self.id)
            client_id = packet.client_id or assigned
            check_connect(self.rights, sessions, self.principal, packet, client_id)
            owner = owner_of(self.principal, packet)
            if self.options.mqtt_client_id_scope == VHOST:
                check_identifier(sessions, client_id, owner.user)
        except Undecided as error:
            self.connect = packet
            self.ask(self.auth, error)
            return
        except RequestError as error:
            self.refuse(refusal_code(error, self.version), self.inbox.reason_block(error.text), error.text)
            return
        block = terms.connack_block(packet, assigned) + auth_block if self.version == V5 else b""
        if not terms.connack_fits(block):  # before the session is taken over
            self.refuse(codes.PACKET_TOO_LARGE, b"", f"CONNACK exceeds the client's {terms.packet_octets_max} octets")
            return
        try:
            client = self.vhost.sessions.attach(
                client_id, self.id, packet.clean, terms.expiry_s, will_of(packet), owner
            )
        except RequestError as error:
            code = codes.QUOTA_EXCEEDED if self.version == V5 else codes.V311_UNAVAILABLE
            self.refuse(code, self.inbox.reason_block(error.text), error.text)
            return
        self.client = client
        self.keep_alive_us = terms.keep_alive_us
        self.deadline_us, self.connected = 0, True
        self.octets_max = terms.octets_max
        self.connect = None
        self.wrote()
        write_connack(self.out, Connack(client.resumed, codes.SUCCESS, block), self.version)
        if client.durable:
            self.hold()
        self.outbox.window = Window(terms.window)
        self.outbox.client = client
        self.inbox.client = client
        self.has_delivered = bool(client.subscriptions)
        self.subscriptions.begin(client, self.version)
        self.outbox.resume(self.rights)

    def on_auth(self, packet: Ack) -> None:
        exchange = self.exchange
        assert exchange is not None, "the codec knows no AUTH in 3.1.1"
        self.on_answer(exchange.on_auth(packet))

    def on_answer(self, answer: Answer | None) -> None:
        """Send what the exchange of an enhanced authentication says; None where the client takes its leave."""
        exchange = self.exchange
        assert exchange is not None
        if answer is None:
            self.closing = True
        elif answer.kind == CONNACK and answer.code == codes.SUCCESS:
            packet = self.connect
            assert packet is not None
            self.logged_in(Principal(exchange.user))
            self.accept(packet, answer.block)
        elif answer.kind == CONNACK:
            self.refuse(answer.code, answer.block, answer.detail)
        else:
            self.wrote()
            write_bare(self.out, answer.kind, answer.code, answer.block)
            if answer.code >= codes.FAILURE:
                self.reason = answer.detail
                self.closing = True

    def on_disconnect(self, packet: Ack) -> None:
        client = self.client
        terms = self.terms
        codes.check_client_end(packet.code)
        self.closing = True
        if client is None or terms is None:
            return
        if packet.properties:
            expiry_s = changed_expiry(client, terms, packet.properties)
            if expiry_s < 0:
                raise unexpected("DISCONNECT: session expiry interval: was 0")
            client.expiry_s = expiry_s
        if packet.code != codes.DISCONNECT_WITH_WILL:
            client.will = None

    def fail(self, error: PeerError) -> None:
        """The peer broke the protocol: say so as far as its version can, and end the connection."""
        self.reason = error.text
        self.closing = True
        code: i64 = codes.PEER_CODES.get(error.reason, codes.PROTOCOL_ERROR)
        if self.version == V5:
            # Before the CONNECT is decoded nobody knows how long a packet the client takes [MQTT-3.2.2-19].
            block = b"" if self.terms is None else self.inbox.reason_block(error.text)
            if self.connected:
                self.wrote()
                write_bare(self.out, DISCONNECT, code, block)
            elif error.reason not in (UNSUPPORTED_VERSION, TIMED_OUT):
                self.wrote()
                write_connack(self.out, Connack(False, code, block), V5)

    # ---- SUBSCRIBE, and deliveries

    def on_subscribe(self, data: bytes, first: i64, at: i64, end: i64) -> None:
        self.has_delivered = True
        answer = self.subscribes.take(data, first, at, end, self.version)
        if self.subscriptions.reason and self.version == V5:
            answer.properties = self.inbox.reason_block(self.subscriptions.reason)
        self.wrote()
        write_suback(self.out, answer, self.version)
        if self.client is not None and self.client.durable:
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

    def enter(self, vhost: Vhost) -> None:
        super().enter(vhost)
        self.outbox.vhost = vhost
        self.outbox.feeder.vhost = vhost
        self.inbox.vhost = vhost
        self.subscriptions.vhost = vhost
        self.inbox.rights = self.rights
        self.subscriptions.rights = self.rights

    def shut_down(self) -> None:
        """The broker stops: no wills, for nobody could be told."""
        if self.client is not None and self.client.connection == self.id:
            self.client.will = None
        self.take_leave(codes.SHUTTING_DOWN, b"")

    def send_elsewhere(self, server: str) -> None:
        self.take_leave(codes.USE_ANOTHER_SERVER, server_reference(server, self.outbox.encoder.packet_octets_max))

    def take_leave(self, code: i64, properties: bytes) -> None:
        if not self.closing and self.connected and self.version == V5:
            self.wrote()
            write_bare(self.out, DISCONNECT, code, properties)
        self.closing = True

    def closed(self) -> None:
        self.outbox.close()
        self.vhost.session_closed(self.id)
        if self.client is not None:
            self.vhost.clients.detach(self.client, self.id)

    def describe(self) -> dict[str, object]:
        fields = client_fields(self.inbox, self.outbox, self.client)
        return {"user": self.user, "keep_alive_s": int(self.keep_alive_us // GRACE_US), **fields}
