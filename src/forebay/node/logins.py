"""Logins of a turn: what proves them takes long, and who goes on guessing has to wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forebay.broker.audit import Origin
from forebay.broker.joining import Joining
from forebay.broker.limits.hold_reasons import LOGIN
from forebay.broker.shared.parts import SharedParts
from forebay.core.options import Options
from forebay.core.ports import Clock, Random
from forebay.core.units import US_PER_S
from forebay.directory.logins.authorizer import Principal, Proof
from forebay.directory.logins.login import Auth, LoginNews
from forebay.directory.logins.scram import make_scram
from forebay.directory.logins.throttle import Throttle
from forebay.directory.users import Users
from forebay.node.back_pressure.flow_control import FlowControl
from forebay.node.back_pressure.newcomers import Newcomers
from forebay.node.link import Link
from forebay.node.telemetry.stats import BrokerStats


class NodeLogins:
    """The logins of a node: the proofs that `Auth` requests, and their results.

    connections  by the session's number; the node's own
    newcomers    the connections that have not logged in
    """

    def __init__(
        self,
        auth: Auth,
        stats: BrokerStats,
        shared: SharedParts,
        connections: Mapping[int, Link],
        flow: FlowControl,
        newcomers: Newcomers,
    ) -> None:
        self.auth = auth
        self.stats = stats
        self.events = shared.events
        self.audit = shared.audit
        self.joins = shared.joins
        self.connections = connections
        self.flow = flow
        self.newcomers = newcomers

    def begin_turn(self) -> Sequence[Proof | Joining]:
        """Record logins that have ended. Return the proofs and bodies that connections wait for."""
        done = self.auth.take()
        self.note(done)
        joinings = self.joins.take()
        for joining in joinings:
            self.hold(joining.connection)
        return [*self.hold_all(done.proofs), *joinings]

    def take_proofs(self) -> Sequence[Proof]:
        """Return the proofs that logins have requested between two turns, and hold their connections."""
        return self.hold_all(self.auth.take_proofs())

    def hold_all(self, proofs: list[Proof]) -> list[Proof]:
        """Read nothing behind a login until its proof has run."""
        for proof in proofs:
            self.hold(proof.connection)
        return proofs

    def hold(self, connection: int) -> None:
        """Read nothing more of a connection until what it waits for has run."""
        if connection in self.connections:
            self.flow.hold(self.connections[connection], LOGIN)

    def note(self, done: LoginNews) -> None:
        """Record accepted and refused logins of this turn, and throttle those that fail."""
        for connection in done.connections:
            if connection in self.connections:
                self.newcomers.forget(self.connections[connection])
        for place, user in done.accepted:
            self.stats.logins[place.protocol] += 1
            self.events.note("auth.success", b"", {"user": user, "peer": place.address})
        for each in done.refusals:
            place = each.place
            self.stats.refused_logins[place.protocol] += 1
            self.auth.throttle.failed(place.address, each.user)
            origin = Origin(Principal(each.user), place.address, place.protocol)
            self.audit.note(origin, "login", {}, each.detail)
            fields: dict[str, object] = {"user": each.user, "peer": place.address, "reason": each.detail}
            self.events.note("auth.failure", b"", fields)


def make_auth(options: Options, users: Users, clock: Clock, chance: Random) -> Auth:
    """Make the check of logins that the options ask for."""
    mechanisms = make_scram(options.users, options.mqtt_auth_methods, chance)
    throttle = Throttle(0, 0)
    throttle.now_us = clock.now_us()  # for logins before the first tick
    set_throttle(throttle, options)
    auth = Auth(options.users, options.loopback_users, mechanisms, users, throttle)
    auth.set_shared_keys(options.amqp_shared_access_keys)
    return auth


def set_throttle(throttle: Throttle, options: Options) -> None:
    """Apply the options for failed logins to the throttle."""
    throttle.free = options.login_failures_free
    throttle.wait_max_us = options.login_wait_max_s * US_PER_S
    throttle.many = options.login_address_failures_free
    throttle.trust_us = options.login_trust_s * US_PER_S
