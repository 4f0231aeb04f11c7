"""What rights mean in MQTT's words: topics are routing keys of amq.topic, and queues have addresses."""

from __future__ import annotations

from typing import Final

from forebay.broker.address import DEAD_LETTER_PREFIX, TOPIC_EXCHANGE, dead_letter_address, queue_address
from forebay.broker.permissions import READ, WRITE, Rights
from forebay.broker.topic_acl import AclBook, ClientAcl
from forebay.broker.vhost import Vhost
from forebay.core.errors import REFUSED, RequestError
from forebay.routing.exchange import text
from forebay.routing.topic_trie import swap_key

QUEUE_PREFIX: Final = b"$queue/"
SHARE_PREFIX: Final = b"$share/"
NO_SESSION: Final = 0


def check_publish(rights: Rights, topic: bytes) -> None:
    """RequestError(REFUSED) where the user may not publish to the topic."""
    acl = rights.acl
    if acl is not None and not acl.may_publish(text(topic)):
        raise RequestError(REFUSED, f"write access to topic '{text(topic)}' refused for user '{rights.user}'")
    if topic.startswith(QUEUE_PREFIX):
        rights.check_exchange(WRITE, b"")
    else:
        rights.check_publish(TOPIC_EXCHANGE, swap_key(topic), True)


def check_subscribe(rights: Rights, filter: bytes) -> None:
    """RequestError(REFUSED) where the user may not have what the filter asks for."""
    acl = rights.acl
    if acl is not None:
        topics = filter[filter.find(b"/", len(SHARE_PREFIX)) + 1 :] if filter.startswith(SHARE_PREFIX) else filter
        if not acl.may_subscribe(text(topics)):
            raise RequestError(REFUSED, f"read access to topic '{text(topics)}' refused for user '{rights.user}'")
    if filter.startswith(QUEUE_PREFIX):
        rights.check_queue(READ, queue_address(filter)[0])
        return
    if filter.startswith(DEAD_LETTER_PREFIX):
        rights.check_queue(READ, dead_letter_address(filter)[0])
        return
    if filter.startswith(SHARE_PREFIX):
        filter = filter[filter.find(b"/", len(SHARE_PREFIX)) + 1 :]
    rights.check_source(TOPIC_EXCHANGE, swap_key(filter), True)


def set_acl(rights: Rights, book: AclBook, is_anonymous: bool) -> None:
    """Hold a client to the rules for topics, where there are some."""
    if book.is_used:
        rights.acl = ClientAcl(book, rights.user, rights.client_id, is_anonymous)


def decide(rights: Rights, filters: list[bytes]) -> None:
    """Undecided until it is known of each filter whether the user may have what it asks for."""
    for filter in filters:
        try:
            check_subscribe(rights, filter)
        except RequestError:
            continue


def check_command(rights: Rights, vhost: Vhost, topic: bytes, at: int) -> None:
    """RequestError where the client may not settle what the queue gives; the command stands at `at`."""
    name = topic[len(QUEUE_PREFIX) : at - 1] if topic.startswith(QUEUE_PREFIX) else topic[: at - 1]
    rights.check_queue(READ, name)
    queue = vhost.queues.get(name)
    if queue is not None:
        vhost.check_owner(queue, NO_SESSION)  # MQTT declares none for itself
