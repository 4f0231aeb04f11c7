"""The connections between their first bytes and their login."""

from __future__ import annotations

from typing import final

from forebay.broker.limits.hold_reasons import UNREAD
from forebay.broker.vhosts import Vhosts
from forebay.core.errors import RequestError
from forebay.core.options import Options
from forebay.directory.logins.authorizer import Undecided
from forebay.directory.logins.login import Auth, LoginContext
from forebay.management.table import Control
from forebay.node.back_pressure.flow_control import FlowControl
from forebay.node.entry.protocols import begin_handshake, begin_session, protocol_of
from forebay.node.link import Link
from forebay.node.peer import split_name
from forebay.node.telemetry.stats import BrokerStats
from forebay.session.handshake import Handshake
from forebay.session.session import Session


@final
class Handshakes:
    """The handshakes of a node's connections, and the start of their sessions.

    options      options in force; replaced on a reload
    connections  by number, those with a handshake or a session; the node's own
    """

    def __init__(
        self,
        options: Options,
        vhosts: Vhosts,
        auth: Auth,
        control: Control,
        stats: BrokerStats,
        connections: dict[int, Link],
    ) -> None:
        self.options = options
        self.vhosts = vhosts
        self.auth = auth
        self.control = control
        self.stats = stats
        self.connections = connections

    def begin(self, link: Link, number: int, data: bytes) -> Handshake:
        """Return the handshake that the first bytes of a connection ask for."""
        self.connections[number] = link
        context = LoginContext(
            split_name(link.peer)[0],
            protocol_of(data, link.default_protocol),
            peer=link.peer,
            certificate=link.identity,
            loopback=link.loopback,
        )
        self.auth.places[number] = context
        return begin_handshake(number, context, self.auth, self.options)

    def finish(self, link: Link) -> None:
        """Begin the session of a client that has logged in; its vhost may refuse it, or have to ask somebody first."""
        handshake = link.handshake
        assert handshake is not None and handshake.login is not None
        try:
            session = begin_session(
                int(handshake.id), handshake.login, self.vhosts, self.auth, self.options, self.control
            )
        except Undecided as error:
            handshake.wait_for(error.proof)
            return
        except RequestError as error:
            handshake.login = None
            handshake.refuse(error)
            return
        self.stats.ended_handshake(handshake)
        self.drain_output(link)
        link.handshake = None
        self.seat(link, session)

    def seat(self, link: Link, session: Session) -> None:
        """Attach a session to a connection."""
        self.connections[int(session.id)] = link
        link.session = session
        session.sends_files = link.sends_files()
        session.unread = link.holds & UNREAD != 0
        if link.paused:
            link.broker.pause(link, True)

    def end_turn(self, link: Link) -> bool:
        """End the turn of a connection without a session. Return whether there is output to send."""
        handshake = link.handshake
        if handshake is None or link.closing:
            return False
        self.drain_output(link)
        if handshake.closing:
            link.broker.finish(link)
            return False
        return True

    def shut_down(self, link: Link, flow: FlowControl) -> bool:
        """Notify a client without a login that the broker stops. Return whether there is output to send."""
        handshake = link.handshake
        if handshake is None:
            link.broker.finish(link)
            return False
        link.attempt(handshake.shut_down)
        if not link.closing:
            flow.release_all(link)
        return self.end_turn(link)

    def drain_output(self, link: Link) -> None:
        """Move the handshake's output to the bytes that are sent before the session's."""
        handshake = link.handshake
        if handshake is not None and len(handshake.out):
            link.passed.append(handshake.out.getvalue())
            handshake.out.truncate(0)
