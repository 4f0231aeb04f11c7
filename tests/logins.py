"""Logins that no handshake has made, for sessions that a test begins by hand."""

from __future__ import annotations

from forebay.directory.logins.authorizer import Principal
from forebay.directory.logins.login import LoginContext
from forebay.session.login import Amqp091Login, Amqp10Login, BlocksLogin, Login, MqttLogin, MqttTerms, MqttWill

LOOPBACK = "127.0.0.1"
LONG_S = 3600


def from_machine(protocol: str, client_id: str = "") -> LoginContext:
    """A client on this machine."""
    return LoginContext(LOOPBACK, protocol, client_id, peer=f"{LOOPBACK}:40000", loopback=True)


def mqtt_login(
    client_id: str,
    user: str = "guest",
    vhost: bytes = b"/",
    version: int = 5,
    clean: bool = True,
    will: MqttWill | None = None,
    packet_octets_max: int = 1 << 28,
) -> MqttLogin:
    terms = MqttTerms(
        window=100,
        packet_octets_max=packet_octets_max,
        alias_max=0,
        keep_alive_us=0,
        expiry_s=0 if clean else LONG_S,
        asked_expiry_s=0 if clean else LONG_S,
        problem_information=True,
    )
    return MqttLogin(
        principal=Principal(user),
        vhost=vhost,
        context=from_machine("mqtt", client_id),
        version=version,
        client_id=client_id.encode(),
        clean=clean,
        is_anonymous=False,
        will=will,
        terms=terms,
        auth_method=b"",
        auth_block=b"",
    )


def amqp_login(user: str = "guest", vhost: bytes = b"/") -> Amqp091Login:
    return Amqp091Login(
        principal=Principal(user),
        vhost=vhost,
        context=from_machine("amqp"),
        client={"product": "by hand", "capabilities": {"consumer_cancel_notify": True}},
        mechanism="PLAIN",
        channels_max=2047,
        frame_octets_max=131_072,
        heartbeat_s=0,
    )


def amqp10_login(user: str = "guest", vhost: bytes = b"/") -> Amqp10Login:
    return Amqp10Login(
        principal=Principal(user),
        vhost=vhost,
        context=from_machine("amqp10", "by hand"),
        mechanism="PLAIN",
        container="by hand",
        client={"product": "by hand"},
        frame_octets_max=131_072,
        channel_max=255,
        idle_ms=0,
        knows_rabbitmq=False,
    )


def blocks_login(user: str = "guest", vhost: bytes = b"/") -> BlocksLogin:
    return BlocksLogin(principal=Principal(user), vhost=vhost, context=from_machine("blocks"))


def http_login(user: str = "guest", vhost: bytes = b"/") -> Login:
    return Login(principal=Principal(user), vhost=vhost, context=from_machine("http"))
