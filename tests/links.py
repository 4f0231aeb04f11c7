"""Nodes with links, on real sockets in the test's event loop."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from forebay.core.options import make_options
from forebay.server.cluster.clients.arrivals import Arrivals
from forebay.server.cluster.links.links import LinkListener, Links
from forebay.server.cluster.settings import ClusterSettings, make_settings
from tests.waiting import until_async

SECRET = "an open secret of nodes"
Heard = tuple[str, str, object]


def now_us() -> int:
    return time.monotonic_ns() // 1000


class Noted(LinkListener):
    """All that a node hears of its links, in order: what, node, and more of it."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []

    def connected(self, node: str, store: str) -> None:
        self.heard.append(("connected", node, store))

    def reset(self, node: str, why: str) -> None:
        self.heard.append(("reset", node, why))

    def refused(self, node: str, tried_us: int) -> None:
        self.heard.append(("refused", node, tried_us))

    def message(self, node: str, octets: bytes) -> None:
        self.heard.append(("message", node, octets))

    def bulk_ready(self, node: str) -> None:
        self.heard.append(("bulk_ready", node, None))

    def all(self, what: str) -> list[object]:
        """All that was heard of a kind."""
        return [more for kind, _, more in self.heard if kind == what]

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until something was heard."""

        async def looked() -> bool:
            return bool(holds())

        await until_async(looked, lambda: f"{[(kind, node) for kind, node, _ in self.heard[-20:]]}")


class TestNode:
    """A node's links and what it hears.

    arrivals  where clients come in that came to other nodes
    """

    __test__ = False

    def __init__(self, settings: ClusterSettings, store: str) -> None:
        self.name = settings.node
        self.noted = Noted()
        self.arrivals = Arrivals()
        self.links = Links(settings, store, self.noted, now_us, secrets.token_bytes, self.arrivals)

    def meet(self, *others: TestNode) -> None:
        """Have links to these."""
        self.links.want({each.name: each.links.address for each in others})

    async def until_linked(self, *others: TestNode) -> None:
        await self.noted.until(lambda: all(self.is_linked(each.name) for each in others))

    def is_linked(self, node: str) -> bool:
        link = self.links.links.get(node)
        return link is not None and link.main is not None


def node_settings(node: str, /, **cluster: object) -> ClusterSettings:
    given = {"name": "shop", "listen": "127.0.0.1:0", "etcd": {"endpoints": ["127.0.0.1:1"]}, "secret": SECRET}
    return make_settings(make_options({"cluster": {**given, "node": node, **cluster}}))


@asynccontextmanager
async def linked_node(name: str, /, **cluster: object) -> AsyncIterator[TestNode]:
    """A node that listens, with options of its section `cluster` and, if it is said, its `store`."""
    store = str(cluster.pop("store", f"store of {name}"))
    node = TestNode(node_settings(name, **cluster), store)
    await node.links.start()
    try:
        yield node
    finally:
        await node.links.stop()
