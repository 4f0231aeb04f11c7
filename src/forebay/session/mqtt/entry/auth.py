"""Enhanced authentication (MQTT 5, section 4.12): a login of several messages, at CONNECT and again later.

    CONNECT method, data   ->   AUTH 0x18 method, data     as often as the method wants
    AUTH 0x18 method, data ->   AUTH 0x18 method, data
    AUTH 0x18 method, data ->   CONNACK 0x00 method, data  or CONNACK 0x87; 0x8C for a method that is not offered

    AUTH 0x19 method, data ->   AUTH 0x18 … AUTH 0x00      or DISCONNECT 0x87, on a connection that has its CONNACK

Until the CONNACK only AUTH and DISCONNECT may come from the client [MQTT-3.1.2-30]; while it authenticates again, all
goes on as before. The session sends what stands in an `Answer`.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from forebay.directory.logins.login import NOWHERE, Auth, LoginRefused, SaslExchange, shown
from forebay.wire.mqtt import codes
from forebay.wire.mqtt import properties as props
from forebay.wire.mqtt.codes import AUTH, CONNACK, DISCONNECT, V5, unexpected
from forebay.wire.mqtt.packets import HEAD_OCTETS_MAX, Ack, decode_bare

FIXED_OCTETS_MAX: Final = HEAD_OCTETS_MAX + 2 + 4  # of CONNACK: around its properties


@final
class Answer:
    """A packet for the client.

    kind    CONNACK, AUTH or DISCONNECT
    code    from `FAILURE` on the connection ends behind it
    block   properties; a CONNACK of success has those of the session besides
    detail  why the login was refused, for the operator
    """

    def __init__(self, kind: i64, code: i64, block: bytes, detail: str) -> None:
        self.kind: i64 = kind
        self.code: i64 = code
        self.block = block
        self.detail = detail


@final
class AuthExchange:
    """The authentication of one connection by the method that its CONNECT named.

    method             empty where the client logs in by user name and password
    connection         its number
    user               who it has proven to be; empty before
    packet_octets_max  the client's limit
    """

    def __init__(self, auth: Auth, loopback: bool, connection: i64 = 0, method: bytes = b"", user: str = "") -> None:
        self.auth = auth
        self.connection: i64 = connection
        self.loopback = loopback
        self.method = method
        self.user = user
        self.packet_octets_max: i64 = props.VARINT_MAX + HEAD_OCTETS_MAX
        self.login: SaslExchange | None = None

    # ---- packets in

    def on_connect(self, block: bytes) -> Answer | None:
        """Begin what the properties of CONNECT ask for; None where they name no method.

        raises  PeerError: data without method (3.1.2.11.10)
        """
        self.packet_octets_max = props.number_of(block, props.MAXIMUM_PACKET_SIZE, self.packet_octets_max)
        method = text_of(block, props.AUTH_METHOD)
        data = text_of(block, props.AUTH_DATA)
        if method is None:
            if data is not None:
                raise unexpected("CONNECT: authentication data without method")
            return None
        return self.begin(method, b"" if data is None else data)

    def on_packet(self, data: bytes, first: i64, at: i64, end: i64) -> Answer | None:
        """A packet that comes before the CONNACK; None where the client takes its leave.

        raises  PeerError: it is neither AUTH nor DISCONNECT [MQTT-3.1.2-30], or wrong
        """
        kind = first >> 4
        if kind not in (AUTH, DISCONNECT):
            raise unexpected(f"packet type {kind}: before CONNACK only AUTH and DISCONNECT may come")
        packet = decode_bare(data, kind, first & 15, at, end, V5)
        return self.on_auth(packet) if kind == AUTH else None

    def on_auth(self, packet: Ack) -> Answer:
        """Go on, or authenticate again.

        raises  PeerError: the connection has no method or another one [MQTT-4.12.0-6, 4.12.1-1], or not at this time
        """
        method = text_of(packet.properties, props.AUTH_METHOD)
        found = text_of(packet.properties, props.AUTH_DATA)
        data = b"" if found is None else found
        if method is None:
            raise unexpected("AUTH: authentication method: missing")
        if packet.code == codes.CONTINUE_AUTHENTICATION:
            return self.continue_(method, data)
        if packet.code == codes.RE_AUTHENTICATE:
            self.check_method(method)
            if self.login is not None:
                raise unexpected("AUTH: re-authenticate: an authentication is under way")
            return self.begin(method, data)
        raise unexpected(f"AUTH: reason code {packet.code:#04x}: not for clients")  # [MQTT-3.15.2-1]

    # ---- the exchange

    def begin(self, method: bytes, data: bytes) -> Answer:
        """The first message of a login by this method."""
        self.method = method
        name = method.decode("utf-8")
        mechanism = self.auth.mechanisms.get(name)
        if mechanism is None:
            return self.refused(codes.BAD_AUTH_METHOD, f"authentication method '{shown(name)}' is not offered")
        self.login = mechanism.start()
        return self.continue_(method, data)

    def continue_(self, method: bytes, data: bytes) -> Answer:
        """The next message of the login; PeerError where none is under way, or not by this method."""
        self.check_method(method)
        login = self.login
        if login is None:
            raise unexpected("AUTH: continue authentication: none is under way")
        try:
            said = login.step(data)
            if login.name and not login.done:
                self.auth.check_wait(self.auth.places.get(int(self.connection), NOWHERE), login.name)
            user = self.auth.admit(login.user, self.loopback).user if login.done else ""
        except LoginRefused as error:
            self.auth.note_refusal(int(self.connection), error)
            return self.refused(codes.NOT_AUTHORIZED, error.detail)
        block = auth_block(method, said)
        if FIXED_OCTETS_MAX + len(block) > self.packet_octets_max:
            return self.refused(codes.PACKET_TOO_LARGE, f"no answer fits into {self.packet_octets_max} octets")
        if not login.done:
            return Answer(AUTH, codes.CONTINUE_AUTHENTICATION, block, "")
        if not self.user:
            self.user = user
            self.login = None
            return Answer(CONNACK, codes.SUCCESS, block, "")
        if user != self.user:
            # The connection's subscriptions and messages belong to its first user.
            return self.refused(codes.NOT_AUTHORIZED, f"user '{self.user}' cannot become '{user}'")
        self.login = None
        return Answer(AUTH, codes.SUCCESS, block, "")

    def check_method(self, method: bytes) -> None:
        if not self.method:
            raise unexpected("AUTH: the CONNECT had no authentication method")
        if method != self.method:
            raise unexpected("AUTH: authentication method: not the one of CONNECT")

    def refused(self, code: i64, detail: str) -> Answer:
        self.login = None
        return Answer(DISCONNECT if self.user else CONNACK, code, b"", detail)


def auth_block(method: bytes, data: bytes) -> bytes:
    """The properties of AUTH and CONNACK in an exchange."""
    out = BytesWriter()
    props.append_text_property(out, props.AUTH_METHOD, method)
    if data:
        props.append_text_property(out, props.AUTH_DATA, data)
    return out.getvalue()


def text_of(block: bytes, id: i64) -> bytes | None:
    """Value of the first property of that identifier in a checked block; None where there is none."""
    for property in props.decode_properties(block):
        if property.id == id:
            return property.text
    return None
