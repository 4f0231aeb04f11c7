"""Clients that connect to a follower: relayed to the leader, or served here if they are readers with a grant."""

from __future__ import annotations

import asyncio
from functools import partial

from forebay.core.option_cluster import FORWARD
from forebay.node.peer import Peer
from forebay.server.cluster.administration import ClusterState
from forebay.server.cluster.clients.follower_http import HTTP_LISTENERS, FollowerHttp
from forebay.server.cluster.clients.new_connection import NewConnection
from forebay.server.cluster.clients.probes import HttpClient
from forebay.server.cluster.clients.scrape import NAME as SCRAPED
from forebay.server.cluster.clients.scrape import ScrapeAnswer, TellMetrics
from forebay.server.cluster.cluster_node import ClusterNode
from forebay.server.cluster.draining import Draining
from forebay.server.cluster.reads.reader import GrantedReader
from forebay.server.cluster.reads.serving import FollowerReads
from forebay.server.listen import HTTP, Endpoint
from forebay.wire.blocks.frames import GRANTED_PREFACE


class Elsewhere:
    """The clients of a follower, most of which the leader serves.

    tell_metrics  writes the metrics for Prometheus
    beginning  connections whose first octets have not come yet
    """

    def __init__(
        self, member: ClusterNode, state: ClusterState, draining: Draining, reads: FollowerReads, http: FollowerHttp
    ) -> None:
        self.member = member
        self.state = state
        self.draining = draining
        self.reads = reads
        self.http = http
        self.tell_metrics: TellMetrics | None = None
        self.beginning: set[FirstOctets] = set()

    def make(self, endpoint: Endpoint, peer: Peer | None) -> asyncio.Protocol:
        """Make the protocol of a connection that this node does not serve as a broker."""
        if endpoint.protocol == HTTP or endpoint.websocket is not None:
            return self.send_on(endpoint, peer)
        return FirstOctets(self, endpoint, peer)

    def send_on(self, endpoint: Endpoint, peer: Peer | None) -> asyncio.Protocol:
        """Make the protocol of a client that the leader serves."""
        member = self.member
        if endpoint.name == SCRAPED and self.tell_metrics is not None:
            return ScrapeAnswer(partial(self.tell_metrics, self.state))
        if endpoint.name in HTTP_LISTENERS:
            return HttpClient(self.http, endpoint, peer)
        if self.draining.is_drained and endpoint.protocol != HTTP:
            return self.draining.refusals.make(endpoint, peer)
        if member.settings.options.clients == FORWARD or endpoint.protocol == HTTP:
            return member.relay.make(endpoint, peer)
        return member.refusals.make(endpoint, peer)

    def made(self, endpoint: Endpoint, peer: Peer | None, first: bytes) -> asyncio.Protocol:
        """Make the protocol of a connection that begins with the octets `first`. This node may lead by now."""
        make = self.member.listeners.makers.get(endpoint.name)
        if make is not None:
            return make(endpoint, peer)
        if first.startswith(GRANTED_PREFACE) and not self.draining.is_drained:
            return GrantedReader(self.reads)
        return self.send_on(endpoint, peer)


class FirstOctets(NewConnection):
    """A connection whose first octets, which tell its protocol, have not come yet."""

    def __init__(self, elsewhere: Elsewhere, endpoint: Endpoint, peer: Peer | None) -> None:
        super().__init__(endpoint, peer)
        self.elsewhere = elsewhere

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        beginning = self.elsewhere.beginning
        if len(beginning) >= self.elsewhere.member.process.options.connections_max:
            self.transport.abort()
        else:
            beginning.add(self)

    def data_received(self, data: bytes) -> None:
        self.data += data
        if len(self.data) >= len(GRANTED_PREFACE) or not GRANTED_PREFACE.startswith(self.data):
            self.become(self.elsewhere.made(self.endpoint, self.peer, self.data))

    def leave(self) -> None:
        super().leave()
        self.elsewhere.beginning.discard(self)
