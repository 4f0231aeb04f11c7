"""The handshake of the block protocol: a preface, then one request that says who the client is."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.core.errors import (
    INTERNAL,
    MALFORMED,
    REFUSED,
    TAKEN_OVER,
    TIMED_OUT,
    PeerError,
    RequestError,
)
from forebay.core.options import Options
from forebay.directory.logins.authorizer import Principal, Proof
from forebay.directory.logins.login import Auth, LoginContext, LoginRefused
from forebay.session.handshake import Handshake
from forebay.session.login import BlocksLogin
from forebay.wire.blocks.frames import (
    AUTH,
    PREFACE,
    PREFACE_OCTETS,
    REQUEST,
    REQUEST_OCTETS_MAX,
    decode_frame,
    decode_preface,
    decode_request,
    encode_error,
    frame_octets,
)


@final
class BlocksHandshake(Handshake):
    """The handshake of one connection; its session answers the login.

    greeted  the broker has sent its preface
    vhost    name of the vhost that the login asks for
    """

    def __init__(self, connection: i64, context: LoginContext, auth: Auth, options: Options) -> None:
        super().__init__(connection, context, auth, options)
        self.greeted = False
        self.vhost = b""

    def receive(self, data: bytes) -> int:
        at: i64 = 0
        try:
            if not self.greeted:
                at = decode_preface(data)
                if at == 0:
                    return 0
                self.greet()
            while not self.closing and self.proof is None and self.login is None:
                # Only who has logged in may make the broker hold long requests.
                frame = decode_frame(data, at, REQUEST_OCTETS_MAX)
                if frame is None:
                    break
                at += frame.octets
                if frame.kind != REQUEST:
                    raise PeerError(MALFORMED, f"frame of kind {frame.kind} from a client; only {REQUEST} is expected")
                self.on_request(frame.payload)
        except PeerError as error:
            if not self.greeted:
                self.greet()
            self.fail(error)
        return len(data) if self.closing else int(at)

    def greet(self) -> None:
        self.greeted = True
        self.out.write(PREFACE)

    def wanted(self, rest: bytes) -> int:
        return int(frame_octets(rest, 0, REQUEST_OCTETS_MAX)) if self.greeted else PREFACE_OCTETS

    def on_request(self, payload: bytes) -> None:
        try:
            request = decode_request(payload)
            if request.op != AUTH:
                raise RequestError(REFUSED, f"{request.op}: log in first")
            self.vhost = request.vhost.encode()
            self.proof = self.auth.begin(int(self.id), request.user, request.password)
            if self.proof is None:
                self.log_in(self.auth.check(request.user, request.password, self.context.loopback))
        except RequestError as error:
            self.refuse(error)

    def conclude(self, proof: Proof) -> None:
        try:
            self.log_in(self.auth.conclude(proof, self.context.loopback))
        except RequestError as error:
            self.refuse(error)

    def log_in(self, principal: Principal) -> None:
        self.auth.note_login(int(self.id), principal.user)
        self.login = BlocksLogin(principal=principal, vhost=self.vhost, context=self.context)

    def refuse(self, error: RequestError) -> None:
        """Say what cannot be, and close: the peer may not try names and passwords."""
        self.out.write(encode_error("request", error.reason, error.text))
        self.auth.note_refusal(int(self.id), error)
        self.reason = error.detail if isinstance(error, LoginRefused) else error.text
        self.closing = True

    def fail(self, error: PeerError) -> None:
        """Say what the peer broke, and close."""
        self.out.write(encode_error("protocol", error.reason, error.text))
        self.reason = error.text
        self.closing = True

    def time_out(self) -> None:
        self.fail(PeerError(TIMED_OUT, "no login in time"))

    def dismiss(self, text: str, is_ours: bool = False) -> None:
        if not self.closing:
            self.fail(PeerError(INTERNAL if is_ours else TAKEN_OVER, text))

    def shut_down(self) -> None:
        self.closing = True

    def describe(self) -> dict[str, object]:
        user = "" if self.login is None else self.login.principal.user
        return {"protocol": "blocks", "user": user}
