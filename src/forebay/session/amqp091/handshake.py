"""The handshake of AMQP 0.9.1: who the client is, and what both sides keep to."""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from forebay import __version__
from forebay.core.errors import NOT_ALLOWED, UNEXPECTED, PeerError
from forebay.core.options import Options
from forebay.directory.logins.authorizer import Principal, Proof
from forebay.directory.logins.login import Auth
from forebay.session.amqp091.sasl import EXTERNAL, MECHANISMS, parse_external, parse_response
from forebay.wire.amqp091.codec import FRAME_OCTETS_MIN
from forebay.wire.amqp091.methods import StartOk, put_start, put_tune

SECOND_US: Final = 1_000_000


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
class Handshake:
    """The handshake of one connection.

    identity      the user that the client's certificate names; empty without one
    principal     who has logged in
    user          its name; empty before
    capabilities  the client's
    """

    def __init__(self, auth: Auth, options: Options, loopback: bool, identity: str) -> None:
        self.auth = auth
        self.options = options
        self.loopback = loopback
        self.identity = identity
        self.mechanism = b""
        self.principal = Principal("")
        self.user = ""
        self.connection: i64 = 0
        self.client: dict[str, object] = {}
        self.capabilities: dict[str, object] = {}
        self.channels_max: i64 = options.amqp_channels_max
        self.frame_octets_max: i64 = options.amqp_frame_octets_max
        self.heartbeat_us: i64 = 0

    def greet(self, out: BytesWriter) -> None:
        """Write connection.start."""
        offered = MECHANISMS + b" " + EXTERNAL if self.identity else MECHANISMS
        put_start(out, server_properties(), offered)

    def can(self, capability: str) -> bool:
        """True if the client has said that it knows this."""
        return self.capabilities.get(capability) is True

    def begin(self, connection: i64, start: StartOk) -> Proof | None:
        """Take connection.start-ok: what has to run before `conclude`, or None where `user` has logged in.

        raises  LoginRefused; PeerError where the response is no such thing
        """
        self.connection = connection
        self.client = start.client_properties
        capabilities = self.client.get("capabilities")
        if isinstance(capabilities, dict):
            self.capabilities = capabilities
        mechanism = start.mechanism
        self.mechanism = mechanism
        if mechanism == EXTERNAL and self.identity:
            parse_external(start.response, self.identity)
            self.logged_in(self.auth.admit(self.identity, self.loopback, True))
            return None
        if mechanism not in MECHANISMS.split():
            raise PeerError(UNEXPECTED, f"unknown authentication mechanism '{mechanism.decode('utf-8', 'replace')}'")
        user, password = parse_response(mechanism, start.response)
        proof = self.auth.begin(int(connection), user, password)
        if proof is None:
            self.logged_in(self.auth.check(user, password, self.loopback))
        return proof

    def conclude(self, proof: Proof) -> None:
        """The proof has run: `user` has logged in, or LoginRefused."""
        self.logged_in(self.auth.conclude(proof, self.loopback))

    def logged_in(self, principal: Principal) -> None:
        self.principal = principal
        self.user = principal.user
        self.auth.note_login(int(self.connection), principal.user)

    def refusal(self) -> str:
        """The text for a client that may not log in."""
        mechanism = self.mechanism.decode("ascii")
        return f"Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."

    def offer(self, out: BytesWriter) -> None:
        """Write connection.tune."""
        put_tune(out, self.channels_max, self.frame_octets_max, self.options.amqp_heartbeat_s)

    def check_channels(self, count: i64) -> None:
        """Check that another channel may be opened beside so many, whatever its number; PeerError(NOT_ALLOWED)."""
        if count >= self.channels_max > 0:
            raise PeerError(
                NOT_ALLOWED,
                f"number of channels opened ({count}) has reached the negotiated channel_max ({self.channels_max})",
            )

    def on_tune_ok(self, channels: i64, frame_octets: i64, heartbeat_s: i64) -> None:
        """Take what the client has chosen; PeerError where that was not offered."""
        check_tuned("channel_max", channels, self.channels_max, 0)
        check_tuned("frame_max", frame_octets, self.frame_octets_max, FRAME_OCTETS_MIN)
        self.channels_max = channels
        self.frame_octets_max = frame_octets
        self.heartbeat_us = heartbeat_s * SECOND_US

    def describe(self) -> dict[str, object]:
        """The terms that were agreed on, for people."""
        return {
            "protocol": "AMQP 0.9.1",
            "user": self.user,
            "client": self.client,
            "mechanism": self.mechanism.decode("ascii", "replace"),
            "channels_max": int(self.channels_max),
            "frame_octets_max": int(self.frame_octets_max),
            "heartbeat_s": int(self.heartbeat_us // SECOND_US),
        }


def check_tuned(name: str, value: i64, most: i64, least: i64) -> None:
    """PeerError(NOT_ALLOWED) unless the client's choice is within what was offered; 0 asks for no limit."""
    if value and value < least:
        raise PeerError(NOT_ALLOWED, f"negotiated {name} = {value} is lower than the minimum allowed value ({least})")
    if value == 0 or value > most:
        raise PeerError(NOT_ALLOWED, f"negotiated {name} = {value} is higher than the maximum allowed value ({most})")
