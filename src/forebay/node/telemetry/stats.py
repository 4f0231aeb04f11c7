"""The broker's counts of itself, gathered from where they are kept and published under `$SYS`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import forebay
from forebay.broker.mqtt.client_session import ClientSession
from forebay.broker.vhost import Vhost
from forebay.broker.vhosts import Vhosts
from forebay.core.metrics import Totals
from forebay.core.options import Options
from forebay.message.formats.table import topic_octet
from forebay.node.telemetry.sys_topics import SysTopics
from forebay.session.handshake import Handshake
from forebay.session.mqtt.connection import MqttSession
from forebay.session.mqtt.entry.handshake import MqttHandshake
from forebay.session.session import Session
from forebay.session.traffic import Traffic

COUNTED_BY_SESSIONS: Final = (
    "connects",
    "packets_received",
    "packets_sent",
    "publishes_received",
    "publishes_sent",
    "publish_octets_received",
    "publish_octets_sent",
    "dropped_expired",
    "dropped_too_large",
)


class BrokerStats:
    """The broker's totals, and the interval of their publication.

    totals      octets and sockets in it are counted by the connections; memory is set by whoever has the process
    interval_s  between publications; 0 for none
    vhost       that has the topics; None before they were told
    """

    def __init__(self, options: Options, started_us: int, built_us: int = 0) -> None:
        self.totals = Totals()
        self.interval_s = options.mqtt_sys_interval_s
        self.vhost: Vhost | None = None
        self.topics = SysTopics(forebay.__version__, started_us, built_us)
        self.past = Totals()  # of MQTT connections that have ended
        self.past_traffic = Traffic()  # of AMQP connections that have ended
        self.logins: Counter[str] = Counter()  # by protocol
        self.refused_logins: Counter[str] = Counter()

    def ended(self, session: Session) -> None:
        """Add the counters of a session whose connection is gone to the totals of the past."""
        add_session(self.past, session)
        session.add_traffic(self.past_traffic)

    def ended_handshake(self, handshake: Handshake) -> None:
        """Count a handshake that is over, however it ended."""
        if isinstance(handshake, MqttHandshake):
            self.past.connects += handshake.version != 0
            self.past.packets_received += int(handshake.packets_received)
            self.past.packets_sent += int(handshake.packets_sent)

    def is_due(self, second: int) -> bool:
        """Return whether the stats are due for publication at this second after the start."""
        return self.interval_s > 0 and second % self.interval_s == 0

    def tell(self, vhosts: Vhosts, sessions: Iterable[Session], now_us: int) -> None:
        """Publish in the default vhost what has changed, to subscribers of now and, in memory, to those of later."""
        self.look(vhosts.all(), sessions)
        vhost = vhosts.default()
        if vhost is None:
            return
        if vhost is not self.vhost:
            self.vhost = vhost
            self.topics.told.clear()  # a vhost that was created again has none of the topics
        vhost.touch()
        for topic, value in self.topics.changed(self.totals, now_us):
            vhost.retained.put_volatile(topic, value, now_us)
            vhost.publishing.publish_topic(topic, topic_octet(0, False), b"", value)

    def look(self, vhosts: Sequence[Vhost], sessions: Iterable[Session]) -> None:
        """Bring the totals up to date."""
        totals = self.totals
        self.begin(totals)
        for session in sessions:
            add_session(totals, session)
        look_at_vhosts(totals, vhosts)
        for vhost in vhosts:
            for client in vhost.sessions.by_number.values():
                add_client(totals, client)

    def begin(self, totals: Totals) -> None:
        """Set the totals of connections to those that have ended. The caller adds the open ones."""
        for name in COUNTED_BY_SESSIONS:
            setattr(totals, name, getattr(self.past, name))

    def traffic(self, sessions: Iterable[Session]) -> Traffic:
        """Return the traffic of all AMQP connections: of ended ones and of these sessions."""
        found = Traffic()
        found.add(self.past_traffic)
        for session in sessions:
            session.add_traffic(found)
        return found


def look_at_vhosts(totals: Totals, vhosts: Sequence[Vhost]) -> None:
    """Add the connected MQTT clients, and the messages lost by clients that are gone."""
    totals.clients_connected = sum(len(vhost.sessions.connected) for vhost in vhosts)
    totals.clients_disconnected = sum(len(vhost.sessions.offline) for vhost in vhosts)
    totals.clients_expired = sum(vhost.sessions.expired for vhost in vhosts)
    totals.subscriptions = sum(len(vhost.fanout.subscriptions) for vhost in vhosts)
    totals.shared_subscriptions = sum(len(group) for vhost in vhosts for group in vhost.shares.members.values())
    totals.retained = sum(vhost.retained.count() for vhost in vhosts)
    totals.delayed = sum(int(vhost.delayed.count()) for vhost in vhosts)
    totals.staged_batches = sum(len(vhost.staging.staged) for vhost in vhosts)
    totals.dead_letters_moved = sum(int(vhost.dead_letters.moved) for vhost in vhosts)
    totals.dead_letters_dropped = sum(int(vhost.dead_letters.dropped) for vhost in vhosts)
    totals.dropped_queue_full = sum(vhost.sessions.dropped for vhost in vhosts)
    totals.dropped_not_read = sum(vhost.fanout.dropped for vhost in vhosts)
    totals.stored_messages = totals.retained
    totals.stored_octets = sum(vhost.retained.octets() + vhost.sessions.log.octets for vhost in vhosts)


def add_client(totals: Totals, client: ClientSession) -> None:
    """Add the messages that wait for a client, and those that it has lost."""
    totals.dropped_queue_full += client.mqueue.dropped
    totals.stored_messages += client.mqueue.count


def add_session(totals: Totals, session: Session) -> None:
    """Add the counters of an MQTT connection."""
    if isinstance(session, MqttSession):
        inbox = session.inbox
        encoder = session.outbox.encoder
        totals.packets_received += inbox.received + session.others_received
        totals.packets_sent += encoder.sent + encoder.others_sent
        totals.publishes_received += inbox.received
        totals.publishes_sent += encoder.sent
        totals.publish_octets_received += inbox.body_octets
        totals.publish_octets_sent += encoder.body_octets
        totals.dropped_expired += encoder.expired
        totals.dropped_too_large += encoder.too_large
