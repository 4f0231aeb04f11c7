"""The memory that clients take with what they declare: subscriptions, bindings, queues, exchanges and consumers.

Messages have limits of their own. What is declared stays in memory however few messages there are, so that a client
with long topic filters could fill the machine. Octets are an estimate: the text that a client has sent, and a flat sum
for the objects that keep it.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import TOO_MANY, RequestError
from forebay.routing.bindings import Bindings
from forebay.routing.exchange import arguments_octets

SUBSCRIPTION_OCTETS: Final = 256
LEVEL_OCTETS: Final = 64  # a node of the trie, which filters of one beginning share
QUEUE_OCTETS: Final = 1024
CONSUMER_OCTETS: Final = 512


@final
class TopologyMemory:
    """The estimated memory of all that the clients of one vhost have declared.

    octets             of subscriptions, queues and consumers; `bindings` counts its own and the exchanges'
    octets_max         of the vhost; 0 sets no limit
    client_octets_max  of one client; 0 sets no limit
    clients            octets by client: the number of a connection, or the negative one of an MQTT session
    refused            requests refused because of either limit
    """

    def __init__(self, bindings: Bindings, client_octets_max: i64, octets_max: i64) -> None:
        self.bindings = bindings
        self.client_octets_max: i64 = client_octets_max
        self.octets_max: i64 = octets_max
        self.octets: i64 = 0
        self.clients: dict[int, int] = {}
        self.refused: i64 = 0

    def total(self) -> i64:
        """Return the octets of everything declared in the vhost."""
        return self.octets + self.bindings.octets

    def check(self, client: i64, octets: i64, subject: str) -> None:
        """Refuse `subject` with RequestError(TOO_MANY) if it exceeds the share of its client or of the vhost.

        client  0 for what belongs to no client
        octets  that the vhost would have to keep beside those it has
        """
        most = self.client_octets_max
        if client and most and i64(self.clients.get(int(client), 0)) + octets > most:
            self.refused += 1
            limit = f"more than {most} octets, client_topology_octets_max"
            raise RequestError(TOO_MANY, f"{subject}: what this client has declared would take {limit}")
        most = self.octets_max
        if most and self.total() + octets > most:
            self.refused += 1
            limit = f"more than {most} octets, vhost_topology_octets_max"
            raise RequestError(TOO_MANY, f"{subject}: what is declared in this vhost would take {limit}")

    def add(self, client: i64, octets: i64) -> None:
        """Count octets that are kept from now on; negative ones are given back."""
        self.octets += octets
        if client:
            left = i64(self.clients.get(int(client), 0)) + octets
            if left:
                self.clients[int(client)] = int(left)
            else:
                self.clients.pop(int(client), None)

    def own(self, client: i64, octets: i64) -> None:
        """Count octets that the vhost has counted already as a client's, too."""
        self.add(client, octets)
        self.octets -= octets


def filter_octets(filter: bytes, arguments: dict[str, object]) -> i64:
    """Return the octets of a subscription to a topic filter."""
    levels = i64(filter.count(b"/")) + 1
    return SUBSCRIPTION_OCTETS + i64(len(filter)) + levels * LEVEL_OCTETS + arguments_octets(arguments)


def queue_octets(name: bytes, arguments: dict[str, object]) -> i64:
    """Return the octets of a queue without its messages and bindings."""
    return QUEUE_OCTETS + i64(len(name)) + arguments_octets(arguments)


def consumer_octets(tag: bytes, arguments: dict[str, object] | None) -> i64:
    """Return the octets of a consumer."""
    return CONSUMER_OCTETS + i64(len(tag)) + (arguments_octets(arguments) if arguments else 0)
