"""The rights of a client in MQTT's words: topics are routing keys of amq.topic, and queues have addresses."""

from __future__ import annotations

from typing import Final

from forebay.broker.address import DEAD_LETTER_PREFIX, QUEUE_PREFIX, TOPIC_EXCHANGE, dead_letter_address, queue_address
from forebay.broker.auth.authorizer import Principal
from forebay.broker.auth.permissions import READ, Rights
from forebay.broker.vhost import Vhost
from forebay.core.errors import RequestError
from forebay.routing.exchange import text
from forebay.routing.topic_trie import swap_key
from forebay.wire.mqtt.packets import Connect

SHARE_PREFIX: Final = b"$share/"
NO_SESSION: Final = 0


def check_subscribe(rights: Rights, filter: bytes) -> None:
    """RequestError(REFUSED) where the user may not have what the filter asks for."""
    if filter.startswith(QUEUE_PREFIX):
        rights.check_part(READ, filter, queue_address(filter)[0])
        rights.check_made(filter, False)
        return
    if filter.startswith(DEAD_LETTER_PREFIX):
        rights.check_part(READ, filter, dead_letter_address(filter)[0])
        return
    if filter.startswith(SHARE_PREFIX):
        filter = filter[filter.find(b"/", len(SHARE_PREFIX)) + 1 :]
    rights.check_source(TOPIC_EXCHANGE, swap_key(filter), True)


def decide(rights: Rights, filters: list[bytes]) -> None:
    """Undecided until it is known of each filter whether the user may have what it asks for."""
    for filter in filters:
        try:
            check_subscribe(rights, filter)
        except RequestError:
            continue


def check_connect(rights: Rights, vhost: Vhost, principal: Principal, packet: Connect) -> None:
    """RequestError where the client may not have what its CONNECT asks for; Undecided until all that is known."""
    rights.client_id = packet.client_id.decode()
    rights.is_anonymous = packet.user is None and not principal.vouched
    if packet.has_will:
        rights.check_publish_topic(packet.will_topic)
    if principal.authorizer is not None and not packet.clean:
        client = vhost.sessions.clients.get(packet.client_id)
        if client is not None:
            decide(rights, list(client.subscriptions))  # those that its session has kept


def check_command(rights: Rights, vhost: Vhost, name: bytes) -> None:
    """RequestError where the client may not settle what the queue of this name gives."""
    rights.check_rules(READ, b"", name, False)
    if not rights.is_permitted(READ, name):
        rights.refuse(READ, f"queue '{text(name)}'")
    queue = vhost.catalog.queues.get(name)
    if queue is not None:
        vhost.catalog.check_owner(queue, NO_SESSION)  # MQTT declares none for itself
