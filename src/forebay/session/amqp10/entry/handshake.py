"""The handshake of AMQP 1.0: who the client is by SASL (part 5.3), and what both sides keep to by `open` (part 2.4).

A client may send everything at once: what comes behind its `open` belongs to the session.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import REFUSED, UNEXPECTED, PeerError, RequestError
from forebay.core.options import Options
from forebay.directory.logins.authorizer import Principal, Proof
from forebay.directory.logins.login import REFUSAL, Auth, LoginContext, LoginRefused, SaslExchange
from forebay.directory.logins.shared_keys import admit_signature, is_signature
from forebay.session.amqp10.conditions import error_of
from forebay.session.amqp10.entry.early import EarlyFrames
from forebay.session.amqp10.entry.opening import IDLE_MS_MIN, knows_rabbitmq, open_answer, vhost_of
from forebay.session.amqp10.entry.sasl import (
    ANONYMOUS,
    EXTERNAL,
    GUEST,
    MSSBCBS,
    PLAIN,
    XOAUTH2,
    offered_mechanisms,
    parse_token,
)
from forebay.session.amqp10.servicebus.node_requests import (
    PUT_TOKEN,
    UNAUTHORIZED,
    NodeRequest,
)
from forebay.session.handshake import Handshake
from forebay.session.login import Amqp10Login
from forebay.session.shared.sasl import parse_external, parse_plain
from forebay.wire.amqp10.frames import (
    AMQP_FRAME,
    AMQP_HEADER,
    EARLY_FRAME_OCTETS_MAX,
    FRAME_OCTETS_MIN,
    PROTOCOL_HEADER_OCTETS,
    SASL_FRAME,
    SASL_HEADER,
    body_at,
    frame_end,
    frame_octets,
    performative_code,
    put_frame,
)
from forebay.wire.amqp10.performatives import CLOSE, Close, Open, decode_performative
from forebay.wire.amqp10.sasl import (
    SASL_AUTH,
    SASL_OK,
    SASL_SYS_TEMP,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    decode_sasl,
)
from forebay.wire.amqp10.states import FRAME_SIZE_TOO_SMALL, NOT_ALLOWED

# Phases of a handshake, each named after what it waits for.
FIRST_HEADER: Final = 0
INIT: Final = 1
RESPONSE: Final = 2
SECOND_HEADER: Final = 3
OPEN: Final = 4
TOKEN: Final = 5
END: Final = 6  # the client's close, as its token was wrong


@final
class Amqp10Handshake(Handshake):
    """The handshake of one AMQP 1.0 connection, from the first protocol header to the client's `open`.

    Its session answers the `open`.

    mechanism  of SASL that the client has chosen, or that stands for a login without SASL
    has_sasl   the client has begun with the SASL layer
    exchange   a login of several messages
    principal  None of a client that may still log in by a token
    opened     the client's `open`
    early      frames behind it of a client that may still log in by a token
    scopes     what such a token gives access to
    """

    def __init__(self, connection: i64, context: LoginContext, auth: Auth, options: Options) -> None:
        super().__init__(connection, context, auth, options)
        self.phase: i64 = FIRST_HEADER
        self.mechanism = ""
        self.has_sasl = True
        self.principal: Principal | None = None
        self.exchange: SaslExchange | None = None
        self.opened: Open | None = None
        self.early: EarlyFrames | None = None
        self.scopes: dict[str, int] | None = None

    # ---- bytes in

    def receive(self, data: bytes) -> int:
        used: i64 = 0
        try:
            used = self.read(data)
        except LoginRefused as error:
            self.refuse_login(error)
        except (PeerError, RequestError) as error:
            self.reason = error.text
            if self.phase >= OPEN:
                self.close(error.reason, error.text)
            else:
                self.end_login()
        return len(data) if self.closing else int(used)

    def read(self, data: bytes) -> i64:
        """Read headers and frames, up to the end of the handshake; return how many bytes were used."""
        pos: i64 = 0
        while not self.closing and self.proof is None and self.login is None:
            if self.phase in (FIRST_HEADER, SECOND_HEADER):
                if len(data) - pos < PROTOCOL_HEADER_OCTETS:
                    break
                self.on_header(data[pos : pos + PROTOCOL_HEADER_OCTETS])
                pos += PROTOCOL_HEADER_OCTETS
                continue
            most = EARLY_FRAME_OCTETS_MAX if self.phase <= OPEN else self.options.amqp_login_frame_octets_max
            end = frame_end(data, pos, most, AMQP_FRAME if self.phase >= OPEN else SASL_FRAME)
            if end == 0:
                break
            start = body_at(data, pos)
            if self.phase > OPEN:
                if not self.on_early_frame(data[pos:end], start - pos):
                    break  # the session reads it
            elif self.phase == OPEN:
                self.on_open_frame(data, start, end)
            else:
                self.on_sasl_frame(data, start, end)
            pos = end
        return pos

    def wanted(self, rest: bytes) -> int:
        if self.phase in (FIRST_HEADER, SECOND_HEADER) or self.closing:
            return 0
        return int(frame_octets(rest))

    def on_header(self, header: bytes) -> None:
        """Answer a protocol header: SASL's first, and AMQP's behind it."""
        if self.phase == SECOND_HEADER:
            self.out.write(AMQP_HEADER)
            if header != AMQP_HEADER:
                raise PeerError(UNEXPECTED, f"protocol header {header!r}: AMQP 1.0's must follow the login")
            self.phase = OPEN
        elif header == SASL_HEADER:
            self.out.write(SASL_HEADER)
            put_frame(self.out, 0, SaslMechanisms(offered_mechanisms(self.auth, self.context)), SASL_FRAME)
            self.phase = INIT
        elif header == AMQP_HEADER:
            self.has_sasl = False
            self.log_in_without_sasl()
        else:
            self.out.write(SASL_HEADER)  # a header that is served here (2.2)
            raise PeerError(UNEXPECTED, f"protocol header {header!r}: SASL's must come first, {SASL_HEADER!r}")

    def log_in_without_sasl(self) -> None:
        """Log a client in that sends no SASL: by its certificate, or as who has no name; LoginRefused."""
        context = self.context
        offered = offered_mechanisms(self.auth, context)
        self.mechanism = EXTERNAL if EXTERNAL in offered else ANONYMOUS
        if self.mechanism not in offered:
            raise LoginRefused("SASL must come first: clients without a name are not let in")
        if self.mechanism == EXTERNAL:
            self.log_in(self.auth.admit(context.certificate, context.loopback, True))
        else:
            self.log_in_by_password(GUEST, GUEST)

    # ---- SASL

    def on_sasl_frame(self, data: bytes, start: i64, end: i64) -> None:
        frame = decode_sasl(data, start, end)
        if isinstance(frame, SaslInit) and self.phase == INIT:
            self.on_init(frame)
        elif isinstance(frame, SaslResponse) and self.phase == RESPONSE:
            self.go_on(frame.response)
        else:
            raise PeerError(UNEXPECTED, f"{type(frame).__name__} is not expected now")

    def on_init(self, init: SaslInit) -> None:
        """Begin the login by the mechanism that the client has chosen; LoginRefused."""
        mechanism = init.mechanism
        self.mechanism = mechanism
        context = self.context
        response = init.initial_response
        if mechanism not in offered_mechanisms(self.auth, context):
            raise LoginRefused(f"mechanism '{mechanism}' is not offered")
        if mechanism == EXTERNAL:
            parse_external(response or b"", context.certificate)
            self.log_in(self.auth.admit(context.certificate, context.loopback, True))
            return
        offered = self.auth.mechanisms.get(mechanism)
        if offered is not None:
            self.exchange = offered.start()
            self.phase = RESPONSE
            if response is None:
                put_frame(self.out, 0, SaslChallenge(b""), SASL_FRAME)
            else:
                self.go_on(response)
            return
        if mechanism == MSSBCBS or (mechanism == ANONYMOUS and self.auth.takes_claims()):
            # Nobody yet: the client has no session before it has proven by a token who it is, or is the guest.
            put_frame(self.out, 0, SaslOutcome(SASL_OK, None), SASL_FRAME)
            self.phase = SECOND_HEADER
            return
        if mechanism == ANONYMOUS:
            user, password = GUEST, GUEST
        elif mechanism == XOAUTH2:
            user, password = parse_token(response or b"")
        else:
            assert mechanism == PLAIN
            user, password = parse_plain(response or b"")
        self.log_in_by_password(user, password)

    def log_in_by_password(self, user: str, password: str) -> None:
        """Begin to check a password, and log the client in if that takes no time; LoginRefused."""
        self.proof = self.auth.begin(int(self.id), user, password)
        if self.proof is None:
            self.log_in(self.auth.check(user, password, self.context.loopback))

    def go_on(self, response: bytes) -> None:
        """Take the next message of a login in several; LoginRefused."""
        exchange = self.exchange
        assert exchange is not None
        answer = exchange.step(response)
        if not exchange.done:
            if exchange.name:
                self.auth.check_wait(self.context, exchange.name)
            put_frame(self.out, 0, SaslChallenge(answer), SASL_FRAME)
            return
        self.log_in(self.auth.admit(exchange.user, self.context.loopback), answer)

    def conclude(self, proof: Proof) -> None:
        try:
            principal = self.auth.conclude(proof, self.context.loopback)
            if self.early is None:
                self.log_in(principal)
            else:
                self.log_in_early(principal, None if self.early.request is None else {"": 0})
        except LoginRefused as error:
            self.refuse_login(error)

    def log_in(self, principal: Principal, last: bytes = b"") -> None:
        """Tell a client that it has proven who it is; `last` is the mechanism's last word."""
        self.principal = principal
        self.auth.note_login(int(self.id), principal.user)
        if not self.has_sasl:
            self.out.write(AMQP_HEADER)
            self.phase = OPEN
            return
        put_frame(self.out, 0, SaslOutcome(SASL_OK, last or None), SASL_FRAME)
        self.phase = SECOND_HEADER

    def refuse_login(self, error: LoginRefused) -> None:
        self.auth.note_refusal(int(self.id), error)
        self.reason = error.detail
        early = self.early
        if early is not None:
            self.phase = END
            if early.request is None:
                self.close(REFUSED, REFUSAL)
            else:
                early.refuse(early.request, UNAUTHORIZED, REFUSAL, FRAME_OCTETS_MIN)
            return
        if self.has_sasl:
            put_frame(self.out, 0, SaslOutcome(SASL_AUTH, None), SASL_FRAME)
        else:
            self.out.write(SASL_HEADER)  # a header that is served here (2.2)
        self.closing = True

    # ---- open

    def on_open_frame(self, data: bytes, start: i64, end: i64) -> None:
        """Take the client's `open`, from which the session begins."""
        if start == end:
            return  # a heartbeat
        opened = decode_performative(data, start, end, self.options.table_depth_max)
        if not isinstance(opened, Open):
            raise PeerError(UNEXPECTED, f"{type(opened).__name__} comes before open")
        if opened.max_frame_size < FRAME_OCTETS_MIN:
            text = f"open: max-frame-size {opened.max_frame_size}: must be at least {FRAME_OCTETS_MIN}"
            raise PeerError(FRAME_SIZE_TOO_SMALL, text)
        if 0 < opened.idle_time_out_ms < IDLE_MS_MIN:
            text = f"open: idle-time-out {opened.idle_time_out_ms}: must be 0 or at least {IDLE_MS_MIN} ms"
            raise PeerError(NOT_ALLOWED, text)
        self.context.client_id = opened.container_id
        self.opened = opened
        if self.principal is None:
            self.early = EarlyFrames(self.out, self.options)
            put_frame(self.out, 0, open_answer(self.options, "forebay", knows_rabbitmq(opened)))
            self.phase = TOKEN
        else:
            self.login = self.login_of(self.principal, opened)

    def login_of(self, principal: Principal, opened: Open) -> Amqp10Login:
        """Return the login of a client that has proven who it is, and that has opened."""
        return Amqp10Login(
            principal=principal,
            vhost=vhost_of(opened.hostname),
            context=self.context,
            mechanism=self.mechanism,
            container=opened.container_id,
            client={name: str(value)[:255] for name, value in (opened.properties or {}).items()},
            frame_octets_max=int(min(opened.max_frame_size, self.options.amqp_frame_octets_max)),
            channel_max=int(opened.channel_max),
            idle_ms=max(0, int(opened.idle_time_out_ms)),
            knows_rabbitmq=knows_rabbitmq(opened),
            early=b"" if self.early is None else b"".join(self.early.frames),
            scopes=self.scopes,
        )

    # ---- tokens

    def on_early_frame(self, frame: bytes, start: i64) -> bool:
        """Take a frame of a client whose token is still to come; return whether it was used."""
        if start < len(frame) and performative_code(frame, start, i64(len(frame))) == CLOSE:
            put_frame(self.out, 0, Close())
            self.closing = True
            return True
        if self.phase == END:
            return True
        early = self.early
        assert early is not None and self.opened is not None
        if early.read(frame):
            return True
        request = early.request
        if request is not None:
            self.prove_token(request)
        elif self.mechanism == ANONYMOUS:
            self.prove_password(GUEST, GUEST)
        else:
            raise PeerError(REFUSED, "attach: a link of $cbs is expected, and a token")
        return False

    def prove_token(self, request: NodeRequest) -> None:
        """Check a token, which another server may have to be asked about; LoginRefused."""
        token = request.body
        if request.operation != PUT_TOKEN or not isinstance(token, str):
            raise LoginRefused("a request to $cbs that is no put-token")
        if is_signature(token):
            access = admit_signature(self.auth, self.context, token)
            self.log_in_early(access.principal, {access.path: access.principal.until_us})
            return
        self.prove_password("", token)  # whose it is, the token says

    def prove_password(self, user: str, password: str) -> None:
        """Check a password or a token of a client that is open; LoginRefused."""
        self.proof = self.auth.begin(int(self.id), user, password)
        if self.proof is None:
            assert self.early is not None
            principal = self.auth.check(user, password, self.context.loopback)
            self.log_in_early(principal, None if self.early.request is None else {"": 0})

    def log_in_early(self, principal: Principal, scopes: dict[str, int] | None) -> None:
        """Begin the session of a client that is open: the session reads the token again, and answers it."""
        assert self.opened is not None
        self.auth.note_login(int(self.id), principal.user)
        self.scopes = scopes
        self.login = self.login_of(principal, self.opened)

    # ---- refusals, and the end

    def refuse(self, error: RequestError) -> None:
        self.reason = error.text
        self.close(REFUSED if error.reason == REFUSED else error.reason, error.text)

    def close(self, reason: str, text: str) -> None:
        """Open, as no connection can be closed before, and close with the error."""
        self.login = None
        self.closing = True  # which sends this, and hears the client until it goes
        if self.early is None:  # else it is open
            put_frame(self.out, 0, open_answer(self.options, "", is_refused=True))
        put_frame(self.out, 0, Close(error_of(reason, text)))

    def time_out(self) -> None:
        self.reason = f"handshake took longer than {self.timeout_us // 1000} ms"
        self.closing = True

    def end_login(self) -> None:
        """End the connection of a client that has broken the protocol, with an outcome if it waits for one."""
        if self.phase in (INIT, RESPONSE):
            put_frame(self.out, 0, SaslOutcome(SASL_AUTH, None), SASL_FRAME)
        self.closing = True

    def shut_down(self) -> None:
        self.dismiss("the broker stops")

    def dismiss(self, text: str, is_ours: bool = False) -> None:
        if self.phase in (INIT, RESPONSE):
            put_frame(self.out, 0, SaslOutcome(SASL_SYS_TEMP, None), SASL_FRAME)
        self.closing = True

    def describe(self) -> dict[str, object]:
        user = "" if self.principal is None else self.principal.user
        return {"protocol": "AMQP 1.0", "user": user}
