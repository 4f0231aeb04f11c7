"""A client of a cluster's follower, which sends the token of a grant and fetches the blocks of one range."""

from __future__ import annotations

import socket
from functools import partial
from typing import Final, Self

from forebay.client.blocks import BlockClient
from forebay.client.connecting import ClientTls, connect_any
from forebay.wire.blocks.frames import GRANTED_PREFACE

LISTENERS: Final = ("amqp", "mqtt")  # in the order of preference
TLS_LISTENERS: Final = ("amqps", "mqtts")


class GrantedClient(BlockClient):
    """One connection for one read; the follower answers only `fetch`.

    timeout_s  longest time for which the follower may send nothing
    """

    timeout_s: float = 5.0
    answer_s = 15.0

    @classmethod
    def open(cls, server: str, token: str, tls: ClientTls | None) -> Self:
        """Connect to a follower, and send it the token.

        raises  Unreachable; RequestError if the follower does not accept the token
        """
        return connect_any(server, cls.timeout_s, tls, partial(cls._show, token))

    @classmethod
    def _show(cls, token: str, connection: socket.socket, server: str) -> Self:
        client = cls(connection, server)
        client._begin_speaking(GRANTED_PREFACE, cls.timeout_s)
        client._ask({"op": "read", "token": token})
        return client


def server_of(servers: dict[str, str], is_tls: bool) -> str:
    """Return a node's address for readers with or without TLS, or "" if it has none.

    servers  the node's addresses by the names of listeners
    """
    return next((servers[name] for name in (TLS_LISTENERS if is_tls else LISTENERS) if name in servers), "")
