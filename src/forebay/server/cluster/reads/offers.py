"""The followers to which a leader sends readers of blocks: those in sync that it hears, with their addresses."""

from __future__ import annotations

from typing import Final

from forebay.broker.read_offers import GrantedRead, ReadOffers, ReadPlace
from forebay.core.option_cluster import EVERYWHERE
from forebay.core.option_table import split_address
from forebay.server.cluster.cluster_node import ClusterNode
from forebay.server.cluster.reads.grants import SINCE_VERSION, Grant, encode_grant

TOKEN_OCTETS: Final = 16
LISTENERS: Final = ("amqp", "amqps", "mqtt", "mqtts")  # that take readers of blocks


class Offers(ReadOffers):
    """The offers of one node that leads.

    given  number of grants so far, by which readers are spread over the followers
    """

    def __init__(self, member: ClusterNode) -> None:
        self.member = member
        self.given = 0

    def grant(self, read: GrantedRead) -> tuple[str, list[ReadPlace]]:
        places = self.places()
        if not places:
            return "", []
        self.given += 1
        first = self.given % len(places)
        token = self.member.process.chance.octets(TOKEN_OCTETS).hex()
        store = self.member.group.store
        lsn = max(store.durable, store.recovered)
        told = encode_grant(Grant(token, read.log, read.queue, read.first, read.end, lsn))
        spread = places[first:] + places[:first]
        return token, [each for each in spread if self.member.links.send(each.node, told)]

    def places(self) -> list[ReadPlace]:
        """Return the followers that can serve reads now, sorted by name."""
        member = self.member
        record = member.record()
        if record is None or member.process.ended or not member.group.can_deliver():
            return []
        found: list[ReadPlace] = []
        for node in sorted(member.answering()):
            is_meant = node in record.members and node != member.settings.node and not member.is_drained(node)
            if not is_meant or member.links.version(node) < SINCE_VERSION:
                continue
            clients = record.members[node].clients
            servers = {name: clients[name] for name in LISTENERS if is_usable(clients.get(name, ""))}
            if servers:
                found.append(ReadPlace(node, servers))
        return found


def is_usable(address: str) -> bool:
    """Return whether clients can connect to an address."""
    return bool(address) and split_address(address)[0] not in EVERYWHERE
