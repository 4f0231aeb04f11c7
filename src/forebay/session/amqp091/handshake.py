"""The handshake of AMQP 0.9.1: who the client is, what both sides keep to, and the vhost that the client asks for."""

from __future__ import annotations

from typing import Final, final

from librt.strings import read_i32_be
from mypy_extensions import i64

from forebay import __version__
from forebay.core.errors import (
    INTERNAL,
    MALFORMED,
    NOT_ALLOWED,
    REFUSED,
    TIMED_OUT,
    UNEXPECTED,
    PeerError,
    RequestError,
)
from forebay.core.options import Options
from forebay.directory.logins.authorizer import Principal, Proof
from forebay.directory.logins.login import Auth, LoginContext, LoginRefused
from forebay.session.amqp091.farewell import CLOSE_WAIT_US, STOPPING, Farewell, say_farewell, unexpected_method
from forebay.session.amqp091.sasl import EXTERNAL, MECHANISMS, parse_response
from forebay.session.handshake import Handshake
from forebay.session.login import Amqp091Login
from forebay.session.shared.sasl import parse_external
from forebay.wire.amqp091.codec import (
    FRAME_END,
    FRAME_OCTETS_MIN,
    FRAME_OVERHEAD,
    HEARTBEAT,
    METHOD,
    PROTOCOL_HEADER,
    Reader,
    check_kind,
    frame_end,
    frame_wanted,
    put_method,
)
from forebay.wire.amqp091.methods import (
    CONNECTION_CLOSE,
    CONNECTION_CLOSE_OK,
    CONNECTION_OPEN,
    CONNECTION_START_OK,
    CONNECTION_TUNE_OK,
    UNEXPECTED_FRAME,
    StartOk,
    put_start,
    put_tune,
)

# Phases of a handshake, each named after what it waits for.
PROTOCOL: Final = 0
START_OK: Final = 1
TUNE_OK: Final = 2
OPEN: Final = 3


def server_properties() -> list[tuple[str, object]]:
    """The broker's properties in connection.start."""
    capabilities: dict[str, object] = {
        "publisher_confirms": True,
        "exchange_exchange_bindings": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "connection.blocked": True,
        "consumer_priorities": True,
        "authentication_failure_close": True,
        "per_consumer_qos": True,
        "direct_reply_to": True,
    }
    return [
        ("capabilities", capabilities),
        ("product", "forebay"),
        ("version", __version__),
        ("platform", "Python"),
        ("copyright", "The forebay authors"),
        ("information", "Licensed under the Apache License 2.0"),
        ("cluster_name", "forebay"),
    ]


@final
class Amqp091Handshake(Handshake):
    """The handshake of one AMQP 0.9.1 connection, from the protocol header to connection.open.

    Its session writes connection.open-ok.

    frame_octets_max  of the frames that come now; `channels_max` and `heartbeat_s` are agreed on with it
    farewell          the end of the connection, where the broker has closed it
    after             where the frame after the one in hand begins, and `cause` is the method in hand
    """

    def __init__(self, connection: i64, context: LoginContext, auth: Auth, options: Options) -> None:
        super().__init__(connection, context, auth, options)
        self.phase: i64 = PROTOCOL
        self.mechanism = b""
        self.principal: Principal | None = None
        self.client: dict[str, object] = {}
        self.frame_octets_max: i64 = options.amqp_login_frame_octets_max
        self.channels_max: i64 = 0
        self.heartbeat_s: i64 = 0
        self.farewell: Farewell | None = None
        self.after: i64 = 0
        self.cause: i64 = 0

    # ---- bytes in

    def receive(self, data: bytes) -> int:
        used: i64 = 0
        if self.phase == PROTOCOL:
            used = self.read_protocol_header(data)
            if used == 0:
                return len(data) if self.closing else 0
        if self.farewell is None:
            try:
                used = self.read_frames(data, used)
            except LoginRefused as error:
                used = self.after
                self.refuse_login(error)
            except (PeerError, RequestError) as error:
                used = self.after
                self.refuse(error)
        if self.closing:
            return len(data)
        farewell = self.farewell
        if farewell is not None:
            used = farewell.hear(data, used, self.out)
            self.closing = farewell.over
        return int(used)

    def wanted(self, rest: bytes) -> int:
        return 0 if self.phase == PROTOCOL or self.farewell is not None else int(frame_wanted(rest))

    def read_protocol_header(self, data: bytes) -> i64:
        """Return the bytes of the header; 0 if it is not whole yet, or not ours: then the answer says which is."""
        if len(data) < len(PROTOCOL_HEADER) and PROTOCOL_HEADER.startswith(data):
            return 0
        if not data.startswith(PROTOCOL_HEADER):
            self.out.write(PROTOCOL_HEADER)
            self.reason = f"protocol header {data[:8]!r} is not AMQP 0.9.1's"
            self.closing = True
            return 0
        offered = MECHANISMS + b" " + EXTERNAL if self.context.certificate else MECHANISMS
        put_start(self.out, server_properties(), offered)
        self.phase = START_OK
        return len(PROTOCOL_HEADER)

    def read_frames(self, data: bytes, pos: i64) -> i64:
        """Handle the whole frames from `pos` on, up to the end of the handshake; return the position after them."""
        size = i64(len(data))
        while pos + 8 <= size and not self.closing and self.proof is None and self.login is None:
            octets = i64(read_i32_be(data, pos + 3))
            end = pos + 7 + octets
            if octets < 0 or octets > self.frame_octets_max - FRAME_OVERHEAD or end >= size or data[end] != FRAME_END:
                self.after, self.cause = size, 0
                if frame_end(data, pos, self.frame_octets_max) == 0:
                    return pos
            self.after = end + 1
            self.on_frame(data[pos], i64(data[pos + 1]) << 8 | i64(data[pos + 2]), data, pos + 7, end)
            pos = self.after
        if not self.closing and self.proof is None and self.login is None:
            self.after, self.cause = size, 0
            frame_end(data, pos, self.frame_octets_max)  # of a frame that has only begun, its head must be in order
        return pos

    def on_frame(self, kind: i64, number: i64, data: bytes, start: i64, end: i64) -> None:
        self.cause = 0
        check_kind(kind)
        if kind == HEARTBEAT:
            if number:
                raise PeerError(UNEXPECTED_FRAME, f"heartbeat on channel {number}")
            return
        if end - start < 4 and kind == METHOD:
            raise PeerError(MALFORMED, f"method frame of {end - start} octets")
        if kind != METHOD or number:
            raise PeerError(UNEXPECTED_FRAME, f"frame of type {kind} on channel {number}, which has only methods")
        self.cause = i64(read_i32_be(data, start)) & 0xFFFFFFFF
        self.on_method(self.cause, Reader(data, start + 4, end, self.options.table_depth_max))

    def on_method(self, method: i64, args: Reader) -> None:
        if method == CONNECTION_CLOSE:
            put_method(self.out, 0, CONNECTION_CLOSE_OK, b"")
            self.closing = True
        elif method == CONNECTION_START_OK and self.phase == START_OK:
            self.on_start_ok(StartOk(args))
        elif method == CONNECTION_TUNE_OK and self.phase == TUNE_OK:
            self.on_tune_ok(args.short(), args.long(), args.short())
        elif method == CONNECTION_OPEN and self.phase == OPEN:
            self.on_open(args.short_string())
        else:
            raise unexpected_method(method)

    # ---- SASL, tune, open

    def on_start_ok(self, start: StartOk) -> None:
        """Check who the client is; LoginRefused, or PeerError where the response is none."""
        self.client = start.client_properties
        mechanism = start.mechanism
        self.mechanism = mechanism
        context = self.context
        if mechanism == EXTERNAL and context.certificate:
            parse_external(start.response, context.certificate)
            self.log_in(self.auth.admit(context.certificate, context.loopback, True))
            return
        if mechanism not in MECHANISMS.split():
            raise PeerError(UNEXPECTED, f"unknown authentication mechanism '{mechanism.decode('utf-8', 'replace')}'")
        user, password = parse_response(mechanism, start.response)
        self.proof = self.auth.begin(int(self.id), user, password)
        if self.proof is None:
            self.log_in(self.auth.check(user, password, context.loopback))

    def conclude(self, proof: Proof) -> None:
        if self.farewell is not None:
            return
        try:
            self.log_in(self.auth.conclude(proof, self.context.loopback))
        except LoginRefused as error:
            self.refuse_login(error)

    def log_in(self, principal: Principal) -> None:
        """Write connection.tune for a user who has proven who it is."""
        self.principal = principal
        self.auth.note_login(int(self.id), principal.user)
        options = self.options
        put_tune(self.out, options.amqp_channels_max, options.amqp_frame_octets_max, options.amqp_heartbeat_s)
        self.phase = TUNE_OK

    def on_tune_ok(self, channels: i64, frame_octets: i64, heartbeat_s: i64) -> None:
        """Take what the client has chosen; PeerError where that was not offered."""
        check_tuned("channel_max", channels, self.options.amqp_channels_max, 0)
        check_tuned("frame_max", frame_octets, self.options.amqp_frame_octets_max, FRAME_OCTETS_MIN)
        self.channels_max = channels
        self.frame_octets_max = frame_octets
        self.heartbeat_s = heartbeat_s
        self.phase = OPEN

    def on_open(self, vhost: bytes) -> None:
        assert self.principal is not None
        self.login = Amqp091Login(
            principal=self.principal,
            vhost=vhost,
            context=self.context,
            client=self.client,
            mechanism=self.mechanism.decode("ascii", "replace"),
            channels_max=int(self.channels_max),
            frame_octets_max=int(self.frame_octets_max),
            heartbeat_s=int(self.heartbeat_s),
        )

    # ---- refusals, and the end

    def refuse_login(self, error: LoginRefused) -> None:
        """Say so to a client that can hear it; others know by the connection's end."""
        self.auth.note_refusal(int(self.id), error)
        self.reason = error.detail
        if has_capability(self.client, "authentication_failure_close"):
            mechanism = self.mechanism.decode("ascii")
            words = f"Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
            self.close(REFUSED, words)
        else:
            self.closing = True

    def refuse(self, error: PeerError | RequestError) -> None:
        self.reason = error.text
        self.close(error.reason, error.text)

    def close(self, reason: str, text: str) -> None:
        """Write connection.close, and wait for the client to say that it knows."""
        self.login = None
        self.deadline_us = 0
        self.farewell = say_farewell(self.out, reason, text, self.cause, self.frame_octets_max)

    def tick(self, now_us: i64) -> None:
        if self.farewell is None:
            super().tick(now_us)
        elif self.deadline_us == 0:
            self.deadline_us = now_us + CLOSE_WAIT_US
        elif now_us > self.deadline_us:
            self.closing = True

    def time_out(self) -> None:
        self.reason = f"handshake took longer than {self.timeout_us // 1000} ms"
        self.closing = True

    def shut_down(self) -> None:
        if self.phase == PROTOCOL:
            self.closing = True
        elif self.farewell is None:
            self.cause = 0
            self.close(TIMED_OUT, STOPPING)

    def dismiss(self, text: str, is_ours: bool = False) -> None:
        if not self.closing and self.farewell is None:
            self.cause = 0
            self.close(INTERNAL if is_ours else TIMED_OUT, text)

    def describe(self) -> dict[str, object]:
        user = "" if self.principal is None else self.principal.user
        return {"protocol": "AMQP 0.9.1", "user": user}


def check_tuned(name: str, value: i64, most: i64, least: i64) -> None:
    """PeerError(NOT_ALLOWED) unless the client's choice is within what was offered; 0 asks for no limit."""
    if value and value < least:
        raise PeerError(NOT_ALLOWED, f"negotiated {name} = {value} is lower than the minimum allowed value ({least})")
    if value == 0 or value > most:
        raise PeerError(NOT_ALLOWED, f"negotiated {name} = {value} is higher than the maximum allowed value ({most})")


def has_capability(client: dict[str, object], name: str) -> bool:
    """Return whether a client says in its properties that it knows this."""
    capabilities = client.get("capabilities")
    return isinstance(capabilities, dict) and capabilities.get(name) is True
