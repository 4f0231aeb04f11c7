"""Logins of a turn: who goes on guessing has to wait."""

from __future__ import annotations

from forebay.broker.audit import Origin
from forebay.broker.auth.authorizer import Principal
from forebay.broker.auth.login import Auth
from forebay.broker.auth.throttle import SECOND_US, Throttle
from forebay.broker.common import Common
from forebay.core.options import Options
from forebay.node.telemetry.stats import BrokerStats


def note_logins(auth: Auth, stats: BrokerStats, common: Common) -> None:
    """Logins of this turn were right or wrong: whoever goes on guessing has to wait."""
    accepted, auth.accepted = auth.accepted, []
    for place, user in accepted:
        stats.logins[place.protocol] += 1
        common.events.note("auth.success", b"", {"user": user, "peer": place.address})
    refusals, auth.refusals = auth.refusals, []
    for each in refusals:
        place = each.place
        stats.refused_logins[place.protocol] += 1
        auth.throttle.failed(place.address, each.user)
        common.audit.note(Origin(Principal(each.user), place.address, place.protocol), "login", {}, each.detail)
        fields: dict[str, object] = {"user": each.user, "peer": place.address, "reason": each.detail}
        common.events.note("auth.failure", b"", fields)


def set_throttle(throttle: Throttle, options: Options) -> None:
    """Have whoever guesses wait as the options say."""
    throttle.free = options.login_failures_free
    throttle.wait_max_us = options.login_wait_max_s * SECOND_US
    throttle.many = options.login_address_failures_free
    throttle.trust_us = options.login_trust_s * SECOND_US
