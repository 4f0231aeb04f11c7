"""The result of a handshake, from which a session begins: in the process that made the handshake, or in another one.

A login is a plain value. msgspec encodes and decodes it; an authorizer, which a token or another server stands behind,
has no encoding.
"""

from __future__ import annotations

import msgspec

from forebay.directory.logins.authorizer import Principal
from forebay.directory.logins.login import LoginContext


class Login(msgspec.Struct, frozen=True, kw_only=True, tag="http"):
    """A client that has logged in, and the vhost that it asks for.

    vhost    name of the vhost; "" only of an administrator over the block protocol, who enters none
    context  the client's connection, and the names that it has given
    """

    principal: Principal
    vhost: bytes
    context: LoginContext


class MqttWill(msgspec.Struct, frozen=True, kw_only=True):
    """The will message of a CONNECT."""

    topic: bytes
    body: bytes
    properties: bytes
    qos: int
    retain: bool
    delay_s: int


class MqttTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one MQTT connection: the options of the broker and the CONNECT of the client, put together.

    window               messages that the client may have unacknowledged
    packet_octets_max    the longest packet that the client takes
    alias_max            topic aliases that the broker may use
    keep_alive_us        silence after which the connection ends; 0 for no limit
    expiry_s             session expiry interval, and `asked_expiry_s` the one that the client asked for
    problem_information  the client takes reason strings
    """

    window: int
    packet_octets_max: int
    alias_max: int
    keep_alive_us: int
    expiry_s: int
    asked_expiry_s: int
    problem_information: bool


class MqttLogin(Login, frozen=True, kw_only=True, tag="mqtt"):
    """The login of an MQTT client.

    version        protocol version, 4 or 5
    client_id      "" for one that the broker has to make
    clean          clean start: nothing of an earlier session is taken up
    is_anonymous   the client has said nothing of who it is
    auth_method    method of the enhanced authentication; "" without one
    auth_block     properties for the CONNACK that conclude the enhanced authentication
    """

    version: int
    client_id: bytes
    clean: bool
    is_anonymous: bool
    will: MqttWill | None
    terms: MqttTerms
    auth_method: bytes
    auth_block: bytes


class Amqp091Login(Login, frozen=True, kw_only=True, tag="amqp"):
    """The login of an AMQP 0.9.1 client, with what connection.tune-ok has agreed on.

    client     the client's properties
    mechanism  of SASL
    """

    client: dict[str, object]
    mechanism: str
    channels_max: int
    frame_octets_max: int
    heartbeat_s: int


class Amqp10Login(Login, frozen=True, kw_only=True, tag="amqp10"):
    """The login of an AMQP 1.0 client, with what its `open` says.

    mechanism         of SASL
    container         the client's container-id
    client            the client's properties
    frame_octets_max  the longest frame that the client takes
    channel_max       the highest channel that the client takes
    idle_ms           the client has to hear something at least that often; 0 for no limit
    knows_rabbitmq    the client expects to talk to RabbitMQ
    early             frames behind the client's `open`, which the handshake has answered
    scopes            of a client of Azure Service Bus: what its tokens give access to, a path and until when in
                      microseconds since 1970, 0 for as long as the login; None for any other client
    """

    mechanism: str
    container: str
    client: dict[str, str]
    frame_octets_max: int
    channel_max: int
    idle_ms: int
    knows_rabbitmq: bool
    early: bytes = b""
    scopes: dict[str, int] | None = None


class BlocksLogin(Login, frozen=True, kw_only=True, tag="blocks"):
    """The login of a client of the block protocol."""
