"""HTTP at a node that does not lead."""

from __future__ import annotations

import asyncio
from typing import Final

from forebay.core.option_cluster import FORWARD
from forebay.node.peer import Peer
from forebay.server.cluster.clients.probes import HttpHost
from forebay.server.cluster.cluster_node import ClusterNode
from forebay.server.cluster.copying import Filling
from forebay.server.cluster.draining import Draining
from forebay.server.listen import Endpoint

HTTP_LISTENERS: Final = ("http", "https")
CATCHING_UP: Final = "catching-up"
DRAINED: Final = "drained"
LEAVING: Final = "leaving"


class FollowerHttp(HttpHost):
    """The HTTP service of one follower."""

    def __init__(self, member: ClusterNode, draining: Draining, filling: Filling) -> None:
        self.member = member
        self.draining = draining
        self.filling = filling

    def why_unready(self) -> str:
        member = self.member
        if member.process.ended:
            return LEAVING
        if self.draining.is_drained:
            return DRAINED
        return "" if self.filling.taker is None and member.group.is_in_sync() else CATCHING_UP

    def http_elsewhere(self, endpoint: Endpoint, target: str) -> tuple[int, dict[str, str], str] | None:
        if self.member.settings.options.clients == FORWARD:
            return None
        return self.member.refusals.http(endpoint.name, target)

    def http_relay(self, endpoint: Endpoint, peer: Peer | None) -> asyncio.Protocol:
        return self.member.relay.make(endpoint, peer)
