"""Reads from the nodes of a cluster that do not lead: which of them is asked, and when another one is.

The leader is asked first, by each task: it checks rights and offsets, and names the followers that may serve the range.
One that is away, hangs, is slow or has damaged records is left for the next; where none is left the leader serves.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from forebay.client.blocks import BlockClient, ReadGrant, StoredDataError
from forebay.client.granted import GrantedClient, server_of
from forebay.core.errors import CorruptFile, ForebayError, OutcomeUnknown, RequestError, Unreachable
from forebay.spark.access import Access

LOGGER: Final = logging.getLogger("forebay.spark")
AVOIDED_S: Final = 10.0  # for which a node that did not answer is not asked: each task would wait for it

# When nodes may be asked again that did not answer, by their address; of all reads in this process.
_avoided: dict[str, float] = {}


class FollowersAsked:
    """The followers as one read knows them.

    failed  nodes that it asks no more
    node    that it reads from now; "" for the one that leads
    """

    def __init__(self, access: Access) -> None:
        self.access = access
        self.failed: set[str] = set()
        self.node = ""
        self.server = ""
        self.client: GrantedClient | None = None

    def reach(self, grant: ReadGrant) -> BlockClient | None:
        """A connection to the first of the nodes that answers; None where the leader is to be asked."""
        self.leave()
        for node, servers in grant.nodes.items():
            server = server_of(servers, self.access.tls)
            if node in self.failed or not server or _avoided.get(server, 0.0) > time.monotonic():
                continue
            self.node, self.server = node, server
            try:
                self.client = GrantedClient.open(server, grant.token, self.access.client_tls())
            except ForebayError as error:
                self.lose(error, False)
            else:
                return self.client
        return None

    def lose(self, error: ForebayError, has_served: bool) -> None:
        """Go on without the node that is read from.

        has_served  it has sent records: that it refuses more may be because its grant has ended
        """
        is_damaged = isinstance(error, CorruptFile | StoredDataError)
        LOGGER.log(
            logging.WARNING if is_damaged else logging.INFO, "node %s serves no more of this read: %s", self.node, error
        )
        if isinstance(error, Unreachable | OutcomeUnknown):
            _avoided[self.server] = time.monotonic() + AVOIDED_S
        if not (has_served and isinstance(error, RequestError)):
            self.failed.add(self.node)
        self.leave()

    def leave(self) -> None:
        """End the connection to the node that is read from."""
        if self.client is not None:
            self.client.close()
        self.client = None
        self.node = self.server = ""
