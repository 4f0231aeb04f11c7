"""The rights to what a session has stored: they may have changed since it was."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.contract import VhostContract
from forebay.broker.mqtt.client_session import ClientSession
from forebay.broker.mqtt.fanout import topic_at
from forebay.core.errors import RequestError
from forebay.directory.permissions import READ, Rights
from forebay.log.block import Block
from forebay.message.address import TOPIC_EXCHANGE, shared_topics
from forebay.message.events import SUBSCRIBE_DENIED
from forebay.routing.exchange import text
from forebay.routing.topic_trie import matches, swap_key
from forebay.session.session import note_denied

TOPICS_MAX: Final = 10_000  # whose answer is remembered


@final
class StoredRights:
    """Decides which stored messages the user of a resumed session may still have.

    These are the messages that a subscription of the session matches, since its subscriptions were checked, and those
    of topics that the user may read. A pattern may permit a filter, and none of the topics that match it.

    refused  a topic of which messages were dropped; empty as long as there is none
    """

    def __init__(self, rights: Rights, client: ClientSession) -> None:
        self.rights = rights
        self.client = client
        self.known: dict[bytes, bool] = {}
        self.refused = b""

    def permits(self, topic: bytes) -> bool:
        """Return whether messages of this topic may be delivered."""
        answer = self.known.get(topic)
        if answer is None:
            if len(self.known) >= TOPICS_MAX:
                self.known.clear()
            answer = self.known[topic] = self.is_readable(topic) or self.is_subscribed(topic)
            if not answer:
                self.refused = topic
        return answer

    def is_readable(self, topic: bytes) -> bool:
        if self.rights.grants.authorizer is not None:
            return False  # which cannot be asked for each topic while messages wait
        try:
            self.rights.check_source(TOPIC_EXCHANGE, swap_key(topic), True)
        except RequestError:
            return False
        return True

    def is_subscribed(self, topic: bytes) -> bool:
        for filter in self.client.subscriptions:  # noqa: SIM110  a generator is not of the compiled dialect
            if matches(shared_topics(filter), topic):
                return True
        return False

    def count_alike(self, block: Block, index: i64, end: i64, permitted: bool) -> i64:
        """Return how many records of a block, from `index` on and before `end`, are permitted, or else refused."""
        at = index
        while at < end and self.permits(topic_at(block, at)) == permitted:
            at += 1
        return at - index

    def keep_back(self, vhost: VhostContract, block: Block, index: i64, end: i64, is_logged: bool) -> i64:
        """Drop the first records of a run that the user may not have any more, and return how many they are.

        is_logged  they are in the sessions' log, and not in memory or in flight
        """
        count = self.count_alike(block, index, end, False)
        if count:
            if is_logged:
                vhost.sessions.pass_by(self.client, block.base + index, count)
            else:
                self.client.mqueue.dropped += count
            note_denied(vhost, SUBSCRIBE_DENIED, self.rights.user, self.reason())
        return count

    def reason(self) -> str:
        """Return why messages were dropped."""
        user, vhost = self.rights.user, self.rights.vhost
        topic = text(self.refused)
        return f"{READ} access to messages stored of topic '{topic}' in vhost '{vhost}' refused for user '{user}'"
