"""The orderly end of a broker: nobody is let in or read any more, and then every client is told."""

from __future__ import annotations

from forebay.broker.limits.hold_reasons import SHUTDOWN
from forebay.node.broker import NodeBroker


def stop_reading(broker: NodeBroker) -> None:
    """Admit no new client, and read from none."""
    broker.stopping = True
    broker.is_due = True
    for link in broker.open:
        if not link.closing:
            broker.flow.hold(link, SHUTDOWN)


def say_goodbye(broker: NodeBroker) -> None:
    """Notify every client that the broker ends. Clients that have to answer are read again."""
    broker.vhosts.take_leave()
    for link in list(broker.open):
        session = link.session
        if link.closing:
            continue
        if session is None:
            if broker.handshakes.shut_down(link, broker.flow):
                broker.out.send.append(link)
            continue
        session.vhost.pause(session.id, True)  # the session settles nothing any more
        link.attempt(session.shut_down)
        if not link.closing:
            broker.flow.release_all(link)
            broker.release(link, session, broker.store.durable)
