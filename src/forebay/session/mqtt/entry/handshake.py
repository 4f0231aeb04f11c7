"""The handshake of MQTT: CONNECT, and the AUTH packets of an enhanced authentication."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.core.errors import TIMED_OUT, TOO_LARGE, UNSUPPORTED_VERSION, PeerError, RequestError
from forebay.core.options import Options
from forebay.directory.logins.authorizer import Principal, Proof
from forebay.directory.logins.login import Auth, LoginContext
from forebay.directory.vhost_list import DEFAULT_VHOST
from forebay.session.handshake import Handshake
from forebay.session.login import MqttLogin, MqttTerms
from forebay.session.mqtt.entry.auth import Answer, AuthExchange
from forebay.session.mqtt.entry.connect import (
    agreed_terms,
    begins_v5,
    check_begun,
    check_will,
    credentials,
    is_v5,
    will_in,
)
from forebay.session.mqtt.entry.redirect import redirect_answer
from forebay.session.mqtt.rights import refusal_code
from forebay.wire.mqtt import codes
from forebay.wire.mqtt.codes import CONNACK, CONNECT, V5, V311, unexpected
from forebay.wire.mqtt.encoding import write_bare, write_connack
from forebay.wire.mqtt.packets import Connack, Connect, decode_connect, frame, frame_octets
from forebay.wire.mqtt.properties import reason_block


@final
class MqttHandshake(Handshake):
    """The handshake of one MQTT connection, up to the CONNACK, which its session writes.

    version           protocol version; 0 until a CONNECT came
    connect           the CONNECT; `terms` and `vhost` are what follows from it
    packets_received  and `packets_sent`, for the broker's stats
    """

    def __init__(self, connection: i64, context: LoginContext, auth: Auth, options: Options) -> None:
        super().__init__(connection, context, auth, options)
        self.version: i64 = 0
        self.octets_max: i64 = min(options.login_octets_max, options.mqtt_packet_octets_max)
        self.connect: Connect | None = None
        self.terms: MqttTerms | None = None
        self.vhost = DEFAULT_VHOST
        self.exchange: AuthExchange | None = None
        self.packets_received: i64 = 0
        self.packets_sent: i64 = 0

    # ---- packets in

    def receive(self, data: bytes) -> int:
        at: i64 = 0
        size: i64 = len(data)
        try:
            if self.version == 0 and size:
                check_begun(data)
            while at + 2 <= size and self.login is None and not self.is_proving() and not self.closing:
                found = frame(data, at, size, self.octets_max)
                if found == 0:
                    break
                self.packets_received += 1
                self.on_packet(data, i64(data[at]), at + (found & 7), found >> 3)
                at = found >> 3
        except PeerError as error:
            if self.version == 0 and error.reason == TOO_LARGE and begins_v5(data):
                self.version = V5  # it can be told
            self.fail(error)
        return int(size if self.closing else at)

    def wanted(self, rest: bytes) -> int:
        return int(frame_octets(rest))

    def on_packet(self, data: bytes, first: i64, at: i64, end: i64) -> None:
        if self.connect is None:
            if first >> 4 != CONNECT:
                raise unexpected(f"first packet of type {first >> 4}: must be CONNECT")
            self.on_connect(data, first & 15, at, end)
            return
        assert self.exchange is not None, "nothing is read while a password is checked"
        self.on_answer(self.exchange.on_packet(data, first, at, end))

    def on_connect(self, data: bytes, flags: i64, at: i64, end: i64) -> None:
        try:
            if is_v5(data, at):
                self.version = V5
            packet = decode_connect(data, flags, at, end, self.options.mqtt_user_properties_max)
        except PeerError as error:
            if error.reason == UNSUPPORTED_VERSION:
                self.packets_sent += 1
                self.out.write(b"\x20\x02\x00\x01")  # [MQTT-3.1.2-2] of 3.1.1; a client of any version knows it
            raise
        self.version = packet.version
        self.connect = packet
        self.context.client_id = packet.client_id.decode()
        self.terms = agreed_terms(packet, self.options)
        check_will(packet, self.options)
        if not packet.client_id and not packet.clean and packet.version == V311:
            self.answer(codes.V311_BAD_CLIENT_ID, b"", "CONNECT: client identifier: empty without clean session")
            return
        redirect = redirect_answer(self.options)
        if redirect is not None:
            code, block = redirect
            self.answer(code if self.version == V5 else codes.V311_UNAVAILABLE, block, "redirected")
            return
        if self.version == V5:
            self.exchange = AuthExchange(self.auth, self.context.loopback, self.id)
            answer = self.exchange.on_connect(packet.properties)
            if answer is not None:
                self.on_answer(answer)
                return
        self.check_password(packet)

    # ---- the login

    def check_password(self, packet: Connect) -> None:
        """Log the client in by what its CONNECT says of it, or by its certificate."""
        user, password = credentials(packet)
        place = user.rfind(":")
        if place >= 0 and not self.auth.knows(user):  # `vhost:user`, as RabbitMQ has it
            self.vhost = user[:place].encode("utf-8")
            user = user[place + 1 :]
        context = self.context
        try:
            if packet.user is None and context.certificate:
                self.log_in(self.auth.admit(context.certificate, context.loopback, True), b"")
                return
            self.proof = self.auth.begin(int(self.id), user, password)
            if self.proof is None:
                self.log_in(self.auth.check(user, password, context.loopback), b"")
        except RequestError as error:
            self.refuse_login(error)

    def conclude(self, proof: Proof) -> None:
        try:
            self.log_in(self.auth.conclude(proof, self.context.loopback), b"")
        except RequestError as error:
            self.refuse_login(error)

    def on_answer(self, answer: Answer | None) -> None:
        """Send what the exchange of an enhanced authentication says; None where the client takes its leave."""
        if answer is None:
            self.closing = True
        elif answer.kind != CONNACK:
            self.packets_sent += 1
            write_bare(self.out, answer.kind, answer.code, answer.block)
        elif answer.code == codes.SUCCESS:
            assert self.exchange is not None
            self.log_in(Principal(self.exchange.user), answer.block)
        else:
            self.answer(answer.code, answer.block, answer.detail)

    def log_in(self, principal: Principal, auth_block: bytes) -> None:
        packet, terms = self.connect, self.terms
        assert packet is not None and terms is not None
        self.auth.note_login(int(self.id), principal.user)
        self.login = MqttLogin(
            principal=principal,
            vhost=self.vhost,
            context=self.context,
            version=int(packet.version),
            client_id=packet.client_id,
            clean=packet.clean,
            is_anonymous=packet.user is None and not principal.vouched,
            will=will_in(packet),
            terms=terms,
            auth_method=b"" if self.exchange is None else self.exchange.method,
            auth_block=auth_block,
        )

    # ---- refusals, and the end

    def refuse_login(self, error: RequestError) -> None:
        self.auth.note_refusal(int(self.id), error)
        code = codes.BAD_USER if self.version == V5 else codes.V311_NOT_AUTHORIZED
        self.answer(code, self.reason_block(error.text), str(getattr(error, "detail", error.text)))

    def refuse(self, error: RequestError) -> None:
        block = b"" if error.reason == TOO_LARGE else self.reason_block(error.text)
        self.answer(refusal_code(error, self.version), block, error.text)

    def answer(self, code: i64, block: bytes, reason: str) -> None:
        """Write a CONNACK with an error, and close; `reason` is for the operator."""
        self.packets_sent += 1
        write_connack(self.out, Connack(False, code, block), self.version)
        self.reason = reason
        self.closing = True

    def reason_block(self, text: str) -> bytes:
        """Return properties with a reason string; "" while nobody knows what the client takes [MQTT-3.2.2-19]."""
        terms = self.terms
        return b"" if terms is None or not terms.problem_information else reason_block(text, terms.packet_octets_max)

    def fail(self, error: PeerError) -> None:
        """The peer broke the protocol: say so as far as its version can, and close."""
        self.reason = error.text
        self.closing = True
        if self.version == V5 and error.reason not in (UNSUPPORTED_VERSION, TIMED_OUT):
            self.packets_sent += 1
            code = codes.PEER_CODES.get(error.reason, codes.PROTOCOL_ERROR)
            write_connack(self.out, Connack(False, code, self.reason_block(error.text)), V5)

    def time_out(self) -> None:
        self.fail(PeerError(TIMED_OUT, "no CONNECT in time"))

    def dismiss(self, text: str, is_ours: bool = False) -> None:
        if not self.closing:
            self.fail(PeerError(codes.UNSPECIFIED if is_ours else codes.ADMINISTRATIVE, text))

    def shut_down(self) -> None:
        self.closing = True

    def send_elsewhere(self, server: str) -> None:
        self.closing = True

    def describe(self) -> dict[str, object]:
        user = "" if self.login is None else self.login.principal.user
        return {"protocol": "MQTT 5.0" if self.version == V5 else "MQTT 3.1.1", "user": user}
