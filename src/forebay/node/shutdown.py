"""The orderly end of a node: nobody is let in or read any more, and then every client is told."""

from __future__ import annotations

from forebay.broker.limits.hold_reasons import SHUTDOWN
from forebay.node.node import Node


def stop_reading(node: Node) -> None:
    """Let no client in, and read none."""
    node.stopping = True
    node.is_due = True
    for link in node.open:
        if not link.closing:
            node.flow.hold(link, SHUTDOWN)


def say_goodbye(node: Node) -> None:
    """Tell every client that the broker ends. Clients that have to answer are read again for that."""
    node.vhosts.take_leave()
    for link in list(node.open):
        session = link.session
        if link.closing:
            continue
        if session is None:
            if node.handshakes.shut_down(link, node.flow):
                node.out.send.append(link)
            continue
        session.vhost.pause(session.id, True)  # it settles nothing any more
        link.attempt(session.shut_down)
        if not link.closing:
            node.flow.release_all(link)
            node.release(link, session, node.store.durable)
