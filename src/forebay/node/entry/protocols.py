"""The choice of a connection's handshake by its first octets, and of its session by how the handshake ended."""

from __future__ import annotations

from typing import Final

from forebay.broker.vhosts import Vhosts
from forebay.core.errors import RequestError
from forebay.core.options import Options
from forebay.directory.logins.authorizer import Undecided
from forebay.directory.logins.login import Auth, LoginContext
from forebay.directory.permissions import Grants, Rights
from forebay.management.table import Control
from forebay.session.amqp091.connection import Amqp091Session
from forebay.session.amqp091.handshake import Amqp091Handshake
from forebay.session.amqp10.connection import Amqp10Session
from forebay.session.amqp10.entry.handshake import Amqp10Handshake
from forebay.session.blocks.connection import BlocksSession
from forebay.session.blocks.handshake import BlocksHandshake
from forebay.session.handshake import Handshake
from forebay.session.http import EventSession
from forebay.session.login import Amqp091Login, Amqp10Login, BlocksLogin, Login, MqttLogin
from forebay.session.mqtt.entry.begin import begin_session as begin_mqtt_session
from forebay.session.mqtt.entry.handshake import MqttHandshake
from forebay.session.session import Session

MQTT_CONNECT: Final = 0x10
AMQP10_HEADERS: Final = (b"\x00\x01\x00\x00", b"\x02\x01\x00\x00", b"\x03\x01\x00\x00")
# The client has asked for the protocol before its first octet.
MQTT_ONLY: Final = "mqtt only"
AMQP_ONLY: Final = "amqp only"


def protocol_of(data: bytes, default: str) -> str:
    """Return the protocol of a connection that begins with `data`: mqtt, amqp (0.9.1), amqp10 or blocks.

    default  of the listener: for bytes of no protocol
    """
    if default == MQTT_ONLY:
        return "mqtt"
    if data.startswith(b"AMQP"):
        return "amqp10" if data[4:8] in AMQP10_HEADERS else "amqp"
    if default == AMQP_ONLY:
        return "amqp"
    if data.startswith(b"FBLK"):
        return "blocks"
    if data[0] == MQTT_CONNECT:
        return "mqtt"
    return "amqp" if default == "amqp" else "mqtt"


def begin_handshake(connection: int, context: LoginContext, auth: Auth, options: Options) -> Handshake:
    """Return the handshake of a connection that speaks the protocol of `context`."""
    if context.protocol == "mqtt":
        return MqttHandshake(connection, context, auth, options)
    if context.protocol == "blocks":
        return BlocksHandshake(connection, context, auth, options)
    if context.protocol == "amqp10":
        return Amqp10Handshake(connection, context, auth, options)
    return Amqp091Handshake(connection, context, auth, options)


def begin_session(
    session_id: int, login: Login, vhosts: Vhosts, auth: Auth, options: Options, control: Control
) -> Session:
    """Return the session of a client that has logged in, here or in another process.

    control  the way in for administrators
    raises   RequestError: the vhost does not let the client in; Undecided. The vhost keeps nothing of the client then
    """
    if isinstance(login, BlocksLogin) and not login.vhost:
        # An administrator, whose operations name their vhosts: nothing is permitted in the one that it stays in.
        nothing = Rights("", b"", Grants(None, {}))
        return BlocksSession(
            session_id, login, vhosts.enter_lobby(), nothing, vhosts.read_offers, auth, options, control
        )
    rights = vhosts.enter(login.vhost, login.principal, session_id)
    vhost = vhosts.find(login.vhost)
    if isinstance(login, MqttLogin):
        try:
            return begin_mqtt_session(session_id, login, vhost, rights, auth, options)
        except (RequestError, Undecided):
            vhosts.leave(vhost, rights, session_id)
            raise
    if isinstance(login, BlocksLogin):
        return BlocksSession(session_id, login, vhost, rights, vhosts.read_offers, auth, options, control)
    if isinstance(login, Amqp091Login):
        return Amqp091Session(session_id, login, vhost, rights, auth, options)
    if isinstance(login, Amqp10Login):
        return Amqp10Session(session_id, login, vhost, rights, auth, options)
    return EventSession(session_id, login, vhost, rights)
