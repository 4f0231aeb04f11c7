"""The choice of a connection's session by its first octets."""

from __future__ import annotations

from typing import Final

from forebay.broker.vhosts import Vhosts
from forebay.core.options import Options
from forebay.directory.logins.login import Auth
from forebay.management.table import Control
from forebay.session.amqp091.connection import Amqp091Session
from forebay.session.blocks.connection import BlocksSession
from forebay.session.mqtt.connection import MqttSession
from forebay.session.session import Session

MQTT_CONNECT: Final = 0x10
MQTT_ONLY: Final = "mqtt only"  # the client has asked for MQTT before its first octet


def make_session(
    id: int,
    data: bytes,
    default: str,
    vhosts: Vhosts,
    auth: Auth,
    options: Options,
    loopback: bool,
    *,
    identity: str,
    control: Control,
) -> Session:
    """The session for a connection that begins with `data`; octets of no protocol go to the listener's own.

    identity  the user that a client's certificate names; empty without one
    control   the way in for administrators
    """
    if default == MQTT_ONLY:
        return MqttSession(id, vhosts, auth, options, loopback, identity)
    if data.startswith(b"FBLK"):
        return BlocksSession(id, vhosts, auth, options, loopback, control)
    if data[0] == MQTT_CONNECT:
        return MqttSession(id, vhosts, auth, options, loopback, identity)
    if data.startswith(b"AMQP") or default == "amqp":
        return Amqp091Session(id, vhosts, auth, options, loopback, identity)
    return MqttSession(id, vhosts, auth, options, loopback, identity)


def protocol_of(session: Session) -> str:
    """The protocol of a session: mqtt, amqp or blocks."""
    if isinstance(session, MqttSession):
        return "mqtt"
    return "amqp" if isinstance(session, Amqp091Session) else "blocks"
