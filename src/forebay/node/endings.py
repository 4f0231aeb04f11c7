"""The ways in which a connection's part in the node ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay.node.link import Link
from forebay.node.ready import OWN_STATE

if TYPE_CHECKING:
    from forebay.node.node import Node


def leave(node: Node, link: Link) -> None:
    """Have the connection take part in nothing any more: nobody may write to it from here on."""
    node.dirty.pop(link, None)
    node.waiting.pop(link, None)
    node.pressure.forget(link)
    if node.gate is not None:
        node.gate.forget(link)
    session = link.session
    if session is None or session.id not in node.connections:
        return
    del node.connections[session.id]
    node.auth.places.pop(session.id, None)
    node.rates.forget(link)
    session.rights.usage.leave(session.id)
    if session.reason:
        node.journal.info("connection from %s ended: %s%s", link.peer, session.reason, link.named())
    try:
        node.stats.ended(session)
        if node.announcer.listening:
            node.announcer.ended(link, session)
    except Exception as error:  # noqa: BLE001  what it held goes back all the same
        node.note_fault(f"the account of the connection from {link.peer}", error)
    try:
        session.closed()
    except Exception as error:  # noqa: BLE001  others would wait in vain for what it had
        node.stop(OWN_STATE, error)
    session.vhost.pause(session.id, False)  # it may have stopped reading when its session was over already
    session.vhost.touch()
    node.is_due = True


def end_taken(node: Node) -> None:
    """End connections whose client has come back by another one [MQTT-3.1.4-3]."""
    for id in node.vhosts.take_taken():
        previous = node.connections.get(id)
        if previous is not None and previous.session is not None:
            node.announcer.taken_over(previous, previous.session)
            previous.attempt(previous.session.taken_over)
            part_with(node, previous)


def part_with(node: Node, link: Link) -> None:
    """Let a connection go that was taken over: it takes part in nothing more, but its client is answered.

    It has asked for a session: CONNACK, and why it has to go, leave when what the CONNACK promises is on disk. So
    no connection stays for longer than a sync.
    """
    session = link.session
    if link.closing or session is None:
        return
    if session.hold_lsn <= node.store.durable:
        node.finish(link)
        return
    if not link.closing_us:
        link.closing_us = node.clock.now_us()  # from here on it may stay for so long only
    node.farewells.append(link)
    node.leave(link)


def break_off(node: Node, link: Link) -> None:
    """Tell the client that the broker is wrong, and close.

    What was not sent is not sent any more: it may end in the middle of a frame.
    """
    session = link.session
    if link.closing or session is None or link.is_sending():
        node.cut(link)
        return
    link.drop()
    session.hold_lsn = 0
    session.dismiss("an error of the broker's own: its log has it", True)
    node.finish(link)
