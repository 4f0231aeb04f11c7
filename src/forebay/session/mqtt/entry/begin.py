"""The begin of an MQTT session: its client enters the vhost, and takes up what it has left there."""

from __future__ import annotations

from forebay.broker.contract import VhostContract
from forebay.broker.mqtt.client_session import ClientSession, Will
from forebay.core.errors import TOO_LARGE, TOO_MANY, RequestError
from forebay.core.option_names import VHOST
from forebay.core.options import Options
from forebay.directory.logins.login import Auth
from forebay.directory.permissions import Rights
from forebay.session.login import MqttLogin
from forebay.session.mqtt.connection import MqttSession
from forebay.session.mqtt.entry.connect import connack_block, connack_fits
from forebay.session.mqtt.rights import check_connect, check_identifier, owner_of
from forebay.wire.mqtt import codes
from forebay.wire.mqtt.codes import V5
from forebay.wire.mqtt.packets import Connack


def begin_session(
    session_id: int, login: MqttLogin, vhost: VhostContract, rights: Rights, auth: Auth, options: Options
) -> MqttSession:
    """Return the session of a client that has logged in and entered its vhost; its first packet is the CONNACK.

    raises  RequestError: the vhost does not take the client; Undecided
    """
    assigned = b"" if login.client_id else b"auto-%d-%d" % (int(vhost.sessions.now_us), session_id)
    block = connack_block(login, assigned, options) if login.version == V5 else b""
    client = attach_client(session_id, login, vhost, rights, login.client_id or assigned, block, options)
    connack = Connack(client.resumed, codes.SUCCESS, block)
    return MqttSession(session_id, login, vhost, rights, client, connack, auth, options)


def attach_client(
    session_id: int,
    login: MqttLogin,
    vhost: VhostContract,
    rights: Rights,
    client_id: bytes,
    block: bytes,
    options: Options,
) -> ClientSession:
    """Return the session that the client takes up or makes, attached to this connection; RequestError, Undecided.

    block  properties of the CONNACK
    """
    check_connect(rights, vhost.sessions, login, client_id)
    owner = owner_of(login)
    if options.mqtt_client_id_scope == VHOST:
        check_identifier(vhost.sessions, client_id, owner.user)
    terms = login.terms
    if not connack_fits(block, terms.packet_octets_max):  # before the session is taken over
        raise RequestError(TOO_LARGE, f"CONNACK exceeds the client's {terms.packet_octets_max} octets")
    try:
        return vhost.mqtt_clients.attach(client_id, session_id, login.clean, terms.expiry_s, will_of(login), owner)
    except RequestError as error:
        raise RequestError(TOO_MANY, error.text) from None


def will_of(login: MqttLogin) -> Will | None:
    """Return the will of a session that begins."""
    will = login.will
    if will is None:
        return None
    return Will(will.topic, will.body, will.properties, will.qos, will.retain, will.delay_s)
