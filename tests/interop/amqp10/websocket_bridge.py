"""A bridge from TCP to WebSocket: clients that know no WebSocket are carried by another library's."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

OCTETS = 65_536


def carry_down(web: ClientConnection, client: socket.socket) -> None:
    """Pass on what the broker sends."""
    with suppress(ConnectionClosed, OSError):
        while True:
            octets = web.recv()
            assert isinstance(octets, bytes)
            client.sendall(octets)
    with suppress(OSError):
        client.shutdown(socket.SHUT_WR)


def carry(client: socket.socket, url: str, subprotocol: str, context: ssl.SSLContext | None) -> None:
    """Pass on what a client sends, until either end closes."""
    with client, connect(url, subprotocols=[Subprotocol(subprotocol)], ssl=context, max_size=None) as web:
        down = Thread(target=carry_down, args=(web, client))
        down.start()
        with suppress(ConnectionClosed, OSError):
            while octets := client.recv(OCTETS):
                web.send(octets)
        web.close()
        down.join()


@contextmanager
def bridge(url: str, subprotocol: str = "amqp", context: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port of a bridge to a WebSocket; each connection to it gets one of its own."""
    carriers: list[Thread] = []

    def take(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                carriers.append(Thread(target=carry, args=(client, url, subprotocol, context)))
                carriers[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        acceptor = Thread(target=take, args=(listener,))
        acceptor.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            for each in carriers:
                each.join(20)
