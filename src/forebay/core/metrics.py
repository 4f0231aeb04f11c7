"""The broker's counters of itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Totals:
    """One moment's statistics: what has happened since the start, then what is there now.

    octets_received, octets_sent        of all connections, without the framing of TLS and WebSocket
    sockets                             connections taken, whatever they spoke
    connects                            MQTT CONNECTs
    packets_received, packets_sent      MQTT packets of any type
    publishes_received, publishes_sent  MQTT PUBLISHes
    dropped_queue_full, ..._not_read,   messages that one client did not get: too many waited, it did not read what came
    ..._expired, ..._too_large          at QoS 0, they expired while they waited, they were longer than it takes
    publish_octets_received, ..._sent   of their payloads
    clients_expired                     sessions that ended by their expiry
    dead_letters_moved, ..._dropped     messages that died and went on, or were nobody's

    clients_connected                   MQTT clients with a connection
    clients_disconnected                sessions without one
    retained                            retained messages, without the broker's own
    delayed                             messages to be published later
    staged_batches                      of Spark's sinks, that wait for their commit
    stored_messages, stored_octets      retained, and waiting for clients
    subscriptions                       to topics
    shared_subscriptions                members of all of them
    memory_octets, memory_octets_peak   of the process
    """

    octets_received: int = 0
    octets_sent: int = 0
    sockets: int = 0
    connects: int = 0
    packets_received: int = 0
    packets_sent: int = 0
    publishes_received: int = 0
    publishes_sent: int = 0
    dropped_queue_full: int = 0
    dropped_not_read: int = 0
    dropped_expired: int = 0
    dropped_too_large: int = 0
    publish_octets_received: int = 0
    publish_octets_sent: int = 0
    clients_expired: int = 0
    dead_letters_moved: int = 0
    dead_letters_dropped: int = 0

    clients_connected: int = 0
    clients_disconnected: int = 0
    retained: int = 0
    delayed: int = 0
    staged_batches: int = 0
    stored_messages: int = 0
    stored_octets: int = 0
    subscriptions: int = 0
    shared_subscriptions: int = 0
    memory_octets: int = 0
    memory_octets_peak: int = 0

    @property
    def publishes_dropped(self) -> int:
        """Messages that one client did not get, for whatever reason."""
        return self.dropped_queue_full + self.dropped_not_read + self.dropped_expired + self.dropped_too_large
