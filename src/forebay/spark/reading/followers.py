"""Chooses the followers of a cluster that a read is served by, and another one when a follower fails.

Each task asks the leader first: it checks permissions and offsets, and names the followers that may serve the range.
A follower that is unreachable, hangs, is slow or has damaged records is replaced by the next one. When none is left,
the leader serves the range.
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
AVOIDED_S: Final = 10.0  # how long to avoid a node that did not answer, as each task would wait for it

# When a node that did not answer may be tried again, by its address; shared by all reads in this process.
_avoided: dict[str, float] = {}


class FollowersAsked:
    """The followers that one read has tried.

    failed  names of nodes that this read does not try again
    node    the node that it reads from now; "" for the leader
    """

    def __init__(self, access: Access) -> None:
        self.access = access
        self.failed: set[str] = set()
        self.node = ""
        self.server = ""
        self.client: GrantedClient | None = None

    def reach(self, grant: ReadGrant) -> BlockClient | None:
        """Connect to the first follower of the grant that answers, and return the connection.

        Returns None if no follower answers, so that the leader must serve the read.
        """
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
        """Disconnect from the current follower after an error, and stop using it for this read.

        has_served  whether it has sent records: then a refusal may only mean that its grant has ended, and this read
                    may try the follower again
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
        """Close the connection to the current follower."""
        if self.client is not None:
            self.client.close()
        self.client = None
        self.node = self.server = ""
