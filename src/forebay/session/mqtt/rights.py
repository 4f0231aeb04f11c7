"""The rights of a client in MQTT's words: topics are routing keys of amq.topic, and queues have addresses."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.broker.contract import VhostContract
from forebay.broker.mqtt.client_session import ANONYMOUS, EXTERNAL, NOBODY, STORED, VOUCHED, ClientSession, Owner
from forebay.broker.mqtt.sessions import Sessions
from forebay.core.errors import TOO_LARGE, TOO_MANY, LimitReached, RequestError
from forebay.directory.permissions import READ, Rights
from forebay.routing.exchange import text
from forebay.session.login import MqttLogin
from forebay.wire.mqtt import codes

NO_SESSION: Final = 0


def decide(rights: Rights, filters: list[bytes]) -> None:
    """Undecided until it is known of each filter whether the user may have what it asks for."""
    for filter in filters:
        try:
            rights.check_subscribe(filter)
        except RequestError:
            continue


def check_connect(rights: Rights, sessions: Sessions, login: MqttLogin, client_id: bytes) -> None:
    """Check that the client may have what its CONNECT asks for, and give it a session that has no owner yet.

    client_id  the client's own, or the one that the broker has made
    raises     RequestError(REFUSED); Undecided until all that is known
    """
    rights.client_id = client_id.decode()
    rights.is_anonymous = login.is_anonymous
    if login.will is not None:
        rights.check_publish_topic(login.will.topic)
    principal = login.principal
    client = sessions.find(client_id, principal.user)
    unowned = sessions.find(client_id, NOBODY.user) if client is None else None
    if principal.authorizer is not None and not login.clean:
        for each in (client, unowned):
            if each is not None:
                decide(rights, list(each.subscriptions))  # those that its session has kept
    if unowned is not None and covers_all(rights, unowned):
        unowned.owner = owner_of(login)


def owner_of(login: MqttLogin) -> Owner:
    """Return the owner of a session that this login makes or takes up."""
    principal = login.principal
    if principal.authorizer is not None:
        return Owner(principal.user, EXTERNAL)
    if principal.vouched:
        return Owner(principal.user, VOUCHED)
    return Owner(principal.user, ANONYMOUS if login.is_anonymous else STORED)


def covers_all(rights: Rights, client: ClientSession) -> bool:
    """Return whether the user may have all that a session has subscribed to."""
    try:
        for filter in client.subscriptions:
            rights.check_subscribe(filter)
    except RequestError:
        return False
    return True


def check_identifier(sessions: Sessions, client_id: bytes, user: str) -> None:
    """Raise RequestError(IDENTIFIER) if another user has a session under this client identifier."""
    for client in sessions.of_identifier(client_id):
        if client.owner.user != user:
            reason = f"client identifier '{text(client_id)}': another user has a session under it"
            raise RequestError(codes.IDENTIFIER, reason)


def refusal_code(error: RequestError, version: i64) -> i64:
    """Return the code of the CONNACK that refuses a client for this reason."""
    if error.reason == TOO_LARGE:
        return codes.PACKET_TOO_LARGE
    if error.reason == TOO_MANY:
        return codes.QUOTA_EXCEEDED if version == codes.V5 else codes.V311_UNAVAILABLE
    if error.reason == codes.IDENTIFIER:
        return codes.BAD_CLIENT_ID if version == codes.V5 else codes.V311_BAD_CLIENT_ID
    if version != codes.V5:
        return codes.V311_NOT_AUTHORIZED
    return codes.QUOTA_EXCEEDED if isinstance(error, LimitReached) else codes.NOT_AUTHORIZED


def check_command(rights: Rights, vhost: VhostContract, name: bytes) -> None:
    """RequestError where the client may not settle what the queue of this name gives."""
    rights.check_rules(READ, b"", name, False)
    if not rights.is_permitted(READ, name):
        rights.refuse(READ, f"queue '{text(name)}'")
    vhost.check_owner(name, NO_SESSION)  # MQTT declares none for itself
