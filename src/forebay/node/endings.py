"""The ways in which a connection's part in the node ends."""

from __future__ import annotations

from typing import final

from forebay.directory.logins.login import Auth
from forebay.node.back_pressure.pressure import Pressure
from forebay.node.back_pressure.rates import Rates
from forebay.node.link import Link
from forebay.node.ready import OWN_STATE
from forebay.node.telemetry.events import Announcer
from forebay.node.telemetry.journal import Journal
from forebay.node.telemetry.stats import BrokerStats


@final
class Endings:
    """The ways in which connections end, and what they held is given back.

    connections  by the session's number; the node's own
    farewells    connections taken over, whose last answer waits for the disk
    """

    def __init__(
        self,
        auth: Auth,
        pressure: Pressure,
        rates: Rates,
        stats: BrokerStats,
        announcer: Announcer,
        journal: Journal,
    ) -> None:
        self.auth = auth
        self.connections = pressure.connections
        self.pressure = pressure
        self.rates = rates
        self.stats = stats
        self.announcer = announcer
        self.journal = journal
        self.farewells: list[Link] = []

    def leave(self, link: Link) -> bool:
        """Release everything that a connection held. Return whether it had a handshake or a session."""
        self.pressure.forget(link)
        session = link.session
        current = session or link.handshake
        if current is None or current.id not in self.connections:
            return False
        del self.connections[current.id]
        self.auth.places.pop(current.id, None)
        self.rates.forget(link)
        if current.reason:
            self.journal.info("connection from %s ended: %s%s", link.peer, current.reason, link.named())
        if session is None:
            assert link.handshake is not None
            self.stats.ended_handshake(link.handshake)
            return True
        session.rights.usage.leave(session.id)
        try:
            self.stats.ended(session)
            if self.announcer.listening:
                self.announcer.ended(link, session)
        except Exception as error:  # noqa: BLE001  what it held goes back all the same
            link.broker.note_fault(f"the account of the connection from {link.peer}", error)
        try:
            session.closed()
        except Exception as error:  # noqa: BLE001  others would wait in vain for what it had
            link.broker.stop(OWN_STATE, error)
        session.vhost.pause(session.id, False)  # it may have stopped reading when its session was over already
        session.vhost.touch()
        return True

    def end_taken(self, taken: list[int], durable: int, now_us: int) -> None:
        """End connections whose client has come back by another one [MQTT-3.1.4-3]."""
        for id in taken:
            previous = self.connections.get(id)
            if previous is not None and previous.session is not None:
                self.announcer.taken_over(previous, previous.session)
                previous.attempt(previous.session.taken_over)
                self.part_with(previous, durable, now_us)

    def part_with(self, link: Link, durable: int, now_us: int) -> None:
        """End a connection that was taken over, once its client's last answer may be sent.

        It has asked for a session: CONNACK, and why it has to go, leave when what the CONNACK promises is on disk. So
        no connection stays for longer than a sync.
        """
        session = link.session
        if link.closing or session is None:
            return
        if session.hold_lsn <= durable:
            link.broker.finish(link)
            return
        if not link.closing_us:
            link.closing_us = now_us  # starts the time limit for the connection to close
        self.farewells.append(link)
        link.broker.leave(link)

    def synced(self, durable: int, now_us: int) -> None:
        """End connections whose last answer waited for frames that are durable now."""
        farewells, self.farewells = self.farewells, []
        for link in farewells:
            self.part_with(link, durable, now_us)

    def break_off(self, link: Link) -> None:
        """Close a connection after an internal error, and report the error to its client if possible.

        What was not sent is not sent any more: it may end in the middle of a frame.
        """
        session = link.session
        current = session or link.handshake
        if current is not None:
            current.reason = "an error of the broker's own"
        if link.closing or current is None or link.is_sending():
            link.broker.cut(link)
            return
        link.drop()
        if session is not None:
            session.hold_lsn = 0
        current.dismiss("an error of the broker's own: its log has it", True)
        if link.handshake is not None:
            link.passed = [link.handshake.out.getvalue()]
        link.broker.finish(link)
